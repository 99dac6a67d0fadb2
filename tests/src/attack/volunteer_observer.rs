//! Looks at honest volunteers while an attack goes on: how many of their groups were accepted,
//! and after what time.

use super::acceptance_times::Accepted;
use super::shared_state::SharedState;
use crate::harness::network::NetworkLayout;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::block_in_place;
use tokio::time::{MissedTickBehavior, interval};

/// The pause between two looks at what volunteers say of themselves, which they renew as often.
const EVERY: Duration = Duration::from_millis(500);

/// Looks at the volunteers with these names for as long as it lives.
pub(super) async fn live(shared: Arc<SharedState>, layout: NetworkLayout, names: Vec<String>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let accepted = block_in_place(|| accepted(&layout, &names));
        shared.account().waits.look(shared.is_flooded(), accepted);
    }
}

/// The accepted groups of all volunteers since their start.
fn accepted(layout: &NetworkLayout, names: &[String]) -> Accepted {
    let mut accepted = Accepted::default();
    for status in names.iter().filter_map(|name| layout.node_status(name)) {
        accepted.groups += status["accepted"].as_u64().unwrap_or(0);
        accepted.waited_s += status["waited_s"].as_f64().unwrap_or(0.0);
    }
    accepted
}
