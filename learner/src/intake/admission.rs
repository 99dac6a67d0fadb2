//! Admission: everything between "bytes arrived" and "may be trained on".
//!
//! A group passes these stages in order, each with its own [`RefuseReason`]; the first that it fails decides:
//!
//! | step | stages |
//! |---|---|
//! | [`Admission::check_frame`], before the bytes are read | size |
//! | [`Admission::read_head`], [`Admission::check_lease`], first bytes | identity, run, duplicate, lease |
//! | [`Admission::precheck`], pure | size, decoding, signature, identity, run, schema |
//! | [`Admission::screen`], look-ups | duplicate, lease, versions, freshness |
//! | [`Admission::judge`], pure, may be slow | task rules (the episode replayed), reward recomputed |
//! | the [sampling audit], by the learner or by [verifiers] | how tokens were drawn |
//! | [`Admission::admit`], look-ups again | those of `screen`, then into the buffer's stage |
//!
//! [sampling audit]: crate::verification::sampling_audit
//! [verifiers]: crate::verification::panel
//!
//! Where judging runs programs ([`Admission::runs_programs`]), the learner's audit comes before
//! it, in full or of one trajectory as the record says: nobody has this machine run what the
//! policy did not write.
//!
//! The pure steps need no lock and belong on a blocking pool; `screen` keeps the expensive one
//! from what is refused anyway. Look-ups are made again at the end because the book and the
//! buffer may have changed meanwhile. A group is accepted whole or not at all, and only when the
//! buffer's flush has returned.
//!
//! A failure of the learner itself (the store, a task that could not judge) is
//! [`Rejection::Retry`]: never a refusal, never a reward. Where a task fails on one group again,
//! while others could be judged, the service refuses that group without blame.
//!
//! A claimed reward that differs from the learner's is a lie, unless the task runs programs, which
//! need not do the same twice; what is trained on is the learner's figure either way.
//!
//! Ω is the learner's: whatever metadata the node claims is replaced by what judging gives, so it
//! need not be compared, and no lie in it can reach the trainer or the metrics.

mod judge;
pub mod options;
mod rejection;
mod tally;

use std::sync::Arc;

use echo_protocol::run::charter::{Charter, RunId};
use echo_protocol::run::precision::PrecisionName;
use echo_protocol::run::staleness::Staleness;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::codec::CodecError;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::signed::{ENVELOPE_BYTES, Signed, SignedError};
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::submission::RefuseReason;
use echo_protocol::work::trajectory::{Form, GroupHead, MAX_GROUP_BYTES, TrajectoryGroup};
use echo_sandbox::rollout::mix::TaskMix;

use crate::intake::buffer::{BufferError, OrderStatus, ReplayBuffer};
use crate::intake::leases::LeaseBook;
use crate::reputation::Fault;

pub use crate::intake::group::{Admitted, Checked, Progress};
pub use echo_sandbox::rollout::judge::REWARD_TOLERANCE;
pub use echo_sandbox::rollout::replay::TextDecoder;
pub use rejection::{MAX_DETAIL_BYTES, Refusal, Rejection};
pub use tally::{AdmissionTally, Look, Looks};

/// Longest frame that is read from a node, in bytes: the largest signed group.
pub const MAX_FRAME_BYTES: usize = MAX_GROUP_BYTES + ENVELOPE_BYTES;

/// Bytes of a frame in which its head is. Head, key and signature have some 240 with their names.
pub const HEAD_BYTES: usize = 512;

/// Encoded bytes of one token at most: its id and its two log-probs, five each, and a version
/// span of its own.
const TOKEN_BYTES: usize = 15 + 40;
/// Encoded bytes of a trajectory at most, beside its tokens: Ω with all its entries, lengths of
/// turns, field names, reward.
const TRAJECTORY_BYTES: usize = 8 << 10;

/// Checks the groups of one run.
pub struct Admission {
    run: RunId,
    form: Form,
    staleness: Staleness,
    tasks: Arc<TaskMix>,
    decoder: Arc<dyn TextDecoder>,
    /// Of the charter's precisions those that are taken now.
    precisions: Vec<PrecisionName>,
}

impl Admission {
    /// Admission for `run`, chartered by `charter`, whose tasks are `tasks`.
    pub fn new(run: RunId, charter: &Charter, tasks: Arc<TaskMix>, decoder: Arc<dyn TextDecoder>) -> Self {
        let form = Form::of(charter, decoder.vocabulary());
        let precisions = charter.precisions.clone();
        Self { run, form, staleness: charter.staleness, tasks, decoder, precisions }
    }

    /// The same where the learner takes groups of these precisions alone, whatever else its charter lists.
    #[must_use]
    pub fn taking(self, precisions: &[PrecisionName]) -> Self {
        Self { precisions: precisions.to_vec(), ..self }
    }

    /// Longest frame that a group of this run needs, in bytes: at most [`MAX_FRAME_BYTES`], and
    /// far less where responses are short, since this is what a stranger can make the learner
    /// hold for each stream.
    pub fn longest_frame(&self) -> usize {
        let tokens = (self.form.max_new_tokens as usize).saturating_mul(TOKEN_BYTES);
        let trajectories =
            (self.form.group_size as usize).saturating_mul(tokens.saturating_add(TRAJECTORY_BYTES));
        trajectories.saturating_add(TRAJECTORY_BYTES + ENVELOPE_BYTES).min(MAX_FRAME_BYTES)
    }

    /// Checks the length that a frame announces, before any of it is read.
    ///
    /// # Errors
    /// [`RefuseReason::FrameTooLarge`], held against the node: honest ones know the longest group.
    pub fn check_frame(&self, announced: u64) -> Result<(), Refusal> {
        let longest = self.longest_frame();
        if announced <= longest as u64 {
            return Ok(());
        }
        let detail = format!("a frame of {announced} bytes: the longest group of this run has {longest}");
        Err(Refusal::new(RefuseReason::FrameTooLarge, detail))
    }

    /// What the first [`HEAD_BYTES`] of a frame say of it, before the rest is in memory: `peer`, whom the
    /// connection authenticated, names itself and this run.
    ///
    /// # Errors
    /// The first stage that the head fails.
    pub fn read_head(&self, beginning: &[u8], peer: &PublicKey) -> Result<GroupHead, Refusal> {
        let head = Signed::<TrajectoryGroup>::begun_body(beginning).and_then(GroupHead::read);
        let head = head.ok_or_else(|| {
            let detail = "a group begins with its run, lease, counter and node".to_owned();
            Refusal::new(RefuseReason::Malformed, detail)
        })?;
        self.check_head(&head, peer)?;
        Ok(head)
    }

    /// The stages that need nothing but the bytes and `peer`, the key that the connection authenticated.
    ///
    /// # Errors
    /// The first stage that the bytes fail.
    pub fn precheck(&self, bytes: &[u8], peer: &PublicKey) -> Result<Checked, Refusal> {
        self.check_frame(bytes.len() as u64)?;
        let signed = Signed::<TrajectoryGroup>::from_bytes(bytes).map_err(malformed)?;
        if signed.key() != *peer {
            let detail = format!("signed by {}, sent by {peer}", signed.key());
            let refusal = Refusal::new(RefuseReason::Identity, detail);
            return Err(match GroupHead::read(signed.body()) {
                Some(head) => refusal.of(head.counter),
                None => refusal,
            });
        }
        let group = signed.open().map_err(|error| match error {
            SignedError::Codec(error) => malformed(error),
            other => Refusal::new(RefuseReason::Signature, other.to_string()),
        })?;
        let counter = group.counter;
        let refuse = |reason, detail: String| Err(Refusal::new(reason, detail).of(counter));
        let head = GroupHead { run: group.run, lease: group.lease, counter, node: group.node };
        self.check_head(&head, peer)?;
        if let Err(error) = group.check_form(&self.form) {
            return refuse(RefuseReason::Schema, error.to_string());
        }
        if !self.precisions.contains(&group.precision) {
            let detail =
                format!("computed in {}, which this learner does not take any more", group.precision);
            // The charter lists it: nobody could know.
            return Err(Refusal::new(RefuseReason::Schema, detail).held(Fault::Innocent).of(counter));
        }
        Ok(Checked { id: signed.body_id(), group })
    }

    /// Nodes send their own work, for this run.
    fn check_head(&self, head: &GroupHead, peer: &PublicKey) -> Result<(), Refusal> {
        let refuse = |reason, detail: String| Err(Refusal::new(reason, detail).of(head.counter));
        if head.node != *peer {
            let detail = format!("names {} as its node, sent by {peer}", head.node);
            return refuse(RefuseReason::Identity, detail);
        }
        if head.run != self.run {
            return refuse(RefuseReason::Run, format!("belongs to run {}, this is {}", head.run, self.run));
        }
        Ok(())
    }

    /// The stages that look something up, cheap enough for the thread that owns the book and the buffer.
    ///
    /// # Errors
    /// The first stage that the group fails; [`Rejection::Retry`] when the store fails, when
    /// another copy of the group is not durable yet, and when a restarted learner has not caught up
    /// with what it published before.
    pub fn screen(
        &self,
        group: &TrajectoryGroup,
        progress: Progress,
        book: &LeaseBook,
        buffer: &ReplayBuffer,
    ) -> Result<(), Rejection> {
        let GroupHead { lease, counter, node, .. } = group.head();
        self.check_lease(&node, lease, counter, book, buffer)?;
        self.check_versions(group, progress, book.granted_at(&node, lease, counter))
    }

    /// The look-ups that need the head alone: whether the order is delivered, and leased to this node.
    ///
    /// # Errors
    /// As for [`Admission::screen`].
    pub fn check_lease(
        &self,
        node: &PublicKey,
        lease: LeaseId,
        counter: OrderCounter,
        book: &LeaseBook,
        buffer: &ReplayBuffer,
    ) -> Result<(), Rejection> {
        let refuse = |reason, detail: String| Err(Refusal::new(reason, detail).of(counter).into());
        let status = buffer.status(counter).map_err(|error| Rejection::retry(&error))?;
        match status {
            Some(OrderStatus::Staged) => {
                return Err(Rejection::Retry(format!("another copy of order {counter} is not durable yet")));
            }
            Some(_) => {
                return refuse(
                    RefuseReason::Duplicate,
                    format!("order {counter} has already been delivered"),
                );
            }
            None => {}
        }
        // An order of which no group has come, and that the book does not know any more, was given up: a node
        // that were told of a duplicate would take its group for accepted.
        book.check(node, lease, counter).map_err(|error| {
            let refusal = Refusal::new(RefuseReason::Lease, error.to_string()).held(error.fault(book));
            refusal.of(counter).into()
        })
    }

    /// [`Admission::screen`] again, then takes the group into the buffer's stage. The node may be
    /// told that its group is accepted when [`ReplayBuffer::flush`] has returned, and
    /// [`LeaseBook::delivered`] is due then; when the flush fails it is told to retry.
    ///
    /// # Errors
    /// As for [`Admission::screen`]; [`Rejection::Retry`] also when the buffer's stage is full.
    pub fn admit(
        &self,
        admitted: Admitted,
        progress: Progress,
        book: &LeaseBook,
        buffer: &mut ReplayBuffer,
    ) -> Result<OrderCounter, Rejection> {
        self.screen(&admitted.group, progress, book, buffer)?;
        let counter = admitted.group.counter;
        buffer.stage(admitted).map_err(|error| match error {
            BufferError::Duplicate(_) => {
                Refusal::new(RefuseReason::Duplicate, error.to_string()).of(counter).into()
            }
            other => Rejection::retry(&other),
        })?;
        Ok(counter)
    }

    /// `granted` is where the learner was when it leased the order, if this process did.
    fn check_versions(
        &self,
        group: &TrajectoryGroup,
        progress: Progress,
        granted: Option<PolicyVersion>,
    ) -> Result<(), Rejection> {
        let refuse = |reason, detail: String| Err(Refusal::new(reason, detail).of(group.counter).into());
        let versions = || group.trajectories.iter().flat_map(|t| &t.versions).map(|span| span.version);
        let published = |version: &PolicyVersion| {
            (self.staleness.publishes(*version) || progress.between_periods == Some(*version))
                && progress.newest_published.is_some_and(|newest| *version <= newest)
        };
        if let Some(unknown) = versions().find(|version| !published(version)) {
            return refuse(RefuseReason::UnknownVersion, format!("{unknown} was never published"));
        }
        // The learner restarted at a checkpoint before something that it had published: it gets there again.
        if let Some(ahead) = versions().find(|version| *version > progress.current) {
            return Err(Rejection::Retry(format!(
                "the learner is at {} and has not come to {ahead} yet",
                progress.current
            )));
        }
        if let Some(stale) = versions().find(|version| !self.staleness.admits(*version, progress.current)) {
            let budget = self.staleness.budget();
            let detail = format!("{stale} at {}: more than S = {budget} updates old", progress.current);
            let refusal = Refusal::new(RefuseReason::Stale, detail).of(group.counter);
            // Orders are leased to nodes with a fresh policy alone, and are begun after that.
            let on_purpose = granted.is_some_and(|at| stale <= at && !self.staleness.admits(stale, at));
            return Err(if on_purpose { refusal.held(Fault::Lie) } else { refusal }.into());
        }
        Ok(())
    }
}

fn malformed(error: CodecError) -> Refusal {
    let reason = match error {
        CodecError::TooLarge { .. } => RefuseReason::FrameTooLarge,
        CodecError::Malformed(_) => RefuseReason::Malformed,
    };
    Refusal::new(reason, error.to_string())
}

#[cfg(test)]
mod tests;
