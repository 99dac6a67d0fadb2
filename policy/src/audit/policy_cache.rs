//! Policies that audits compute with: made when one is asked for, and kept as long as there is room.

use std::sync::{Arc, Weak};

use super::{AuditError, CannotAudit, VersionWeights};
use crate::generation::Policy;
use crate::model::precision::Precision;

/// Policies, which take at most so much memory beside the weights that they are made of.
#[derive(Debug)]
pub(super) struct Copies {
    /// Bytes of all of them together, also while one is made.
    limit: usize,
    /// Those that were not used for longest first.
    held: Vec<Held>,
}

#[derive(Debug)]
struct Held {
    /// Whoever else holds the version decides how long it is of use.
    version: Weak<VersionWeights>,
    precision: Precision,
    bytes: usize,
    policy: Arc<Policy>,
}

impl Copies {
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, held: Vec::new() }
    }

    /// Lets those go whose versions nobody holds any more.
    pub(super) fn sweep(&mut self) {
        self.held.retain(|held| held.version.strong_count() > 0);
    }

    /// Whether the policies of these versions may be there together.
    pub(super) fn have_room_for(&self, versions: &[Arc<VersionWeights>], precision: Precision) -> bool {
        needed(versions, precision) <= self.limit
    }

    /// The policies of these versions, to be given back before others are asked for.
    ///
    /// Fails with [`CannotAudit::NoRoom`] where they may not be there together, and when
    /// weights cannot be loaded.
    pub(super) fn policies(
        &mut self,
        versions: &[Arc<VersionWeights>],
        precision: Precision,
    ) -> Result<Vec<Arc<Policy>>, AuditError> {
        let (needed, limit) = (needed(versions, precision), self.limit);
        if needed > limit {
            return Err(CannotAudit::NoRoom { precision, versions: versions.len(), needed, limit }.into());
        }
        // Behind those that are not asked for: these are let go first, and there is room for the others.
        self.held.sort_by_key(|held| versions.iter().any(|version| held.is(version, precision)));
        versions.iter().map(|version| self.made(version, precision)).collect()
    }

    fn made(
        &mut self,
        version: &Arc<VersionWeights>,
        precision: Precision,
    ) -> Result<Arc<Policy>, AuditError> {
        if let Some(held) = self.held.iter().find(|held| held.is(version, precision)) {
            return Ok(held.policy.clone());
        }
        let bytes = version.copied_bytes(precision);
        // Before there is one more.
        while self.bytes() + bytes > self.limit
            && let Some(oldest) = self.held.iter().position(|held| held.bytes > 0)
        {
            self.held.remove(oldest);
        }
        let policy = Arc::new(version.policy(precision)?);
        let version = Arc::downgrade(version);
        self.held.push(Held { version, precision, bytes, policy: policy.clone() });
        Ok(policy)
    }

    fn bytes(&self) -> usize {
        self.held.iter().map(|held| held.bytes).sum()
    }
}

impl Held {
    fn is(&self, version: &Arc<VersionWeights>, precision: Precision) -> bool {
        self.precision == precision && self.version.as_ptr() == Arc::as_ptr(version)
    }
}

fn needed(versions: &[Arc<VersionWeights>], precision: Precision) -> usize {
    versions.iter().map(|version| version.copied_bytes(precision)).sum()
}

#[cfg(test)]
impl Copies {
    /// What is held, that which was not used for longest first.
    pub(super) fn held(&self) -> impl Iterator<Item = (u64, Precision)> {
        self.held.iter().map(|held| (held.policy.version(), held.precision))
    }

    /// The limit is kept.
    pub(super) fn check(&self) {
        assert!(self.bytes() <= self.limit, "{self:?}");
    }
}
