//! Everything that would keep the node from running, listed at once, each with its mend.
//!
//! Creates the data directory and the identity, and changes nothing else. May import
//! `devices`, `settings` and `state`.
//!
//! ```text
//! settings ── checks: clock, ranges, threads, lock, disk, identity, addresses,
//!                     peer list, resolver, run, needs of the run, tasks, precision, device
//!                        │
//!             Ready ─────┴───── Problems (all of them)
//! ```

mod checks;
pub mod needs;

use std::fmt;
use std::path::PathBuf;

use echo_policy::generation::device::DeviceError;
use echo_protocol::net::peer_id::peer_of_key;
use echo_protocol::net::{self, Multiaddr, PeerId};
use echo_protocol::program::lock::DirectoryLock;
use echo_protocol::program::threads::startable;
use echo_protocol::run::peer_list::Trust;
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use echo_protocol::wire::rate::LowRate;
use echo_protocol::wire::time::UnixMillis;
use echo_sandbox::isolation::{IsolationReport, Lack};
use echo_sandbox::programs::{Judge, Language};
use echo_sandbox::task::spec::SpecError;
use serde::Serialize;

use self::needs::OverCap;
use crate::devices::precision::NotTaken;
use crate::settings::{OutOfRange, Settings};
use crate::state::data_dir::{DataDir, DataDirError};
use crate::state::trusted_list::{OpenedList, TrustError};

/// Free bytes that the data directory's disk must have: room for a full outbox and
/// a small policy's snapshots.
pub const MIN_FREE_BYTES: u64 = 512 << 20;
/// Threads that a node has beside the one that it starts with and those that it generates with.
pub const OTHER_THREADS: usize = 15;
/// A clock before this moment (1 January 2026) was never set.
pub const EARLIEST_NOW: UnixMillis = UnixMillis(1_767_225_600_000);

/// One thing that keeps the node from running. Each says what is wrong and what mends it.
#[derive(Debug, thiserror::Error)]
pub enum Problem {
    /// The data directory cannot be used.
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    /// The disk is nearly full.
    #[error("{path} has {free_mib} MiB free and echo-node wants {} MiB; free some, or choose another --data-dir", MIN_FREE_BYTES >> 20)]
    Disk {
        /// The data directory, whose disk was looked at.
        path: PathBuf,
        /// MiB that are free.
        free_mib: u64,
    },
    /// The free space cannot be asked for.
    #[error("cannot tell how much space {path} has: {source}; choose a --data-dir on a local disk")]
    DiskUnknown {
        /// The data directory, whose disk was looked at.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The identity cannot be read, or others can read it.
    #[error(transparent)]
    Identity(#[from] echo_protocol::program::keyfile::KeyfileError),
    /// The peer list is missing or refused.
    #[error(transparent)]
    List(#[from] TrustError),
    /// The peer list names no peer that could be dialled.
    #[error("no address in the peer list can be dialled; its keeper has to mend it")]
    NoPeers,
    /// Addresses of the peer list are names, and nobody resolves them.
    #[error(
        "every address of the peer list is a name, and this machine has no DNS resolver ({0}): name one in /etc/resolv.conf, or ask \
         the list's keeper for IP addresses"
    )]
    NoResolver(std::io::Error),
    /// It is not clear which run to join.
    #[error("{what}; {available}")]
    Run {
        /// That there are several runs, or none of the wanted name.
        what: String,
        /// Which runs there are.
        available: String,
    },
    /// A learner key of the list is no key.
    #[error(
        "run {run:?} of the peer list names {key} as its learner, which is no Ed25519 key; its keeper has to mend it"
    )]
    NoKey {
        /// The run's name in the list.
        run: String,
        /// The bytes that are no key.
        key: PublicKey,
    },
    /// An address that cannot be listened on.
    #[error("cannot listen on {address}: {cause}; change listen (--listen), port 0 lets the system choose")]
    Listen {
        /// The address, as it was given.
        address: String,
        /// What the system says, or which part of the address is wrong.
        cause: String,
    },
    /// A number outside its range.
    #[error(transparent)]
    Range(#[from] OutOfRange),
    /// The node is to do nothing.
    #[error("roles is empty, so this node would do nothing; use --role with rollout, relay or verifier")]
    NoRole,
    /// The run has tasks that this machine cannot do.
    #[error("{0}\nMend that, or help without generating: --role relay")]
    Machine(SpecError),
    /// The run does not take what the owner wants to compute in.
    #[error(transparent)]
    Precision(#[from] NotTaken),
    /// What the owner wants to generate on is not there.
    #[error("{0}; set device (--device) to something else, or leave it out")]
    Device(#[from] DeviceError),
    /// The run needs more disk than its owner gives it.
    #[error(transparent)]
    Cap(#[from] OverCap),
    /// The log filter makes no sense.
    #[error(
        "log is {filter:?}, and {cause}; use error, warn, info, debug or trace, or a filter such as info,echo_node=debug"
    )]
    Log {
        /// The value of the setting `log`.
        filter: String,
        /// Which part of the filter makes no sense.
        cause: String,
    },
    /// `max_upload` or `max_download` at which nothing would get through.
    #[error(transparent)]
    Rate(#[from] LowRate),
    /// Threads would be missing.
    #[error(
        "this machine lets echo-node start {found} more threads, and it needs {needed}; \
         raise the limit of this user (ulimit -u), or pids.max of its control group (--pids-limit of a container)"
    )]
    Threads {
        /// Threads that could be started.
        found: usize,
        /// Threads that are needed.
        needed: usize,
    },
    /// The clock was never set.
    #[error("this machine's clock is in the past (before 2026); set it, leases and peer lists depend on it")]
    Clock,
}

impl Problem {
    /// The log filter makes no sense, for this cause.
    pub fn log(settings: &Settings, cause: String) -> Self {
        Self::Log { filter: settings.log.clone(), cause }
    }
}

/// All problems that were found, in the order of the checks.
#[derive(Debug)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let problems: Vec<String> = self.0.iter().map(Problem::to_string).collect();
        f.write_str(&numbered(&problems))
    }
}

/// Problems as a numbered list below a line that counts them.
pub fn numbered(problems: &[String]) -> String {
    let plural = if problems.len() == 1 { "problem" } else { "problems" };
    let list = problems.iter().enumerate().map(|(at, problem)| format!("\n  {}. {problem}", at + 1));
    format!("{} {plural} to mend before this node can run:{}", problems.len(), list.collect::<String>())
}

impl std::error::Error for Problems {}

/// The run that this node joins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetRun {
    /// Its name in the peer list.
    pub name: String,
    /// The key that signs the run's charter and manifests.
    pub learner: PublicKey,
}

/// Everything that was checked, in the form in which it is used.
#[derive(Debug)]
pub struct Ready {
    /// The data directory, which exists and is writable.
    pub data: DataDir,
    /// Keeps other nodes out of it.
    pub lock: DirectoryLock,
    /// Who this node is.
    pub identity: NodeKey,
    /// Addresses to listen on, each of which was bound for a moment.
    pub listen: Vec<Multiaddr>,
    /// Bootstrap peers, each ending in `/p2p/…`.
    pub bootstraps: Vec<Multiaddr>,
    /// The run to join.
    pub target: TargetRun,
    /// Its learner's peer id.
    pub learner: PeerId,
    /// What to remember of the peer list's keeper.
    pub trust: Trust,
    /// The signed text of the peer list.
    pub list: String,
}

/// Checks everything. The data directory and the identity are created where they are missing;
/// nothing else is changed.
///
/// # Errors
/// Every problem, not just the first.
pub fn check(settings: &Settings, now: UnixMillis) -> Result<Ready, Problems> {
    let mut problems = Vec::new();
    let data = settings.data();
    if now < EARLIEST_NOW {
        problems.push(Problem::Clock);
    }
    checks::ranges(settings, &mut problems);
    note(&mut problems, checks::room_for_threads(checks::needed_threads(settings), startable));
    let lock = note(&mut problems, data.lock().map_err(Problem::from));
    // In a directory that cannot be written, the rest would only repeat the same complaint.
    let identity = match &lock {
        Some(_) => {
            note(&mut problems, checks::disk(&data));
            note(&mut problems, checks::identity(&data))
        }
        None => None,
    };
    let listen = checks::listen(&settings.listen, &mut problems);
    let list = note(&mut problems, checks::list(settings, &data, now));
    let bootstraps = list.as_ref().map(|opened| checks::bootstraps(&opened.list));
    if bootstraps.as_ref().is_some_and(Vec::is_empty) {
        problems.push(Problem::NoPeers);
    }
    note(&mut problems, checks::resolver(bootstraps.as_deref().unwrap_or_default(), net::check_resolver));
    let target = list.as_ref().and_then(|opened| note(&mut problems, checks::target(settings, &opened.list)));
    let charter = target.as_ref().and_then(|target| checks::kept_charter(&data, target));
    problems.extend(charter.as_ref().and_then(|charter| checks::cap(settings, charter)));
    if settings.generates() {
        problems.extend(charter.iter().flat_map(|charter| checks::charter(settings, charter)));
        note(&mut problems, checks::device(settings, charter.as_ref()));
    }
    let learner = target.as_ref().and_then(|target| {
        let no_key = || Problem::NoKey { run: target.name.clone(), key: target.learner };
        note(&mut problems, peer_of_key(&target.learner).ok_or_else(no_key))
    });
    match (lock, identity, bootstraps, target, learner, list) {
        (Some(lock), Some(identity), Some(bootstraps), Some(target), Some(learner), Some(opened))
            if problems.is_empty() =>
        {
            let OpenedList { trust, text: list, .. } = opened;
            Ok(Ready { data, lock, identity, listen, bootstraps, target, learner, trust, list })
        }
        _ => Err(Problems(problems)),
    }
}

/// How programs can be judged here, for runs whose task is code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Programs {
    /// What enforces their limits; `None` where programs cannot be isolated.
    pub isolation: Option<IsolationReport>,
    /// The languages in which they can be judged.
    pub languages: Vec<&'static str>,
    /// What is missing for all, or for other languages, each with its mend.
    pub lacks: Vec<String>,
}

/// Finds out how programs can be judged here.
pub fn programs() -> Programs {
    let described = |lack: &Lack| format!("{}: {}", lack.what, lack.mend);
    match Judge::shared() {
        Ok(judge) => Programs {
            isolation: Some(judge.isolation().clone()),
            languages: judge.tools().languages().map(Language::name).collect(),
            lacks: judge.tools().lacks().iter().map(|(_, lack)| described(lack)).collect(),
        },
        Err(unfit) => Programs {
            isolation: None,
            languages: Vec::new(),
            lacks: unfit.lacks.iter().map(described).collect(),
        },
    }
}

fn note<T>(problems: &mut Vec<Problem>, result: Result<T, Problem>) -> Option<T> {
    result.map_err(|problem| problems.push(problem)).ok()
}

#[cfg(test)]
mod tests;
