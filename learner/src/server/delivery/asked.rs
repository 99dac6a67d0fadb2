//! A group that verifiers look at, and what becomes of it.

use super::super::SharedState;
use super::super::rate_limit::PeerRateLimit;
use super::{Pending, rejected, remember};
use crate::intake::admission::{Admitted, Look};
use crate::verification::panel::Ruling;
use crate::verification::sampling_audit::verdict;
use echo_policy::audit::{NearMisses, SampleFinding, VersionWeights};
use echo_protocol::program::clock;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::submission::Answer;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;

/// A group that waits for a ruling.
pub(super) struct PendingRuling {
    pub(super) shared: Arc<SharedState>,
    pub(super) node: PublicKey,
    pub(super) limit: Arc<PeerRateLimit>,
    pub(super) admitted: Admitted,
    /// All that it names.
    pub(super) policies: Vec<Arc<VersionWeights>>,
    /// Near misses of the one trajectory that the learner has looked at.
    pub(super) glanced: NearMisses,
    pub(super) ruling: oneshot::Receiver<Ruling>,
}

impl PendingRuling {
    /// Waits for the ruling, looks where the learner has to, and passes the group on or answers it.
    pub(super) async fn decide(self, writer: &mpsc::Sender<Pending>, reply: oneshot::Sender<Answer>) {
        let Self { shared, node, limit, admitted, policies, glanced, ruling } = self;
        // It is lost only with the verifiers themselves.
        let ruling = ruling.await.unwrap_or(Ruling::Open);
        let (asking, group) = (shared.clone(), admitted.id);
        // The coordinator may be waiting for the disk.
        let vouched = spawn_blocking(move || {
            let Ruling::Vouched(by) = ruling else { return false };
            let mut coordinator = asking.coordinator();
            if coordinator.record().spot_checks(clock::now(), &by, &asking.secret, group.as_bytes()) {
                return false;
            }
            coordinator.looked(Look::Vouched);
            drop(coordinator);
            asking.verifiers.dismiss(&group);
            true
        });
        let decided = if vouched.await.unwrap_or(false) {
            let remembering = spawn_blocking(move || {
                let remembered = remember(&shared, &admitted.group, &admitted.id, glanced);
                let counter = admitted.group.counter;
                remembered.map(|()| admitted).map_err(|why| rejected(&shared, &node, counter, why))
            });
            let Ok(remembered) = remembering.await else { return };
            remembered
        } else {
            let Some(place) = limit.enter_again().await else { return };
            let settled = spawn_blocking(move || {
                let settled = settle(&shared, &node, admitted, &policies);
                drop(place);
                settled
            });
            // Should the audit have panicked, the node hears nothing, and sends the group again.
            let Ok(settled) = settled.await else { return };
            settled
        };
        match decided {
            // The writer ends only with the service, and then nobody is answered.
            Ok(admitted) => drop(writer.send((admitted, reply)).await),
            Err(answer) => drop(reply.send(*answer)),
        }
    }
}

/// The learner's own audit, which is held against what verifiers have said.
fn settle(
    shared: &SharedState,
    node: &PublicKey,
    admitted: Admitted,
    policies: &[Arc<VersionWeights>],
) -> Result<Admitted, Box<Answer>> {
    let (group, counter) = (admitted.id, admitted.group.counter);
    let found = match &shared.audit {
        Some(audit) => audit.find(&admitted.group, policies),
        None => Ok(SampleFinding::default()),
    };
    match &found {
        Ok(certain) if !certain.is_close => {
            let verdicts = shared.verifiers.settle(&group, certain.fault.is_none());
            let overturned = verdicts.iter().any(|(_, right)| !right);
            shared.coordinator().looked(Look::Settled { overturned });
            shared.note_verdicts(verdicts);
        }
        // Another machine may honestly find the opposite; or a policy could not be asked.
        _ => shared.verifiers.dismiss(&group),
    }
    let audited = found.and_then(|found| {
        verdict(&admitted.group, &found)?;
        remember(shared, &admitted.group, &admitted.id, found.near_misses)
    });
    audited.map(|()| admitted).map_err(|why| rejected(shared, node, counter, why))
}
