//! A network in which liars, floods and a slow loris are at work all the time goes on, and is deaf
//! to every kind of lie.
//!
//! One network of real processes, with volunteers that work while the liars lie. It ends when every
//! kind of lie was told its reason.
//!
//! Other networks are attacked in one way each, as `cargo lab attack --kind` does for longer.
#![cfg(test)]

use echo_lab::attack::strangers::{self, AttackKind, StrangerAttack};
use echo_lab::attack::{Cast, FrameOutcome, Gang, Standings, Volunteers};
use echo_lab::harness::network::{TestNetwork, TestNodeConfig};
use echo_lab::harness::small_run;
use echo_lab::harness::small_run::until;
use echo_lab::output::console::Console;
use echo_learner::storage::run_dir::RunDir;
use echo_learner::telemetry::metrics;
use std::collections::BTreeSet;
use std::time::Duration;
use tokio::sync::Mutex;

/// More than are made before the test ends.
const UPDATES: u32 = 100_000;
const LIMIT: Duration = Duration::from_secs(150);
const GRACE: Duration = Duration::from_secs(20);
/// Few enough that all of a sleeper's groups are still looked at when it begins to lie.
const CAST: Cast = Cast {
    liars: 3,
    pace: Duration::from_millis(40),
    honest_first: 8,
    colluders: 2,
    floods: true,
    lorises: 1,
};

/// Tests start one network at a time: each has more processes than a small machine has cores.
static NETWORK: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_network_under_attack_learns_from_the_honest_only() {
    let _alone = NETWORK.lock().await;
    let dir = tempfile::tempdir().unwrap();
    let settings: [(&str, &str, toml::Value); 5] = [
        ("admission", "audit", true.into()),
        ("record", "suspend_after", 5.into()),
        // On one machine all members are in one network.
        ("verify", "owners", "key".into()),
        // An update takes long enough that a liar's work is fresh when it comes in, and orders that
        // liars let lie come back.
        ("train", "groups_per_update", 128.into()),
        ("fleet", "lease_s", 15.into()),
    ];
    let mut network = small_run::start_with(dir.path(), UPDATES, &settings).await.unwrap();
    let layout = network.layout().clone();
    let run = RunDir::new(&layout.run_dir());
    let nodes = TestNodeConfig::several(2);
    let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
    for mut node in nodes {
        let roles = ["rollout", "relay", "verifier"].map(|role| format!("--role={role}"));
        node.arguments.extend(roles);
        network.add_node(node).unwrap();
    }
    let gang = Gang::gather(&network, CAST);

    let answered = |gang: &Gang| {
        let account = gang.account();
        let colluded = account.collusion.denounced >= 3;
        let flooded = account.waits.mean_ms(true).is_some_and(|mean| mean > 0.0);
        (account.unanswered().is_empty() && flooded && account.held.streams > 0 && colluded).then_some(())
    };
    let accepted = |network: &TestNetwork, node| {
        network.node_status(node).and_then(|status| status["accepted"].as_u64()).unwrap_or(0)
    };
    // Liars may all have had their reasons before a volunteer has loaded its policy.
    let all = until(
        "a reason for every kind of lie, and work taken of every volunteer",
        LIMIT,
        &mut network,
        |network| answered(&gang).filter(|()| (0..names.len()).all(|node| accepted(network, node) > 0)),
    )
    .await;
    let account = gang.disband().await;
    let taken: Vec<u64> = (0..names.len()).map(|node| accepted(&network, node)).collect();
    if let Err(error) = all {
        // Without the backtrace that `Debug` would add: the lists matter more.
        panic!("{error}: unanswered {:?} of {:?}; taken {taken:?}", account.unanswered(), account.lies);
    }
    network.stop(GRACE).await.unwrap();

    assert_eq!(account.accepted(), 0, "{:?}", account.lies);
    assert!(
        account.honest.get(&FrameOutcome::Accepted).is_some_and(|accepted| *accepted > 0),
        "{:?}",
        account.honest
    );
    assert!(!account.honest.keys().any(|outcome| outcome.is_silenced()), "{:?}", account.honest);
    let standings = Standings::of(&run).unwrap();
    let volunteers = Volunteers::of(&layout, &names).unwrap();
    let mut honest: BTreeSet<_> = volunteers.keys;
    assert!(honest.insert(Gang::honest_key()));
    assert_eq!(standings.silenced(&honest), 0, "{:?}", volunteers.refused);
    assert!(standings.suspended.len() >= CAST.liars, "{standings:?}");
    assert!(standings.false_verdicts > 0, "{:?}", account.collusion);
    assert!(volunteers.checked > 0, "no volunteer was asked to verify");
    assert!(metrics::updates(&run.metrics()).unwrap().len() > 1, "the run stood still");
}

/// Claims that do not depend on how fast this machine is.
const SURE: [&str; 4] = [
    "nothing exits",
    "no honest member is suspended",
    "no log is filled",
    "the learner's memory stays below twice its honest peak",
];
/// Seconds that are measured twice. A newcomer has the second half to join in, and its ten seconds.
const PHASE: Duration = Duration::from_secs(24);
/// The same where nothing is asked of the newcomer.
const SHORT_PHASE: Duration = Duration::from_secs(16);

/// Attacks a network for so long, and looks at what is sure, and at this claim of the kind.
async fn withstands(kind: AttackKind, phase: Duration, own: Option<&str>) {
    let _alone = NETWORK.lock().await;
    let dir = tempfile::tempdir().unwrap();
    let attack = StrangerAttack { kind, phase, dir: dir.path().join("network"), build: true };
    let report = strangers::run(attack, &Console::new(true)).await.unwrap();
    let claims = report.json["claims"].as_array().unwrap();
    for sure in SURE.into_iter().chain(own) {
        let claim = claims.iter().find(|claim| claim["claim"] == sure).unwrap();
        assert_eq!(claim["holds"], true, "{sure}: {}", report.json);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn silent_sockets_keep_no_newcomer_out() {
    withstands(AttackKind::Silent, PHASE, Some("a newcomer joins within 10 s")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_address_that_was_only_claimed_is_dialled_by_nobody() {
    withstands(AttackKind::Addresses, PHASE, Some("nobody dials an address that was only claimed")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn noise_in_gossip_fills_no_log() {
    withstands(AttackKind::Gossip, PHASE, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_only_send_heartbeats_end_nothing() {
    withstands(AttackKind::Heartbeats, SHORT_PHASE, None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_that_drop_their_orders_have_none_given_up() {
    withstands(AttackKind::Droppers, SHORT_PHASE, Some("no order is given up")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn metadata_and_long_answers_take_little_memory() {
    withstands(AttackKind::Omega, SHORT_PHASE, None).await;
}
