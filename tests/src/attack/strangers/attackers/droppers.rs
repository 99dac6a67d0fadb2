//! Keys that take orders, and have each of them come to nothing.

use super::again;
use crate::attack::shared_state::{offer, secret};
use crate::attack::strangers::scene::Scene;
use crate::harness::liar::{Liar, LiarOrder};
use echo_protocol::control::requests::ControlRequest;
use echo_protocol::net::{Host, PeerId};
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::lease::{HeldOrder, ReturnReason, Returned};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::sleep;

/// In the secrets of these keys.
const PART: u8 = 0xb3;
/// Five for each way of dropping: eight leases without a delivery once gave an order up.
const KEYS: usize = 15;
/// Orders that are asked for at once.
const ORDERS: u32 = 8;
/// The pause between two questions.
const PACE: Duration = Duration::from_millis(250);
/// The longest wait for an answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// How a key drops its orders.
#[derive(Clone, Copy, Debug)]
enum Way {
    /// It never says anything about them.
    Keeps,
    /// It gives them back at once.
    GivesBack,
    /// It delivers groups that name a version that is too old.
    DeliversStale,
}

pub(super) fn spawn(scene: &Arc<Scene>, gang: &mut JoinSet<()>) {
    let ways = [Way::Keeps, Way::GivesBack, Way::DeliversStale].into_iter().cycle();
    for (number, way) in (0..KEYS).zip(ways) {
        gang.spawn(live(scene.clone(), number, way));
    }
}

async fn live(scene: Arc<Scene>, number: usize, way: Way) {
    loop {
        if let Err(error) = drop_orders(&scene, number, way).await {
            again(&scene, error).await;
        }
    }
}

async fn drop_orders(scene: &Scene, number: usize, way: Way) -> anyhow::Result<()> {
    let mut member = Liar::meet(&scene.way.address, secret(PART, number, 0)).await?;
    scene.tally.key(member.key().public());
    loop {
        // A heartbeat too, so that it counts as active.
        member.learner().newest().await?;
        let leases = member.learner().leases(ORDERS).await?;
        let orders = member.orders_of(leases)?;
        scene.tally.count("leased_orders", orders.len() as u64);
        match way {
            Way::Keeps => {}
            Way::GivesBack if orders.is_empty() => {}
            Way::GivesBack => give_back(member.host(), member.learner().peer(), &orders).await?,
            Way::DeliversStale => {
                for order in orders {
                    let frame = member.sign(&member.group(order, PolicyVersion(0))?)?;
                    let (outcome, _) = offer(&mut member, &frame).await;
                    scene.tally.lie(outcome);
                }
            }
        }
        sleep(PACE).await;
    }
}

async fn give_back(host: &Host, learner: PeerId, orders: &[LiarOrder]) -> anyhow::Result<()> {
    let held = |order: &LiarOrder| HeldOrder { lease: order.lease, counter: order.counter };
    let returned = Returned {
        orders: orders.iter().map(held).collect(),
        reason: ReturnReason::Undoable,
        detail: "not liked".to_owned(),
    };
    let request = ControlRequest::Return(returned).to_bytes()?;
    host.request(learner, request, ANSWER_WITHIN).await?;
    Ok(())
}
