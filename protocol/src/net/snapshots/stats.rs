//! What the driver measures.

use crate::dissemination;
use crate::run::version::PolicyVersion;
use crate::wire::identity::PublicKey;
use crate::wire::time::UnixMillis;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Versions whose times are remembered.
const MAX_VERSIONS: usize = 16;
/// Peers that were cut off and are named.
pub(super) const MAX_CUT_OFF: usize = 1024;

/// A look at the driver, for heartbeats, metrics and the lab.
#[derive(Clone, Debug, Default)]
pub struct SnapshotStats {
    /// What each neighbour gave, duplicates, and blocks taken over from slower neighbours.
    pub dissemination: dissemination::Stats,
    /// Bytes of blocks written towards consumers since the start.
    pub sent_bytes: u64,
    /// Bytes of blocks and trees read from neighbours since the start, useful or not.
    pub received_bytes: u64,
    /// Those that broke the chunk protocol, in order; at most 1,024.
    pub cut_off: Vec<PublicKey>,
    /// The newest versions' times.
    pub versions: Vec<VersionTimes>,
}

/// When a version came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionTimes {
    /// The version that these times are about.
    pub version: PolicyVersion,
    /// When its manifest was announced here, or published.
    pub announced: UnixMillis,
    /// When its first block was stored.
    pub first_byte: Option<UnixMillis>,
    /// When all its chunks were here.
    pub complete: Option<UnixMillis>,
}

/// Bytes of blocks that went through all streams of a driver.
#[derive(Debug, Default)]
pub(super) struct StreamTraffic {
    sent: AtomicU64,
    received: AtomicU64,
}

impl StreamTraffic {
    pub(super) fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn received(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    pub(super) fn sent_bytes(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    pub(super) fn received_bytes(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// The times of the newest versions.
#[derive(Debug, Default)]
pub(super) struct Times(BTreeMap<PolicyVersion, VersionTimes>);

impl Times {
    pub(super) fn announced(&mut self, version: PolicyVersion, now: UnixMillis) {
        self.0.entry(version).or_insert(VersionTimes {
            version,
            announced: now,
            first_byte: None,
            complete: None,
        });
        while self.0.len() > MAX_VERSIONS {
            self.0.pop_first();
        }
    }

    pub(super) fn first_byte(&mut self, version: PolicyVersion, now: UnixMillis) {
        if let Some(times) = self.0.get_mut(&version) {
            times.first_byte.get_or_insert(now);
        }
    }

    pub(super) fn complete(&mut self, version: PolicyVersion, now: UnixMillis) {
        if let Some(times) = self.0.get_mut(&version) {
            times.complete.get_or_insert(now);
        }
    }

    pub(super) fn versions(&self) -> Vec<VersionTimes> {
        self.0.values().copied().collect()
    }
}
