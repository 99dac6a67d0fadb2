//! Tests that need a process of their own run this test binary again and have it play a part.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::io::{BufRead, Write as _};
use std::path::Path;
use std::process::Command;

use super::*;

/// Which part a process is to play; not set in an ordinary run of the tests.
pub(super) const PART: &str = "ECHO_BUFFER_PART";

/// The command that runs the test `name` of this module's parent in a process of its own,
/// which then plays `part`.
pub(super) fn command(name: &str, part: &str) -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["--exact", &format!("intake::buffer::tests::{name}"), "--nocapture", "--test-threads=1"]);
    command.env(PART, part);
    command
}

/// The part that this process is to play.
pub(super) fn part() -> Option<String> {
    env::var(PART).ok()
}

/// A number that was handed to this process.
pub(super) fn number(name: &str) -> u64 {
    env::var(name).unwrap().parse().unwrap()
}

/// A line for whoever watches; whole or, when the process is killed in it, without its end.
pub(super) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    out.write_all(format!("\n@{line}\n").as_bytes()).unwrap();
    out.flush().unwrap();
}

/// The lines of a process, each as soon as it is whole.
pub(super) fn lines(output: impl std::io::Read) -> impl Iterator<Item = String> {
    let mut output = std::io::BufReader::new(output);
    std::iter::from_fn(move || {
        let mut line = String::new();
        loop {
            line.clear();
            match output.read_line(&mut line) {
                Ok(0) | Err(_) => return None,
                Ok(_) if !line.ends_with('\n') => return None,
                Ok(_) => {}
            }
            if let Some(said) = line.trim_end().strip_prefix('@') {
                return Some(said.to_owned());
            }
        }
    })
}

/// The buffer on a disk, as a learner opens it.
pub(super) fn open(dir: &Path) -> Result<ReplayBuffer, BufferError> {
    ReplayBuffer::open(Arc::new(SledStore::open(dir)?), BufferLimits::default())
}

/// A group of some twenty kilobytes, so that a write takes its time.
pub(super) fn large(counter: u64, version: u64) -> Admitted {
    let mut admitted = admitted(counter, &[version]);
    for trajectory in &mut admitted.group.trajectories {
        trajectory.response = (0..1500).map(|i| (counter as u32).wrapping_mul(31).wrapping_add(i)).collect();
        trajectory.logprobs = vec![-0.3; 1500];
        trajectory.versions = spans(vec![PolicyVersion(version); 1500]);
    }
    admitted
}

/// What somebody outside knows of a learner: what it acknowledged, and what it trained on.
#[derive(Debug, Default)]
pub(super) struct Witness {
    pub(super) acknowledged: BTreeSet<u64>,
    pub(super) trained: BTreeMap<u64, Vec<u64>>,
    pub(super) checkpoint: u64,
}

impl Witness {
    /// Hears a line: `ack`, `batch` with its update, or `checkpoint`, and numbers.
    pub(super) fn hear(&mut self, line: &str) {
        let (word, numbers) = line.split_once(' ').unwrap_or((line, ""));
        let numbers: Vec<u64> = numbers.split(' ').filter_map(|number| number.parse().ok()).collect();
        match (word, numbers.as_slice()) {
            ("ack", counters) => self.acknowledged.extend(counters),
            ("batch", [update, counters @ ..]) => {
                let before = self.trained.insert(*update, counters.to_vec());
                assert!(
                    before.is_none_or(|before| before == counters),
                    "update {update} is made of other groups"
                );
            }
            ("checkpoint", [version]) => self.checkpoint = *version,
            _ => {}
        }
    }

    /// Nothing was trained on twice.
    pub(super) fn check_trained_once(&self) {
        let mut seen = BTreeSet::new();
        for counter in self.trained.values().flatten() {
            assert!(seen.insert(counter), "order {counter} was trained on twice");
        }
    }

    /// Whatever was acknowledged is in the buffer or on its record.
    pub(super) fn check(&self, buffer: &ReplayBuffer) {
        self.check_trained_once();
        for counter in &self.acknowledged {
            let status = status(buffer, *counter);
            assert!(
                !matches!(status, None | Some(OrderStatus::Staged)),
                "order {counter} is lost: {status:?}"
            );
        }
        for (update, batch) in &self.trained {
            let update = PolicyVersion(*update);
            for counter in batch {
                let expected = [OrderStatus::Batched { update }, OrderStatus::Trained { update }];
                assert!(status(buffer, *counter).is_some_and(|found| expected.contains(&found)));
            }
        }
        assert!(buffer.totals().add_up(), "{:?}", buffer.totals());
    }
}
