//! Orders, groups that would be accepted, and what the learner answers to whatever is sent to it.

use super::{Liar, PATIENCE, PAUSE};
use anyhow::{Context as _, ensure};
use echo_learner::intake::admission::MAX_FRAME_BYTES;
use echo_protocol::net::{Stream, protocol_names, read_frame, write_frame};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::codec;
use echo_protocol::wire::signed::Signed;
use echo_protocol::work::lease::{Lease, LeaseId};
use echo_protocol::work::order::{OrderCounter, Purpose};
use echo_protocol::work::submission::{Answer, MAX_ANSWER_BYTES, Outcome};
use echo_protocol::work::trajectory::{Trajectory, TrajectoryGroup, spans};
use echo_sandbox::task::Response;
use futures::AsyncWriteExt as _;
use tokio::time::{Instant, sleep, timeout};

/// Log-probability that is claimed for every token.
const LOGPROB: f32 = -0.1;

/// One order of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LiarOrder {
    /// The lease under which it may be worked on.
    pub lease: LeaseId,
    /// The counter of the order, of which everything else follows.
    pub counter: OrderCounter,
}

impl Liar {
    /// An order that is leased to us, waiting until the learner has one.
    ///
    /// # Errors
    /// When the learner has none within [`PATIENCE`].
    pub async fn order(&self) -> anyhow::Result<LiarOrder> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            self.learner.beat().await?;
            if let Some(order) = self.lease(1).await?.pop() {
                return Ok(order);
            }
            ensure!(Instant::now() < deadline, "the learner leases no order");
            sleep(PAUSE).await;
        }
    }

    /// Every order that the staleness budget has room for: from then on nobody else gets work, and
    /// the run stands still.
    ///
    /// # Errors
    /// When the learner has none within [`PATIENCE`].
    pub async fn hoard(&self) -> anyhow::Result<Vec<LiarOrder>> {
        let mut hoard = vec![self.order().await?];
        loop {
            let more = self.lease(u32::MAX).await?;
            if more.is_empty() {
                return Ok(hoard);
            }
            hoard.extend(more);
        }
    }

    /// As many orders as asked for, under however many leases.
    ///
    /// # Errors
    /// When the learner leases fewer within [`PATIENCE`].
    pub async fn orders(&self, count: usize) -> anyhow::Result<Vec<LiarOrder>> {
        let mut orders = vec![self.order().await?];
        while orders.len() < count {
            let more = self.lease(u32::try_from(count - orders.len())?).await?;
            ensure!(!more.is_empty(), "the learner leases {} orders, not {count}", orders.len());
            orders.extend(more);
        }
        Ok(orders)
    }

    /// At most `orders` orders, possibly none.
    ///
    /// # Errors
    /// When the learner does not answer.
    pub async fn lease(&self, orders: u32) -> anyhow::Result<Vec<LiarOrder>> {
        self.orders_of(self.learner.leases(orders).await?)
    }

    /// The orders of leases.
    ///
    /// # Errors
    /// When one is not signed by the learner.
    pub fn orders_of(&self, leases: Vec<Signed<Lease>>) -> anyhow::Result<Vec<LiarOrder>> {
        let mut leased = Vec::new();
        for signed in leases {
            let lease = signed.open_from(&self.learner_key())?;
            leased.extend(lease.orders().map(|counter| LiarOrder { lease: lease.id, counter }));
        }
        Ok(leased)
    }

    /// What an honest node might have made of an order under `version`: right answers in the first
    /// half of the group, empty ones in the other, each with the reward that it earns.
    ///
    /// # Errors
    /// When the task cannot judge, or the tokenizer cannot spell the answer.
    pub fn group(&self, order: LiarOrder, version: PolicyVersion) -> anyhow::Result<TrajectoryGroup> {
        self.group_with(order, version, "")
    }

    /// The same with another wrong answer than the empty one.
    ///
    /// # Errors
    /// When the task cannot judge, or the tokenizer cannot spell an answer.
    pub fn group_with(
        &self,
        order: LiarOrder,
        version: PolicyVersion,
        wrong: &str,
    ) -> anyhow::Result<TrajectoryGroup> {
        let work = self.workload.order(Purpose::Train, order.counter.0);
        let solution = self.workload.assignment(&work).solution();
        let samples = self.workload.charter.group_size;
        let trajectory = |sample| {
            let text = if sample < samples.div_ceil(2) { solution.as_str() } else { wrong };
            let mut response = self.workload.tokenizer.encode(text)?;
            response.push(self.workload.end());
            let verdict = self.workload.assignment(&work).reward(&Response { text, finished: true })?;
            Ok(Trajectory {
                turns: Vec::new(),
                logprobs: vec![LOGPROB; response.len()],
                versions: spans(response.iter().map(|_| version)),
                reward: verdict.reward,
                stopped: true,
                omega: verdict.metadata,
                response,
                raw_logprobs: Vec::new(),
            })
        };
        let trajectories = (0..samples).map(trajectory).collect::<anyhow::Result<_>>()?;
        Ok(TrajectoryGroup { trajectories, ..self.empty_group(order) })
    }

    /// A group of ours for `order`, without a trajectory.
    #[must_use]
    pub fn empty_group(&self, order: LiarOrder) -> TrajectoryGroup {
        TrajectoryGroup {
            run: self.workload.run,
            lease: order.lease,
            counter: order.counter,
            node: self.key.public(),
            trajectories: Vec::new(),
            precision: Default::default(),
            caches: Default::default(),
            recomputed: Vec::new(),
        }
    }

    /// Signs a group with our own key.
    ///
    /// # Errors
    /// When it is too long.
    pub fn sign(&self, group: &TrajectoryGroup) -> anyhow::Result<Vec<u8>> {
        Ok(Signed::sign(group, &self.key)?.to_bytes())
    }

    /// An honest group for `order` under the newest version, signed.
    ///
    /// # Errors
    /// Those of [`Liar::group`] and of heartbeats.
    pub async fn work(&self, order: LiarOrder) -> anyhow::Result<Vec<u8>> {
        let newest = self.learner.newest().await?;
        self.sign(&self.group(order, newest)?)
    }

    /// Sends one frame, again for as long as the learner asks for that, and returns what it says at last.
    ///
    /// # Errors
    /// When there is no answer within [`PATIENCE`].
    pub async fn send(&mut self, frame: &[u8]) -> anyhow::Result<Answer> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let answer = self.offer(frame).await?;
            if answer.outcome != Outcome::Retry {
                return Ok(answer);
            }
            ensure!(Instant::now() < deadline, "the learner never decides");
            sleep(PAUSE).await;
        }
    }

    /// Sends one frame once, and returns what the learner says.
    ///
    /// # Errors
    /// When there is no answer within [`PATIENCE`].
    pub async fn offer(&mut self, frame: &[u8]) -> anyhow::Result<Answer> {
        let stream = self.stream().await?;
        write_frame(stream, frame, MAX_FRAME_BYTES).await?;
        read_answer(stream).await
    }

    /// Announces a frame of `len` bytes, sends none of them, and returns what the learner says.
    ///
    /// # Errors
    /// When there is no answer within [`PATIENCE`], or the learner goes on reading the stream.
    pub async fn announce(&mut self, len: u32) -> anyhow::Result<Answer> {
        let stream = self.stream().await?;
        stream.write_all(&len.to_be_bytes()).await?;
        stream.flush().await?;
        let answer = read_answer(stream).await?;
        let end = timeout(PATIENCE, read_frame(stream, MAX_ANSWER_BYTES)).await?;
        ensure!(!matches!(end, Ok(Some(_))), "a second answer to one frame");
        self.stream = None;
        Ok(answer)
    }

    /// Gives the stream up that groups go out on: who was not answered cannot tell the next answer
    /// from the one that is missing.
    pub fn hang_up(&mut self) {
        self.stream = None;
    }

    pub(super) async fn stream(&mut self) -> anyhow::Result<&mut Stream> {
        if self.stream.is_none() {
            self.stream =
                Some(self.host.open_stream(self.learner.peer(), protocol_names::TRAJECTORIES).await?);
        }
        self.stream.as_mut().context("the stream was just opened")
    }
}

async fn read_answer(stream: &mut Stream) -> anyhow::Result<Answer> {
    let frame = timeout(PATIENCE, read_frame(stream, MAX_ANSWER_BYTES)).await.context("no answer")??;
    let frame = frame.context("the learner closed the stream without an answer")?;
    Ok(codec::decode(&frame, MAX_ANSWER_BYTES)?)
}
