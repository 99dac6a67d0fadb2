//! What a local network is made of.

use super::NetworkLayout;
use crate::harness::binaries::Binaries;
use anyhow::Context as _;
use echo_policy::generation::device::DeviceChoice;
use std::collections::BTreeMap;
use std::path::PathBuf;
use toml::{Table, Value};

/// What a local network starts with: programs, a directory, a learner, volunteers.
#[derive(Clone, Debug)]
pub struct NetworkConfig {
    /// The programs to start.
    pub binaries: Binaries,
    /// Holds everything that the network writes. Used again, it continues identities and data; a
    /// run that is founded there already goes on.
    pub dir: PathBuf,
    /// The network's name, in its peer list.
    pub network: String,
    /// The run's name, in the peer list.
    pub run: String,
    /// How the learner is started, and its run file.
    pub learner: LearnerConfig,
    /// The volunteers that are started at once; more may be added later.
    pub nodes: Vec<TestNodeConfig>,
}

/// The learner of a local network.
#[derive(Clone, Debug, Default)]
pub struct LearnerConfig {
    /// The run file, without `[network] listen` and `peers` and without `[run] dir`, which
    /// the network fills in.
    pub settings: Table,
    /// Environment variables on top of ours.
    pub environment: BTreeMap<String, String>,
}

/// A volunteer of a local network.
#[derive(Clone, Debug)]
pub struct TestNodeConfig {
    /// Its name: also that of its data directory and its log, so letters, digits and dashes only.
    pub name: String,
    /// Threads that it computes with.
    pub threads: usize,
    /// What it generates on. The processor, unless a card is what is tried: what a network does is
    /// not to depend on the machine's.
    pub device: DeviceChoice,
    /// Further arguments of `echo-node run`.
    pub arguments: Vec<String>,
    /// Environment variables on top of ours.
    pub environment: BTreeMap<String, String>,
}

impl TestNodeConfig {
    /// Volunteers `node-1` to `node-N` with one thread each.
    #[must_use]
    pub fn several(count: usize) -> Vec<Self> {
        let node = |number| Self {
            name: format!("node-{number}"),
            threads: 1,
            device: DeviceChoice::Cpu,
            arguments: Vec::new(),
            environment: BTreeMap::new(),
        };
        (1..=count).map(node).collect()
    }
}

impl LearnerConfig {
    /// The text of the run file.
    pub(super) fn run_file(&self, listen: &[&str], layout: &NetworkLayout) -> anyhow::Result<String> {
        let path = |path: PathBuf| -> anyhow::Result<Value> {
            let text = path.to_str().with_context(|| format!("{} is not Unicode", path.display()))?;
            Ok(Value::from(text))
        };
        let mut settings = self.settings.clone();
        let network = section(&mut settings, "network")?;
        network.insert("listen".into(), Value::from(listen.to_vec()));
        network.insert("peers".into(), path(layout.list())?);
        section(&mut settings, "run")?.insert("dir".into(), path(layout.run_dir())?);
        Ok(toml::to_string(&settings)?)
    }
}

/// A section of a run file, made if need be.
/// Fails when something else has its name.
pub(crate) fn section<'a>(settings: &'a mut Table, name: &str) -> anyhow::Result<&'a mut Table> {
    let entry = settings.entry(name).or_insert_with(|| Value::Table(Table::new()));
    entry.as_table_mut().with_context(|| format!("[{name}] of the run file is not a table"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_network_fills_in_its_part_of_the_run_file_and_keeps_the_rest() {
        let dir = tempfile::tempdir().unwrap();
        let layout = NetworkLayout::create(dir.path()).unwrap();
        let settings = "[run]\nupdates = 5\n[network]\nlisten = [\"x\"]\n".parse().unwrap();
        let text =
            LearnerConfig { settings, ..LearnerConfig::default() }.run_file(&["/a", "/b"], &layout).unwrap();
        let table: Table = text.parse().unwrap();
        assert_eq!(table["run"]["updates"].as_integer(), Some(5));
        assert_eq!(table["run"]["dir"].as_str().map(PathBuf::from), Some(layout.run_dir()));
        assert_eq!(table["network"]["listen"].as_array().map(Vec::len), Some(2));
        let wrong = LearnerConfig { settings: "run = 3".parse().unwrap(), ..LearnerConfig::default() };
        assert!(wrong.run_file(&[], &layout).is_err());
    }
}
