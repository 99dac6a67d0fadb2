//! Files of rows as people have them. Each is read, or refused in words that a reader can act on: they
//! name the row or say what the file is, and nothing in them is a node's.

use crate::output::console::{CommandReport, Console};
use anyhow::{Context, bail};
use echo_protocol::run::charter::TaskSpec;
use echo_sandbox::task::data_set;
use echo_sandbox::task::files::TaskFiles;
use echo_sandbox::task::spec::SpecError;
use echo_sandbox::tasks::registry;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

/// Words that are of no use to whoever wrote a file.
const OF_NODES: [&str; 4] = ["trajectory", "lease its order", "`subjects`", "invalid type: map"];
/// How a message begins that says what a file is, where it has no rows to name.
const OF_FILES: [&str; 4] = ["it is ", "it begins ", "it has no rows", "no answer can earn"];

/// One file of the list.
#[derive(Debug, Deserialize)]
struct Case {
    id: String,
    /// The task that is to be made of it.
    task: String,
    /// Its name, beside the list.
    file: String,
    /// `read`: it has to be read, with all its rows. `both lines` within: several rows have to be named.
    /// Whatever else: read, or refused in words.
    expect: String,
}

/// What became of a file.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// A task could be made of it; what it remarks.
    Read(Vec<String>),
    /// Why not.
    Refused(String),
}

/// Tries the files that `list` names, which lie beside it: a JSON array or JSON lines of `id`, `task`,
/// `file` and `expect`. Solutions of programs are tried as at the founding of a run.
///
/// # Errors
/// When the list or a file of it cannot be read, or this machine lacks what a task needs.
pub fn check(list: &Path, console: &Console) -> anyhow::Result<CommandReport> {
    let named = || list.display().to_string();
    let lines = data_set::as_lines(fs::read(list).with_context(named)?).with_context(named)?;
    let cases = data_set::read(&lines, |_, case: Case| Ok(case)).with_context(named)?.rows;
    let dir = list.parent().unwrap_or(Path::new(""));
    let (mut read, mut failures, mut outcomes) = (0_u64, Vec::new(), Vec::new());
    for case in &cases {
        let path = dir.join(&case.file);
        let bytes = fs::read(&path).with_context(|| path.display().to_string())?;
        let outcome = tried(&case.task, bytes)?;
        let (word, text) = match &outcome {
            Outcome::Read(remarks) => {
                read += 1;
                ("read", remarks.join("\n"))
            }
            Outcome::Refused(why) => ("refused", why.clone()),
        };
        console.say(format!("{}: {word} {text}", case.id));
        if !is_as_expected(&case.expect, &outcome) {
            failures.push(format!("{}: {word}, expected {:?}: {text}", case.id, case.expect));
        }
        outcomes.push(json!({"id": case.id, "outcome": word, "words": text}));
    }
    Ok(report(read, failures, outcomes, console))
}

fn report(read: u64, failures: Vec<String>, outcomes: Vec<Value>, console: &Console) -> CommandReport {
    let cases = outcomes.len() as u64;
    let as_expected = cases - failures.len() as u64;
    for failure in &failures {
        console.say(format!("  not as expected: {failure}"));
    }
    console.say(format!("{cases} files: {read} read, {} refused, {as_expected} as expected", cases - read));
    let passed = failures.is_empty();
    let json = json!({
        "passed": passed,
        "figures": {"cases": cases, "read": read, "refused": cases - read, "as_expected": as_expected},
        "claims": [{"claim": "each file is read, or refused in words that name the row and the mend", "holds": passed}],
        "failures": failures,
        "outcomes": outcomes,
    });
    CommandReport { passed, json }
}

/// Makes the task of a file as whoever founds a run does.
fn tried(task: &str, bytes: Vec<u8>) -> anyhow::Result<Outcome> {
    let made = || -> Result<Vec<String>, SpecError> {
        let mut files = TaskFiles::none();
        let data = Some(files.add(registry::as_lines(task, bytes)?));
        let task = registry::build(&TaskSpec { data, ..TaskSpec::new(task) }, &files)?;
        task.try_solutions()?;
        Ok(task.remarks().to_vec())
    };
    match made() {
        Ok(remarks) => Ok(Outcome::Read(remarks)),
        Err(SpecError::Data { reason, .. }) => Ok(Outcome::Refused(reason.to_string())),
        Err(other) => bail!(other),
    }
}

fn is_as_expected(expect: &str, outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Read(remarks) => remarks.is_empty() || expect != "read",
        Outcome::Refused(why) => {
            let numbered = |rest: &&str| rest.starts_with(|c: char| c.is_ascii_digit());
            let names = why.split("row ").skip(1).filter(numbered).count();
            let wanted = if expect.contains("both lines") { 2 } else { 1 };
            let says = OF_FILES.iter().any(|start| why.starts_with(start));
            let is_clear = !OF_NODES.iter().any(|words| why.contains(words)) && (names >= wanted || says);
            expect != "read" && is_clear
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_or_refused_as_the_list_says() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
        write("good.jsonl", "{\"question\": \"1+1?\", \"answer\": \"2\"}\n");
        write("array.json", "[{\"question\": \"1+1?\", \"answer\": 2}]");
        write("other.jsonl", "{\"text\": \"1+1?\"}\n");
        let list = dir.path().join("list.json");
        let tried = |cases: Value| {
            std::fs::write(&list, cases.to_string()).unwrap();
            check(&list, &Console::new(true)).unwrap()
        };
        let case =
            |file: &str, expect: &str| json!({"id": file, "task": "math", "file": file, "expect": expect});
        let all = tried(json!([
            case("good.jsonl", "read"),
            case("array.json", "say clearly"),
            case("other.jsonl", "read or say clearly"),
        ]));
        assert!(all.passed, "{}", all.json);
        assert_eq!(all.json["figures"]["read"], 2);
        assert!(!tried(json!([case("other.jsonl", "read")])).passed);
        assert!(!tried(json!([case("other.jsonl", "say clearly, both lines")])).passed, "only one is named");
    }

    #[test]
    fn words_of_nodes_are_no_words_for_authors() {
        let refused = |why: &str| is_as_expected("say clearly", &Outcome::Refused(why.into()));
        assert!(refused("row 3: it has no answer"));
        assert!(!refused("row 3: discard the trajectory and lease its order again"));
        assert!(!refused("something is wrong"));
    }
}
