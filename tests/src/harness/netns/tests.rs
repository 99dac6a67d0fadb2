use super::*;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const MBIT: u64 = 125_000;

/// Tests that need namespaces pass without doing anything where there are none.
fn usable() -> bool {
    match obstacle(true) {
        None => true,
        Some(obstacle) => {
            eprintln!("skipped: {obstacle}");
            false
        }
    }
}

#[test]
fn hosts_reach_each_other_through_their_caps_and_leave_nothing() {
    if !usable() {
        return;
    }
    let up = |mbit| HostLink { up: Some(BytesPerSec(mbit * MBIT)), ..HostLink::default() };
    let mut fabric = Fabric::create(&[up(80), up(40), HostLink::default()]).unwrap();
    let before = fabric.counters(0).unwrap();
    let copied = fabric.copy(0, &[1]).unwrap();
    // What is certain on any machine: a cap is not exceeded.
    assert!(copied.share.unwrap() < 1.02, "{copied:?}");
    let passed = fabric.counters(0).unwrap().since(before);
    assert!(passed.sent > 0 && passed.sent > passed.received, "{passed:?}");
    fabric.set_up(0, BytesPerSec(8 * MBIT)).unwrap();
    let slower = fabric.copy(0, &[1]).unwrap();
    assert!(slower.bytes_per_s < 9.0 * MBIT as f64, "{slower:?}");
    assert!(fabric.copy(2, &[0]).unwrap().share.is_none());

    let prefix = fabric.slot.prefix();
    assert!(ip("netns list").unwrap().contains(&prefix));
    drop(fabric);
    assert!(!ip("netns list").unwrap().lines().any(|line| line.starts_with(&prefix)));
}

#[test]
fn hosts_use_the_congestion_control_that_was_asked_for() {
    if !usable() {
        return;
    }
    let before = congestion();
    let fabric = Fabric::create(&[HostLink::default(); 2]).unwrap();
    // Every kernel has it.
    fabric.set_congestion("reno").unwrap();
    assert_eq!([0, 1].map(|host| fabric.enter(host, congestion).unwrap().unwrap()), ["reno"; 2]);
    let error = fabric.set_congestion("none-such").unwrap_err().to_string();
    assert!(error.contains("none-such") && error.contains("reno"), "{error}");
    assert_eq!(congestion(), before, "the machine's own setting was touched");
}

#[test]
fn behind_a_router_one_can_dial_but_not_be_dialled() {
    if !usable() {
        return;
    }
    let fabric =
        Fabric::create(&[HostLink::default(), HostLink { nat: true, ..HostLink::default() }]).unwrap();
    let port = SocketAddr::from((fabric.address(0), 4000));
    let listener = fabric.enter(0, || TcpListener::bind(port)).unwrap().unwrap();
    let dial = |from, to: SocketAddr| -> io::Result<TcpStream> {
        fabric.enter(from, || TcpStream::connect_timeout(&to, Duration::from_millis(500))).unwrap()
    };
    let dialled = dial(1, port).unwrap();
    let (_accepted, seen) = listener.accept().unwrap();
    assert_ne!(seen.ip(), dialled.local_addr().unwrap().ip(), "it was not masqueraded");
    let inner = SocketAddr::from((fabric.address(1), 4001));
    let _inside = fabric.enter(1, || TcpListener::bind(inner)).unwrap().unwrap();
    assert!(dial(0, inner).is_err());
    assert!(dial(0, SocketAddr::from((seen.ip(), 4001))).is_err());
}
