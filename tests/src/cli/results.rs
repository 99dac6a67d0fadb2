//! `echo-lab results`

use clap::Args;
use echo_lab::console::{Console, Report};
use echo_lab::results;

#[derive(Debug, Args)]
pub(super) struct ResultsOptions {
    /// Write nothing, and fail where docs/results.md is not what would be written.
    #[arg(long)]
    check: bool,
}

impl ResultsOptions {
    pub(super) fn execute(self, console: &Console) -> anyhow::Result<Report> {
        results::run(self.check, console)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use clap::CommandFactory as _;
    use echo_lab::cargo::workspace_root;

    /// Scripts of this repository that records call.
    const SCRIPTS: [&str; 2] = [".ci/run", "fuzz/run"];

    /// The program of the GPU kit: it is built, and called where the kit was unpacked.
    const KIT: &str = "./gpu-check";

    #[test]
    fn every_recorded_command_can_be_given() {
        for (line, command) in results::commands().unwrap() {
            let words: Vec<&str> = command.split_whitespace().skip_while(|word| is_setting(word)).collect();
            let problem = match words.as_slice() {
                ["cargo", "lab", words @ ..] => unknown_word(words),
                ["cargo", ..] | [KIT, ..] => None,
                [script, ..] if SCRIPTS.contains(script) && workspace_root().join(script).exists() => None,
                _ => Some("neither cargo nor a script of ours".to_owned()),
            };
            assert_eq!(problem, None, "records.jsonl, line {line}: {command}");
        }
    }

    #[test]
    fn commands_that_are_gone_are_noticed() {
        assert_eq!(unknown_word(&["study", "decoupled", "--seeds", "8", "--json"]), None);
        for words in [&["results", "--chek"][..], &["tests"], &["bench"], &["bench", "nothing", "--json"]] {
            assert!(unknown_word(words).is_some(), "{words:?}");
        }
    }

    /// Whether the word sets a variable, like `TMPDIR=/dev/shm`.
    fn is_setting(word: &str) -> bool {
        let named = |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        word.split_once('=').is_some_and(|(name, _)| named(name))
    }

    /// What of these words behind `cargo lab` is no command or no option of one.
    fn unknown_word(words: &[&str]) -> Option<String> {
        let lab = Cli::command();
        let (mut command, mut rest) = (&lab, words.iter());
        while command.has_subcommands() {
            let Some(word) = rest.next() else { return Some("a command is missing".to_owned()) };
            match command.find_subcommand(word) {
                Some(found) => command = found,
                None => return Some(format!("no command {word}")),
            }
        }
        let of_lab = lab.get_arguments().filter(|argument| argument.is_global_set());
        let options: Vec<&str> = command.get_arguments().chain(of_lab).filter_map(|a| a.get_long()).collect();
        let named = rest.filter_map(|word| word.strip_prefix("--"));
        let mut names = named.map(|option| option.split_once('=').map_or(option, |(name, _)| name));
        names.find(|name| !options.contains(name)).map(|name| format!("no option --{name}"))
    }
}
