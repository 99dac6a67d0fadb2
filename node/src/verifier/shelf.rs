//! The policies that a verifier holds.

use std::collections::BTreeMap;
use std::sync::Arc;

use echo_protocol::version::PolicyVersion;

use crate::install::Installed;

/// Policies that are held; each takes as much memory as the model. Groups are mostly of the newest version or the one before.
const HELD: usize = 3;

/// The newest policies that were installed since the start.
#[derive(Default)]
pub(super) struct Shelf(BTreeMap<PolicyVersion, Arc<Installed>>);

impl Shelf {
    /// Takes a policy in, and lets the oldest go.
    pub(super) fn put(&mut self, installed: Arc<Installed>) {
        self.0.insert(PolicyVersion(installed.version()), installed);
        while self.0.len() > HELD {
            self.0.pop_first();
        }
    }

    /// Their versions.
    pub(super) fn held(&self) -> Vec<PolicyVersion> {
        self.0.keys().copied().collect()
    }

    /// Them, the newest last.
    pub(super) fn policies(&self) -> Vec<Arc<Installed>> {
        self.0.values().cloned().collect()
    }
}
