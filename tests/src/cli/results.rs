//! `echo-lab results`

use anyhow::ensure;
use clap::Args;
use echo_lab::output::console::{CommandReport, Console};
use echo_lab::results::{self, GivenFigure};

#[derive(Debug, Args)]
pub(super) struct ResultsOptions {
    /// Write nothing, and fail where docs/results.md is not what would be written.
    #[arg(long, conflicts_with = "figures")]
    check: bool,
    /// With --record, instead of the page: figures to append to the records, in the units of their goals, or
    /// true and false where a goal has none.
    #[arg(value_name = "GOAL=FIGURE")]
    figures: Vec<GivenFigure>,
    /// What made the figures, from the root of the workspace; without it, each has the command of
    /// its goal's newest record.
    #[arg(long = "command", value_name = "COMMAND", requires = "figures")]
    made_by: Option<String>,
}

impl ResultsOptions {
    /// With `record`, figures are recorded.
    pub(super) fn execute(self, record: bool, console: &Console) -> anyhow::Result<CommandReport> {
        let Self { check, figures, made_by } = self;
        ensure!(
            record != figures.is_empty(),
            "figures are recorded with `cargo lab results --record GOAL=FIGURE`"
        );
        if record {
            return results::record_given(&figures, made_by.as_deref(), console);
        }
        results::run(check, console)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Cli, Command};
    use super::*;
    use clap::{CommandFactory as _, Parser as _};
    use echo_lab::harness::cargo::workspace_root;
    use echo_lab::study::broadcast_scale::{self, ScaleStudy};
    use echo_lab::study::cost::{self, CostStudy};
    use echo_lab::study::fleet::{self, FleetSimulation};

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
    fn every_first_command_can_be_given() {
        for command in results::first_commands().unwrap() {
            let words: Vec<&str> = command.split_whitespace().collect();
            let ["cargo", "lab", words @ ..] = words.as_slice() else {
                panic!("{command} is not of the lab")
            };
            assert_eq!(unknown_word(words), None, "{command}");
        }
    }

    #[test]
    fn commands_print_what_their_goals_look_for() {
        let (dir, console) = (tempfile::tempdir().unwrap(), Console::new(true));
        let out = || dir.path().to_owned();
        let small = FleetSimulation { nodes: 20, seeds: 4, seed: 0, hours: None, replay: false };
        let simulated = fleet::run(&small, &console).unwrap().json;
        for (command, json) in [
            ("study cost", cost::run(&CostStudy { out: out() }, &console).unwrap().json),
            (
                "study broadcast-scale",
                broadcast_scale::run(&ScaleStudy { out: out() }, &console).unwrap().json,
            ),
            ("simulate fleet --nodes 1000 --seeds 10000", simulated.clone()),
            ("simulate fleet --nodes 100000 --seeds 1 --hours 1", simulated),
        ] {
            let missing = results::not_found(&format!("cargo lab {command} --json"), &json).unwrap();
            assert!(missing.is_empty(), "{missing:?}");
        }
    }

    #[test]
    fn commands_that_are_gone_are_noticed() {
        assert_eq!(unknown_word(&["study", "decoupled", "--seeds", "8", "--json"]), None);
        assert_eq!(unknown_word(&["simulate", "--seeds", "8"]), None);
        assert_eq!(unknown_word(&["simulate", "fleet", "--nodes", "8"]), None);
        assert!(unknown_word(&["simulate", "flet"]).is_some());
        for words in [&["results", "--chek"][..], &["tests"], &["bench"], &["bench", "nothing", "--json"]] {
            assert!(unknown_word(words).is_some(), "{words:?}");
        }
    }

    #[test]
    fn figures_are_given_with_their_goals_and_one_command() {
        let given = |line: &str| {
            let cli =
                Cli::try_parse_from(["echo-lab", "results"].into_iter().chain(line.split(' '))).unwrap();
            let Command::Results(options) = cli.command else { panic!("another command") };
            (cli.record > 0, options)
        };
        let (record, options) = given("--record a=1 --record b=true --command fuzz/run");
        assert!(record);
        let names: Vec<&str> = options.figures.iter().map(|given| given.goal.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        assert_eq!(options.made_by.as_deref(), Some("fuzz/run"));
        for line in ["a=1", "--record", "--record --check"] {
            let (record, options) = given(line);
            let error = options.execute(record, &Console::new(true)).unwrap_err();
            assert!(error.to_string().contains("--record GOAL=FIGURE"), "{line}");
        }
    }

    /// Whether the word sets a variable, like `TMPDIR=/dev/shm`.
    fn is_setting(word: &str) -> bool {
        let named = |name: &str| name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
        word.split_once('=').is_some_and(|(name, _)| named(name))
    }

    /// What of these words after `cargo lab` is no command or no option of one.
    fn unknown_word(words: &[&str]) -> Option<String> {
        let lab = Cli::command();
        let (mut command, mut rest) = (&lab, words.iter().peekable());
        while command.has_subcommands() {
            let found = rest.peek().map(|word| command.find_subcommand(word));
            match (found, rest.peek()) {
                (Some(Some(found)), _) => command = found,
                (_, word)
                    if !command.is_subcommand_required_set() && word.is_none_or(|w| w.starts_with("--")) =>
                {
                    break;
                }
                (_, Some(word)) => return Some(format!("no command {word}")),
                (_, None) => return Some("a command is missing".to_owned()),
            }
            rest.next();
        }
        let of_lab = lab.get_arguments().filter(|argument| argument.is_global_set());
        let options: Vec<&str> = command.get_arguments().chain(of_lab).filter_map(|a| a.get_long()).collect();
        let named = rest.filter_map(|word| word.strip_prefix("--"));
        let mut names = named.map(|option| option.split_once('=').map_or(option, |(name, _)| name));
        names.find(|name| !options.contains(name)).map(|name| format!("no option --{name}"))
    }
}
