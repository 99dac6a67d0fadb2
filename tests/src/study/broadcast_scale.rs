//! Figure 4 of ECHO-2: how long a broadcast takes by the number of workers, from a star and in chains.
//!
//! Links are fluids: nothing is lost, and latency does not count. The learner's code builds the chains.

use super::fleet::bound_ms;
use super::simulated::{claim, picture, report};
use super::simulated_chart::{Axis, Line, draw};
use crate::output::console::{CommandReport, Console};
use clap::Args;
use echo_learner::fleet::chains::chain_count;
use echo_protocol::snapshot::blocks::BLOCK_BYTES;
use echo_protocol::wire::rate::BytesPerSec;
use serde_json::json;
use std::path::PathBuf;

/// B0 of the figure, in Mbit/s.
const UPLINKS: [u64; 4] = [300, 600, 700, 800];
/// B_w of the figure, up and down, in Mbit/s.
const WORKER: u64 = 100;
/// A snapshot of Qwen3-8B in bf16: 8.19 billion parameters. The paper does not name its bytes.
pub(super) const BYTES: u64 = 16_380_000_000;
/// q = 1/γ: the share of the workers that have it.
const SHARE: f64 = 1.0 / 1.1;
/// Fleets.
const NODES: [usize; 13] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 1_000, 2_500, 5_000, 10_000];

/// Where the study of broadcasts by fleet size leaves its picture.
#[derive(Args, Clone, Debug)]
pub struct ScaleStudy {
    /// Where the picture goes.
    #[arg(long, value_name = "DIR", default_value = "runs/studies")]
    pub out: PathBuf,
}

/// Works out every strategy for every fleet. Passes when every claim holds.
///
/// # Errors
/// When the picture cannot be drawn.
pub fn run(study: &ScaleStudy, console: &Console) -> anyhow::Result<CommandReport> {
    let unlimited = mean_seconds(rate(WORKER));
    let line = |name: String, seconds: &dyn Fn(usize) -> f64| Line {
        name,
        points: NODES.iter().map(|nodes| (*nodes as f64, seconds(*nodes))).collect(),
    };
    let mut lines = vec![line("star, unlimited".to_owned(), &|_| unlimited)];
    for uplink in UPLINKS {
        lines.push(line(format!("star, {uplink} Mbit/s"), &|nodes| star_s(uplink, nodes)));
    }
    for uplink in UPLINKS {
        lines.push(line(format!("chains, {uplink} Mbit/s"), &|nodes| chains_s(uplink, nodes)));
    }
    let axes = Axis { x: "workers", y: "seconds", is_logarithmic: true };
    draw(
        &picture(&study.out, "broadcast-scale.png")?,
        "T_bcast by the number of workers (fluid)",
        &axes,
        &lines,
        &[],
    )?;
    let most = NODES[NODES.len() - 1];
    let rows = lines
        .iter()
        .map(|line| {
            let points: Vec<_> = line
                .points
                .iter()
                .map(|(nodes, seconds)| json!({"nodes": nodes, "seconds": seconds}))
                .collect();
            console.say(format!(
                "{}: {:.0} s to {most} workers",
                line.name,
                line.points[line.points.len() - 1].1
            ));
            json!({"strategy": line.name, "points": points})
        })
        .collect();
    let all = || UPLINKS.into_iter().flat_map(|uplink| NODES.map(|nodes| (uplink, nodes)));
    let largest = all().map(|(uplink, nodes)| chains_s(uplink, nodes) / unlimited).fold(0.0, f64::max);
    let smallest =
        UPLINKS.map(|uplink| star_s(uplink, most) / unlimited).into_iter().fold(f64::INFINITY, f64::min);
    let bound = |uplink: u64, nodes: usize| {
        bound_ms(BYTES, rate(uplink), (0..nodes).map(|_| rate(WORKER))) / 1e3 * SHARE
    };
    let claims = vec![
        claim(
            "chains take at most 1.5 times as long as a star without a limit, to any number of workers",
            largest <= 1.5,
            json!({"largest": largest}),
        ),
        claim(
            "a star with a limit takes at least ten times as long to the most workers",
            smallest >= 10.0,
            json!({"smallest": smallest}),
        ),
        claim(
            "no chain is faster than the fluid bound of the share that has it",
            all().all(|(uplink, nodes)| chains_s(uplink, nodes) >= bound(uplink, nodes) * (1.0 - 1e-9)),
            json!({"share": SHARE}),
        ),
    ];
    Ok(report("broadcast-scale", rows, claims, console))
}

fn rate(megabits: u64) -> BytesPerSec {
    BytesPerSec(megabits * 125_000)
}

fn mean_seconds(rate: BytesPerSec) -> f64 {
    BYTES as f64 / rate.0 as f64
}

/// Everybody receives at once, from the source alone: all have it at the same time.
fn star_s(uplink: u64, nodes: usize) -> f64 {
    let each = (rate(uplink).0 as f64 / nodes as f64).min(rate(WORKER).0 as f64);
    BYTES as f64 / each
}

/// Each chain runs at a worker's rate; a worker is a block later than the one before it.
fn chains_s(uplink: u64, nodes: usize) -> f64 {
    let chains = chain_count(rate(uplink), rate(WORKER)).min(nodes);
    let needed = (SHARE * nodes as f64).ceil() as usize;
    // The last of those that are needed: chains are filled in turn.
    let depth = needed.saturating_sub(1) / chains;
    let block_s = BLOCK_BYTES as f64 / rate(WORKER).0 as f64;
    mean_seconds(rate(WORKER)) + depth as f64 * block_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_grows_with_its_workers_and_chains_hardly_do() {
        assert!((star_s(300, 3) - star_s(300, 1)).abs() < 1e-6, "three workers take all of the uplink");
        assert!((star_s(300, 30) / star_s(300, 3) - 10.0).abs() < 1e-6);
        assert!(chains_s(300, 10_000) < 1.5 * chains_s(300, 1));
        // 9,091 workers in three chains: 3,030 hops of 65,536 bytes.
        let hops = (chains_s(300, 10_000) - mean_seconds(rate(WORKER))) / (65_536.0 / 12_500_000.0);
        assert!((hops - 3_030.0).abs() < 1e-3, "{hops}");
    }

    #[test]
    fn the_claims_hold_and_the_picture_is_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let study = ScaleStudy { out: dir.path().to_owned() };
        let found = run(&study, &Console::new(true)).unwrap();
        assert!(found.passed, "{}", found.json);
        assert!(dir.path().join("broadcast-scale.png").exists());
    }
}
