//! What a run takes of this machine at most: disk, and memory while it generates.

use echo_policy::model::config::ModelConfig;
use echo_protocol::run::charter::Charter;
use serde::Serialize;

use crate::settings::{Settings, Size};

/// Complete versions that the chunk store keeps, and the one that is being received.
const VERSIONS_STORED: u64 = 4;
/// Versions as weights in `images/`: the one in use, and two while newer ones are installed.
const VERSIONS_INSTALLED: u64 = 3;
/// Further ones that a verifier checks others with.
const VERSIONS_CHECKED: u64 = 2;
/// The outbox, and receipts of one run, in bytes.
const BESIDE: u64 = (256 + 128) << 20;
/// The program itself, with its network and its buffers, in bytes of memory.
const PROGRAM: u64 = 256 << 20;
/// Most that caches of keys and values take, in bytes: the default budget of the engine.
const MOST_CACHE: u64 = 2 << 30;

/// What a run takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RunNeeds {
    /// Bytes of one version of the policy.
    pub policy_bytes: u64,
    /// Bytes of disk.
    pub disk_bytes: u64,
    /// Bytes of memory with which generating is not slowed down. With less the system reads weights
    /// from the disk again and again.
    pub memory_bytes: u64,
}

/// A run that needs more disk than its owner gives it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the run takes up to {needed} of disk, and max_disk is {cap}; raise it (--max-disk), or help with less: --role relay takes up to {relayed}"
)]
pub struct OverCap {
    needed: Size,
    cap: Size,
    relayed: Size,
}

impl RunNeeds {
    /// Of the run with this charter, for what this node does in it; `None` where this program does not know
    /// the model.
    pub fn of(charter: &Charter, settings: &Settings) -> Option<Self> {
        let model = ModelConfig::from_json(&charter.model).ok()?;
        let policy_bytes = model.parameter_count().saturating_mul(charter.snapshot_type.bytes());
        let (generates, verifies) = (settings.generates(), settings.verifies());
        let installed = if generates || verifies { VERSIONS_INSTALLED } else { 0 };
        let checked = if verifies { VERSIONS_CHECKED } else { 0 };
        let loaded = u64::from(generates || verifies) + checked;
        // Of the orders that are generated together.
        let tokens = u64::from(charter.group_size)
            .saturating_mul(u64::from(settings.max_orders.div_ceil(2)))
            .saturating_mul(u64::from(charter.sampling.max_new_tokens));
        let cached = model.key_value_bytes_per_token().saturating_mul(tokens).min(MOST_CACHE);
        let cache = if generates { cached } else { 0 };
        Some(Self {
            policy_bytes,
            disk_bytes: disk(policy_bytes, installed + checked),
            memory_bytes: policy_bytes.saturating_mul(loaded).saturating_add(cache + PROGRAM),
        })
    }

    /// Whether its disk is within `max_disk`.
    ///
    /// # Errors
    /// [`OverCap`] says what is needed.
    pub fn check(&self, settings: &Settings) -> Result<(), OverCap> {
        match settings.max_disk {
            Some(cap) if self.disk_bytes > cap.0 => {
                let relayed = Size(disk(self.policy_bytes, 0));
                Err(OverCap { needed: Size(self.disk_bytes), cap, relayed })
            }
            _ => Ok(()),
        }
    }
}

fn disk(policy_bytes: u64, images: u64) -> u64 {
    policy_bytes.saturating_mul(VERSIONS_STORED + images).saturating_add(BESIDE)
}

/// Memory that programs may take now without others losing theirs, in bytes; `None` where the system does
/// not say (anything but Linux).
pub fn available_memory() -> Option<u64> {
    let all = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = all.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Role;
    use crate::testing;

    fn charter() -> Charter {
        Charter::open(&testing::charter()).unwrap().1
    }

    #[test]
    fn who_does_more_takes_more_of_the_machine() {
        let needs = |roles: &[Role]| {
            let roles = roles.iter().copied().collect();
            RunNeeds::of(&charter(), &Settings { roles, ..Settings::default() }).unwrap()
        };
        let policy = testing::model().parameter_count() * 4;
        let relay = needs(&[Role::Relay]);
        assert_eq!((relay.policy_bytes, relay.disk_bytes), (policy, 4 * policy + (384 << 20)));
        assert_eq!(relay.memory_bytes, 256 << 20, "it never loads the policy");
        let rollout = needs(&[Role::Rollout]);
        assert_eq!(rollout.disk_bytes, 7 * policy + (384 << 20));
        // Two layers of one head of 16, 4 x 4 responses of 6 tokens.
        assert_eq!(rollout.memory_bytes, policy + (256 << 20) + 2 * 4 * 2 * 16 * 4 * 4 * 6);
        let verifier = needs(&[Role::Rollout, Role::Verifier]);
        assert_eq!(verifier.disk_bytes, 9 * policy + (384 << 20));
        assert!(verifier.memory_bytes > rollout.memory_bytes);
    }

    #[test]
    fn a_run_beyond_the_cap_is_refused_with_what_it_needs() {
        let settings = |cap| Settings { max_disk: Some(Size(cap)), ..Settings::default() };
        let needs = RunNeeds::of(&charter(), &settings(1)).unwrap();
        needs.check(&Settings::default()).unwrap();
        needs.check(&settings(needs.disk_bytes)).unwrap();
        let text = needs.check(&settings(100_000_000)).unwrap_err().to_string();
        assert!(text.contains("max_disk is 100MB") && text.contains("--max-disk"), "{text}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_memory_that_is_free_is_known() {
        assert!(available_memory().unwrap() > 1 << 20);
    }
}
