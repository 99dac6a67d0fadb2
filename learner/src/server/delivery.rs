//! Groups on their way in: read, check, judge, make durable, answer.
//!
//! A task for each node's stream reads its groups, has them verified and judged on threads that
//! may block, and answers them in order; how many may be on the way, and how fast they come, is
//! bounded for each node ([rate limit](super::rate_limit)), so a node is slowed down by its own groups.
//! A group that verifiers look at waits for them on no thread and in no judge's place. What passes
//! goes to one writer, which makes all that wait durable with a single flush. While the disk
//! works, the coordinator is free.

mod asked;
mod counted;
mod under_way;

use super::SharedState;
use super::rate_limit::{JudgePermit, PeerRateLimit, RateLimit};
use crate::common::paced_log;
use crate::intake::admission::{Admitted, Checked, HEAD_BYTES, Look, Refusal, Rejection};
use crate::intake::buffer::Unflushed;
use crate::intake::coordinator::UnsignedReply;
use crate::reputation;
use crate::reputation::{Alarm, Fault};
use crate::training::sequences;
use crate::training::sequences::SequenceError;
use crate::verification::panel::{Question, Ruling};
use asked::PendingRuling;
use echo_policy::audit::{NearMisses, VersionWeights};
use echo_protocol::net::peer_id::key_of_peer;
use echo_protocol::net::{
    FrameError, IncomingStreams, ScreenedFrame, Stream, read_screened_frame, write_frame,
};
use echo_protocol::program::clock;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::codec;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::order::{OrderCounter, Purpose};
use echo_protocol::work::submission::{Answer, MAX_ANSWER_BYTES, Outcome, RefuseReason};
use echo_protocol::work::trajectory::TrajectoryGroup;
use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};
use under_way::GroupUnderWay;

pub(super) use counted::Counted;
pub(super) use under_way::UnderWay;

/// Judged groups that wait for the writer; also the most that one flush covers.
const WRITER_QUEUE: usize = 256;
/// Groups that are verified and judged at once for each core, over all nodes. It is nothing but
/// computing: more threads would only get in each other's way.
const JUDGES_PER_CORE: usize = 2;
/// Groups of one node that were read and not yet answered.
const UNANSWERED: usize = 32;
/// Bytes of those that are not judged yet; a single group may be longer.
const UNJUDGED_BYTES: u32 = 1 << 20;
/// A frame whose first byte is here has this time to be whole, and as long as [`SLOWEST_UPLINK`]
/// needs for the longest one.
const FRAME_WITHIN: Duration = Duration::from_secs(30);
/// In bytes a second.
const SLOWEST_UPLINK: u64 = 16 << 10;

type Pending = (Admitted, oneshot::Sender<Answer>);

/// A group whose claims are right, as far as they were looked at.
enum Looked {
    /// It may be trained on.
    Admitted(Admitted),
    /// It may be, if verifiers vouch for it, or by these policies, which it names. The near misses
    /// are those of the one trajectory that was looked at.
    Asked(Admitted, Vec<Arc<VersionWeights>>, NearMisses, oneshot::Receiver<Ruling>),
}

/// What becomes of a group: decided by its judge, or by the writer.
type Judging = JoinHandle<Result<oneshot::Receiver<Answer>, Box<Answer>>>;

/// Accepts streams until the host stops, those of older nodes too. A node has one stream; a new
/// one replaces the old.
pub(super) async fn accept(
    shared: Arc<SharedState>,
    mut incoming: IncomingStreams,
    mut of_older: IncomingStreams,
) {
    let (writer, queue) = mpsc::channel(WRITER_QUEUE);
    let writing = shared.clone();
    std::thread::spawn(move || write(&writing, queue));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let rate_limit = RateLimit::new(JUDGES_PER_CORE * cores);
    let mut streams: BTreeMap<PublicKey, AbortHandle> = BTreeMap::new();
    loop {
        let next = tokio::select! {
            next = incoming.next() => next.map(|next| (next, false)),
            next = of_older.next() => next.map(|next| (next, true)),
            () = writer.closed() => None,
        };
        let Some(((peer, stream), older)) = next else { return };
        let Some(node) = key_of_peer(&peer) else { continue };
        let Some(limit) = rate_limit.of(node) else { continue };
        streams.retain(|_, task| !task.is_finished());
        let intake = Intake { shared: shared.clone(), node, older, writer: writer.clone(), limit };
        let task = tokio::spawn(async move {
            if let Err(error) = intake.converse(stream).await {
                tracing::debug!(node = %node.short(), error, "a node's stream ended");
            }
        });
        if let Some(old) = streams.insert(node, task.abort_handle()) {
            old.abort();
        }
    }
}

/// One node's stream of groups, and its quota.
struct Intake {
    shared: Arc<SharedState>,
    node: PublicKey,
    /// Whether the node speaks version 1.
    older: bool,
    writer: mpsc::Sender<Pending>,
    limit: Arc<PeerRateLimit>,
}

impl Intake {
    /// Reads groups and answers them in the order in which they came. While earlier ones are judged
    /// and made durable, later ones are read: a node that has many under way does not wait for the
    /// disk once for each.
    async fn converse(&self, stream: Stream) -> Result<(), String> {
        let (reader, writer) = stream.split();
        let (queue, answers) = mpsc::channel(UNANSWERED);
        let (read, answered) = futures::join!(self.read(reader, queue), answer(writer, answers, self.older));
        read.and(answered)
    }

    async fn read(
        &self,
        mut stream: impl AsyncRead + Unpin,
        queue: mpsc::Sender<Judging>,
    ) -> Result<(), String> {
        let bytes = Arc::new(Semaphore::new(UNJUDGED_BYTES as usize));
        let longest = self.shared.admission.longest_frame();
        let within = FRAME_WITHIN + Duration::from_secs(longest as u64 / SLOWEST_UPLINK);
        loop {
            let screen = |beginning: &[u8]| screen(&self.shared, &self.node, beginning).err();
            match read_screened_frame(&mut stream, longest, within, HEAD_BYTES, screen).await {
                Ok(Some(ScreenedFrame::Whole(frame))) => {
                    // The room is held until the writer has the group, and the judge until it is
                    // judged: what a node sends faster stays on its own machine.
                    let size = u32::try_from(frame.len()).unwrap_or(u32::MAX).min(UNJUDGED_BYTES);
                    let room = bytes.clone().acquire_many_owned(size).await.map_err(|e| e.to_string())?;
                    let place = self.limit.enter(frame.len()).await.ok_or("the service has ended")?;
                    let judging = self.check(frame, (room, place));
                    // The other half ends only with the stream.
                    queue.send(judging).await.map_err(|e| e.to_string())?;
                }
                Ok(Some(ScreenedFrame::Refused { why, len })) => {
                    self.limit.keep_pace(len).await;
                    queue.send(decided(why)).await.map_err(|e| e.to_string())?;
                }
                Ok(None) => return Ok(()),
                Err(FrameError::TooLarge { len, .. }) => {
                    // What follows cannot be found again: say why, and close.
                    if let Err(refusal) = self.shared.admission.check_frame(len) {
                        let answer =
                            self.shared.coordinator().refuse(clock::now(), &self.node, refusal).answer;
                        queue.send(decided(Box::new(answer))).await.map_err(|e| e.to_string())?;
                    }
                    return Ok(());
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// All stages of a group, on a thread that may block. Where others look at it first, it
    /// waits without its judge.
    fn check(&self, frame: Vec<u8>, (room, place): (OwnedSemaphorePermit, JudgePermit)) -> Judging {
        let (shared, node, writer, limit) =
            (self.shared.clone(), self.node, self.writer.clone(), self.limit.clone());
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || {
            let (looked, judged) = check(&shared, &node, &Arc::new(frame))?;
            let (reply, answer) = oneshot::channel();
            match looked {
                Looked::Admitted(admitted) => {
                    // The writer ends only with the service, and then nobody is answered.
                    drop(writer.blocking_send((admitted, reply)));
                    drop((room, place, judged));
                }
                Looked::Asked(admitted, policies, glanced, ruling) => {
                    drop(place);
                    let asked = PendingRuling { shared, node, limit, admitted, policies, glanced, ruling };
                    runtime.spawn(async move {
                        asked.decide(&writer, reply).await;
                        drop((room, judged));
                    });
                }
            }
            Ok(answer)
        })
    }
}

/// What became of a group that nobody has to judge.
fn decided(answer: Box<Answer>) -> Judging {
    tokio::spawn(async { Err(answer) })
}

/// Answers groups in order; ends, and closes the stream, after the last.
async fn answer(
    mut stream: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Judging>,
    older: bool,
) -> Result<(), String> {
    while let Some(judging) = queue.recv().await {
        let answer = match judging.await.map_err(|e| e.to_string())? {
            Ok(answer) => answer.await.map_err(|e| e.to_string())?,
            Err(answer) => *answer,
        };
        let answer = if older { answer.in_version_1() } else { answer };
        let bytes = codec::encode(&answer, MAX_ANSWER_BYTES).map_err(|e| e.to_string())?;
        write_frame(&mut stream, &bytes, MAX_ANSWER_BYTES).await.map_err(|e| e.to_string())?;
    }
    stream.close().await.map_err(|e| e.to_string())
}

/// Looks at the beginning of a frame. Groups of peers that are not heard, and for orders that the peer does
/// not hold, cost nothing more: a thousand keys may be connected, and each frame may have megabytes. An
/// `Err` is the answer to the node.
fn screen(shared: &SharedState, node: &PublicKey, beginning: &[u8]) -> Result<(), Box<Answer>> {
    let admission = &shared.admission;
    let head = admission.read_head(beginning, node).map_err(|refusal| refused(shared, node, refusal))?;
    let heard = shared.coordinator().screen_head(clock::now(), admission, &head);
    heard.map_err(|why| rejected(shared, node, head.counter, why))
}

/// All stages but the last, and but the audit where verifiers make it; copies wait outside until
/// the second value is dropped. An `Err` is the answer to the node.
fn check(
    shared: &SharedState,
    node: &PublicKey,
    frame: &Arc<Vec<u8>>,
) -> Result<(Looked, GroupUnderWay), Box<Answer>> {
    let admission = &shared.admission;
    let checked = admission.precheck(frame, node).map_err(|refusal| refused(shared, node, refusal))?;
    let counter = checked.group().counter;
    let screened = shared.coordinator().screen(clock::now(), admission, checked.group());
    if let Err(Rejection::Refused(Refusal { reason: RefuseReason::Stale, .. })) = screened {
        shared.coordinator().came_too_late(checked.group());
    }
    let looked = screened.and_then(|()| {
        let Some(judged) = shared.under_way.begin(*node, counter) else {
            return Err(Rejection::Retry(format!("another copy of order {counter} is judged already")));
        };
        can_be_looked_at(shared, checked.group())?;
        let runs_programs = admission.runs_programs(checked.group())?;
        readable(shared, checked.group(), runs_programs)?;
        if runs_programs {
            // Nor are verifiers waited for: programs are run when the learner itself has seen that
            // the policy wrote them.
            let drawn = is_drawn(shared, checked.group(), &checked.id());
            look_alone(shared, checked.group(), &checked.id(), drawn)?;
            return Ok((Looked::Admitted(reward(shared, checked, frame, drawn)?), judged));
        }
        // Last, as it costs most: only what could be accepted otherwise is worth it.
        Ok((look(shared, reward(shared, checked, frame, false)?, frame)?, judged))
    });
    looked.map_err(|why| rejected(shared, node, counter, why))
}

/// Refuses what a node without a record made under a version whose policy went with an earlier process.
/// Nobody can look at it, so whoever makes answers up would have them trained on, and earn a record by
/// them. Honest newcomers lose what they had in hand when the learner was started anew.
fn can_be_looked_at(shared: &SharedState, group: &TrajectoryGroup) -> Result<(), Refusal> {
    let gone = shared.audit.as_ref().and_then(|audit| audit.gone_since_before(group));
    let Some(version) = gone else { return Ok(()) };
    let is_known = shared.coordinator().record().is_known(&group.node);
    let detail = format!(
        "{version}: its policy is gone since the learner was started anew, so only nodes that have worked for long are believed"
    );
    if is_known { Ok(()) } else { Err(Refusal::new(RefuseReason::Stale, detail).of(group.counter)) }
}

/// Refuses a group whose order has no tokens for its prompt, or for what is heard in it: the
/// trainer could not go on over it. Honest nodes give such an order up, but it is no lie to have
/// done otherwise: the order counts as one more lease that brought nothing. What is heard after
/// programs is not found out, for they are not run before their tokens are looked at.
fn readable(shared: &SharedState, group: &TrajectoryGroup, runs_programs: bool) -> Result<(), Refusal> {
    let order = shared.workload.order(Purpose::Train, group.counter.0);
    let read = if runs_programs { 0 } else { group.trajectories.len() };
    match sequences::of_order(&shared.workload, &order, &group.trajectories[..read]) {
        Err(SequenceError::Workload(error)) => {
            let detail = format!("the order is none for this tokenizer: {error}");
            Err(Refusal::new(RefuseReason::TaskRules, detail).held(Fault::Innocent).of(group.counter))
        }
        // Turns that are not those of an episode of the order are its judge's to refuse.
        _ => Ok(()),
    }
}

/// Judges a group, whose tokens were all looked at before if so `audited`. What cannot be judged is
/// looked at before anything is said: nobody has judges work, over and over, on what the policy did
/// not write. What it did write comes again, until it is seen that others can be judged.
fn reward(
    shared: &SharedState,
    checked: Checked,
    frame: &[u8],
    audited: bool,
) -> Result<Admitted, Rejection> {
    let (node, counter) = (checked.group().node, checked.group().counter);
    let failed = match shared.admission.judge(checked) {
        Err(Rejection::Retry(failed)) => failed,
        decided => return decided,
    };
    if !audited {
        // Judging has taken it apart.
        let checked = shared.admission.precheck(frame, &node)?;
        let looked = look_alone(shared, checked.group(), &checked.id(), true);
        if let Err(Rejection::Refused(refusal)) = looked {
            return Err(refusal.into());
        }
    }
    if !shared.coordinator().unjudged(&node, counter) {
        return Err(Rejection::Retry(failed));
    }
    // The text of the failure is the learner's: it may quote what the task's author keeps to himself.
    tracing::warn!(node = %node.short(), order = %counter, failed, "a group cannot be judged, and others can");
    let detail = "it cannot be judged, again; that is held against nobody".into();
    Err(Refusal::new(RefuseReason::TaskRules, detail).held(Fault::Innocent).of(counter).into())
}

/// Looks at how tokens were drawn, as often as the node's record says; or has verifiers look. One
/// trajectory of every group is looked at in any case.
fn look(shared: &SharedState, admitted: Admitted, frame: &Arc<Vec<u8>>) -> Result<Looked, Rejection> {
    let Some(audit) = &shared.audit else { return Ok(Looked::Admitted(admitted)) };
    let (now, producer, group) = (clock::now(), admitted.group.node, admitted.id);
    let drawn = is_drawn(shared, &admitted.group, &group);
    // Of what the learner could not tell itself, nobody's verdict could be judged. It looks
    // with the policies of now, so a lie is one however long verifiers take, and whatever
    // is let go meanwhile.
    if drawn
        && shared.verifiers.are_there()
        && let Some(policies) = audit.all_policies_of(&admitted.group)
    {
        let draw = reputation::glance(&shared.secret, group.as_bytes());
        let glanced = audit.look_at_one(&admitted.group, draw)?;
        let network = shared.coordinator().record().network(&producer);
        let spans = admitted.group.trajectories.iter().flat_map(|t| &t.versions);
        let versions: BTreeSet<PolicyVersion> = spans.map(|span| span.version).collect();
        let fresh_until = versions.first().and_then(|oldest| fresh_until(shared, *oldest));
        let question = Question { group, producer, network, versions, fresh_until, bytes: frame.len() };
        if let Some(ruling) = shared.verifiers.ask(now, &question, frame) {
            return Ok(Looked::Asked(admitted, policies, glanced, ruling));
        }
    }
    look_alone(shared, &admitted.group, &group, drawn)?;
    Ok(Looked::Admitted(admitted))
}

/// The last version at which a group may be trained on whose oldest token is of version `oldest`.
/// `None` where the learner waits for such groups and goes on only when they have come, so that
/// they cannot grow too old meanwhile.
fn fresh_until(shared: &SharedState, oldest: PolicyVersion) -> Option<PolicyVersion> {
    let staleness = shared.workload.charter.staleness;
    let passes = staleness.period() <= staleness.budget();
    passes.then(|| PolicyVersion(oldest.0.saturating_add(staleness.budget())))
}

/// Whether all of a group is looked at, as its node's record says.
fn is_drawn(shared: &SharedState, group: &TrajectoryGroup, id: &ContentId) -> bool {
    shared.coordinator().record().rechecks(clock::now(), &group.node, &shared.secret, id.as_bytes())
}

/// The learner's own look: at all of a group that is drawn, at one trajectory of any other.
fn look_alone(
    shared: &SharedState,
    group: &TrajectoryGroup,
    id: &ContentId,
    drawn: bool,
) -> Result<(), Rejection> {
    let Some(audit) = &shared.audit else { return Ok(()) };
    if drawn {
        let audited = audit.look_at_all(group);
        shared.coordinator().looked(Look::Audited);
        return audited.and_then(|near_misses| remember(shared, group, id, near_misses));
    }
    let glanced = audit.look_at_one(group, reputation::glance(&shared.secret, id.as_bytes()))?;
    shared.coordinator().looked(Look::Skipped);
    remember(shared, group, id, glanced)
}

/// Adds what was looked at of a group to its node's record. Where each group by itself passes, all
/// of a node's groups together may still show that it chooses among the tokens of close races, and
/// so may those of all newcomers of its network. A group that comes again counts once, and what was
/// said of it holds.
fn remember(
    shared: &SharedState,
    group: &TrajectoryGroup,
    id: &ContentId,
    near_misses: NearMisses,
) -> Result<(), Rejection> {
    let count = || shared.coordinator().near_misses(clock::now(), group.node, near_misses);
    let Some(alarm) = shared.counted.once(*id, count) else { return Ok(()) };
    let whose = match alarm {
        Alarm::Key => "over this node's groups",
        Alarm::Network => "over the groups of all nodes without a record of this node's network",
    };
    let detail =
        format!("{whose}, more tokens only just lost their race to another one than chance explains");
    let refusal = Refusal::new(RefuseReason::Sampling, detail).of(group.counter);
    let refusal = match alarm {
        Alarm::Key => refusal,
        // It may be honest, and have a neighbour that is not.
        Alarm::Network => refusal.held(Fault::Innocent),
    };
    Err(refusal.into())
}

fn refused(shared: &SharedState, node: &PublicKey, refusal: Refusal) -> Box<Answer> {
    let reply = shared.coordinator().refuse(clock::now(), node, refusal);
    Box::new(reply.sign(&shared.key))
}

fn rejected(
    shared: &SharedState,
    node: &PublicKey,
    counter: OrderCounter,
    rejection: Rejection,
) -> Box<Answer> {
    match rejection {
        Rejection::Refused(refusal) => {
            let text = format!("refused group {counter} of {}: {refusal}", node.short());
            paced_log::line(refusal.reason.name(), &text);
            refused(shared, node, refusal)
        }
        retry @ Rejection::Retry(_) => {
            tracing::debug!(node = %node.short(), order = %counter, %retry, "put a group off");
            Box::new(retry.answer(counter))
        }
    }
}

/// Counts what nodes bring.
fn count(shared: &SharedState, decided: &[UnsignedReply]) {
    let mut capacity = shared.capacity();
    let accepted = decided.iter().filter(|reply| reply.answer.outcome == Outcome::Accepted);
    for receipt in accepted.filter_map(|reply| reply.receipt.as_ref()) {
        capacity.accepted(&receipt.node, receipt.trajectories.into());
    }
}

/// Takes what waits, makes it durable with one flush, and answers.
fn write(shared: &SharedState, mut queue: mpsc::Receiver<Pending>) {
    let mut waiting = Vec::new();
    while queue.blocking_recv_many(&mut waiting, WRITER_QUEUE) > 0 {
        let (groups, replies): (Vec<_>, Vec<_>) = waiting.drain(..).unzip();
        let (decided, written) = shared.coordinator().admit(clock::now(), &shared.admission, groups);
        let flushed = written.and_then(Unflushed::flush);
        let decided: Vec<UnsignedReply> = shared.coordinator().acknowledge(decided, flushed);
        shared.groups_arrived();
        count(shared, &decided);
        for (reply, decided) in replies.into_iter().zip(decided) {
            // A node that has gone sends its group again, is told that it is a duplicate, and
            // gets its receipt then.
            let _ = reply.send(decided.sign(&shared.key));
        }
    }
}

#[cfg(test)]
mod tests;
