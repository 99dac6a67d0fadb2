//! One of the liars.

use crate::attack::account::FrameOutcome;
use crate::attack::attackers::lie::{Lie, Means};
use crate::attack::honest_work::Truth;
use crate::attack::kind::LieKind;
use crate::attack::shared_state::{SharedState, announce, offer, secret};
use crate::harness::liar::Liar;
use echo_protocol::wire::identity::NodeKey;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::block_in_place;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval, sleep};

/// In the secrets of liars.
const PART: u8 = 0xa1;
/// In the secret of whom they pretend to be.
const VICTIM: u8 = 0xa2;
/// Lies under one key that are not heard, after which a liar comes back under another.
const UNHEARD: u32 = 5;
/// The pause before it does.
const PAUSE: Duration = Duration::from_millis(250);
/// Turns without an order after which it lies about the last one that it had.
const DRY: u32 = 10;
/// An order is left to its lease's end after this time, so that no lie is refused for its age
/// instead of what is false about it.
const HOLD: Duration = Duration::from_secs(5);
/// One of so many liars delivers honest work first.
const SLEEPER: usize = 3;

/// Lies for as long as it lives, one kind after the other, and begins anew with a key that nobody
/// knows once its own is not heard any more.
pub(crate) struct Impostor {
    pub(crate) shared: Arc<SharedState>,
    /// Which of the liars.
    pub(crate) number: usize,
    /// The pause between two lies.
    pub(crate) pace: Duration,
    /// Honest groups that a sleeper delivers under each key before it lies.
    pub(crate) honest_first: u32,
}

impl Impostor {
    pub(crate) async fn live(self) {
        // Each begins with another kind.
        let mut kinds = LieKind::ALL;
        kinds.rotate_left(self.number * LieKind::ALL.len() / SLEEPER % LieKind::ALL.len());
        for identity in 0.. {
            if let Err(error) = self.lie(secret(PART, self.number, identity), &mut kinds).await {
                tracing::debug!(liar = self.number, %error, "a liar begins anew");
            }
            sleep(PAUSE).await;
        }
    }

    /// Lies under one key until it is not heard any more. The next key begins with the kind that was
    /// not heard: if every kind had its turn alike, some would always fall to keys that are suspended.
    async fn lie(&self, secret: [u8; 32], kinds: &mut [LieKind]) -> anyhow::Result<()> {
        let liar = self.shared.join(secret).await?;
        self.shared.befriend(liar.key().public());
        *self.shared.account().identities.entry(self.number).or_default() += 1;
        let mut pace = interval(self.pace);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut mask = Mask::new(&self.shared, liar);
        if self.number % SLEEPER == SLEEPER - 1 {
            mask.behave(self.honest_first, &mut pace).await?;
        }
        let mut unheard = 0;
        while unheard < UNHEARD {
            pace.tick().await;
            let kind = kinds[0];
            let outcome = mask.tell(kind).await?;
            if let Some(outcome) = outcome {
                self.shared.account().lie(kind, outcome);
                unheard += u32::from(outcome.is_unheard());
            }
            if !outcome.is_some_and(FrameOutcome::is_silenced) {
                kinds.rotate_left(1);
            }
        }
        mask.liar.host().shutdown().await;
        Ok(())
    }
}

/// One key of a liar.
struct Mask<'a> {
    shared: &'a SharedState,
    liar: Liar,
    victim: NodeKey,
    /// The order that it holds, since when, and its honest work on it.
    truth: Option<(Instant, Truth)>,
    /// Whether that order is settled, and no longer its own.
    spent: bool,
    /// Turns in a row in which the learner leased it nothing.
    dry: u32,
    /// A group of its own that was accepted.
    accepted: Option<Vec<u8>>,
}

impl<'a> Mask<'a> {
    fn new(shared: &'a SharedState, liar: Liar) -> Self {
        let victim = NodeKey::from_secret(secret(VICTIM, 0, 0));
        Self { shared, liar, victim, truth: None, spent: true, dry: 0, accepted: None }
    }

    /// Works honestly until `groups` groups were accepted.
    async fn behave(&mut self, groups: u32, pace: &mut Interval) -> anyhow::Result<()> {
        let mut accepted = 0;
        while accepted < groups {
            pace.tick().await;
            let outcome = self.deliver().await?;
            accepted += u32::from(outcome == Some(FrameOutcome::Accepted));
            if outcome.is_some_and(FrameOutcome::is_unheard) {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Delivers one honest group; none when there is no order.
    async fn deliver(&mut self) -> anyhow::Result<Option<FrameOutcome>> {
        if !self.work().await? {
            return Ok(None);
        }
        let Some((_, truth)) = &self.truth else { return Ok(None) };
        let frame = self.liar.sign(&truth.group)?;
        let (outcome, open) = offer(&mut self.liar, &frame).await;
        self.spent = !open;
        *self.shared.account().feigned.entry(outcome).or_default() += 1;
        if outcome == FrameOutcome::Accepted {
            self.accepted = Some(frame);
        }
        Ok(Some(outcome))
    }

    /// Tells one lie of this kind, if it can.
    async fn tell(&mut self, kind: LieKind) -> anyhow::Result<Option<FrameOutcome>> {
        if kind == LieKind::Replay && self.accepted.is_none() && self.deliver().await.is_err() {
            return Ok(None);
        }
        match self.work().await {
            Ok(true) => self.dry = 0,
            Ok(false) if self.dry < DRY => {
                self.dry += 1;
                return Ok(None);
            }
            Err(error) if self.truth.is_none() => return Err(error),
            // Who is suspended gets no order. It lies about the last that it had, and will hear.
            Ok(false) | Err(_) => {}
        }
        let Some(lie) = block_in_place(|| self.make(kind))? else { return Ok(None) };
        let (outcome, open) = match lie {
            Lie::Frame(frame) => offer(&mut self.liar, &frame).await,
            Lie::Announcement(len) => announce(&mut self.liar, len).await,
        };
        // These are about another order than the one that it holds.
        let elsewhere = matches!(kind, LieKind::Replay | LieKind::Stolen | LieKind::PoachedOrder);
        self.spent |= !(open || elsewhere);
        Ok(Some(outcome))
    }

    fn make(&self, kind: LieKind) -> anyhow::Result<Option<Lie>> {
        let Some((_, truth)) = &self.truth else { return Ok(None) };
        let means = Means {
            liar: &self.liar,
            truth,
            accepted: self.accepted.as_deref(),
            overheard: self.shared.overheard(),
            victim: &self.victim,
        };
        means.lie(kind)
    }

    /// Makes sure that there is an order with honest work under the newest policy. False when the
    /// learner leases none now.
    async fn work(&mut self) -> anyhow::Result<bool> {
        let policy = self.shared.snapshots.newest(self.liar.learner(), self.liar.workload()).await?;
        let held = self.truth.as_ref().filter(|(since, _)| !self.spent && since.elapsed() < HOLD);
        let held = held.map(|(since, truth)| (*since, truth.order, truth.policy.version()));
        if held.is_some_and(|(_, _, version)| version == policy.version()) {
            return Ok(true);
        }
        let order = match held {
            Some((since, order, _)) => Some((since, order)),
            None => {
                let leases = self.liar.learner().leases(1).await?;
                self.liar.orders_of(leases)?.pop().map(|order| (Instant::now(), order))
            }
        };
        let Some((since, order)) = order else { return Ok(false) };
        let truth = block_in_place(|| Truth::of(&self.liar, order, policy))?;
        (self.truth, self.spent) = (Some((since, truth)), false);
        Ok(true)
    }
}
