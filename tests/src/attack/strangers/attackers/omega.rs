//! Groups that cost the learner much: frames full of metadata (Ω), and answers that are long to judge.

use super::again;
use crate::attack::shared_state::{offer, secret};
use crate::attack::strangers::scene::Scene;
use crate::harness::liar::{Liar, LiarOrder};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::trajectory::{MetaValue, Omega, Trajectory, TrajectoryGroup, spans};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::{JoinSet, block_in_place};
use tokio::time::sleep;

/// In the secrets of these keys.
const PART: u8 = 0xb4;
/// Keys that send frames of metadata. Four took 2.2 GiB once.
const BOMBERS: usize = 4;
/// Members that take orders, and send long answers.
const TALKERS: usize = 2;
/// The pause between two groups of one key.
const PACE: Duration = Duration::from_millis(500);
/// Bytes of a frame, below the longest that the run takes.
const FRAME_BYTES: usize = 6_500_000;
/// Encoded bytes of an entry: six of its name, one of its value.
const ENTRY_BYTES: usize = 7;
/// Tokens of a long answer, within the run's longest.
const ANSWER_TOKENS: usize = 8000;

pub(super) fn spawn(scene: &Arc<Scene>, gang: &mut JoinSet<()>) {
    for number in 0..BOMBERS {
        gang.spawn(bomber(scene.clone(), number));
    }
    for number in BOMBERS..BOMBERS + TALKERS {
        gang.spawn(talker(scene.clone(), number));
    }
}

/// Sends the same frame again and again, also once it is suspended.
async fn bomber(scene: Arc<Scene>, number: usize) {
    loop {
        if let Err(error) = throw(&scene, number).await {
            again(&scene, error).await;
        }
    }
}

async fn throw(scene: &Scene, number: usize) -> anyhow::Result<()> {
    let mut member = join(scene, number, 0).await?;
    let frame = block_in_place(|| bomb(&member))?;
    loop {
        let (outcome, _) = offer(&mut member, &frame).await;
        scene.tally.lie(outcome);
        scene.tally.count("bombs", 1);
        sleep(PACE).await;
    }
}

/// A group without a lease whose metadata are all of the frame.
fn bomb(member: &Liar) -> anyhow::Result<Vec<u8>> {
    let size = member.workload().charter.group_size as usize;
    let entries = FRAME_BYTES / size / ENTRY_BYTES;
    let omega: Omega = (0..entries).map(|n| (format!("{n:05x}"), MetaValue::Flag(true))).collect();
    let trajectory = Trajectory {
        response: vec![member.workload().end()],
        turns: Vec::new(),
        logprobs: vec![-1.0],
        raw_logprobs: Vec::new(),
        versions: spans([PolicyVersion(0)]),
        reward: 0.0,
        stopped: true,
        omega,
    };
    let order = LiarOrder { lease: LeaseId(0), counter: OrderCounter(0) };
    let group = TrajectoryGroup { trajectories: vec![trajectory; size], ..member.empty_group(order) };
    member.sign(&group)
}

/// Begins anew with another key once it is not heard any more.
async fn talker(scene: Arc<Scene>, number: usize) {
    for identity in 0.. {
        if let Err(error) = talk(&scene, number, identity).await {
            again(&scene, error).await;
        }
    }
}

async fn talk(scene: &Scene, number: usize, identity: u64) -> anyhow::Result<()> {
    let mut member = join(scene, number, identity).await?;
    for answer in answers().iter().cycle() {
        let newest = member.learner().newest().await?;
        let leases = member.learner().leases(1).await?;
        let Some(order) = member.orders_of(leases)?.pop() else {
            sleep(PACE).await;
            continue;
        };
        let group = block_in_place(|| member.group_with(order, newest, answer))?;
        let frame = member.sign(&group)?;
        let (outcome, _) = offer(&mut member, &frame).await;
        scene.tally.lie(outcome);
        scene.tally.count("long_answers", 1);
        if outcome.is_unheard() {
            break;
        }
        sleep(PACE).await;
    }
    Ok(())
}

async fn join(scene: &Scene, number: usize, identity: u64) -> anyhow::Result<Liar> {
    let member = Liar::meet(&scene.way.address, secret(PART, number, identity)).await?;
    scene.tally.key(member.key().public());
    Ok(member)
}

/// A number of thousands of digits, a tower of powers, nested brackets, and a product of many factors.
fn answers() -> [String; 4] {
    let filled = |unit: &str| unit.repeat(ANSWER_TOKENS / unit.len());
    [filled("9"), format!("{}9", filled("9**")), filled("("), format!("{}9", filled("99999*"))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::wire::codec;

    #[test]
    fn an_entry_has_the_bytes_that_are_reckoned_with() {
        let omega = |entries: usize| -> Omega {
            (0..entries).map(|n| (format!("{n:05x}"), MetaValue::Flag(true))).collect()
        };
        let bytes = |entries| codec::encode(&omega(entries), 1 << 20).unwrap().len();
        assert_eq!(bytes(2000) - bytes(1000), 1000 * ENTRY_BYTES);
    }

    #[test]
    fn answers_are_within_the_longest() {
        assert!(answers().iter().all(|answer| answer.len() > 7000 && answer.len() <= ANSWER_TOKENS + 1));
    }
}
