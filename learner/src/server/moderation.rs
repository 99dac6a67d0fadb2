//! The operator's say about peers: who is listed, banned and pardoned, while the learner runs and
//! while it does not.
//!
//! Decisions are lines of a file in the run directory, the operator's journal, to which
//! `echo-learner peers` only ever appends. The learner reads what is new there every second, and
//! remembers in its database how far it has come; so a decision is followed once, also by a learner
//! that was not running when it was made, and all of them again by one that has lost its database.
//! The other way, the learner writes what it knows of peers to a second file, which `peers list`
//! and `peers show` read.

use crate::reputation::decisions::JournalEntry;
use crate::reputation::listing::Listing;
use crate::reputation::{Decision, Subject};
use crate::server::SharedState;
use crate::storage::run_dir::RunDir;
use echo_protocol::program::clock;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How often the operator's journal is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How often the list of peers is written, in looks.
const LIST_EVERY: u32 = 5;

/// Follows the operator and writes the list of peers, until aborted.
pub async fn keep(shared: Arc<SharedState>, dir: RunDir) {
    let mut listed = None;
    for look in 0u32.. {
        let (shared, dir) = (shared.clone(), dir.clone());
        let turn = tokio::task::spawn_blocking(move || {
            follow(&shared, &dir.peers_journal());
            if look.is_multiple_of(LIST_EVERY) { list(&shared, &dir.peers(), listed) } else { listed }
        });
        // Only a panic ends it otherwise, and then the next look begins anew.
        listed = turn.await.unwrap_or_default();
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Follows what is new in the operator's journal.
pub fn follow(shared: &SharedState, path: &Path) {
    let from = shared.coordinator().record().decided();
    let lines = match crate::reputation::decisions::read(path, from) {
        Ok(lines) => lines,
        Err(error) => return tracing::warn!(%error, "the operator's decisions cannot be read"),
    };
    for line in lines {
        match line.entry {
            Ok(JournalEntry { subject, decision, .. }) => {
                tracing::info!(?subject, ?decision, "the operator has decided");
                shared.coordinator().decide(clock::now(), subject, &decision, line.end);
                if let (Subject::Peer(node), Decision::Pardon) = (subject, decision) {
                    shared.fleet().pardon(&node);
                }
            }
            Err(cause) => {
                tracing::warn!(cause, "a line of {} says nothing", path.display());
                shared.coordinator().followed(line.end);
            }
        }
    }
}

/// Writes the list of peers, unless nothing has changed since revision `listed`; the revision that
/// is in the file now.
pub fn list(shared: &SharedState, path: &Path, listed: Option<u64>) -> Option<u64> {
    let (revision, listing) = {
        let coordinator = shared.coordinator();
        let revision = coordinator.record().revision();
        if listed == Some(revision) {
            return listed;
        }
        (revision, Listing::of(clock::now(), coordinator.record()))
    };
    match listing.write(path) {
        Ok(()) => Some(revision),
        Err(error) => {
            tracing::warn!(%error, "{} is not up to date", path.display());
            listed
        }
    }
}
