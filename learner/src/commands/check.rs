//! `echo-learner check`: all that would keep a run from working, and what is odd about it, before anything
//! expensive is done. Nothing is written.

use crate::commands::preflight;
use crate::commands::run_file::RunFile;
use crate::commands::sources;
use crate::config::RunConfig;
use crate::founding::examination::{Examination, RunFigures, examine_without};
use crate::founding::room::bytes;
use crate::run::{capacity, network};
use crate::storage::hub::HubEnvironment;
use clap::Args;
use echo_protocol::program::error_chain::with_causes;
use echo_protocol::program::output::print;
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;

/// What is checked, and how it is shown.
#[derive(Args, Clone, Debug)]
pub struct CheckPlan {
    /// The run file.
    #[command(flatten)]
    pub config: RunFile,
    /// Do not judge the solutions that the tasks' files show, which may take minutes.
    #[arg(long)]
    pub skip_solutions: bool,
    /// One JSON object on standard output: `passed`, `problems`, `warnings`, `figures`.
    #[arg(long)]
    pub json: bool,
}

/// There are problems, and they have been printed: the program ends with code 2.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} problems keep the run from starting")]
pub struct Unsound(pub usize);

/// Checks the run file and all that it names, and prints what was found.
///
/// # Errors
/// [`Unsound`] when there are problems, or what the system says when the report cannot be written.
pub fn check(plan: &CheckPlan) -> anyhow::Result<()> {
    let found = looked(plan, &HubEnvironment::read)?;
    print(&if plan.json { json(&found) } else { report(&found) })?;
    match found.problems.len() {
        0 => Ok(()),
        problems => Err(Unsound(problems).into()),
    }
}

/// Everything that is found. What does not come from the Hub is named first, and all the rest is looked at.
fn looked(plan: &CheckPlan, hub: sources::Read<'_>) -> anyhow::Result<Examination> {
    let mut config = match plan.config.read() {
        Ok(config) => config,
        Err(error) => {
            return Ok(Examination { problems: vec![with_causes(&error)], ..Examination::default() });
        }
    };
    let missing = sources::fetch_all(hub, &mut config, plan.config.base());
    let (absent, mut problems): (BTreeSet<PathBuf>, Vec<String>) =
        missing.into_iter().map(|(path, error)| (path, with_causes(&*error))).unzip();
    let mut found = examined(&config, plan, &absent)?;
    problems.append(&mut found.problems);
    Ok(Examination { problems, ..found })
}

fn examined(config: &RunConfig, plan: &CheckPlan, absent: &BTreeSet<PathBuf>) -> anyhow::Result<Examination> {
    let mut found = examine_without(config, None, !plan.skip_solutions, absent);
    let examined = std::mem::take(&mut found.problems);
    let present = config.without(absent);
    let checking = preflight::checking(&present, plan.config.path(), examined);
    let problems = tokio::runtime::Runtime::new()?.block_on(checking).err();
    found.problems = problems.map(preflight::LearnerProblems::into_texts).unwrap_or_default();
    let of_staleness = config.staleness().map(|staleness| capacity::warnings(config, &staleness));
    found.warnings.extend(of_staleness.unwrap_or_default());
    found.warnings.extend(config.network.peers.is_none().then(|| network::NO_LIST.to_owned()));
    // A list that cannot be read is among the problems.
    found.warnings.extend(network::unlisted(config).unwrap_or_default());
    let of_evaluation = std::mem::take(&mut found.of_evaluation);
    found.warnings.extend(of_evaluation);
    Ok(found)
}

fn json(found: &Examination) -> String {
    let Examination { problems, warnings, figures, .. } = found;
    let passed = problems.is_empty();
    format!("{}\n", json!({"passed": passed, "problems": problems, "warnings": warnings, "figures": figures}))
}

fn report(found: &Examination) -> String {
    let mut text = found.figures.as_ref().map(table).unwrap_or_default();
    // Writing to a text does not fail.
    for warning in &found.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    for problem in &found.problems {
        let _ = writeln!(text, "problem: {problem}");
    }
    let warnings = counted(found.warnings.len(), "warning");
    let _ = match found.problems.len() {
        0 => writeln!(text, "no problem, {warnings}: `echo-learner run` can start"),
        problems => writeln!(text, "{}, {warnings}", counted(problems, "problem")),
    };
    text
}

/// So many of them, in words.
pub(super) fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// So many bytes are free, where the system says.
fn of(free: Option<u64>) -> String {
    free.map(|free| format!(", {} free", bytes(free))).unwrap_or_default()
}

fn memory(figures: &RunFigures) -> String {
    if figures.gpu.is_some() {
        return "not compared, as it trains on a GPU; `echo-learner bench` measures it".to_owned();
    }
    let memory = figures.memory;
    format!(
        "about {} for training on the CPU: {} weights, gradients and moments, {} activations{}",
        bytes(memory.total()),
        bytes(memory.state),
        bytes(memory.activations),
        of(figures.machine.map(|machine| machine.available))
    )
}

fn table(figures: &RunFigures) -> String {
    let prompts = match figures.prompts {
        0 => "bound by their longest form".to_owned(),
        counted => format!("{counted} counted"),
    };
    let rows = [
        (
            "model",
            format!(
                "{:.1} million parameters, {} positions",
                figures.parameters as f64 / 1e6,
                figures.positions
            ),
        ),
        ("prompts", format!("up to {} tokens, {prompts}", figures.longest_prompt)),
        ("responses", format!("up to {} tokens", figures.max_new_tokens)),
        (
            "batch",
            format!("{} prompts with {} responses each", figures.groups_per_update, figures.group_size),
        ),
        ("memory", memory(figures)),
        (
            "disk",
            format!(
                "up to {}, and what waits in the buffer{}",
                bytes(figures.disk.total()),
                of(figures.free_disk)
            ),
        ),
        ("publication", format!("{} in full", bytes(figures.publication))),
    ];
    rows.iter().map(|(name, text)| format!("{name:<12} {text}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use crate::config::{EvaluationSet, TaskEntry};
    use crate::founding::examination::examine;
    use crate::storage::hub::HubError;
    use crate::training::device::TrainDevice;
    use clap::Parser;
    use echo_protocol::net::peer_id_of;
    use echo_protocol::program::clock;
    use echo_protocol::run::peer_list::{self, ListedRun, PeerList};
    use echo_protocol::wire::identity::NodeKey;
    use std::net::TcpListener;
    use std::path::Path;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        plan: CheckPlan,
    }

    fn line(words: &[&str]) -> Line {
        Line::parse_from([&["check"][..], words].concat())
    }

    /// The run file of a sound run, after a change.
    fn written(home: &Path, change: impl FnOnce(&mut RunConfig)) -> PathBuf {
        let mut config = testing::run_config("run".into());
        config.network.listen = vec!["/ip4/127.0.0.1/tcp/0".into()];
        config.buffer.max_bytes = 16 << 20;
        change(&mut config);
        let file = home.join("run.toml");
        std::fs::write(&file, toml::to_string(&config).unwrap()).unwrap();
        file
    }

    #[test]
    fn a_run_file_is_checked_with_settings_of_the_command_line() {
        let home = tempfile::tempdir().unwrap();
        let file = written(home.path(), |_| ());
        let name = file.to_str().unwrap();
        let checked =
            |words: &[&str]| check(&line(words).plan).map_err(|error| error.downcast::<Unsound>().unwrap());
        assert_eq!(checked(&[name]), Ok(()));
        assert_eq!(checked(&["--config", name, "--json"]), Ok(()));
        assert_eq!(checked(&[name, "--set", "run.updates=0", "--set", "verify.n=17"]), Err(Unsound(2)));
        assert_eq!(checked(&[name, "--set", "run.update=3"]), Err(Unsound(1)));
        assert_eq!(checked(&[name, "--set", "network.peers=no.peers"]), Err(Unsound(1)));
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1, "nothing is made");
        assert!(Line::try_parse_from(["check"]).is_err());
        assert!(Line::try_parse_from(["check", "a", "--config", "b"]).is_err());
        assert!(Line::try_parse_from(["check", "a", "--set", "updates"]).is_err());
    }

    #[test]
    fn a_list_without_this_run_is_a_warning_of_the_check() {
        let home = tempfile::tempdir().unwrap();
        let list = home.path().join("echo.peers");
        let (keeper, other) = (NodeKey::from_secret([1; 32]), NodeKey::from_secret([2; 32]));
        let listed = PeerList {
            network: "n".into(),
            version: 1,
            expires: clock::wall().0 / 1_000 + 86_400,
            peers: vec![format!("/ip4/127.0.0.1/tcp/4160/p2p/{}", peer_id_of(other.secret()))],
            runs: vec![ListedRun { name: "other".into(), learner: other.public().to_string() }],
        };
        std::fs::write(&list, peer_list::sign(&listed, &keeper).unwrap()).unwrap();
        let file = written(home.path(), |config| config.network.peers = Some(list));
        let config = RunConfig::load(&file).unwrap();
        let found = examined(&config, &line(&[file.to_str().unwrap()]).plan, &BTreeSet::new()).unwrap();
        let warns = |found: &Examination| found.warnings.iter().any(|text| text.contains("no run of this"));
        assert!(warns(&found), "{found:?}");
    }

    #[test]
    fn all_that_a_hub_without_an_answer_leaves_missing_is_named_with_the_other_problems() {
        let home = tempfile::tempdir().unwrap();
        let set = ["name = \"a\"\ndata = \"hf:o/more\"", "name = \"b\"\ndata = \"hf:o/problems\""];
        let file = written(home.path(), |config| {
            (config.model.tiny, config.model.path) = (None, Some("hf:o/policy".into()));
            config.tasks = ["math", "choice", "code"].map(TaskEntry::new).into();
            config.data.insert("math".into(), "hf:o/problems".into());
            config.data.insert("choice".into(), "hf:o/questions".into());
            config.data.insert("code".into(), "rows.jsonl".into());
            config.evaluation.sets = set.map(|set| toml::from_str::<EvaluationSet>(set).unwrap()).into();
        });
        // Nobody listens there any more.
        let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let (endpoint, cache) = (format!("http://{closed}"), home.path().join("cache"));
        let hub = || -> Result<HubEnvironment, HubError> {
            let (endpoint, cache) = (endpoint.clone(), cache.clone());
            Ok(HubEnvironment { endpoint, cache, token: None, is_offline: false })
        };
        let words = [file.to_str().unwrap(), "--set", "run.updates=0", "--set", "network.peers=no.peers"];
        let problems = looked(&line(&words).plan, &hub).unwrap().problems;
        let named = [
            "[model] path",
            "[data] hf:o/problems",
            "[data] hf:o/questions",
            "[data] hf:o/more",
            "rows.jsonl",
            "run.updates",
            "no.peers",
        ];
        for part in named {
            let count = problems.iter().filter(|problem| problem.contains(part)).count();
            assert_eq!(count, 1, "{part}: {problems:#?}");
        }
        assert_eq!(problems.len(), named.len(), "nothing is named twice: {problems:#?}");
        assert!(problems[0].contains("policy") && problems[0].contains("cannot be reached"), "{problems:?}");
    }

    #[test]
    fn the_report_has_figures_warnings_and_problems() {
        let home = tempfile::tempdir().unwrap();
        let config = testing::run_config(home.path().join("run"));
        let mut found = examine(&config, None, true);
        let sound = report(&found);
        for part in ["model ", "prompts ", "memory ", "disk ", "warning: ", "no problem, "] {
            assert!(sound.contains(part), "{part}: {sound}");
        }
        // Whatever memory the host has, a card has its own. No machine has this one.
        let mut on_gpu = config.clone();
        on_gpu.train.device = TrainDevice::Cuda(999);
        let on_gpu = examine(&on_gpu, None, false);
        assert!(
            !on_gpu.warnings.iter().any(|warning| warning.starts_with("memory")),
            "{:?}",
            on_gpu.warnings
        );
        let said = report(&on_gpu);
        assert!(
            said.contains("memory       not compared, as it trains on a GPU; `echo-learner bench`"),
            "{said}"
        );
        found.problems.push("the port is taken".to_owned());
        assert!(report(&found).contains("problem: the port is taken\n1 problem, "), "{}", report(&found));
        let json: serde_json::Value = serde_json::from_str(&json(&found)).unwrap();
        assert_eq!(
            (json["passed"].as_bool(), json["problems"][0].as_str()),
            (Some(false), Some("the port is taken"))
        );
        assert!(json["figures"]["memory"]["state"].as_u64().is_some_and(|bytes| bytes > 0), "{json}");
    }
}
