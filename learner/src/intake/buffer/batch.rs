//! Batches: formed once, journaled before they are returned, replayed after a restart,
//! settled by a checkpoint.

use echo_protocol::run::staleness::{BatchOrder, Staleness};
use echo_protocol::run::version::PolicyVersion;

use super::plan::BufferPlan;
use super::{BufferError, DropReason, MAX_BATCH_GROUPS, MAX_JOURNALED_BATCHES, ReplayBuffer, StoredGroup};

impl ReplayBuffer {
    /// The batch of the update at `version`: of the groups whose every token is admitted at
    /// `version` the `groups` oldest, or the newest where the staleness policy says so; among those of one
    /// version the lowest orders, so that an answer is not passed over for having taken long.
    ///
    /// First drops, durably, what the staleness budget refuses from now on. The batch is durable
    /// in the journal when this returns it; asked again, it returns the same batch. `None` when
    /// too few groups wait.
    ///
    /// # Errors
    /// When the store fails, `groups` is 0 or above [`MAX_BATCH_GROUPS`], the journal is full, or
    /// `version` lies before an update that already has a batch.
    pub fn form_batch(
        &mut self,
        version: PolicyVersion,
        staleness: &Staleness,
        groups: usize,
    ) -> Result<Option<Vec<StoredGroup>>, BufferError> {
        if groups == 0 || groups > MAX_BATCH_GROUPS {
            return Err(BufferError::BatchSize(groups));
        }
        let known = self.index.journal().contains_key(&version);
        let spoilt = self.index.oldest_first().next().is_some_and(|oldest| oldest.stale(version, staleness));
        if !known && !spoilt && self.index.waiting() + self.staged.len() < groups {
            // Asked with every arrival: it must not cost a wait for the disk each time.
            return self.check_turn(version).map(|()| None);
        }
        self.flush()?;
        if let Some(batch) = self.batch(version)? {
            return Ok(Some(batch));
        }
        self.check_turn(version)?;

        let mut plan = BufferPlan::default();
        let mut chosen = Vec::new();
        let mut batch = Vec::new();
        // The oldest come first: after one that is fresh enough all are.
        let stale = self.index.oldest_first().take_while(|entry| entry.stale(version, staleness));
        plan.drop.extend(stale.map(|entry| (entry.clone(), DropReason::Stale)));
        for (entry, _) in &plan.drop {
            if let Some(StoredGroup { group, .. }) = self.load(entry)? {
                self.stale.note(&group);
            }
        }
        let mut ready: Vec<_> = if self.index.waiting() < groups {
            Vec::new()
        } else {
            self.index.oldest_first().filter(|entry| entry.ready(version, staleness)).collect()
        };
        if staleness.order() == BatchOrder::NewestFirst {
            ready.reverse();
        }
        if ready.len() >= groups {
            for entry in ready {
                if chosen.len() == groups {
                    break;
                }
                match self.load(entry)? {
                    Some(group) => {
                        chosen.push(entry.clone());
                        batch.push(group);
                    }
                    None => plan.drop.push((entry.clone(), DropReason::Damaged)),
                }
            }
        }
        let complete = chosen.len() == groups;
        plan.take = complete.then_some((version, chosen));
        self.commit(&plan)?;
        Ok(complete.then_some(batch))
    }

    /// The journaled batch of the update at `version`, in the order in which it was formed; `None`
    /// when there is none or it is settled. Groups whose bytes were damaged since are dropped,
    /// durably, and missing here; the batch may even be empty.
    ///
    /// # Errors
    /// When the store fails.
    pub fn batch(&mut self, version: PolicyVersion) -> Result<Option<Vec<StoredGroup>>, BufferError> {
        let Some(entries) = self.index.journal().get(&version) else { return Ok(None) };
        let mut plan = BufferPlan::default();
        let mut batch = Vec::with_capacity(entries.len());
        for entry in entries {
            match self.load(entry)? {
                Some(group) => batch.push(group),
                None => plan.drop.push((entry.clone(), DropReason::Damaged)),
            }
        }
        // Also when nothing is dropped: an earlier flush of this batch may have failed.
        self.commit(&plan)?;
        Ok(Some(batch))
    }

    /// The newest update that has a batch in the journal.
    pub fn newest_batch(&self) -> Option<PolicyVersion> {
        self.index.journal().last_key_value().map(|(update, _)| *update)
    }

    /// Says that a checkpoint at `version` is durable, and that no older one will be resumed from:
    /// all batches before `version` are trained, and their bytes are deleted.
    ///
    /// A learner that keeps several checkpoints to fall back on settles the oldest of them.
    ///
    /// # Errors
    /// When the store fails; the next call settles the same batches.
    pub fn settle(&mut self, version: PolicyVersion) -> Result<(), BufferError> {
        if version <= self.settled {
            return self.sync();
        }
        self.commit(&BufferPlan { settled: Some(version), ..BufferPlan::default() })
    }

    /// Every batch before this update is trained and deleted.
    pub fn settled(&self) -> PolicyVersion {
        self.settled
    }

    fn check_turn(&self, version: PolicyVersion) -> Result<(), BufferError> {
        if let Some(newest) = self.newest_batch().filter(|newest| version < *newest) {
            return Err(BufferError::Passed { asked: version, newest });
        }
        if version < self.settled {
            return Err(BufferError::Passed { asked: version, newest: PolicyVersion(self.settled.0 - 1) });
        }
        if self.index.journal().len() >= MAX_JOURNALED_BATCHES {
            return Err(BufferError::JournalFull);
        }
        Ok(())
    }
}
