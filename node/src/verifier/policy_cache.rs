//! The versions that a verifier can be asked about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use echo_policy::audit::{Auditor, VersionWeights};
use echo_policy::text::tokenizer::Tokenizer;
use echo_protocol::run::version::PolicyVersion;

/// Versions that are held. Each takes as much of the disk as the model, and memory while it is asked.
/// Groups are mostly of the newest version or the one before it.
const HELD: usize = 3;
/// Most bytes of memory for policies that are made to compute in other numbers than are published.
pub(super) const MAX_COPY_BYTES: usize = 8 << 30;

/// The newest versions that were installed since the start. Clones share them, and their auditor.
#[derive(Clone)]
pub(super) struct VersionCache {
    weights: BTreeMap<PolicyVersion, Arc<VersionWeights>>,
    /// As of the newest.
    tokenizer: Option<Arc<Tokenizer>>,
    auditor: Arc<Auditor>,
}

impl VersionCache {
    /// An empty one, whose auditor may take so many bytes for policies that it makes.
    pub(super) fn new(max_copy_bytes: usize) -> Self {
        let auditor = Arc::new(Auditor::new(max_copy_bytes));
        Self { weights: BTreeMap::new(), tokenizer: None, auditor }
    }

    /// Takes a version in, and lets the oldest go.
    pub(super) fn put(&mut self, weights: Arc<VersionWeights>, tokenizer: Arc<Tokenizer>) {
        self.weights.insert(PolicyVersion(weights.version()), weights);
        self.tokenizer = Some(tokenizer);
        while self.weights.len() > HELD {
            self.weights.pop_first();
        }
    }

    /// The versions that are here, in ascending order.
    pub(super) fn held(&self) -> Vec<PolicyVersion> {
        self.weights.keys().copied().collect()
    }

    /// The weights of all of these versions, if they are here.
    pub(super) fn all_of(&self, versions: &BTreeSet<PolicyVersion>) -> Option<Vec<Arc<VersionWeights>>> {
        versions.iter().map(|version| self.weights.get(version).cloned()).collect()
    }

    /// The run's tokenizer, once a version is here.
    pub(super) fn tokenizer(&self) -> Option<&Tokenizer> {
        self.tokenizer.as_deref()
    }

    /// Checks tokens by these versions, and keeps the copies that it makes for that.
    pub(super) fn auditor(&self) -> &Auditor {
        &self.auditor
    }
}
