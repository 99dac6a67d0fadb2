//! The soak: hours with nodes that come and go. Nothing may grow.
//!
//! Node 4 is killed or stopped again and again, and comes back as itself or as somebody new. Of the others,
//! memory, descriptors and threads are looked at all the time. Afterwards their logs are looked at while
//! they are idle, and while the other side is away.

use super::runner::TroubledNetwork;
use super::scenario::{Scenario, ScenarioStep};
use super::verdict::{self, ScenarioVerdict};
use crate::harness::binaries::Binaries;
use crate::harness::observation;
use crate::harness::process_usage;
use crate::output::console::{CommandReport, Console};
use anyhow::ensure;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Nodes of the network, the one that comes and goes among them.
const NODES: usize = 4;
/// The one that comes and goes.
const RESTLESS: &str = "node-4";
/// Who is looked at.
const WATCHED: [&str; 5] = ["bootstrap", "learner", "node-1", "node-2", "node-3"];
/// [`RESTLESS`] is up for this long, then down for [`AWAY`].
const UP: Duration = Duration::from_secs(40);
const AWAY: Duration = Duration::from_secs(5);
/// The pause between two looks.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The pause between two lines about the way so far.
const SAY_EVERY: Duration = Duration::from_secs(60);
/// Caches and queues may fill in this share of the time.
const FILLING: f64 = 0.25;
/// The most that anything may grow in an hour, as a share of its mean.
const MAX_GROWTH: f64 = 0.01;
/// The most that a process may log in a day.
const MAX_LOG_BYTES_A_DAY: f64 = 5e6;
/// How long the logs of each state are looked at.
const LOG_PHASE: Duration = Duration::from_secs(150);
const SECONDS_A_DAY: f64 = 86_400.0;

/// How long a soak goes on, and where.
#[derive(Clone, Debug)]
pub struct Soak {
    /// How long nodes come and go.
    pub lasts: Duration,
    /// Where the network is kept; removed when nothing grew.
    pub dir: PathBuf,
}

/// What a process had at one look.
#[derive(Clone, Copy, Debug)]
struct Look {
    /// Seconds since the soak began.
    at_s: f64,
    /// Resident memory, descriptors and threads.
    values: [f64; 3],
}

const VALUES: [&str; 3] = ["memory_bytes", "descriptors", "threads"];

/// Plays a soak and judges it. Passes when nothing grew, nothing that was acknowledged is lost,
/// and logs are small.
///
/// # Errors
/// When it cannot be played to its end.
pub async fn run(soak: Soak, console: &Console) -> anyhow::Result<CommandReport> {
    let binaries = Binaries::fresh(console).await?;
    let _ = std::fs::remove_dir_all(&soak.dir);
    std::fs::create_dir_all(&soak.dir)?;
    let mut stage = TroubledNetwork::open(&Scenario::of_nodes("soak", NODES), binaries, &soak.dir).await?;
    stage.begin().await?;
    console.say(format!(
        "{NODES} nodes for {} min; kept in {}",
        soak.lasts.as_secs() / 60,
        soak.dir.display()
    ));
    let mut logs = BTreeMap::new();
    let since = log_sizes(&stage);
    let looks = churn(&mut stage, soak.lasts, console).await?;
    logs.insert("at_work", rates(&since, &log_sizes(&stage), soak.lasts));
    for (state, steps) in states() {
        console.say(format!("logs while {state}"));
        logs.insert(state, logged_while(&mut stage, &steps).await?);
    }
    let mut verdict = ScenarioVerdict::default();
    verdict::close(&mut stage.network, &mut verdict).await?;

    ensure!(
        WATCHED.iter().all(|who| looks.contains_key(who)),
        "memory is read from /proc, which only Linux has"
    );
    let growth = growth(&looks, soak.lasts);
    let flat = growth.values().flatten().all(|(_, _, grown)| *grown < MAX_GROWTH);
    let quiet = logs.values().flat_map(BTreeMap::values).all(|bytes| *bytes <= MAX_LOG_BYTES_A_DAY);
    for (who, values) in &growth {
        for (name, (_, mean, grown)) in VALUES.iter().zip(values) {
            console.say(format!("{who:<10} {name:<13} {mean:>14.0} {:>+7.2} % an hour", grown * 100.0));
        }
    }
    for (state, bytes) in &logs {
        console.say(format!("log while {state}, bytes a day: {bytes:.0?}"));
    }
    let passed = flat && quiet;
    if passed {
        let _ = std::fs::remove_dir_all(&soak.dir);
    }
    let growth: BTreeMap<&str, BTreeMap<&str, Value>> = growth.into_iter().map(named).collect();
    let json = json!({
        "passed": passed, "seconds": soak.lasts.as_secs(), "updates": verdict.updates,
        "max_staleness": verdict.max_staleness, "growth": growth, "log_bytes_a_day": logs,
        "claims": [
            {"claim": "memory, descriptors and threads grow by less than 1 % an hour after the first quarter", "holds": flat},
            {"claim": "no process logs more than 5 MB a day at work, idle, or alone", "holds": quiet},
            {"claim": "nothing acknowledged is lost or too old, and nobody honest is suspended", "holds": true},
        ],
    });
    Ok(CommandReport { passed, json })
}

/// Has [`RESTLESS`] come and go, and looks at the others.
async fn churn(
    stage: &mut TroubledNetwork,
    lasts: Duration,
    console: &Console,
) -> anyhow::Result<BTreeMap<&'static str, Vec<Look>>> {
    let begun = Instant::now();
    let (mut looks, mut turn, mut due, mut said) = (BTreeMap::<_, Vec<Look>>::new(), 0_u64, UP, SAY_EVERY);
    while begun.elapsed() < lasts {
        if begun.elapsed() >= due {
            let steps = coming_and_going(turn);
            let here = stage.network.slot(RESTLESS)?.is_some();
            for step in if here { &steps.0 } else { &steps.1 } {
                stage.step(step).await?;
            }
            turn += u64::from(!here);
            due = begun.elapsed() + if here { AWAY } else { UP };
        }
        stage.network.check()?;
        for who in WATCHED {
            if let Some(values) = look(stage, who)? {
                looks.entry(who).or_default().push(Look { at_s: begun.elapsed().as_secs_f64(), values });
            }
        }
        if begun.elapsed() >= said {
            said += SAY_EVERY;
            let memory =
                |who| looks.get(who).and_then(|looks| looks.last()).map_or(0.0, |look| look.values[0]);
            let memory: Vec<String> =
                WATCHED.iter().map(|who| format!("{who} {:.1}", memory(who) / 1e6)).collect();
            let updates = observation::updates(stage.layout());
            console.say(format!(
                "{:>4} min, v{updates}, MB: {}",
                begun.elapsed().as_secs() / 60,
                memory.join(", ")
            ));
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
    if stage.network.slot(RESTLESS)?.is_none() {
        stage.step(&ScenarioStep::Start(RESTLESS.into())).await?;
    }
    Ok(looks)
}

/// How [`RESTLESS`] goes in a turn, and how it comes back: killed or stopped, as itself or as somebody new.
fn coming_and_going(turn: u64) -> (Vec<ScenarioStep>, Vec<ScenarioStep>) {
    let who = || RESTLESS.to_owned();
    let goes = if turn.is_multiple_of(2) { ScenarioStep::Kill(who()) } else { ScenarioStep::Stop(who()) };
    let mut comes = vec![ScenarioStep::Start(who())];
    if turn % 4 >= 2 {
        comes.insert(0, ScenarioStep::Remove(format!("nodes/{RESTLESS}")));
    }
    (vec![goes], comes)
}

/// The states in which logs are looked at, and what brings them about.
fn states() -> [(&'static str, [Vec<ScenarioStep>; 2]); 3] {
    let nodes = || (1..=NODES).map(|number| format!("node-{number}"));
    let learner = || "learner".to_owned();
    [
        (
            "idle",
            [
                vec![ScenarioStep::Freeze(learner())],
                vec![ScenarioStep::Thaw(learner()), ScenarioStep::Updates(5)],
            ],
        ),
        (
            "the_learner_is_away",
            [
                vec![ScenarioStep::Kill(learner())],
                vec![ScenarioStep::Start(learner()), ScenarioStep::Updates(5)],
            ],
        ),
        (
            "the_nodes_are_away",
            [
                nodes().map(ScenarioStep::Stop).collect(),
                nodes().map(ScenarioStep::Start).chain([ScenarioStep::Updates(5)]).collect(),
            ],
        ),
    ]
}

async fn logged_while(
    stage: &mut TroubledNetwork,
    [enter, leave]: &[Vec<ScenarioStep>; 2],
) -> anyhow::Result<BTreeMap<String, f64>> {
    for step in enter {
        stage.step(step).await?;
    }
    let before = log_sizes(stage);
    tokio::time::sleep(LOG_PHASE).await;
    let rates = rates(&before, &log_sizes(stage), LOG_PHASE);
    for step in leave {
        stage.step(step).await?;
    }
    Ok(rates)
}

fn look(stage: &mut TroubledNetwork, who: &str) -> anyhow::Result<Option<[f64; 3]>> {
    let pid = stage.network.slot(who)?.as_ref().and_then(crate::harness::processes::Process::pid);
    let used = pid.and_then(process_usage::of);
    Ok(used.map(|used| [used.rss as f64, used.descriptors as f64, used.threads as f64]))
}

fn log_sizes(stage: &TroubledNetwork) -> BTreeMap<String, u64> {
    WATCHED.iter().map(|who| ((*who).to_owned(), observation::log_bytes(stage.layout(), who))).collect()
}

/// Growth of each log in bytes a day, from two looks `lasts` apart.
fn rates(
    before: &BTreeMap<String, u64>,
    after: &BTreeMap<String, u64>,
    lasts: Duration,
) -> BTreeMap<String, f64> {
    let grown = |who: &String| after.get(who).unwrap_or(&0).saturating_sub(before[who]) as f64;
    before.keys().map(|who| (who.clone(), grown(who) / lasts.as_secs_f64() * SECONDS_A_DAY)).collect()
}

/// Of every value: its name, its mean, and its growth an hour as a share of the mean.
type Growth = Vec<(&'static str, f64, f64)>;

fn growth(looks: &BTreeMap<&'static str, Vec<Look>>, lasts: Duration) -> BTreeMap<&'static str, Growth> {
    let since = lasts.as_secs_f64() * FILLING;
    let of = |looks: &Vec<Look>| {
        let looks: Vec<Look> = looks.iter().filter(|look| look.at_s >= since).copied().collect();
        let value = |(index, name): (usize, &'static str)| {
            let points = looks.iter().map(|look| (look.at_s, look.values[index]));
            let (mean, slope) = line(&points.collect::<Vec<_>>());
            (name, mean, slope * 3600.0 / mean.max(1.0))
        };
        VALUES.into_iter().enumerate().map(value).collect()
    };
    looks.iter().map(|(who, looks)| (*who, of(looks))).collect()
}

fn named((who, values): (&'static str, Growth)) -> (&'static str, BTreeMap<&'static str, Value>) {
    let value = |(name, mean, grown): (&'static str, f64, f64)| {
        (name, json!({"mean": mean, "growth_an_hour": grown}))
    };
    (who, values.into_iter().map(value).collect())
}

/// Mean and slope of the line of least squares.
fn line(points: &[(f64, f64)]) -> (f64, f64) {
    let n = points.len().max(1) as f64;
    let (mean_x, mean_y) =
        (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let along: f64 = points.iter().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum();
    let across: f64 = points.iter().map(|(x, _)| (x - mean_x).powi(2)).sum();
    (mean_y, if across > 0.0 { along / across } else { 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_that_after_the_first_quarter() {
        // It fills for 900 s, and grows by 36 an hour from then on.
        let value = |at: f64| if at < 900.0 { at } else { 1000.0 + 0.01 * (at - 900.0) };
        let at = (0..1800).map(|n| f64::from(n) * 2.0);
        let looks: Vec<Look> = at.map(|at_s| Look { at_s, values: [value(at_s), 7.0, 3.0] }).collect();
        let growth = growth(&[("learner", looks)].into(), Duration::from_secs(3600));
        let [(_, mean, grown), (_, _, descriptors), _] = growth["learner"][..] else { panic!("{growth:?}") };
        assert!((mean - 1013.5).abs() < 0.1 && (grown * mean - 36.0).abs() < 1e-6, "{mean} {grown}");
        assert_eq!(descriptors, 0.0);
    }

    #[test]
    fn it_comes_back_after_it_went_in_every_way() {
        let ways: Vec<String> = (0..4).map(|turn| format!("{:?}", coming_and_going(turn))).collect();
        assert!(ways.iter().enumerate().all(|(n, way)| !ways[..n].contains(way)), "{ways:?}");
    }
}
