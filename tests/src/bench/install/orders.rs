//! Thousands of orders through a node's own worker and outbox, with newer versions on the way, and
//! what memory becomes of it.

use super::run_dirs::Home;
use crate::bench::memory::ProcessMemory;
use crate::harness::statistics::median;
use anyhow::{Context as _, bail};
use echo_node::delivery::outbox::Outbox;
use echo_node::rollout::orders::{LeasedOrder, order_queue};
use echo_node::rollout::returns::returns;
use echo_node::rollout::worker::{MAX_IN_FLIGHT, RolloutWorker};
use echo_node::status::node_state::NodeState;
use echo_policy::model::config::{ModelConfig, TinySizes};
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::{DType, Weights};
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// G: responses to an order.
const GROUP_SIZE: u32 = 8;
/// Longest response, in tokens.
const MAX_NEW_TOKENS: u32 = 16;
/// Orders that wait, as many as may be in flight.
const WAITING: usize = MAX_IN_FLIGHT;
/// Orders between two looks at memory.
const LOOK_EVERY: u64 = 100;
/// Orders between two installations.
const INSTALL_EVERY: u64 = 500;
/// Without a group for so long, something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// Memory over the orders.
#[derive(Clone, Debug, Serialize)]
pub(super) struct MemoryCourse {
    /// Orders that were worked on.
    orders: u64,
    /// Versions that were installed on the way.
    versions: u64,
    /// MB after every hundred orders.
    memory: Vec<ProcessMemory>,
    /// Growth of the process's own memory over all of them, in MB per 1,000 orders.
    pub(super) slope_mb: f64,
    /// The median of its own memory over the first quarter of the orders, in MB.
    pub(super) first_mb: f64,
    /// The same over the last quarter.
    pub(super) last_mb: f64,
}

/// Works on `orders` orders in `dir`.
pub(super) fn work(dir: &Path, orders: u64) -> anyhow::Result<MemoryCourse> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
    let (memory, versions) = runtime.block_on(looks(dir, orders))?;
    let own: Vec<f64> = memory.iter().map(|memory| memory.own).collect();
    let quarter = own.len().div_ceil(4);
    Ok(MemoryCourse {
        orders,
        versions,
        slope_mb: slope(&own) * (1000 / LOOK_EVERY) as f64,
        first_mb: median(own.iter().take(quarter).copied()),
        last_mb: median(own.iter().rev().take(quarter).copied()),
        memory,
    })
}

/// The policy of the demo, as large as its alphabet wants it.
fn model() -> anyhow::Result<ModelConfig> {
    Ok(ModelConfig::tiny_qwen3(TinySizes {
        vocab: 64,
        hidden: 128,
        layers: 3,
        heads: 4,
        kv_heads: 2,
        head_dim: 32,
        intermediate: 384,
        positions: 64,
    })?)
}

/// Looks at memory as orders are done; and how many versions were installed.
async fn looks(dir: &Path, orders: u64) -> anyhow::Result<(Vec<ProcessMemory>, u64)> {
    let model = model()?;
    let home = Home::found(dir, &model, Precision::F32, GROUP_SIZE, MAX_NEW_TOKENS)?;
    let install = |version| {
        let weights = Weights::random(&model, version).to_dtype(DType::BF16);
        anyhow::Ok(Some(Arc::new(home.install(&home.publish(version, &weights)?)?)))
    };
    let (mut version, mut done, mut given) = (1, 0, 0);
    let (policy, installed) = watch::channel(install(version)?);
    let key = Arc::new(NodeKey::from_secret([2; 32]));
    let outbox = Outbox::open(&dir.join("outbox"), &home.run(), &key.public())?;
    let (mut stock, source) = order_queue(WAITING);
    let stop = CancellationToken::new();
    let worker = RolloutWorker {
        workload: home.workload.clone(),
        key,
        orders: source,
        in_flight: MAX_IN_FLIGHT,
        policy: installed,
        fallback: home.fallback.clone(),
        outbox: outbox.clone(),
        node_state: Arc::new(NodeState::default()),
        returns: returns().0,
        stop: stop.clone(),
    };
    let worker = worker.spawn().context("no thread for generating")?;
    let mut changes = outbox.changes();
    let mut memory = Vec::new();
    while done < orders {
        while given < orders && stock.add(leased(given)) {
            given += 1;
        }
        let news = async {
            tokio::select! {
                () = stock.taken() => {}
                _ = changes.changed() => {}
            }
        };
        if tokio::time::timeout(PATIENCE, news).await.is_err() {
            bail!("{done} of {orders} orders are done, and no other for {PATIENCE:?}");
        }
        // The learner takes everything.
        while let Some((counter, _)) = outbox.first(|_| false)? {
            outbox.settle(counter)?;
            done += 1;
            if done.is_multiple_of(LOOK_EVERY) || done == orders {
                memory.push(ProcessMemory::now()?);
            }
            if done.is_multiple_of(INSTALL_EVERY) {
                version += 1;
                policy.send_replace(install(version)?);
            }
        }
    }
    stop.cancel();
    worker.await.context("the worker panicked")??;
    Ok((memory, version))
}

/// An order that may be worked on for ever.
fn leased(counter: u64) -> LeasedOrder {
    LeasedOrder { lease: LeaseId(1), counter: OrderCounter(counter), deadline: UnixMillis(u64::MAX) }
}

/// By how much the figures rise from one to the next, by least squares.
fn slope(figures: &[f64]) -> f64 {
    let n = figures.len() as f64;
    let (middle, mean) = ((n - 1.0) / 2.0, figures.iter().sum::<f64>() / n);
    let places = || figures.iter().enumerate().map(|(at, figure)| (at as f64 - middle, figure - mean));
    let spread: f64 = places().map(|(x, _)| x * x).sum();
    if spread > 0.0 { places().map(|(x, y)| x * y).sum::<f64>() / spread } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_that_of_a_line() {
        assert_eq!(slope(&[3.0, 5.0, 7.0, 9.0]), 2.0);
        assert_eq!(slope(&[4.0]), 0.0);
        assert_eq!(slope(&[1.0, 2.0, 2.0, 1.0]), 0.0);
    }

    #[test]
    fn orders_are_worked_on_and_looked_at() {
        let dir = tempfile::tempdir().unwrap();
        let course = work(dir.path(), 200).unwrap();
        assert_eq!((course.orders, course.versions, course.memory.len()), (200, 1, 2));
        assert!(course.memory.iter().all(|memory| memory.own > 0.0 && memory.resident > memory.own));
    }
}
