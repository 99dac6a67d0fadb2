//! Simulated fleets: the learner's own machines among nodes that a seed draws, in virtual time.
//!
//! Leases, work-ahead with its controller, staleness, buffer and record are the learner's, over a store
//! in memory that dies with it ([`Coordinator`]). So are chains, mesh and capacity, which says who works.
//! Speeds, order times, links, prices, words of nodes, departures, S and κ are drawn. Versions spread by
//! the fluid bound and by each node's place and link. In some small fleets the state machine of
//! dissemination says how much longer than that bound it takes. Every rule is checked at every step:
//!
//! - Nothing is trained on that is more than S updates old, was not acknowledged, or was trained on before.
//! - Nothing that was acknowledged is lost, also where the learner is killed in the midst of a write.
//! - Every order is accepted, open in the lease book, or was given up.
//! - No node gets more orders than it asked for, or holds more than a node may.
//! - Every node stands in one chain, and links of chains and mesh have two ends.
//! - Who stands by or rests gets no orders. Faults are mended at once, nobody changes twice within a period,
//!   and what is too dear does not stay.
//!
//! In the scenes of studies without prices all nodes work that are there.
//!
//! [`Coordinator`]: echo_learner::intake::coordinator::Coordinator
//!
//! ```text
//! scene, market (drawn, or a study's) ──► world ──► agenda: what happens when, digest
//!                                   ├─ intake      the learner's, over a store in memory
//!                                   ├─ roster      capacity, and what has to hold of roles
//!                                   ├─ topology    chains and mesh
//!                                   └─ account     what has to hold ──► course
//! ```

mod account;
mod agenda;
mod chance;
mod intake;
mod market;
mod node;
mod roster;
mod rule;
mod scene;
mod topology;
mod world;

pub(super) use intake::workload;
pub(super) use node::SceneNode;
pub(super) use scene::{Change, ChangeKind, End, Scene, Spread, bound_ms};
pub(super) use world::{Course, course};

use super::worker_pool;
use crate::output::console::{CommandReport, Console};
use anyhow::ensure;
use clap::Args;
use clap::builder::RangedU64ValueParser;
use echo_learner::common::workload::Workload;
use roster::RoleTally;
use rule::Rule;
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Broken seeds that are named.
const NAMED: usize = 20;
/// Progress is said so often.
const SAYINGS: u64 = 20;
/// Longest span that is simulated, in hours: a year.
const MAX_HOURS: f64 = 8_760.0;

/// Which fleets are simulated.
#[derive(Args, Clone, Debug)]
pub struct FleetSimulation {
    /// Nodes of each fleet.
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = RangedU64ValueParser::<usize>::new().range(1..=100_000))]
    pub nodes: usize,
    /// How many seeds; each draws another fleet.
    #[arg(long, value_name = "K", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    pub seeds: u64,
    /// The first seed: that of a fleet which broke a rule, to see it again.
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    pub seed: u64,
    /// Simulated hours of each fleet; left out, a few updates.
    #[arg(long, value_name = "H")]
    pub hours: Option<f64>,
    /// Simulate each twice, and compare all that happened.
    #[arg(long)]
    pub replay: bool,
}

/// What came of a seed: its course, or the rule that was broken.
struct Outcome {
    seed: u64,
    course: Result<Course, Broken>,
    seconds: f64,
}

/// A rule that was broken, and how.
#[derive(Clone, Debug, PartialEq)]
struct Broken {
    rule: Rule,
    text: String,
}

/// Simulates on every core. Passes when no rule was broken and every replay was the same.
///
/// # Errors
/// When the options contradict each other, or the simulated run cannot be founded.
pub fn run(simulation: &FleetSimulation, console: &Console) -> anyhow::Result<CommandReport> {
    if let Some(hours) = simulation.hours {
        ensure!(
            hours > 0.0 && hours <= MAX_HOURS,
            "--hours {hours}: choose more than 0 and at most {MAX_HOURS}"
        );
    }
    let (begun, workload, done) = (Instant::now(), workload()?, AtomicU64::new(0));
    let seeds: Vec<u64> = (0..simulation.seeds).map(|n| simulation.seed.wrapping_add(n)).collect();
    let outcomes = worker_pool::share(&seeds, |&seed| {
        let outcome = simulate(simulation, seed, &workload);
        let count = done.fetch_add(1, Ordering::Relaxed) + 1;
        if count.is_multiple_of(simulation.seeds.div_ceil(SAYINGS)) {
            console.say(format!("{count} of {} seeds", simulation.seeds));
        }
        Ok(outcome)
    })?;
    Ok(report(simulation, &outcomes, begun.elapsed().as_secs_f64(), console))
}

fn simulate(simulation: &FleetSimulation, seed: u64, workload: &Arc<Workload>) -> Outcome {
    let begun = Instant::now();
    let once = || {
        let scene = Scene::drawn(seed, simulation.nodes, simulation.hours)
            .map_err(|text| Broken { rule: Rule::Broadcasts, text })?;
        course(scene, workload).map_err(|error| Broken { rule: Rule::of(&error), text: format!("{error:#}") })
    };
    let mut found = once();
    if simulation.replay && found != once() {
        let text = "a second run of this seed went another way".to_owned();
        found = Err(Broken { rule: Rule::Replay, text });
    }
    Outcome { seed, course: found, seconds: begun.elapsed().as_secs_f64() }
}

fn report(
    simulation: &FleetSimulation,
    outcomes: &[Outcome],
    seconds: f64,
    console: &Console,
) -> CommandReport {
    let broken: Vec<(u64, &Broken)> =
        outcomes.iter().filter_map(|found| Some((found.seed, found.course.as_ref().err()?))).collect();
    for (seed, Broken { text, .. }) in broken.iter().take(NAMED) {
        console.say(format!("seed {seed}: {text}"));
    }
    let courses: Vec<&Course> = outcomes.iter().filter_map(|found| found.course.as_ref().ok()).collect();
    let sum = |figure: fn(&Course) -> u64| courses.iter().map(|course| figure(course)).sum::<u64>();
    let (trained, events) = (sum(|course| course.trained), sum(|course| course.events));
    let updates = sum(|course| course.periods.len() as u64);
    let bubble = courses.iter().map(|course| course.bubble(1)).sum::<f64>() / courses.len().max(1) as f64;
    let slowest = outcomes.iter().map(|found| found.seconds).fold(0.0, f64::max);
    let digest = courses.iter().fold(0_u64, |all, course| all.rotate_left(1) ^ course.digest);
    console.say(format!(
        "{} fleets of {} nodes, {} broken; {updates} updates, {trained} groups, {events} events, {seconds:.1} s",
        outcomes.len(),
        simulation.nodes,
        broken.len()
    ));
    let first: Vec<Value> = broken.iter().take(NAMED).map(|(seed, found)| named(*seed, found)).collect();
    let passed = broken.is_empty();
    let violations: Map<String, Value> = Rule::ALL
        .into_iter()
        .map(|rule| {
            let count = broken.iter().filter(|(_, found)| found.rule == rule).count();
            (rule.name().to_owned(), json!(count))
        })
        .collect();
    let claims = [json!({
        "claim": "every simulated fleet keeps every rule", "holds": passed,
        "figures": {"fleets": outcomes.len(), "broken": broken.len()},
    })];
    let json = json!({
        "passed": passed, "nodes": simulation.nodes, "seeds": simulation.seeds, "first": simulation.seed,
        "hours": simulation.hours, "replayed": simulation.replay, "broken": first, "violations": violations,
        "updates": updates, "groups": trained,
        "lag": sum(|course| course.lags) as f64 / trained.max(1) as f64, "bubble": bubble,
        "stale": sum(|course| course.stale), "leased_again": sum(|course| course.again),
        "too_slow_answers": sum(|course| course.too_slow), "departures": sum(|course| course.departures),
        "crashes": sum(|course| course.crashes),
        "dollars": courses.iter().map(|course| course.dollars).sum::<f64>(), "roles": roles(&courses),
        "simulated_hours": sum(|course| course.millis) as f64 / scene::HOUR_MS as f64,
        "events": events, "digest": format!("{digest:016x}"), "seconds": seconds, "slowest_s": slowest,
        "claims": claims,
    });
    CommandReport { passed, json }
}

fn named(seed: u64, found: &Broken) -> Value {
    let Broken { rule, text } = found;
    json!({"seed": seed, "rule": rule.name(), "text": text})
}

/// What came of choosing who works, over all fleets.
fn roles(courses: &[&Course]) -> Value {
    let sum = |figure: fn(&RoleTally) -> u64| courses.iter().map(|c| figure(&c.roles)).sum::<u64>();
    let dollars = |figure: fn(&RoleTally) -> f64| courses.iter().map(|c| figure(&c.roles)).sum::<f64>();
    let present_ms = sum(|tally| tally.present_ms).max(1) as f64;
    let (changes, looks) = (sum(|tally| tally.changes), sum(|tally| tally.looks));
    let allowed = dollars(|tally| tally.allowed);
    json!({
        "looks": looks, "steady_looks": sum(|tally| tally.steady_looks), "changes": changes,
        "changes_a_node_hour": changes as f64 * scene::HOUR_MS as f64 / present_ms,
        "faults": sum(|tally| tally.faults), "stepped_in": sum(|tally| tally.stepped_in),
        "rests": sum(|tally| tally.rests),
        "calm_looks": sum(|tally| tally.calm_looks), "calm_dear_looks": sum(|tally| tally.calm_dear_looks),
        "standby_share": sum(|tally| tally.standby_ms) as f64 / present_ms,
        "resting_share": sum(|tally| tally.resting_ms) as f64 / present_ms,
        "cost_to_allowed": (allowed > 0.0).then(|| dollars(|tally| tally.cost) / allowed),
        "cost_to_allowed_max": courses.iter().map(|course| course.roles.dearest).fold(0.0, f64::max),
        "paid": dollars(|tally| tally.paid),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn simulation(nodes: usize, seeds: u64) -> FleetSimulation {
        FleetSimulation { nodes, seeds, seed: 0, hours: None, replay: false }
    }

    #[test]
    fn a_hundred_fleets_keep_every_rule() {
        let found = run(&simulation(100, 100), &Console::new(true)).unwrap();
        assert!(found.passed, "{}", found.json);
        for happened in ["updates", "groups", "stale", "leased_again", "departures", "crashes", "dollars"] {
            assert!(found.json[happened].as_f64().unwrap() > 0.0, "{happened}: {}", found.json);
        }
        let roles = &found.json["roles"];
        for happened in ["steady_looks", "changes", "faults", "stepped_in", "rests", "standby_share", "paid"]
        {
            assert!(roles[happened].as_f64().unwrap() > 0.0, "{happened}: {roles}");
        }
        let violations = found.json["violations"].as_object().unwrap();
        assert!(violations.len() == Rule::ALL.len() && violations.values().all(|count| *count == 0));
    }

    #[test]
    fn a_seed_replays_and_another_one_goes_another_way() {
        let found = run(&FleetSimulation { replay: true, ..simulation(20, 8) }, &Console::new(true)).unwrap();
        assert!(found.passed, "{}", found.json);
        let digest = |seed| {
            let one = FleetSimulation { seed, ..simulation(20, 1) };
            run(&one, &Console::new(true)).unwrap().json["digest"].clone()
        };
        assert!(digest(3) == digest(3) && digest(3) != digest(4));
    }

    #[test]
    fn where_nobody_comes_or_goes_the_cheap_ones_work() {
        let workload = workload().unwrap();
        let (mut calm, mut rests) = (0, 0);
        for seed in 0..10 {
            let mut scene = Scene::drawn(seed, 40, None).unwrap();
            (scene.departures_per_hour, scene.crash_at, scene.end) = (0.0, None, End::Updates(40));
            let found = course(scene, &workload).unwrap().roles;
            (calm, rests) = (calm + found.calm_looks, rests + found.rests);
        }
        assert!(calm > 0 && rests > 0, "{calm} {rests}");
    }

    #[test]
    fn an_hour_is_an_hour() {
        let one = FleetSimulation { hours: Some(1.0), ..simulation(50, 1) };
        let found = run(&one, &Console::new(true)).unwrap();
        assert!(found.passed, "{}", found.json);
        assert_eq!(found.json["simulated_hours"], 1.0);
        let endless = FleetSimulation { hours: Some(f64::NAN), ..simulation(50, 1) };
        assert!(run(&endless, &Console::new(true)).is_err());
    }
}
