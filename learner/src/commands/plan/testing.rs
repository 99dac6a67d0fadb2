//! What the tests of a plan are made from.

use super::forecast::{NodeClass, PlanInputs};
use echo_protocol::dissemination::DisseminationMode;
use echo_protocol::wire::rate::BytesPerSec;

/// 100 Mbit/s.
const LINK: BytesPerSec = BytesPerSec(12_500_000);

pub(super) fn class(name: &str, count: u64, price: f64, rate: f64) -> NodeClass {
    NodeClass { name: name.into(), count, price, rate, order_s: 0.0, up: LINK, down: LINK }
}

/// Up to so many rented nodes of a rollout and an order a second.
pub(super) fn rented(count: u64) -> Vec<NodeClass> {
    vec![NodeClass { order_s: 1.0, ..class("rented", count, 0.5, 1.0) }]
}

/// Updates of 10 s, R = 64; a version of 250 MB, which takes 20 s over a link, and 2 s as deltas.
pub(super) fn inputs(classes: Vec<NodeClass>) -> PlanInputs {
    PlanInputs {
        train_s: 10.0,
        batch: 64.0,
        updates: 360,
        period: None,
        gamma: 1.1,
        learner_price: 1.0,
        uplink: LINK,
        mode: DisseminationMode::Echo,
        full_bytes: 250e6,
        delta_bytes: 25e6,
        overhead: 1.0,
        install_s: 0.0,
        rollout_bytes: 1_000.0,
        classes,
    }
}
