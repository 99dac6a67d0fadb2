//! What the learner has come to think of those it met.

use crate::harness::network::NetworkLayout;
use anyhow::Context as _;
use echo_learner::reputation::{RecordConfig, RecordJournal, Standing};
use echo_learner::storage::SledStore;
use echo_learner::storage::run_dir::RunDir;
use echo_protocol::program::keyfile;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::submission::RefuseReason;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Keys that are not heard any more, or were not for a while.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Standings {
    /// Were suspended at least once.
    pub suspended: BTreeSet<PublicKey>,
    /// Are banned; they were suspended before.
    pub banned: BTreeSet<PublicKey>,
    /// False verdicts of verifiers that were held against them.
    pub false_verdicts: u64,
}

/// Volunteers with processes of their own, once these have ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Volunteers {
    /// The public keys of all volunteers, as their identity files have them.
    pub keys: BTreeSet<PublicKey>,
    /// Groups of theirs that were refused, by the reason that they were told.
    pub refused: BTreeMap<String, u64>,
    /// Groups of others that they checked for the learner.
    pub checked: u64,
}

impl Standings {
    /// Those in the record of a learner that has ended.
    ///
    /// # Errors
    /// When its database is not there, or in use.
    pub fn of(run: &RunDir) -> anyhow::Result<Self> {
        let store = SledStore::open(&run.database())?;
        // How strict a record is does not change what is in it.
        let record = RecordJournal::new(Arc::new(store)).load(RecordConfig::default())?;
        let mut standings = Self::default();
        for (peer, record) in record.peers() {
            standings.false_verdicts += record.refused.get(&RefuseReason::FalseVerdict).unwrap_or(&0);
            if record.strikes > 0 {
                standings.suspended.insert(*peer);
            }
            if record.standing == Standing::Banned {
                standings.banned.insert(*peer);
            }
        }
        Ok(standings)
    }

    /// How many of these keys were suspended or banned.
    #[must_use]
    pub fn silenced(&self, keys: &BTreeSet<PublicKey>) -> usize {
        self.suspended.union(&self.banned).filter(|key| keys.contains(*key)).count()
    }
}

impl Volunteers {
    /// Those of a network, by what they have left in their directories.
    ///
    /// # Errors
    /// When one has left no identity or no status.
    pub fn of(layout: &NetworkLayout, names: &[String]) -> anyhow::Result<Self> {
        let mut volunteers = Self::default();
        for name in names {
            let dir = layout.node_dir(name);
            volunteers.keys.insert(keyfile::load_or_create(&dir.join("identity"))?.public());
            let status =
                layout.node_status(name).with_context(|| format!("{} holds no status", dir.display()))?;
            volunteers.checked += status["checked"].as_u64().unwrap_or(0);
            for (reason, groups) in status["refused"].as_object().into_iter().flatten() {
                *volunteers.refused.entry(reason.clone()).or_default() += groups.as_u64().unwrap_or(0);
            }
        }
        Ok(volunteers)
    }
}
