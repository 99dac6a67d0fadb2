//! What is held for and against nodes: refusals, near misses, verdicts, and the operator's decisions.

use super::{Coordinator, CoordinatorError, UnsignedReply, reply};
use crate::intake::admission::{Look, Refusal};
use crate::reputation::{Alarm, Decision, Fault, NetworkPrefix, Record, Subject};
use echo_policy::audit::NearMisses;
use echo_protocol::program::log_throttle::PacedKeys;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::submission::RefuseReason;
use std::time::Duration;

/// Lines about who is not heard any more: keys cost nothing, so there may be thousands a minute.
static SILENCED: PacedKeys<PublicKey> = PacedKeys::new(Duration::from_secs(60));

impl Coordinator {
    /// Whether a node is heard.
    ///
    /// # Errors
    /// Why it is not, as it is told.
    pub fn hear(&self, now: UnixMillis, node: &PublicKey) -> Result<(), Refusal> {
        self.record.hear(now, node).map_err(|silence| reply::unheard(&silence))
    }

    /// Records a refusal by an earlier stage, and frees the order that it concerns. Who is not
    /// heard is told only that.
    pub fn refuse(&mut self, now: UnixMillis, node: &PublicKey, refusal: Refusal) -> UnsignedReply {
        let refusal = match self.hear(now, node) {
            Ok(()) => refusal,
            Err(unheard) => Refusal { counter: refusal.counter, ..unheard },
        };
        let is_excused = refusal.fault == Fault::Innocent
            && refusal.counter.is_some_and(|counter| self.excuses(node, counter));
        // A duplicate was accepted, and a group of another run costs this one nothing.
        if !is_excused && !matches!(refusal.reason, RefuseReason::Duplicate | RefuseReason::Run) {
            self.fruitless.note(now, *node);
        }
        let reply = self.apply_refusal(now, node, refusal);
        self.tally.record(&reply.answer.outcome);
        reply
    }

    /// Holds a refusal against its node where it has to be. Who sends again what was accepted lately gets its
    /// receipt again. Whoever made an order that is here by another node has done nothing wrong, and is told
    /// so.
    pub(super) fn apply_refusal(
        &mut self,
        now: UnixMillis,
        node: &PublicKey,
        mut refusal: Refusal,
    ) -> UnsignedReply {
        if let Some(counter) = refusal.counter {
            self.came_back(now, node, counter);
        }
        self.give_back(node, &refusal);
        if self.record.refused(now, *node, refusal.reason, refusal.fault) {
            if SILENCED.due(*node).is_some() {
                tracing::warn!(node = %node.short(), %refusal, "a node is not heard any more for now");
            }
            self.forget(node);
        }
        self.may_have_lost_its_record(node);
        let receipt = match (refusal.reason, refusal.counter) {
            // The receipt is a courtesy: a store that fails is found out elsewhere.
            (RefuseReason::Duplicate, Some(counter)) => {
                self.record_journal.receipt(node, counter).ok().flatten()
            }
            _ => None,
        };
        if let (RefuseReason::Duplicate, Some(counter), None) = (refusal.reason, refusal.counter, &receipt) {
            // Old receipts are not kept: it may be its own group that is here.
            refusal.detail = format!(
                "order {counter} is here already: another node was faster, or this is a copy. Nothing is held against you"
            );
        }
        UnsignedReply { answer: refusal.answer(), receipt }
    }

    /// A node whose group was refused for good will not deliver that order any more.
    fn give_back(&mut self, node: &PublicKey, refusal: &Refusal) {
        let Some(counter) = refusal.counter else { return };
        match refusal.reason {
            // Nobody else may be asked for it: a flush that failed may have made the group durable after all.
            RefuseReason::Duplicate => self.book.delivered(counter),
            // What is not of this run, or not of this lease, says nothing of the order.
            RefuseReason::Lease | RefuseReason::Run => {}
            _ => drop(self.book.give_back(node, counter)),
        }
    }

    /// Notes that a group, whose tokens the policy wrote, could not be judged. True if it is
    /// to be refused: again, and others could be judged meanwhile. Its order counts towards
    /// being given up then.
    pub fn unjudged(&mut self, node: &PublicKey, counter: OrderCounter) -> bool {
        self.book.unjudged(node, counter, self.tally.accepted)
    }

    /// Notes from where a node is connected; `None` where that says nothing.
    pub fn connected(&mut self, node: PublicKey, network: Option<NetworkPrefix>) {
        self.record.connected(node, network);
        self.book.connected(node, network);
        if self.record.is_known(&node) {
            self.book.is_known_now(&node);
        }
    }

    /// Notes that it is not any more.
    pub fn disconnected(&mut self, node: &PublicKey) {
        self.record.disconnected(node);
    }

    /// Counts how a group was looked at.
    pub fn looked(&mut self, look: Look) {
        self.tally.looks.record(look);
    }

    /// Notes the near misses of what was looked at of a node's group. `Some` if there are too many over its
    /// record, or over those of its network's newcomers.
    pub fn near_misses(
        &mut self,
        now: UnixMillis,
        node: PublicKey,
        near_misses: NearMisses,
    ) -> Option<Alarm> {
        self.record.near_misses(now, node, near_misses)
    }

    /// Notes what the learner itself found of a verifier's verdict. True if the verifier is not
    /// heard from now on.
    pub fn note_verdict(&mut self, now: UnixMillis, verifier: PublicKey, right: bool) -> bool {
        let silenced = self.record.note_verdict(now, verifier, right);
        if silenced {
            if SILENCED.due(verifier).is_some() {
                tracing::warn!(verifier = %verifier.short(), "a verifier is not heard any more for now");
            }
            self.forget(&verifier);
        }
        silenced
    }

    /// Follows the operator's journal up to byte `end`.
    pub fn decide(&mut self, now: UnixMillis, subject: Subject, decision: &Decision, end: u64) {
        self.record.decide(now, subject, decision, end);
        if let (Subject::Peer(node), Decision::Ban(_)) = (subject, decision) {
            self.forget(&node);
        }
    }

    /// Notes that the operator's journal was read up to byte `end`, where nothing stood
    /// that could be followed.
    pub fn followed(&mut self, end: u64) {
        self.record.followed(end);
    }

    /// Writes what the record has learned; what has changed somebody's standing is durable when this returns.
    ///
    /// # Errors
    /// When the store fails; the next call writes it.
    pub fn keep_record(&mut self) -> Result<(), CoordinatorError> {
        let urgent = self.record.is_urgent();
        self.record_journal.save(&mut self.record, &[])?;
        if urgent {
            self.record_journal.flush()?;
        }
        Ok(())
    }

    /// What is known of everybody.
    pub fn record(&self) -> &Record {
        &self.record
    }
}
