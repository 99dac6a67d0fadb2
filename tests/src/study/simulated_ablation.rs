//! Table 2 of ECHO-2: what a step costs without broadcasts from peer to peer, and without regard to prices.
//!
//! The table's own rows give its constants. Its rows of equal machines differ by their waiting alone, so that
//! they say what an hour costs, and how long a step takes: two updates. One more machine costs what table 1
//! says. Three sets of arms are simulated:
//!
//! - **table**: as many machines as in the table;
//! - **capacity**: as many as the learner's own rule keeps active with what a broadcast takes in that arm;
//! - **narrow**: as many as in the table, with the narrowest uplink of figure 4.
//!
//! Nodes of the simulation work on while a version arrives, which equation 1 does not count. So each row
//! has also what that equation says of it.
//!
//! Half of the machines that can be had are dear: so much that nine drawn at random cost what the table says.

use super::broadcast_scale::BYTES;
use super::cost::{HOUR_S, RTX5090};
use super::fleet::{self, End, Scene, SceneNode};
use super::simulated::{FleetStudy, claim, mean, picture, quiet, report, worker};
use super::simulated_capacity::{BATCH, BROADCAST_S};
use super::simulated_chart::{Axis, Line, draw};
use super::worker_pool;
use crate::output::console::{CommandReport, Console};
use echo_learner::common::workload::Workload;
use echo_learner::fleet::capacity::{
    Activation, Beat, Capacity, CapacityConfig, CapacityState, NodeRole, Prices,
};
use echo_protocol::control::heartbeat::Offer;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::rng::Draws;
use echo_protocol::wire::time::UnixMillis;
use serde_json::{Value, json};
use std::sync::Arc;

/// S and κ; a step of the table is the κ updates between two publications.
const BUDGET: u64 = 3;
const PERIOD: u64 = 2;
/// γ (§4.3).
const GAMMA: f64 = 1.1;
/// Cost of a step and waiting in seconds, of the rows of table 2: all of it; without peers with nine and with
/// ten machines; without prices.
const FULL: (f64, f64) = (8.098, 0.0);
const STAR_9: (f64, f64) = (8.432, 131.9);
const STAR_10: (f64, f64) = (8.630, 84.1);
const UNPRICED: (f64, f64) = (9.339, 0.0);
/// T_bcast of a star to nine and to ten machines, in seconds (table 2).
const STAR_S: (f64, f64) = (1830.0, 1872.0);
/// Machines of the table, and those that can be had, the first half of them cheap.
const MACHINES: usize = 9;
const POOL: usize = 20;
/// B0 of the narrow set, in bytes a second: 300 Mbit/s (figure 4).
const NARROW: f64 = 37.5e6;
/// Updates at the beginning that are not measured, and those that are.
const SETTLING: usize = 12;
const MEASURED: u64 = 66;
/// Seconds in which the learner's rule settles; it releases a machine an update.
const SETTLED_S: u64 = 36_000;

/// What follows from the table.
#[derive(Clone, Copy, Debug)]
struct TableConstants {
    /// Seconds of a step, which is κ updates.
    step_s: f64,
    /// Dollars an hour of learner and nine machines.
    usd_per_hour: f64,
    /// Dollars an hour of the learner.
    learner: f64,
    /// Dollars an hour of a dear machine.
    dear: f64,
    /// Groups a second of one machine.
    rate: f64,
}

impl TableConstants {
    fn solved() -> Self {
        let usd_per_hour = (STAR_9.0 - FULL.0) * HOUR_S / STAR_9.1;
        let step_s = FULL.0 * HOUR_S / usd_per_hour;
        // Nine machines at random cost so much more than nine of the cheapest.
        let more = UNPRICED.0 * HOUR_S / step_s - usd_per_hour;
        // Equation 1: what a step with a star leaves beside its broadcast, nine machines take for κ batches.
        let generating_s = step_s + STAR_9.1 - STAR_S.0;
        Self {
            step_s,
            usd_per_hour,
            learner: usd_per_hour - MACHINES as f64 * RTX5090,
            dear: RTX5090 + 2.0 * more / MACHINES as f64,
            rate: PERIOD as f64 * BATCH as f64 / (MACHINES as f64 * generating_s),
        }
    }

    /// What one more machine cost an hour, by the row of ten.
    fn tenth_machine(&self) -> f64 {
        STAR_10.0 * HOUR_S / (self.step_s + STAR_10.1) - self.usd_per_hour
    }

    /// What equation 1 says of a step: seconds of waiting, where nothing is generated while a version
    /// arrives.
    fn predicted_wait_s(&self, machines: usize, broadcast_s: f64) -> f64 {
        let generating_s = PERIOD as f64 * BATCH as f64 / (machines as f64 * self.rate);
        (broadcast_s + generating_s - self.step_s).max(0.0)
    }

    fn train_s(&self) -> f64 {
        self.step_s / PERIOD as f64
    }

    /// Dollars an hour of the machines that can be had.
    fn prices(&self) -> Vec<f64> {
        (0..POOL).map(|machine| if machine < POOL / 2 { RTX5090 } else { self.dear }).collect()
    }
}

/// A row of a set: who works, and how long a broadcast takes to them.
struct AblationArm {
    set: &'static str,
    name: &'static str,
    broadcast_s: f64,
    machines: AblationMachines,
    /// Dollars a step and seconds of waiting, by the table.
    paper: Option<(f64, f64)>,
}

/// Which of the machines that can be had work.
enum AblationMachines {
    These(Vec<usize>),
    /// So many at random, others with each seed.
    Random(usize),
}

/// Simulates all arms. Passes when every claim holds.
///
/// # Errors
/// When a rule of the simulation is broken, or the picture cannot be drawn.
pub fn run(study: &FleetStudy, console: &Console) -> anyhow::Result<CommandReport> {
    let (workload, constants) = (fleet::workload()?, TableConstants::solved());
    console.say(format!(
        "by table 2, a step takes {:.1} s and an hour costs {:.3} $ with nine machines; a tenth costs {:.2} $ more",
        constants.step_s,
        constants.usd_per_hour,
        constants.tenth_machine()
    ));
    let arms = arms(&constants);
    let (mut rows, mut found, mut lines) = (Vec::new(), Vec::new(), Vec::new());
    for arm in &arms {
        let seeds: Vec<u64> = (0..study.seeds).collect();
        let steps = worker_pool::share(&seeds, |&seed| step(&constants, arm, seed, &workload))?;
        let of = |figure: fn(&StepCost) -> f64| mean(steps.iter().map(figure));
        let mean = StepCost {
            usd: of(|step| step.usd),
            wait_s: of(|step| step.wait_s),
            predicted_usd: of(|step| step.predicted_usd),
        };
        let machines = arm.machines.count();
        console.say(format!(
            "{}, {}: {machines} machines, T_bcast {:.0} s: {:.3} $ a step, {:.1} s of waiting; by equation 1 {:.3} $",
            arm.set, arm.name, arm.broadcast_s, mean.usd, mean.wait_s, mean.predicted_usd
        ));
        let paper = arm.paper.map(|(usd, wait_s)| json!({"usd_per_step": usd, "wait_s": wait_s}));
        rows.push(json!({
            "set": arm.set, "arm": arm.name, "machines": machines, "broadcast_s": arm.broadcast_s,
            "usd_per_step": mean.usd, "wait_s": mean.wait_s, "paper": paper,
            "equation_1": {
                "usd_per_step": mean.predicted_usd,
                "wait_s": constants.predicted_wait_s(machines, arm.broadcast_s),
            },
        }));
        found.push(mean);
    }
    let numbered = |of: &dyn Fn(usize) -> Option<f64>, set: &str| {
        let of_set = arms.iter().enumerate().filter(|(_, arm)| arm.set == set);
        let figures = of_set.enumerate().filter_map(|(place, (at, _))| Some(((place + 1) as f64, of(at)?)));
        figures.collect::<Vec<(f64, f64)>>()
    };
    let simulated = |at: usize| found.get(at).map(|step| step.usd);
    let paper = |at: usize| arms[at].paper.map(|(usd, _)| usd);
    lines.push(Line { name: "simulated, the table's machines".into(), points: numbered(&simulated, TABLE) });
    lines.push(Line { name: "the paper's table".into(), points: numbered(&paper, TABLE) });
    lines.push(Line { name: "simulated, by capacity".into(), points: numbered(&simulated, CAPACITY) });
    let axes = Axis {
        x: "1 full, then without peers, last without prices",
        y: "dollars a step",
        is_logarithmic: false,
    };
    draw(&picture(&study.out, "ablation.png")?, "Cost of a step (simulated)", &axes, &lines, &[])?;
    Ok(report("ablation", rows, claims(&constants, &arms, &found), console))
}

/// Names of the sets.
const TABLE: &str = "table";
const CAPACITY: &str = "capacity";
const NARROW_SET: &str = "narrow";

fn arms(constants: &TableConstants) -> Vec<AblationArm> {
    use AblationMachines::{Random, These};
    let cheapest = |count: usize| These((0..count).collect());
    let arm =
        |set, name, broadcast_s, machines, paper| AblationArm { set, name, broadcast_s, machines, paper };
    let full = by_capacity(constants, |_| BROADCAST_S);
    let star = by_capacity(constants, star_s);
    let count = full.len();
    vec![
        arm(TABLE, "full", BROADCAST_S, cheapest(9), Some(FULL)),
        arm(TABLE, "without peers, 9 machines", star_s(9), cheapest(9), Some(STAR_9)),
        arm(TABLE, "without peers, 10 machines", star_s(10), cheapest(10), Some(STAR_10)),
        arm(TABLE, "without prices", BROADCAST_S, Random(9), Some(UNPRICED)),
        arm(CAPACITY, "full", BROADCAST_S, These(full), None),
        arm(CAPACITY, "without peers", star_s(star.len()), These(star), None),
        arm(CAPACITY, "without prices", BROADCAST_S, Random(count), None),
        // Chains run at the rate of a worker's link, which is a third of this uplink.
        arm(NARROW_SET, "full", BROADCAST_S, cheapest(9), None),
        arm(NARROW_SET, "without peers", 9.0 * BYTES as f64 / NARROW, cheapest(9), None),
    ]
}

/// T_bcast of a star: the table's, and on from there as from nine to ten.
fn star_s(machines: usize) -> f64 {
    STAR_S.0 + (STAR_S.1 - STAR_S.0) * (machines as f64 - MACHINES as f64)
}

/// The machines that the learner's rule keeps active, where a broadcast to so many takes `broadcast_s`.
fn by_capacity(constants: &TableConstants, broadcast_s: impl Fn(usize) -> f64) -> Vec<usize> {
    let mut chosen: Vec<usize> = (0..MACHINES).collect();
    // How many there are decides how long a broadcast takes, and that how many are needed.
    for _ in 0..POOL {
        let next = active(constants, broadcast_s(chosen.len()));
        let is_settled = next.len() <= chosen.len();
        chosen = next;
        if is_settled {
            break;
        }
    }
    chosen
}

/// Lets the learner's rule choose among all machines until it has settled.
fn active(constants: &TableConstants, broadcast_s: f64) -> Vec<usize> {
    let config = CapacityConfig {
        activation: Activation::Cheapest,
        gamma: GAMMA,
        batch: BATCH as u64,
        period: Some(PERIOD),
        prices: Prices::default(),
        learner_price: constants.learner,
    };
    let mut capacity = Capacity::new(config, UnixMillis(0));
    let measured = CapacityState {
        updates: vec![constants.train_s(); 5],
        broadcasts: vec![broadcast_s],
        ..CapacityState::default()
    };
    capacity.restore(measured);
    let key = |machine: usize| PublicKey::from_bytes([machine as u8; 32]);
    let beats: Vec<Beat> = constants.prices().into_iter().map(|price| beat(price, constants.rate)).collect();
    // Heartbeats come every second; every other one is enough not to count as lost.
    for second in (0..SETTLED_S).step_by(2) {
        let now = UnixMillis(1_000 * second);
        for (machine, beat) in beats.iter().enumerate() {
            capacity.heard(now, key(machine), beat.clone());
            // Who asks for nothing counts as nothing.
            capacity.asks(now, &key(machine));
        }
        capacity.tick(now);
    }
    (0..POOL).filter(|machine| capacity.role(&key(*machine)) == NodeRole::Active).collect()
}

fn beat(price: f64, rate: f64) -> Beat {
    let offer = Offer { micro_usd_per_hour: Some((price * 1e6).round() as u64), ..Offer::default() };
    Beat { declared: rate, offer, ..Beat::default() }
}

impl AblationMachines {
    fn count(&self) -> usize {
        match self {
            Self::These(machines) => machines.len(),
            Self::Random(count) => *count,
        }
    }

    fn of_seed(&self, seed: u64) -> Vec<usize> {
        let count = match self {
            Self::These(machines) => return machines.clone(),
            Self::Random(count) => *count,
        };
        let of = [&seed.to_le_bytes()[..], b"ablation"].concat();
        let mut draws = Draws::new(*ContentId::of(&of).as_bytes());
        let mut left: Vec<usize> = (0..POOL).collect();
        (0..count.min(POOL)).map(|_| left.swap_remove(draws.below(left.len() as u64) as usize)).collect()
    }
}

/// What a step of one run cost and waited.
#[derive(Clone, Copy, Debug)]
struct StepCost {
    usd: f64,
    wait_s: f64,
    /// Dollars with the waiting of equation 1.
    predicted_usd: f64,
}

fn step(
    constants: &TableConstants,
    arm: &AblationArm,
    seed: u64,
    workload: &Arc<Workload>,
) -> anyhow::Result<StepCost> {
    let prices = constants.prices();
    let machines = arm.machines.of_seed(seed);
    let usd_per_hour = constants.learner + machines.iter().map(|machine| prices[*machine]).sum::<f64>();
    let course = fleet::course(scene(constants, machines.len(), arm.broadcast_s, seed), workload)?;
    let measured = || course.periods.iter().skip(SETTLING);
    let of_step = |millis: f64| PERIOD as f64 * millis / 1e3;
    let step_s = of_step(mean(measured().map(|(_, period)| *period as f64)));
    let wait_s = of_step(mean(measured().map(|(waited, _)| *waited as f64)));
    let predicted_s = constants.step_s + constants.predicted_wait_s(machines.len(), arm.broadcast_s);
    let usd = |seconds: f64| usd_per_hour * seconds / HOUR_S;
    Ok(StepCost { usd: usd(step_s), wait_s, predicted_usd: usd(predicted_s) })
}

fn scene(constants: &TableConstants, machines: usize, broadcast_s: f64, seed: u64) -> Scene {
    // All machines are as fast: which of them work makes no difference to time.
    let nodes: Vec<SceneNode> = vec![worker(1e3 / constants.rate, true); machines];
    Scene {
        seed,
        budget: BUDGET,
        period: PERIOD,
        batch: BATCH,
        update_ms: constants.train_s() * 1e3,
        // Updates that take the same time: arms differ by their waiting alone.
        sigma: (0.3, 0.0),
        end: End::Updates(SETTLING as u64 + MEASURED),
        ..quiet(nodes, broadcast_s)
    }
}

fn claims(
    constants: &TableConstants,
    arms: &[AblationArm],
    found: &[StepCost],
) -> Vec<(&'static str, bool, Value)> {
    let of_set = |set: &str, figure: fn(&StepCost) -> f64| -> Vec<f64> {
        arms.iter().zip(found).filter(|(arm, _)| arm.set == set).map(|(_, step)| figure(step)).collect()
    };
    // The first arm of a set is the full one. Milliseconds are whole, which is a millionth of a step.
    let is_least = |of_set: &[f64]| of_set.iter().all(|usd| of_set[0] <= usd * (1.0 + 1e-6));
    let (table, capacity) = (of_set(TABLE, |step| step.usd), of_set(CAPACITY, |step| step.usd));
    let (narrow, predicted) = (of_set(NARROW_SET, |step| step.usd), of_set(TABLE, |step| step.predicted_usd));
    let tenth = constants.tenth_machine();
    vec![
        claim(
            "with the table's machines, a full step costs at most as much as each ablation",
            is_least(&table),
            json!({"usd_per_step": table}),
        ),
        claim(
            "with the machines that the learner's rule keeps, a full step costs at most as much as each ablation",
            is_least(&capacity),
            json!({"usd_per_step": capacity}),
        ),
        claim(
            "with an uplink of 300 Mbit/s, a full step costs at most as much as one without peers",
            is_least(&narrow),
            json!({"usd_per_step": narrow}),
        ),
        claim(
            "by equation 1, too, a full step costs at most as much as each ablation of the table",
            is_least(&predicted),
            json!({"usd_per_step": predicted}),
        ),
        claim(
            "by the table's own rows a tenth machine costs what table 1 says of one",
            (tenth - RTX5090).abs() < 0.03,
            json!({"usd_per_hour": tenth}),
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_rows_say_what_a_step_is() {
        let constants = TableConstants::solved();
        // 0.334 $ for 131.9 s are 9.116 $ an hour, and 8.098 $ at that are 3198 s.
        assert!((constants.usd_per_hour - 9.116).abs() < 1e-3, "{constants:?}");
        assert!((constants.step_s - 3_198.0).abs() < 0.5, "{constants:?}");
        assert!((constants.tenth_machine() - RTX5090).abs() < 0.03, "{}", constants.tenth_machine());
        // Nine at random, half of them dear, cost 9.339 $ a step.
        assert!((constants.predicted_wait_s(9, STAR_S.0) - STAR_9.1).abs() < 1e-9);
        assert_eq!(constants.predicted_wait_s(9, BROADCAST_S), 0.0);
        let random = constants.learner + 4.5 * (RTX5090 + constants.dear);
        assert!((random * constants.step_s / HOUR_S - 9.339).abs() < 1e-9);
    }

    #[test]
    fn the_learners_rule_takes_the_cheap_ones_first_and_more_for_a_star() {
        let constants = TableConstants::solved();
        let full = by_capacity(&constants, |_| BROADCAST_S);
        let star = by_capacity(&constants, star_s);
        assert!(full.iter().take(MACHINES).copied().eq(0..MACHINES), "{full:?}");
        assert!(full.len() >= MACHINES && full.len() < star.len(), "{full:?} {star:?}");
    }

    #[test]
    fn random_machines_are_others_with_each_seed_and_none_twice() {
        let of = |seed| {
            let mut machines = AblationMachines::Random(9).of_seed(seed);
            machines.sort_unstable();
            machines
        };
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        let mut distinct = of(3);
        distinct.dedup();
        assert_eq!(distinct.len(), 9);
    }

    #[test]
    fn a_step_costs_what_its_hours_do() {
        let (constants, workload) = (TableConstants::solved(), fleet::workload().unwrap());
        let machines = AblationMachines::These((0..MACHINES).collect());
        let arm = AblationArm { set: TABLE, name: "full", broadcast_s: BROADCAST_S, machines, paper: None };
        let found = step(&constants, &arm, 1, &workload).unwrap();
        let least = constants.usd_per_hour * constants.step_s / HOUR_S;
        let waited = constants.usd_per_hour * found.wait_s / HOUR_S;
        assert!((found.usd - least - waited).abs() < 1e-3, "{found:?}, at least {least}");
    }
}
