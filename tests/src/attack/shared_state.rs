//! What all members of the lab's process share.

use super::account::{AttackAccount, FrameOutcome};
use super::snapshots::LoadedSnapshots;
use crate::harness::liar::Liar;
use echo_protocol::net::{AddrProtocol, Multiaddr};
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::submission::{Answer, RefuseReason};
use parking_lot::{Mutex, MutexGuard};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::error::Elapsed;
use tokio::time::timeout;

/// Who is not answered within this time counts as cut off.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// What members share: the way to the learner, the newest policy, and the account. What is behind the
/// locks is changed in single steps, so a panic elsewhere leaves it whole.
pub(super) struct SharedState {
    list: PathBuf,
    /// The newest policy, loaded once for all members.
    pub(super) snapshots: LoadedSnapshots,
    /// Where the learner is, once somebody has found it.
    learner: Mutex<Option<Multiaddr>>,
    account: Mutex<AttackAccount>,
    /// The newest frame of the honest member that was accepted.
    overheard: Mutex<Option<Vec<u8>>>,
    /// The keys of liars.
    friends: Mutex<BTreeSet<PublicKey>>,
    flooded: AtomicBool,
}

impl SharedState {
    /// Where the members of a run meet whose signed list is `list`.
    pub(super) fn new(list: PathBuf, snapshots: LoadedSnapshots) -> Self {
        let (learner, account, overheard) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (friends, flooded) = (Mutex::default(), AtomicBool::new(false));
        Self { list, snapshots, learner, account, overheard, friends, flooded }
    }

    /// Joins the run under this key: the way of the list and the DHT until somebody has found the
    /// learner, then straight. Heartbeats are the caller's:
    /// [`LearnerConnection::newest`](crate::harness::liar::LearnerConnection::newest) sends one.
    pub(super) async fn join(&self, secret: [u8; 32]) -> anyhow::Result<Liar> {
        let found = self.learner.lock().clone();
        if let Some(address) = found {
            return Liar::meet(&address, secret).await;
        }
        let member = Liar::join(&self.list, secret, false).await?;
        let learner = member.learner().peer();
        let known = member.host().known_addresses(learner).await;
        let address = known.into_iter().next().map(|address| address.with(AddrProtocol::P2p(learner)));
        *self.learner.lock() = address;
        Ok(member)
    }

    /// The account of the attack, locked until the guard is dropped.
    pub(super) fn account(&self) -> MutexGuard<'_, AttackAccount> {
        self.account.lock()
    }

    /// A frame that the learner has accepted from somebody else.
    pub(super) fn overheard(&self) -> Option<Vec<u8>> {
        self.overheard.lock().clone()
    }

    /// Lets the others hear an accepted frame.
    pub(super) fn overhear(&self, frame: Vec<u8>) {
        *self.overheard.lock() = Some(frame);
    }

    /// Tells those who collude whom to vouch for.
    pub(super) fn befriend(&self, liar: PublicKey) {
        self.friends.lock().insert(liar);
    }

    /// Whether this is a liar's key.
    pub(super) fn is_friend(&self, key: &PublicKey) -> bool {
        self.friends.lock().contains(key)
    }

    /// Says whether a flood is on.
    pub(super) fn flood(&self, on: bool) {
        self.flooded.store(on, Ordering::Relaxed);
    }

    /// Whether a flood is on.
    pub(super) fn is_flooded(&self) -> bool {
        self.flooded.load(Ordering::Relaxed)
    }
}

/// The key of one of the members: `part` is what it does, `number` which of several it is,
/// `identity` which of its keys.
pub(super) fn secret(part: u8, number: usize, identity: u64) -> [u8; 32] {
    let mut secret = [part; 32];
    secret[..8].copy_from_slice(&(number as u64).to_le_bytes());
    secret[8..16].copy_from_slice(&identity.to_le_bytes());
    secret
}

/// Sends a frame once. Also returns whether the answer leaves the order open: it does unless it
/// names it and settles it.
pub(super) async fn offer(member: &mut Liar, frame: &[u8]) -> (FrameOutcome, bool) {
    let answer = timeout(ANSWER_WITHIN, member.offer(frame)).await;
    answered(member, answer)
}

/// The same with the announcement of a frame that never comes.
pub(super) async fn announce(member: &mut Liar, len: u32) -> (FrameOutcome, bool) {
    let answer = timeout(ANSWER_WITHIN, member.announce(len)).await;
    answered(member, answer)
}

fn answered(member: &mut Liar, answer: Result<anyhow::Result<Answer>, Elapsed>) -> (FrameOutcome, bool) {
    match answer {
        Ok(Ok(answer)) => {
            let outcome = FrameOutcome::of(&answer.outcome);
            // Who is told that it has no such lease keeps those that it has.
            (outcome, answer.counter.is_none() || outcome == FrameOutcome::Refused(RefuseReason::Lease))
        }
        Ok(Err(_)) | Err(_) => {
            member.hang_up();
            (FrameOutcome::CutOff, true)
        }
    }
}
