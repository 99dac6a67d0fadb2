//! A small broadcast from end to end: in network namespaces where this user may make them, else on loopback.
#![cfg(test)]
#![cfg(unix)]

use echo_lab::broadcast::{self, Broadcast, RaceFaults, RaceMode, RaceSnapshots};
use echo_lab::harness::binaries::Binaries;
use echo_lab::harness::netns;
use echo_lab::output::console::Console;
use echo_protocol::wire::rate::BytesPerSec;

/// Four nodes, three megabytes, fast links.
fn small(modes: &[RaceMode]) -> Broadcast {
    Broadcast {
        nodes: 4,
        uplink: BytesPerSec(30_000_000),
        node_up: BytesPerSec(10_000_000),
        node_down: BytesPerSec(10_000_000),
        uneven: None,
        snapshots: RaceSnapshots::Random { bytes: 3 << 20, delta_from: None },
        modes: modes.to_vec(),
        repeat: 1,
        faults: RaceFaults::default(),
        rotten: 0,
        nat: 0,
        congestion: None,
        own_caps: false,
        seed: 1,
        dir: None,
        build: false,
        verbose: true,
    }
}

async fn run(broadcast: Broadcast) -> serde_json::Value {
    let console = Console::new(true);
    Binaries::fresh(&console).await.unwrap();
    let report = broadcast::run(broadcast, &console).await.unwrap();
    assert!(report.passed, "{:#}", report.json);
    report.json
}

#[tokio::test(flavor = "multi_thread")]
async fn every_node_ends_with_what_the_source_published() {
    let report = run(small(&[RaceMode::Echo, RaceMode::Chain])).await;
    let caps = if netns::obstacle(false).is_none() { "netns" } else { "process" };
    for race in report["races"].as_array().unwrap() {
        assert_eq!((&race["complete_nodes"], &race["living_nodes"]), (&4.into(), &4.into()), "{race:#}");
        assert_eq!((&race["rotten_installed"], &race["caps"]), (&0.into(), &caps.into()), "{race:#}");
        assert!(race["t_bcast_90_s"].as_f64() <= race["t_bcast_s"].as_f64());
        let received = race["per_node"][0]["received"].as_u64();
        assert!(received.is_none_or(|bytes| bytes > race["bytes"].as_u64().unwrap()), "{race:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_behind_a_router_take_part() {
    if let Some(obstacle) = netns::obstacle(true) {
        eprintln!("skipped: {obstacle}");
        return;
    }
    let report = run(Broadcast { nat: 2, congestion: Some("reno".into()), ..small(&[RaceMode::Echo]) }).await;
    assert_eq!(report["complete_nodes"], 4);
    assert_eq!((&report["per_node"][3]["nat"], &report["congestion"]), (&true.into(), &"reno".into()));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_living_end_complete_when_some_are_killed() {
    let faults = RaceFaults { churn: 0.5, ..RaceFaults::default() };
    let report = run(Broadcast { faults, ..small(&[RaceMode::Echo]) }).await;
    assert_eq!(report["living_nodes"], 3, "one of the two comes back: {report:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_programs_make_of_their_caps_is_told() {
    if let Some(obstacle) = netns::obstacle(false) {
        eprintln!("skipped: {obstacle}");
        return;
    }
    let snapshots = RaceSnapshots::Random { bytes: 12 << 20, delta_from: None };
    let rate = BytesPerSec(4_000_000);
    let caps = Broadcast {
        own_caps: true,
        uplink: rate,
        node_up: rate,
        node_down: rate,
        snapshots,
        ..small(&[RaceMode::Echo])
    };
    let report = run(caps).await;
    assert_eq!((&report["caps"], &report["tcp_copy"]), (&"process".into(), &serde_json::Value::Null));
    for way in ["up", "down"] {
        let share = report["busiest_second"][way].as_f64().unwrap();
        // Wide: what a cap is used for depends on the machine, and unlimited links carry a
        // hundred times as much.
        assert!((0.2..1.5).contains(&share), "{way}: {report:#}");
    }
}
