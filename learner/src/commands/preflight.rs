//! What would keep a learner from working, looked for before anything expensive is done, and
//! reported all at once.
//!
//! A warm-up takes minutes to hours, and loading a large policy takes minutes. An address that is in use must
//! not come to light only after them.

mod threads;

use crate::config::RunConfig;
use crate::founding;
use crate::publishing::checkpoint::{CheckpointError, Checkpoints};
use crate::run::evaluations;
use crate::run::network;
use crate::storage::run_dir::RunDir;
use crate::training::device::TrainDevice;
use echo_policy::model::config::ModelConfig;
use echo_policy::model::export::ExportError;
use echo_policy::training::decoder::Compute;
use echo_protocol::net::{Multiaddr, can_listen};
use echo_protocol::program::error_chain::with_causes;
use std::error::Error;
use std::fmt;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use threads::TooFew;

/// Everything that was found, each with its mend.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct LearnerProblems(Vec<String>);

impl fmt::Display for LearnerProblems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => f.write_str(only),
            all => {
                write!(f, "{} problems keep the learner from starting:", all.len())?;
                all.iter().try_for_each(|problem| write!(f, "\n- {problem}"))
            }
        }
    }
}

impl Error for LearnerProblems {}

/// Looks for what would keep a run of `config`, which was read from `file`, from being founded and trained,
/// beside what was `examined`.
///
/// # Errors
/// [`LearnerProblems`], all that were found together.
pub async fn founding(config: &RunConfig, file: &Path, examined: Vec<String>) -> Result<(), LearnerProblems> {
    let mut problems = before_founding(config, file, examined).await;
    if problems.0.is_empty() {
        problems.take(Checkpoints::open(&RunDir::new(&config.run.dir), &config.checkpoints));
    }
    problems.into_result()
}

/// The same, and nothing is made.
///
/// # Errors
/// [`LearnerProblems`], all that were found together.
pub async fn checking(config: &RunConfig, file: &Path, examined: Vec<String>) -> Result<(), LearnerProblems> {
    let mut problems = before_founding(config, file, examined).await;
    problems.take(threads());
    problems.into_result()
}

async fn before_founding(config: &RunConfig, file: &Path, examined: Vec<String>) -> LearnerProblems {
    let mut problems = LearnerProblems(examined);
    problems.take(founding::run_file(config));
    // `auto` is always something, but bf16 is only for some of what it comes to.
    if config.train.device != TrainDevice::Auto || config.train.compute == Compute::Bf16 {
        problems.take(config.train.device.open(config.train.compute));
    }
    problems.take(network::peers_of_list(config).map_err(Box::<dyn Error>::from));
    problems.take(evaluations::prepared(&config.evaluation).map_err(Box::<dyn Error>::from));
    problems.addresses(config, file);
    problems.take(store(config).await);
    problems
}

/// Looks for what would keep a run that was founded from being trained on.
///
/// # Errors
/// [`LearnerProblems`], all that were found together.
pub fn resuming(config: &RunConfig, file: &Path) -> Result<(), LearnerProblems> {
    let mut problems = LearnerProblems::default();
    problems.take(network::peer_list(config).map_err(Box::<dyn Error>::from));
    problems.addresses(config, file);
    problems.into_result()
}

/// Looks for what would keep `policies` from being published.
///
/// # Errors
/// [`LearnerProblems`], all that were found together.
pub fn publishing(config: &RunConfig, file: &Path, policies: &[PathBuf]) -> Result<(), LearnerProblems> {
    let mut problems = LearnerProblems::default();
    for policy in policies {
        let model = ModelConfig::from_file(&policy.join("config.json"));
        problems.take(model.map_err(|error| format!("--policy {}: {error}", policy.display())));
    }
    problems.take(network::listed_peers(config).map_err(Box::<dyn Error>::from));
    problems.addresses(config, file);
    problems.into_result()
}

/// Looks whether the threads of a learner can be started, which has to be known before the first of them is.
///
/// # Errors
/// [`TooFew`], with the limit that stands in the way.
pub fn threads() -> Result<(), TooFew> {
    threads::check(threads::NEEDED)
}

/// Refuses a directory to which no policy can be exported, as something is there.
///
/// # Errors
/// [`ExportError::Exists`], unless it is an empty directory or nothing is there.
pub fn output(dir: &Path) -> Result<(), ExportError> {
    let taken = fs::read_dir(dir).map_or(dir.exists(), |mut entries| entries.next().is_some());
    if taken { Err(ExportError::Exists { path: dir.to_owned() }) } else { Ok(()) }
}

/// The store of a new run has to answer, and to be empty.
async fn store(config: &RunConfig) -> Result<(), CheckpointError> {
    let dir = RunDir::new(&config.run.dir);
    match Checkpoints::look(&dir, &config.checkpoints)?.occupied().await? {
        Some((store, version)) => Err(CheckpointError::Occupied { store, version }),
        None => Ok(()),
    }
}

impl LearnerProblems {
    /// Each of them.
    #[must_use]
    pub fn into_texts(self) -> Vec<String> {
        self.0
    }

    fn take<T, E: Into<Box<dyn Error>>>(&mut self, looked: Result<T, E>) {
        let Err(error) = looked else { return };
        let problem = with_causes(&*error.into());
        // What was examined may have met it already.
        if !self.0.contains(&problem) {
            self.0.push(problem);
        }
    }

    /// Addresses that cannot be listened on.
    fn addresses(&mut self, config: &RunConfig, file: &Path) {
        let at = file.display();
        // Held until the others are tried: the run file may name an address twice.
        let _watch = config.watch.listen.map(|address| {
            let bound = TcpListener::bind(address);
            let named = |error| format!("[watch] listen = \"{address}\" in {at}: {error}");
            self.take(bound.as_ref().map(drop).map_err(named));
            bound
        });
        let listen = config.network.listen.iter().filter_map(|text| text.parse::<Multiaddr>().ok());
        for address in listen {
            let named = |error| format!("[network] listen in {at}: {error}");
            self.take(can_listen(&address).map_err(named));
        }
    }

    fn into_result(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;
    use crate::config::TrainSection;
    use crate::publishing::checkpoint::state_at;
    use crate::training::trainer::Trainer;
    use std::net::UdpSocket;

    fn config(home: &Path) -> RunConfig {
        let mut config = testing::run_config(home.join("run"));
        config.network.listen = vec!["/ip4/127.0.0.1/tcp/0".into(), "/ip4/127.0.0.1/udp/0/quic-v1".into()];
        config.network.peers = None;
        config
    }

    async fn problems(config: &RunConfig) -> Vec<String> {
        founding(config, Path::new("run.toml"), Vec::new()).await.err().unwrap_or_default().0
    }

    #[tokio::test]
    async fn all_problems_are_reported_at_once_each_with_its_setting() {
        let home = tempfile::tempdir().unwrap();
        let mut config = config(home.path());
        assert_eq!(problems(&config).await, [""; 0]);

        let (tcp, udp) = (TcpListener::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        config.watch.listen = Some(tcp.local_addr().unwrap());
        let port = udp.local_addr().unwrap().port();
        config.network.listen.push(format!("/ip4/127.0.0.1/udp/{port}/quic-v1"));
        config.network.peers = Some(home.path().join("no.peers"));
        config.checkpoints.store = Some("gs://bucket".into());
        let found = problems(&config).await;
        let parts = ["no.peers", "[watch] listen", "[network] listen in run.toml", "[checkpoints] store"];
        assert_eq!(found.len(), parts.len(), "{found:?}");
        for part in parts {
            assert!(found.iter().any(|problem| problem.contains(part)), "{part}: {found:?}");
        }
        let examined = vec!["[verify] is odd".to_owned()];
        let text = founding(&config, Path::new("run.toml"), examined).await.unwrap_err().to_string();
        assert!(text.starts_with("5 problems") && text.lines().count() == 6, "{text}");
        assert!(text.contains("- [verify] is odd"), "{text}");
    }

    #[cfg(not(feature = "cuda"))]
    #[tokio::test]
    async fn bf16_is_refused_where_auto_comes_to_the_processor() {
        let home = tempfile::tempdir().unwrap();
        let mut config = config(home.path());
        config.train.compute = Compute::Bf16;
        let found = problems(&config).await;
        assert!(found.len() == 1 && found[0].contains("compute = \"f32\""), "{found:?}");
    }

    #[tokio::test]
    async fn an_address_that_the_run_file_names_twice_is_found() {
        let home = tempfile::tempdir().unwrap();
        let mut config = config(home.path());
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        config.watch.listen = Some(free);
        config.network.listen = vec![format!("/ip4/127.0.0.1/tcp/{}", free.port())];
        let found = problems(&config).await;
        assert!(found.len() == 1 && found[0].contains("[network] listen"), "{found:?}");
    }

    #[tokio::test]
    async fn a_store_with_checkpoints_is_not_given_to_a_new_run() {
        let home = tempfile::tempdir().unwrap();
        let mut config = config(home.path());
        let store = home.path().join("store");
        config.checkpoints.store = Some(store.to_str().unwrap().to_owned());
        assert_eq!(problems(&config).await, [""; 0]);
        let (workload, weights) = testing::workload();
        let trainer = Trainer::new(&workload.model, &weights, &TrainSection::default()).unwrap();
        let optimizer = trainer.optimizer().state().unwrap();
        let other = Checkpoints::in_directory(&store, 3).unwrap();
        other.write(state_at(workload.run, 4), trainer.decoder(), &optimizer).await.unwrap();
        let found = problems(&config).await;
        assert!(found.len() == 1 && found[0].contains("holds the checkpoint of v4"), "{found:?}");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_directory_that_the_run_file_cannot_name_is_refused() {
        use std::os::unix::ffi::OsStrExt as _;
        let home = tempfile::tempdir().unwrap();
        let mut config = config(home.path());
        config.run.dir = home.path().join(std::ffi::OsStr::from_bytes(b"r\xff"));
        let found = problems(&config).await;
        assert!(found.len() == 1 && found[0].contains("[run] dir"), "{found:?}");
    }

    #[test]
    fn a_directory_with_something_in_it_takes_no_policy() {
        let home = tempfile::tempdir().unwrap();
        output(home.path()).unwrap();
        output(&home.path().join("new")).unwrap();
        fs::write(home.path().join("file"), "ours").unwrap();
        assert!(matches!(output(home.path()), Err(ExportError::Exists { .. })));
        assert!(matches!(output(&home.path().join("file")), Err(ExportError::Exists { .. })));
    }
}
