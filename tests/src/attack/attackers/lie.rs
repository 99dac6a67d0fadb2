//! From the truth to a lie.

use crate::attack::honest_work::{Truth, draw, trajectory, undrawn, work};
use crate::attack::kind::LieKind;
use crate::harness::liar::{Envelope, Liar};
use anyhow::Context as _;
use echo_protocol::run::charter::RunId;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::trajectory::{Trajectory, TrajectoryGroup, spans};

/// A frame that nobody has.
const GIGABYTE: u32 = 1 << 30;
/// Arrays within arrays of malformed bytes.
const NESTED: usize = 10_000;
/// What is added to the newest version for one of the future.
const AHEAD: u64 = 2000;
/// The distance of an order that is leased to nobody yet.
const FAR: u64 = 1000;
/// What is taken from log-probabilities that are made up, nats.
const UNLIKELIER: f32 = 1.5;
/// The temperature of who samples more greedily than the order says.
const GREEDY: f32 = 0.3;
/// Draws of which the best is sent.
const DRAWS: u32 = 4;

/// What goes to the learner.
pub(crate) enum Lie {
    /// An encoded group, to be sent as one frame.
    Frame(Vec<u8>),
    /// The length of a frame that never comes.
    Announcement(u32),
}

/// What a liar has at hand.
pub(crate) struct Means<'a> {
    /// The member that lies, whose key signs.
    pub(crate) liar: &'a Liar,
    /// Its order, honestly worked on.
    pub(crate) truth: &'a Truth,
    /// A frame of its own that was accepted.
    pub(crate) accepted: Option<&'a [u8]>,
    /// A frame of somebody else that was accepted.
    pub(crate) overheard: Option<Vec<u8>>,
    /// Whose name and signature are taken in vain.
    pub(crate) victim: &'a NodeKey,
}

impl Means<'_> {
    /// A lie of this kind; none when it would be no lie, because the truth happens to be the same,
    /// or when something for it is missing.
    pub(crate) fn lie(&self, kind: LieKind) -> anyhow::Result<Option<Lie>> {
        let Truth { order, policy, group } = self.truth;
        let frame = match kind {
            LieKind::Malformed => Some([vec![0x81; NESTED], vec![0]].concat()),
            LieKind::Oversized => return Ok(Some(Lie::Announcement(GIGABYTE))),
            LieKind::ForgedSignature => Some(self.forged(|envelope| {
                envelope.signature = self.victim.sign(&envelope.body);
                Ok(())
            })?),
            LieKind::AlteredAfterSigning => Some(self.forged(|envelope| {
                Ok(envelope
                    .alter(|group| group.trajectories.iter_mut().for_each(|t| t.reward = 1.0 - t.reward))?)
            })?),
            LieKind::BorrowedKey => Some(self.forged(|envelope| {
                envelope.key = self.victim.public();
                Ok(())
            })?),
            LieKind::BorrowedName => self.signed(|group| group.node = self.victim.public())?,
            LieKind::Stolen => self.overheard.clone(),
            LieKind::Replay => self.accepted.map(<[u8]>::to_vec),
            LieKind::WrongRun => {
                let run = self.another_run()?;
                self.signed(|group| group.run = run)?
            }
            LieKind::WrongSize => self.signed(|group| drop(group.trajectories.pop()))?,
            LieKind::NoLease => self.signed(|group| group.lease = LeaseId(u64::MAX))?,
            LieKind::PoachedOrder => {
                self.signed(|group| group.counter = OrderCounter(order.counter.0 + FAR))?
            }
            LieKind::UnknownVersion => self.under(PolicyVersion(policy.version() + AHEAD))?,
            LieKind::StaleVersion => {
                let budget = self.liar.workload().charter.staleness.budget();
                if policy.version() > budget { self.under(PolicyVersion(0))? } else { None }
            }
            LieKind::OtherSchedule => self.rescheduled()?,
            LieKind::WrongEnd => self.signed(|group| {
                let first = &mut group.trajectories[0];
                first.stopped = !first.stopped;
            })?,
            // Where all are right there is nothing to inflate, and no lie.
            LieKind::InflatedReward => self.signed(|group| {
                if let Some(wrong) = group.trajectories.iter_mut().find(|t| t.reward < 1.0) {
                    wrong.reward = 1.0;
                }
            })?,
            LieKind::WithheldReward => self.withheld()?,
            LieKind::EditedToken => self.edited()?,
            LieKind::MadeUpLogprobs => self.signed(|group| {
                let logprobs = group.trajectories.iter_mut().flat_map(|t| &mut t.logprobs);
                logprobs.for_each(|logprob| *logprob -= UNLIKELIER);
            })?,
            LieKind::CopiedAnswer => self.copied()?,
            LieKind::OtherTemperature => self.greedy()?,
            LieKind::BestOfFour => self.best()?,
        };
        // Whatever was done to it: the truth is no lie.
        let truth = self.liar.sign(group)?;
        Ok(frame.filter(|frame| *frame != truth).map(Lie::Frame))
    }

    /// The truth, signed, then taken apart and changed.
    fn forged(&self, change: impl FnOnce(&mut Envelope) -> anyhow::Result<()>) -> anyhow::Result<Vec<u8>> {
        let mut envelope = Envelope::open(&self.liar.sign(&self.truth.group)?)?;
        change(&mut envelope)?;
        Ok(envelope.to_bytes()?)
    }

    /// The truth changed, then signed.
    fn signed(&self, change: impl FnOnce(&mut TrajectoryGroup)) -> anyhow::Result<Option<Vec<u8>>> {
        let mut group = self.truth.group.clone();
        change(&mut group);
        Ok(Some(self.liar.sign(&group)?))
    }

    /// Other trajectories in place of the true ones, if their tokens are others.
    fn instead(&self, trajectories: Vec<Trajectory>) -> anyhow::Result<Option<Vec<u8>>> {
        let drawn = |trajectories: &[Trajectory]| -> Vec<Vec<u32>> {
            trajectories.iter().map(|trajectory| trajectory.response.clone()).collect()
        };
        if drawn(&trajectories) == drawn(&self.truth.group.trajectories) {
            return Ok(None);
        }
        self.signed(|group| group.trajectories = trajectories)
    }

    /// The truth, said to be of another version.
    fn under(&self, version: PolicyVersion) -> anyhow::Result<Option<Vec<u8>>> {
        self.signed(|group| {
            for trajectory in &mut group.trajectories {
                trajectory.versions = spans(trajectory.response.iter().map(|_| version));
            }
        })
    }

    /// The truth with its last response said to be of the version before; none under the first version.
    fn rescheduled(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let period = self.liar.workload().charter.staleness.period();
        let Some(older) = self.truth.policy.version().checked_sub(period) else { return Ok(None) };
        self.signed(|group| {
            if let Some(last) = group.trajectories.last_mut() {
                last.versions = spans(last.response.iter().map(|_| PolicyVersion(older)));
            }
        })
    }

    fn another_run(&self) -> anyhow::Result<RunId> {
        let mut charter = self.liar.workload().charter.clone();
        charter.created = UnixMillis(charter.created.0 + 1);
        Ok(RunId::of(&Signed::sign(&charter, self.liar.key())?))
    }

    /// The first response of more than its end, with its first token exchanged for one of another.
    fn edited(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let Truth { order, policy, group } = self.truth;
        let work = work(self.liar, *order);
        let end = self.liar.workload().end();
        let other = |token: u32| {
            let tokens = group.trajectories.iter().flat_map(|t| &t.response);
            tokens.copied().find(|found| *found != token && *found != end)
        };
        let mut trajectories = group.trajectories.clone();
        let Some(edited) = trajectories.iter_mut().find(|t| t.response.first().is_some_and(|id| *id != end))
        else {
            return Ok(None);
        };
        let Some(token) = other(edited.response[0]) else { return Ok(None) };
        let mut response = edited.response.clone();
        response[0] = token;
        *edited = undrawn(self.liar, &work, policy, response, edited.stopped)?;
        self.instead(trajectories)
    }

    /// The first response that earns something, said to earn nothing. Where none does, it is the
    /// task's solution: rewards are looked at before it is asked how tokens were drawn.
    fn withheld(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let mut trajectories = self.truth.group.trajectories.clone();
        let right = match trajectories.iter().position(|t| t.reward > 0.0) {
            Some(right) => right,
            None => {
                trajectories[0] = self.solution()?;
                0
            }
        };
        trajectories[right].reward = 0.0;
        self.signed(|group| group.trajectories = trajectories)
    }

    fn copied(&self) -> anyhow::Result<Option<Vec<u8>>> {
        self.instead(vec![self.solution()?; self.truth.group.trajectories.len()])
    }

    /// The task's solution as a response.
    fn solution(&self) -> anyhow::Result<Trajectory> {
        let Truth { order, policy, .. } = self.truth;
        let (workload, work) = (self.liar.workload(), work(self.liar, *order));
        let mut solution = workload.tokenizer.encode(&workload.assignment(&work).solution())?;
        solution.push(workload.end());
        undrawn(self.liar, &work, policy, solution, true)
    }

    fn greedy(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let Truth { order, policy, .. } = self.truth;
        let work = work(self.liar, *order);
        let drawn = draw(self.liar, *order, policy, |request| request.params.temperature = GREEDY)?;
        let claimed = drawn.into_iter().map(|drawn| {
            // Those at temperature 1, which is the charter's.
            trajectory(self.liar, &work, policy, drawn.tokens, drawn.raw_logprobs, drawn.stopped)
        });
        self.instead(claimed.collect::<anyhow::Result<_>>()?)
    }

    fn best(&self) -> anyhow::Result<Option<Vec<u8>>> {
        let Truth { order, policy, .. } = self.truth;
        let work = work(self.liar, *order);
        let drawn = draw(self.liar, *order, policy, |request| request.samples *= DRAWS)?;
        let all = drawn
            .into_iter()
            .map(|drawn| trajectory(self.liar, &work, policy, drawn.tokens, drawn.logprobs, drawn.stopped));
        let all = all.collect::<anyhow::Result<Vec<_>>>()?;
        let best = all.chunks(DRAWS as usize).map(|draws| {
            let best = draws.iter().max_by(|a, b| a.reward.total_cmp(&b.reward));
            best.cloned().context("four draws have a best one")
        });
        self.instead(best.collect::<anyhow::Result<_>>()?)
    }
}
