//! `echo-lab attack --kind …`: one attack at a time by keys that cost nothing, on real processes.
//!
//! A bootstrap node, a learner and three nodes train a tiny policy. Each process may open 1,024
//! files, as on most systems. The same network is measured twice for equally long, first in peace
//! and then under attack. In the middle of each time, a newcomer joins and leaves again.
//!
//! Attackers are tasks of the lab's process. They speak Echo's protocol with keys of their own, and
//! come from another loopback address than honest members. Nodes have upload caps, so that the pace
//! of a run hangs on these and not on the processor, which attackers share.
//!
//! ```text
//! network ──► measure (peace) ──► attackers ──► measure (attack) ──► standings, logs
//!                 └───────────────── report ◄───────┴────── tally ◄──────┘
//! ```

mod attackers;
mod kind;
mod measure;
mod network;
mod report;
mod scene;
mod tally;
mod way;

pub use kind::AttackKind;

use crate::attack::snapshots::LoadedSnapshots;
use crate::attack::standing::Standings;
use crate::harness::binaries::Binaries;
use crate::harness::network::{NetworkLayout, TestNetwork};
use crate::harness::observation;
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, ensure};
use echo_learner::storage::run_dir::RunDir;
use echo_policy::generation::set_threads;
use echo_protocol::net::peer_id::peer_of_key;
use echo_protocol::program::keyfile;
use echo_protocol::wire::identity::PublicKey;
use measure::Phase;
use scene::Scene;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tally::Counts;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

/// The longest time that is measured, so that a course ends within four minutes.
pub const LONGEST_PHASE: Duration = Duration::from_secs(70);
/// A course ends within this time, whatever becomes of it.
const LIMIT: Duration = Duration::from_secs(230);
/// Attackers have joined within this time, before anything is measured.
const SETTLE: Duration = Duration::from_secs(3);
/// Sleepers have their record within this time.
const REST_LIMIT: Duration = Duration::from_secs(75);
/// Processes end by themselves within this time.
const GRACE: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// What the learner says of an order that brought nothing.
const GIVEN_UP: &str = "is given up";

/// What an attack is asked to be.
#[derive(Clone, Debug)]
pub struct StrangerAttack {
    /// What the attackers do.
    pub kind: AttackKind,
    /// How long is measured in peace, and again under attack; at most [`LONGEST_PHASE`].
    pub phase: Duration,
    /// Where everything is kept; must not hold anything yet.
    pub dir: PathBuf,
    /// Whether the programs are built first.
    pub build: bool,
}

/// What was seen of one network.
struct Course {
    peace: Phase,
    attack: Phase,
    counts: Counts,
    /// Honest members that were suspended or banned.
    honest_suspended: usize,
    /// Attackers that the learner has suspended or banned.
    suspended: usize,
    /// Attackers that a log of an honest member names.
    logged: usize,
    /// Whether the learner's log says that orders were given up.
    given_up: bool,
}

/// Attacks one network, and compares it with itself before.
///
/// # Errors
/// When the network does not come into being or fails in peace; what an attack breaks is a
/// [`CommandReport`] that has not passed.
pub async fn run(attack: StrangerAttack, console: &Console) -> anyhow::Result<CommandReport> {
    ensure!(attack.phase <= LONGEST_PHASE, "at most {} s can be measured", LONGEST_PHASE.as_secs());
    Binaries::get(attack.build, console).await?;
    if attack.kind == AttackKind::Sleepers {
        // They compute beside everybody else.
        set_threads(1)?;
    }
    network::raise_descriptors()?;
    console.say(format!("{}: {}", attack.kind.name(), attack.kind.about()));
    let begun = Instant::now();
    let course = timeout(LIMIT, course(&attack, console)).await;
    let course = course.with_context(|| format!("no result within {} s", LIMIT.as_secs()))??;
    let report = report::judge(attack.kind, &course, begun.elapsed());
    report::tell(console, &report);
    Ok(report)
}

async fn course(attack: &StrangerAttack, console: &Console) -> anyhow::Result<Course> {
    let kind = attack.kind;
    let mut network = network::start(kind, &attack.dir).await?;
    let layout = network.layout().clone();
    let nodes = network.node_names();
    network::begin(&mut network).await?;
    let scene = Arc::new(scene(&layout, &nodes).await?);
    let mut gang = JoinSet::new();
    if kind == AttackKind::Sleepers {
        attackers::spawn(kind, &scene, &mut gang);
    }
    console.say(format!("peace, {} s", attack.phase.as_secs()));
    let peace = measure::phase(&mut network, &nodes, attack.phase, "newcomer-1").await?;
    if let Some(failure) = &peace.failure {
        anyhow::bail!("the network fails before anybody attacks it: {failure}");
    }
    if kind == AttackKind::Sleepers {
        rest(&mut network, &scene).await?;
    } else {
        attackers::spawn(kind, &scene, &mut gang);
    }
    scene.awake.store(true, Ordering::Relaxed);
    sleep(SETTLE).await;
    console.say(format!("attack, {} s", attack.phase.as_secs()));
    let attacked = measure::phase(&mut network, &nodes, attack.phase, "newcomer-2").await?;
    gang.shutdown().await;
    network.stop(GRACE).await?;
    close(&layout, &scene, &nodes, peace, attacked)
}

async fn scene(layout: &NetworkLayout, nodes: &[String]) -> anyhow::Result<Scene> {
    let keys = keys(layout, nodes)?;
    Ok(Scene {
        way: way::Way::find(&layout.list()).await?,
        nodes: keys.iter().filter_map(peer_of_key).collect(),
        snapshots: LoadedSnapshots::new(&RunDir::new(&layout.run_dir())),
        tally: tally::Tally::default(),
        awake: false.into(),
    })
}

/// The keys of nodes, by their identity files.
fn keys(layout: &NetworkLayout, nodes: &[String]) -> anyhow::Result<BTreeSet<PublicKey>> {
    let key = |name: &String| keyfile::load_or_create(&layout.node_dir(name).join("identity"));
    nodes.iter().map(|name| Ok(key(name)?.public())).collect()
}

/// Waits until all sleepers have the record that they want.
async fn rest(network: &mut TestNetwork, scene: &Scene) -> anyhow::Result<()> {
    let begun = Instant::now();
    while !scene.tally.counts().are_rested() {
        network.check()?;
        let rested = scene.tally.counts().rested;
        ensure!(begun.elapsed() < REST_LIMIT, "sleepers have too few accepted groups: {rested:?}");
        sleep(LOOK_EVERY).await;
    }
    Ok(())
}

/// Looks at what a network has left behind that has ended.
fn close(
    layout: &NetworkLayout,
    scene: &Scene,
    nodes: &[String],
    peace: Phase,
    attack: Phase,
) -> anyhow::Result<Course> {
    let everybody = [nodes, &["newcomer-1".to_owned(), "newcomer-2".to_owned()][..]].concat();
    let honest = keys(layout, &everybody)?;
    let standings = Standings::of(&RunDir::new(&layout.run_dir()))?;
    let counts = scene.tally.counts();
    let logs: Vec<String> = ["learner", "bootstrap"]
        .into_iter()
        .chain(nodes.iter().map(String::as_str))
        .map(|who| observation::log(layout, who))
        .collect();
    let is_logged = |key: &&PublicKey| {
        let peer = peer_of_key(key).map(|peer| peer.to_string());
        logs.iter().any(|log| {
            log.contains(&key.short()) || peer.as_ref().is_some_and(|peer| log.contains(peer.as_str()))
        })
    };
    Ok(Course {
        honest_suspended: standings.silenced(&honest),
        suspended: standings.silenced(&counts.keys),
        logged: counts.keys.iter().filter(is_logged).count(),
        given_up: logs[0].contains(GIVEN_UP),
        peace,
        attack,
        counts,
    })
}
