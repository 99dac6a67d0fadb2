//! The network that is attacked.

use super::kind::AttackKind;
use crate::harness::binaries::Binaries;
use crate::harness::network::{LearnerConfig, NetworkConfig, TestNetwork, TestNodeConfig, section};
use crate::harness::observation;
use crate::harness::small_run::until;
use anyhow::{Context as _, ensure};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use toml::Table;

/// Files that each process may open: the soft limit of most shells and services. The hard limit is
/// the same, so that no process can raise it.
const DESCRIPTORS: u32 = 1024;
/// Files that the attackers may open: 1,200 connections, and those that follow before the old ones are
/// closed.
#[cfg(unix)]
const ATTACKERS_DESCRIPTORS: u64 = 4096;
/// Honest nodes that are there from the beginning.
const NODES: usize = 3;
/// What a node may send. A group of the small run has about a kilobyte, so a node delivers some
/// fifteen a second, and two cores are not busy all the time: attackers compute on them too.
const UPLOAD: &str = "240kbit";
/// Orders that a node holds: few, so that a capped node's groups do not become stale as they wait.
const ORDERS: &str = "4";
/// Updates before anything is measured.
const UPDATES_BEFORE: u64 = 5;
/// They are made within this time.
const START_LIMIT: Duration = Duration::from_secs(45);

/// A learner and nodes that begin to train.
pub(super) async fn start(kind: AttackKind, dir: &Path) -> anyhow::Result<TestNetwork> {
    TestNetwork::start(NetworkConfig {
        binaries: limited(&Binaries::locate()?, dir)?,
        dir: dir.to_owned(),
        network: "echo-attack".into(),
        run: "attacked".into(),
        learner: LearnerConfig { settings: settings(kind)?, ..LearnerConfig::default() },
        nodes: (1..=NODES).map(|number| node(&format!("node-{number}"))).collect(),
    })
    .await
}

/// An honest node of this name.
pub(super) fn node(name: &str) -> TestNodeConfig {
    let mut node = TestNodeConfig::several(1).remove(0);
    node.name = name.to_owned();
    node.arguments = ["--max-upload", UPLOAD, "--max-orders", ORDERS].map(str::to_owned).into();
    node
}

/// Waits until everybody works.
pub(super) async fn begin(network: &mut TestNetwork) -> anyhow::Result<()> {
    until("the first updates, and a policy on every node", START_LIMIT, network, |network| {
        let installed = |node| network.node_status(node).is_some_and(|status| status["version"].is_u64());
        let all = (0..network.node_count()).all(installed);
        (all && observation::updates(network.layout()) >= UPDATES_BEFORE).then_some(())
    })
    .await
}

/// Attackers need more files than those that they attack.
///
/// # Errors
/// When the system allows too few.
pub(super) fn raise_descriptors() -> anyhow::Result<()> {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
        let maximum = getrlimit(Resource::Nofile).maximum;
        let allowed = maximum.unwrap_or(u64::MAX);
        ensure!(
            allowed >= ATTACKERS_DESCRIPTORS,
            "attackers open up to {ATTACKERS_DESCRIPTORS} files and sockets, and {allowed} are allowed here: \
             raise the hard limit (`ulimit -Hn`); the programs that are attacked get {DESCRIPTORS} by themselves"
        );
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })?;
    }
    Ok(())
}

/// The run file of a kind's network.
fn settings(kind: AttackKind) -> anyhow::Result<Table> {
    let mut settings: Table = RUN_FILE.parse()?;
    if kind == AttackKind::Omega {
        let changes: Table = LONG_ANSWERS.parse()?;
        for (name, change) in changes {
            let change = change.as_table().context("changes are tables")?.clone();
            section(&mut settings, &name)?.extend(change);
        }
    }
    Ok(settings)
}

/// The programs behind scripts that lower the limit of open files first.
fn limited(binaries: &Binaries, dir: &Path) -> anyhow::Result<Binaries> {
    let place = std::path::absolute(dir)?.join("programs");
    fs::create_dir_all(&place)?;
    let wrap = |program: &Path| -> anyhow::Result<PathBuf> {
        let path = place.join(program.file_name().context("a program without a name")?);
        let text = format!("#!/bin/sh\nulimit -n {DESCRIPTORS}\nexec '{}' \"$@\"\n", program.display());
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        fs::set_permissions(&path, fs::metadata(program)?.permissions())?;
        Ok(path)
    };
    Ok(Binaries {
        node: wrap(&binaries.node)?,
        learner: wrap(&binaries.learner)?,
        bootstrap: wrap(&binaries.bootstrap)?,
    })
}

const RUN_FILE: &str = r#"
[run]
name = "attacked"
seed = 1
updates = 1000000

[model.tiny]
hidden = 32
layers = 1
heads = 2
kv_heads = 1
head_dim = 16
intermediate = 32
positions = 32

[[task]]
name = "chain_sum"
params = { digits = 2, terms = 2 }

[sampling]
group_size = 4

# Groups that wait behind a node's upload cap are not stale yet, and few snapshots share that cap.
[staleness]
budget = 8
period = 7

[train]
objective = { name = "gepo" }
groups_per_update = 8
schedule = { peak = 1e-4, decay = { shape = "constant" } }

[evaluation]
orders = 32

[snapshot]
chunk_bytes = 16384

[fleet]
lease_s = 20
orders_per_node = 16
"#;

/// What lets frames of 7 MB in: the longest group of a run is the longest frame.
const LONG_ANSWERS: &str = r#"
[model.tiny]
hidden = 32
layers = 1
heads = 2
kv_heads = 1
head_dim = 16
intermediate = 32
positions = 8448

[sampling]
group_size = 16
max_new_tokens = 8192

[train]
groups_per_update = 2
"#;

#[cfg(test)]
mod tests {
    use super::*;
    use echo_learner::config::RunConfig;

    #[test]
    fn the_run_files_are_some_that_the_learner_takes() {
        for kind in [AttackKind::Silent, AttackKind::Omega] {
            let mut table = settings(kind).unwrap();
            section(&mut table, "run").unwrap().insert("dir".into(), "x".into());
            let config: RunConfig = toml::from_str(&toml::to_string(&table).unwrap()).unwrap();
            config.validate().unwrap();
            let long = kind == AttackKind::Omega;
            assert_eq!(config.sampling.group_size, if long { 16 } else { 4 });
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn programs_see_the_lower_limit() {
        let dir = tempfile::tempdir().unwrap();
        let shell = PathBuf::from("/bin/sh");
        let all = Binaries { node: shell.clone(), learner: shell.clone(), bootstrap: shell };
        let limited = limited(&all, dir.path()).unwrap();
        let said = std::process::Command::new(&limited.node).args(["-c", "ulimit -n"]).output().unwrap();
        assert_eq!(String::from_utf8(said.stdout).unwrap().trim(), "1024");
    }
}
