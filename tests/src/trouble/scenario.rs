//! Scenarios as data.

use crate::harness::network::section;
use anyhow::Context as _;
use echo_protocol::wire::content_id::ContentId;
use serde::Deserialize;
use std::fs;
use std::path::Path;
use toml::{Table, Value};

/// The given scenarios, one TOML table each.
const GIVEN: &str = include_str!("scenarios.toml");
/// The run that they are about.
const RUN_FILE: &str = include_str!("run.toml");
/// Updates that no scenario comes to the end of.
const ENDLESS: i64 = 1_000_000;
/// S of every scenario.
pub(super) const STALENESS_BUDGET: u64 = 3;
/// Updates that the judge waits for after the trouble, unless a scenario says otherwise: far more
/// than S lets wait.
const UPDATES_AFTER: u64 = 12;
/// Seconds within which they have to be made.
const BOUND_S: u64 = 45;

/// One trouble, or several, on one network.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Its name: letters, digits and dashes.
    pub name: String,
    /// What is tried, in a sentence.
    pub about: String,
    /// Nodes that are started before the first step.
    #[serde(default = "one")]
    pub nodes: usize,
    /// Nodes that steps may start.
    #[serde(default)]
    pub later: usize,
    /// Changes of the run file, table by table.
    #[serde(default)]
    pub settings: Table,
    /// A verifier that is the run's task: its WebAssembly, in text form.
    #[serde(default)]
    pub verifier: Option<String>,
    /// Only root can play it.
    #[serde(default)]
    pub root: bool,
    /// Further arguments of every `echo-node run`.
    #[serde(default)]
    pub node_arguments: Vec<String>,
    /// What happens, in this order.
    pub steps: Vec<ScenarioStep>,
    /// Seconds within which training goes on after the last step.
    #[serde(default = "bound")]
    pub bound_s: u64,
    /// Updates that it has to make within them.
    #[serde(default = "updates_after")]
    pub updates_after: u64,
}

/// Something that is done to the network, or that has to be seen.
///
/// Whoever is named is `learner`, `bootstrap` or `node-N`. Paths are within the network's directory.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum ScenarioStep {
    /// Waits for so many further updates.
    Updates(u64),
    /// Waits for so many seconds.
    Pause(f64),
    /// Starts a process, for the first time or again; a learner that has founded its run resumes.
    Start(String),
    /// Sends SIGKILL to a process, and waits until it is gone.
    Kill(String),
    /// SIGTERM; it has to end with 0 within ten seconds.
    Stop(String),
    /// Sends SIGSTOP to a process, which stands still until it is thawed.
    Freeze(String),
    /// Sends SIGCONT to a process that was frozen.
    Thaw(String),
    /// Waits until a process has ended by itself.
    Ends {
        /// The name of the process.
        who: String,
        /// The exit code that it has to end with.
        code: i32,
    },
    /// Has a process start, from its next start on, out of a shell that does this first; as usual
    /// when it is empty.
    Before {
        /// The name of the process.
        who: String,
        /// What the shell does. `{dir}` is the network's directory.
        shell: String,
    },
    /// Has a process be of another version from its next start on: in its program, one name takes the place
    /// of another that is as long.
    Version {
        /// The name of the process.
        who: String,
        /// The name in the program that is replaced.
        name: String,
        /// What takes its place; the name itself for the true version.
        becomes: String,
    },
    /// Has a shell do something in the network's directory; it has to end with 0. `not` fails where
    /// a command does not.
    Shell(String),
    /// Shifts the wall clock of a process by so many seconds from its true time, at once.
    Clock {
        /// The process whose clock it is.
        who: String,
        /// Seconds ahead of the true time; negative values set it back.
        shift_s: i64,
    },
    /// Has to be read in a log within the bound, from the beginning on.
    Says {
        /// The process whose log it is.
        who: String,
        /// A text that is looked for as it stands.
        text: String,
    },
    /// Must not stand in a log.
    NeverSays {
        /// The process whose log it is.
        who: String,
        /// A text that is looked for as it stands.
        text: String,
    },
    /// A log may have grown by no more than so many bytes within so many seconds.
    Quiet {
        /// The process whose log it is.
        who: String,
        /// Seconds for which the log is watched.
        seconds: f64,
        /// Bytes by which it may grow at most.
        bytes: u64,
    },
    /// Copies a file or directory. What is there is replaced.
    Copy {
        /// The path that is copied.
        from: String,
        /// The path that becomes the copy.
        to: String,
    },
    /// Removes a file or directory.
    Remove(String),
    /// Damages a file in one of the ways of [`Damage`].
    Damage {
        /// Which. A `*` stands for the last name that is there.
        file: String,
        /// What is done to the file.
        how: Damage,
    },
    /// Runs a program of Echo to its end. `{learner}` and the like in its arguments stand for directories,
    /// `{list}` for the peer list,
    /// `{run_file}` for the run file.
    Command {
        /// `echo-node`, `echo-learner` or `echo-bootstrap`.
        program: String,
        /// Its arguments, in which names in braces are filled in.
        arguments: Vec<String>,
        /// With what it has to end.
        code: i32,
        /// What it has to say.
        #[serde(default)]
        says: String,
    },
}

/// What happens to a file.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Damage {
    /// It is cut to no bytes at all.
    Empty,
    /// Its second half is gone.
    Half,
    /// It is all zeros.
    Zeros,
    /// A third of its bytes are others.
    Garbled,
}

/// A file that is damaged in every way while its owner is down.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Fragile {
    /// Of the scenarios' names.
    name: String,
    /// The process that reads it.
    who: String,
    /// Where it is. A `*` stands for the last name that is there when it is damaged.
    file: String,
    /// Also that it is gone.
    #[serde(default)]
    gone: bool,
    /// A start of its owner that has to fail and to name the file. Where there is none, the owner
    /// has to work without it.
    refused: Option<Refused>,
    /// What its owner has to say of it when it works without it.
    says: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Refused {
    program: String,
    arguments: Vec<String>,
    /// With what it ends.
    #[serde(default = "failure")]
    code: i32,
    /// Only where the file is damaged in one of these ways; in any where there are none.
    #[serde(default)]
    ways: Vec<String>,
}

/// The given scenarios, in their order.
pub(super) fn given() -> anyhow::Result<Vec<Scenario>> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct File {
        scenario: Vec<Scenario>,
        file: Vec<Fragile>,
    }
    let File { mut scenario, file } = toml::from_str(GIVEN).context("scenarios.toml")?;
    scenario.extend(file.iter().flat_map(Fragile::scenarios));
    Ok(scenario)
}

impl Fragile {
    fn scenarios(&self) -> Vec<Scenario> {
        let ways = [
            ("empty", Some(Damage::Empty)),
            ("half", Some(Damage::Half)),
            ("zeros", Some(Damage::Zeros)),
            ("garbled", Some(Damage::Garbled)),
            ("gone", None),
        ];
        let ways = ways.into_iter().filter(|(_, how)| how.is_some() || self.gone);
        ways.map(|(way, how)| self.scenario(way, how)).collect()
    }

    fn scenario(&self, way: &str, how: Option<Damage>) -> Scenario {
        let (file, whole) = (self.file.clone(), "whole".to_owned());
        let mut steps = vec![
            ScenarioStep::Stop(self.who.clone()),
            ScenarioStep::Copy { from: file.clone(), to: whole.clone() },
        ];
        steps.push(match how {
            Some(how) => ScenarioStep::Damage { file: file.clone(), how },
            None => ScenarioStep::Remove(file.clone()),
        });
        let refused = self.refused.as_ref();
        let refused =
            refused.filter(|refused| refused.ways.is_empty() || refused.ways.iter().any(|one| one == way));
        if let Some(Refused { program, arguments, code, .. }) = refused {
            let names = file.rsplit('/').next().unwrap_or_default();
            // A database is one for its readers, whatever its files are.
            let says = if names == "db" { "database" } else { names }.to_owned();
            let (program, arguments) = (program.clone(), arguments.clone());
            steps.push(ScenarioStep::Command { program, arguments, code: *code, says });
            steps.push(ScenarioStep::Copy { from: whole, to: file });
        }
        steps.push(ScenarioStep::Start(self.who.clone()));
        if let (Some(text), None) = (&self.says, refused) {
            steps.push(ScenarioStep::Says { who: self.who.clone(), text: text.clone() });
        }
        let about = format!("{} is {way} when {} starts.", self.file, self.who);
        Scenario { about, steps, ..Scenario::of_nodes(&format!("{}-{way}", self.name), 1) }
    }
}

impl Scenario {
    /// A network of so many nodes to which nothing happens.
    pub(super) fn of_nodes(name: &str, nodes: usize) -> Self {
        Self {
            name: name.to_owned(),
            about: String::new(),
            nodes,
            later: 0,
            settings: Table::new(),
            verifier: None,
            root: false,
            node_arguments: Vec::new(),
            steps: Vec::new(),
            bound_s: BOUND_S,
            updates_after: UPDATES_AFTER,
        }
    }

    /// The run file, with the scenario's changes. The verifier is written into `dir`.
    pub(super) fn run_file(&self, dir: &Path) -> anyhow::Result<Table> {
        let mut file: Table = RUN_FILE.parse()?;
        section(&mut file, "run")?.insert("updates".into(), Value::Integer(ENDLESS));
        if let Some(text) = &self.verifier {
            let (module, path) = (wat::parse_str(text)?, dir.join("verifier.wasm"));
            fs::write(&path, &module)?;
            let name = format!("wasm:{}", ContentId::of(&module));
            let path = path.to_str().context("the network's directory is not Unicode")?;
            section(&mut file, "data")?.insert(name.clone(), path.into());
            file.insert("task".into(), name.into());
        }
        for (name, change) in &self.settings {
            match change {
                Value::Table(change) => section(&mut file, name)?.extend(change.clone()),
                other => drop(file.insert(name.clone(), other.clone())),
            }
        }
        Ok(file)
    }
}

fn one() -> usize {
    1
}

fn failure() -> i32 {
    1
}

fn bound() -> u64 {
    BOUND_S
}

fn updates_after() -> u64 {
    UPDATES_AFTER
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_learner::config::RunConfig;
    use std::collections::BTreeSet;

    /// Whom a step names.
    fn who(step: &ScenarioStep) -> Option<&str> {
        match step {
            ScenarioStep::Start(who)
            | ScenarioStep::Kill(who)
            | ScenarioStep::Stop(who)
            | ScenarioStep::Freeze(who)
            | ScenarioStep::Thaw(who) => Some(who),
            ScenarioStep::Clock { who, .. }
            | ScenarioStep::Ends { who, .. }
            | ScenarioStep::Before { who, .. }
            | ScenarioStep::Version { who, .. }
            | ScenarioStep::Says { who, .. }
            | ScenarioStep::NeverSays { who, .. }
            | ScenarioStep::Quiet { who, .. } => Some(who),
            ScenarioStep::Updates(_)
            | ScenarioStep::Pause(_)
            | ScenarioStep::Shell(_)
            | ScenarioStep::Copy { .. }
            | ScenarioStep::Remove(_)
            | ScenarioStep::Damage { .. }
            | ScenarioStep::Command { .. } => None,
        }
    }

    #[test]
    fn the_given_scenarios_can_be_read_and_name_who_is_there() {
        let given = given().unwrap();
        let names: BTreeSet<&str> = given.iter().map(|scenario| scenario.name.as_str()).collect();
        assert_eq!(names.len(), given.len(), "a name is given twice");
        for scenario in &given {
            let plain =
                scenario.name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            assert!(plain && !scenario.about.is_empty(), "{}", scenario.name);
            let nodes = (1..=scenario.nodes + scenario.later).map(|number| format!("node-{number}"));
            let there: BTreeSet<String> = nodes.chain(["learner".into(), "bootstrap".into()]).collect();
            assert!(
                scenario.steps.iter().filter_map(who).all(|who| there.contains(who)),
                "{}",
                scenario.name
            );
            let dir = tempfile::tempdir().unwrap();
            let mut file = scenario.run_file(dir.path()).unwrap();
            section(&mut file, "run").unwrap().insert("dir".into(), "x".into());
            let config: RunConfig = toml::from_str(&toml::to_string(&file).unwrap()).unwrap();
            config.validate().unwrap();
            assert_eq!(config.staleness().unwrap().budget(), STALENESS_BUDGET);
        }
    }
}
