//! `echo-lab attack`: the demo's task twice, among honest members and among liars.
//!
//! Bootstrap node, learner and volunteers are real processes, as in the [`demo`](crate::demo). In
//! the second course some members lie, at a steady pace, one [`LieKind`] of lie after the other. Most
//! lies are groups drawn from the newest policy under a lease of their own, with one false detail.
//! A liar that is refused for good comes back under a new key. One liar in three does honest work
//! first. Colluding verifiers vouch for liars, and some denounce others. On top of that come
//! floods, and peers that hold streams open and trickle bytes.
//!
//! All of these live in the lab's process. So does one honest member, in both courses, whose groups
//! the attackers may overhear. The volunteers themselves report how long their groups took. Both
//! courses are of one run: starting policy and prompts are the same.
//!
//! [`strangers`] attacks a network in one way at a time.
//!
//! May import `demo`, `harness`, `output` and `study::statistics`.
//!
//! ```text
//! founding ──► one run, copied ──► network ×2 (honest, attacked)
//! members ──► attackers, honest_member ── frames ──► learner ── answers ──► account
//! volunteer_observer ──► acceptance_times ──► account
//! account, standing, summary.json ──► verdict ──► CommandReport
//! ```

mod acceptance_times;
mod account;
mod attackers;
mod founding;
mod honest_member;
mod honest_work;
mod kind;
mod members;
mod shared_state;
mod snapshots;
mod standing;
pub mod strangers;
mod verdict;
mod volunteer_observer;

pub use acceptance_times::{FloodDelay, Waits};
pub use account::{AttackAccount, Collusion, FrameOutcome, Held};
pub use kind::LieKind;
pub use members::{Cast, Gang};
pub use standing::{Standings, Volunteers};

use crate::demo::{self, Demo, DemoFaults};
use crate::harness::binaries::Binaries;
use crate::harness::network::{TestNetwork, section};
use crate::output::console::{CommandReport, Console};
use anyhow::Context as _;
use echo_learner::storage::run_dir::RunDir;
use echo_learner::telemetry::summary::RunSummary;
use echo_policy::generation::set_threads;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use toml::Table;

/// The pause between two lies of one liar.
const PACE: Duration = Duration::from_millis(200);
/// Honest groups before the lies of who wants to look honest: more than a newcomer's groups are all
/// looked at closely for.
const HONEST_FIRST: u32 = 40;
/// Verifiers that collude with the liars: as many as an honest panel would have.
const COLLUDERS: usize = 3;
/// Volunteers that check the groups of others too.
const VERIFIERS: usize = 3;
/// Peers that hold streams open and trickle bytes into them.
const LORISES: usize = 2;
/// Held-out orders at the end: with as many, chance moves the difference of two accuracies by one hundredth.
const EVALUATION_ORDERS: i64 = 4096;

/// What an attack is asked to be.
#[derive(Clone, Debug)]
pub struct Attack {
    /// Members of either network.
    pub nodes: usize,
    /// Those that lie in the second.
    pub liars: usize,
    /// Updates of either course; 10 or more on the command line.
    pub updates: u64,
    /// Where everything is kept; must not hold anything yet.
    pub dir: PathBuf,
    /// Whether the programs are built first.
    pub build: bool,
}

/// How one network fared.
struct Course {
    summary: RunSummary,
    account: AttackAccount,
    standings: Standings,
    volunteers: Volunteers,
    wall_s: f64,
}

/// Runs both networks to their end and compares them.
///
/// # Errors
/// When something cannot be started or ends before its time; an attack that costs too much is a
/// [`CommandReport`] that has not passed.
pub async fn run(attack: Attack, console: &Console) -> anyhow::Result<CommandReport> {
    Binaries::get(attack.build, console).await?;
    // Members of the lab's process compute beside everybody else.
    set_threads(1)?;
    let Attack { nodes, liars, updates, .. } = attack;
    console.say(format!("first {nodes} honest volunteers, then {} and {liars} liars", nodes - liars));
    console.say("one run for both, with a short supervised warm-up");
    let settings = settings(updates)?;
    let [calm, disturbed] = ["honest", "attacked"].map(|name| attack.dir.join(name));
    tokio::task::block_in_place(|| founding::found(&settings, &calm, &disturbed))?;
    let honest = course(&attack, &settings, "honest", nodes, Cast::HONEST, console).await?;
    let cast = Cast {
        liars,
        pace: PACE,
        honest_first: HONEST_FIRST,
        colluders: COLLUDERS,
        floods: true,
        lorises: LORISES,
    };
    let attacked = course(&attack, &settings, "attacked", nodes - liars, cast, console).await?;
    let report = verdict::judge(updates, &honest, &attacked);
    verdict::tell(console, &report);
    Ok(report)
}

/// The settings of either learner.
fn settings(updates: u64) -> anyhow::Result<Table> {
    let mut settings = demo::settings(updates)?;
    // Only the end is compared.
    let evaluation = section(&mut settings, "evaluation")?;
    evaluation.insert("orders".into(), EVALUATION_ORDERS.into());
    evaluation.insert("every".into(), 0.into());
    // On one machine all members are in one network.
    section(&mut settings, "verify")?.insert("owners".into(), "key".into());
    Ok(settings)
}

async fn course(
    attack: &Attack,
    settings: &Table,
    name: &str,
    volunteers: usize,
    cast: Cast,
    console: &Console,
) -> anyhow::Result<Course> {
    let demo = Demo {
        nodes: volunteers,
        updates: attack.updates,
        dir: attack.dir.join(name),
        faults: DemoFaults::default(),
        build: attack.build,
    };
    let mut config = demo::network(&demo)?;
    config.learner.settings.clone_from(settings);
    for volunteer in config.nodes.iter_mut().take(VERIFIERS) {
        let roles = ["rollout", "relay", "verifier"].map(|role| format!("--role={role}"));
        volunteer.arguments.extend(roles);
    }
    console.say(format!("{name}: {}", demo.dir.display()));
    let started = Instant::now();
    let network = TestNetwork::start(config).await?;
    let layout = network.layout().clone();
    let names = network.node_names();
    let gang = Gang::gather(&network, cast);
    let (summary, _) = demo::drive(&demo, network, console).await?;
    let account = gang.disband().await;
    let wall_s = started.elapsed().as_secs_f64();
    let standings = Standings::of(&RunDir::new(&layout.run_dir()))?;
    let volunteers = Volunteers::of(&layout, &names)?;
    let accuracy = summary.accuracy_after.context("no held-out order could be judged")?;
    console.say(format!("{name}: accuracy {accuracy:.3} after {wall_s:.0} s"));
    Ok(Course { summary, account, standings, volunteers, wall_s })
}

impl Course {
    /// Honest members that were suspended or banned.
    fn honest_silenced(&self) -> usize {
        let mut honest = self.volunteers.keys.clone();
        honest.insert(Gang::honest_key());
        self.standings.silenced(&honest)
    }
}
