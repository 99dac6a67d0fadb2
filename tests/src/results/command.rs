//! Whether what was typed after `cargo lab` is the command of a record.

/// Flags that say nothing of what is measured.
const BESIDE: [&str; 2] = ["--json", "--record"];

/// The command of a record, if it is one of the lab.
#[derive(Debug)]
pub(super) struct LabCommand<'a> {
    /// Variables that stand in front of it, like `TMPDIR=/dev/shm`.
    variables: Vec<(&'a str, &'a str)>,
    /// What comes after `cargo lab`, without [`BESIDE`].
    words: Vec<&'a str>,
}

impl<'a> LabCommand<'a> {
    /// Reads the command of a record. Nothing where it is not one of the lab.
    pub(super) fn read(command: &'a str) -> Option<Self> {
        let mut words = command.split_whitespace().peekable();
        let mut variables = Vec::new();
        while let Some(set) = words.peek().copied().and_then(variable) {
            variables.push(set);
            words.next();
        }
        let of_lab = words.next() == Some("cargo") && words.next() == Some("lab");
        of_lab.then(|| Self { variables, words: measured(words) })
    }

    /// Whether it is what was [`typed`].
    pub(super) fn is(&self, typed: &[&str]) -> bool {
        self.words == typed
    }

    /// Whether its variables have their values.
    pub(super) fn has_variables(&self, value: impl Fn(&str) -> Option<String>) -> bool {
        self.variables.iter().all(|(name, wanted)| value(name).as_deref() == Some(*wanted))
    }
}

/// The words of a command line that say what is measured, from those after `cargo lab`.
pub(super) fn typed(words: &[String]) -> Vec<&str> {
    measured(words.iter().flat_map(|word| word.split_whitespace()))
}

fn measured<'a>(words: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    words.filter(|word| !BESIDE.contains(word)).collect()
}

/// Name and value, if the word sets a variable.
fn variable(word: &str) -> Option<(&str, &str)> {
    let is_name = |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    word.split_once('=').filter(|(name, _)| is_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is(command: &str, line: &str) -> bool {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        LabCommand::read(command).is_some_and(|command| command.is(&typed(&words)))
    }

    #[test]
    fn commands_are_compared_word_by_word() {
        let demo = "cargo lab demo --kill-node 2 --json";
        assert!(is(demo, "demo --kill-node 2"));
        assert!(is(demo, "--record demo --kill-node 2 --json"));
        assert!(is("cargo lab demo", "demo --json --record"));
        for line in ["demo", "demo --kill-node 3", "demo --kill-node=2", "demo --kill-node 2 --no-build", ""]
        {
            assert!(!is(demo, line), "{line}");
        }
        for other in ["cargo test demo", "./gpu-check --only loop", "fuzz/run 600", "JOBS=2 cargo", ""] {
            assert!(LabCommand::read(other).is_none(), "{other}");
        }
    }

    #[test]
    fn variables_have_to_be_set_alike() {
        let command = LabCommand::read("TMPDIR=/dev/shm JOBS=2 cargo lab test").unwrap();
        assert!(command.is(&["test"]));
        let with = |tmpdir: &'static str| {
            command.has_variables(|name| match name {
                "TMPDIR" => Some(tmpdir.to_owned()),
                "JOBS" => Some("2".to_owned()),
                _ => None,
            })
        };
        assert!(with("/dev/shm") && !with("/tmp"));
        assert!(!command.has_variables(|name| (name == "JOBS").then(|| "2".to_owned())));
        assert!(LabCommand::read("cargo lab test").unwrap().has_variables(|_| None));
    }
}
