//! Members with a good record that then lie about single trajectories.

use super::again;
use crate::attack::account::FrameOutcome;
use crate::attack::honest_work::{Truth, undrawn, work};
use crate::attack::shared_state::{offer, secret};
use crate::attack::strangers::scene::Scene;
use crate::attack::strangers::tally::SLEEPERS;
use crate::harness::liar::Liar;
use echo_protocol::work::trajectory::TrajectoryGroup;
use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::{interval, sleep};

/// In the secrets of these keys.
const PART: u8 = 0xb7;
/// The time of one group: 700 take less than a minute.
const PACE: Duration = Duration::from_millis(60);
/// Orders that are asked for at once.
const ORDERS: u32 = 8;
/// The pause where the learner has no order.
const PAUSE: Duration = Duration::from_millis(100);

pub(super) fn spawn(scene: &Arc<Scene>, gang: &mut JoinSet<()>) {
    for number in 0..SLEEPERS {
        gang.spawn(live(scene.clone(), number));
    }
}

/// Works until the learner does not hear it any more.
async fn live(scene: Arc<Scene>, number: usize) {
    loop {
        match labour(&scene, number).await {
            // A new key would need another 700 groups.
            Ok(()) => return pending().await,
            Err(error) => again(&scene, error).await,
        }
    }
}

async fn labour(scene: &Scene, number: usize) -> anyhow::Result<()> {
    let mut member = Liar::meet(&scene.way.address, secret(PART, number, 0)).await?;
    scene.tally.key(member.key().public());
    let (mut pace, mut turn) = (interval(PACE), number);
    loop {
        let leases = member.learner().leases(ORDERS).await?;
        let orders = member.orders_of(leases)?;
        if orders.is_empty() {
            member.learner().newest().await?;
            sleep(PAUSE).await;
        }
        for order in orders {
            pace.tick().await;
            turn += 1;
            let policy = scene.snapshots.newest(member.learner(), member.workload()).await?;
            let truth = block_in_place(|| Truth::of(&member, order, policy))?;
            let lie = match scene.awake.load(Ordering::Relaxed) {
                true => block_in_place(|| lie(&member, &truth, turn))?,
                false => None,
            };
            let frame = member.sign(lie.as_ref().unwrap_or(&truth.group))?;
            let (outcome, _) = offer(&mut member, &frame).await;
            if lie.is_some() {
                scene.tally.lie(outcome);
            } else if outcome == FrameOutcome::Accepted {
                scene.tally.rest(number);
            }
            if outcome.is_silenced() {
                return Ok(());
            }
        }
    }
}

/// The truth, with the task's solution in the place of one response; none where that is the truth.
fn lie(member: &Liar, truth: &Truth, turn: usize) -> anyhow::Result<Option<TrajectoryGroup>> {
    let (workload, work) = (member.workload(), work(member, truth.order));
    let mut solution = workload.tokenizer.encode(&workload.assignment(&work).solution())?;
    solution.push(workload.end());
    let mut group = truth.group.clone();
    let at = turn % group.trajectories.len().max(1);
    if group.trajectories[at].response == solution {
        return Ok(None);
    }
    group.trajectories[at] = undrawn(member, &work, &truth.policy, solution, true)?;
    Ok(Some(group))
}
