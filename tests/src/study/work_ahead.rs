//! The study of work-ahead: what the learner waits, by the rule that leases orders and by S.
//!
//! Real processes whose pace the lab sets, where an order takes as long as an update.
//! `slow_volunteers` adds nodes that are twenty times slower to six that are enough.

use super::chart;
use super::paced::{self, PacedCourse, PacedRun, UPDATE_MS};
use crate::harness::binaries::Binaries;
use crate::output::console::{CommandReport, Console};
use anyhow::Context as _;
use clap::Args;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Most of its time that the learner may wait.
const MAX_BUBBLE: f64 = 0.05;
/// Most groups that may be too old, as a share of those trained on.
const MAX_DROPPED: f64 = 0.05;
/// How much less the learner waits under the new rule, or with twice the S, to be measurable.
const CLEAR: f64 = 0.02;
/// How many times slower a slow volunteer is.
const SLOWER: u64 = 20;
/// What the fast nodes reach alone is to be reached with slow ones beside them, to this share.
const KEPT: f64 = 0.95;

/// How long the runs of a study are.
#[derive(Args, Clone, Debug)]
pub struct PacedStudy {
    /// Updates of each run, of some second each; the first quarter is not measured.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(8..=10_000))]
    pub updates: u64,
    /// Where the picture goes.
    #[arg(long, value_name = "DIR", default_value = "runs/studies")]
    pub out: PathBuf,
}

/// A claim, whether it holds, and the figures that decided it.
type Claim = (&'static str, bool, Value);

/// Compares the rules at L/T_train = 1, and S = 3 with S = 6 on the same nodes. Passes if all claims hold.
///
/// # Errors
/// When something cannot be built, started, read or drawn, or a run does not end.
pub async fn run(study: PacedStudy, console: &Console) -> anyhow::Result<CommandReport> {
    let updates = study.updates;
    let enough = vec![UPDATE_MS; paced::nodes_for(1.5, 4, UPDATE_MS)?];
    let few = vec![UPDATE_MS; paced::nodes_for(1.0, 3, UPDATE_MS)?];
    let arm =
        |name, budget, fixed, nodes: &[u64]| PacedRun { name, budget, fixed, nodes: nodes.to_vec(), updates };
    let arms = vec![
        arm("lag-s4", 4, false, &enough),
        arm("eta-s4", 4, true, &enough),
        arm("lag-s3-few", 3, false, &few),
        arm("lag-s6-few", 6, false, &few),
    ];
    let courses = courses(arms, console).await?;
    let [lag, eta, small, large] = &courses[..] else { anyhow::bail!("a run is missing") };
    let claims = vec![
        (
            "with S = 4, L/T_train = 1 and 1.5 x mu_min the learner waits at most 5 % of its time",
            lag.bubble <= MAX_BUBBLE,
            json!({"bubble": lag.bubble, "largest": MAX_BUBBLE}),
        ),
        (
            "at most 5 % of what is trained on is dropped or refused as too old",
            lag.dropped <= MAX_DROPPED,
            json!({"dropped": lag.dropped, "largest": MAX_DROPPED}),
        ),
        (
            "the rule with eta = S - kappa has the learner wait longer on the same nodes",
            eta.bubble >= lag.bubble + CLEAR,
            json!({"eta": eta.bubble, "lag": lag.bubble}),
        ),
        (
            "S = 6 instead of 3 lowers the bubble of the same nodes",
            large.bubble + CLEAR <= small.bubble,
            json!({"s3": small.bubble, "s6": large.bubble}),
        ),
    ];
    chart::bars(
        &picture(&study, "work-ahead.png")?,
        "Share of the time that the learner waits",
        "bubble",
        &figures(&courses, |course| course.bubble),
    )?;
    Ok(report(&courses, claims, console))
}

/// Compares six fast nodes alone with the same beside four slow ones. Passes when every claim holds.
///
/// # Errors
/// When something cannot be built, started, read or drawn, or a run does not end.
pub async fn slow_volunteers(study: PacedStudy, console: &Console) -> anyhow::Result<CommandReport> {
    let updates = study.updates;
    let (fast, slow) = (vec![UPDATE_MS / 2; 6], vec![UPDATE_MS / 2 * SLOWER; 4]);
    let all = [fast.clone(), slow.clone()].concat();
    let arm =
        |name, fixed, nodes: &[u64]| PacedRun { name, budget: 4, fixed, nodes: nodes.to_vec(), updates };
    let arms = vec![
        arm("lag-fast-alone", false, &fast),
        arm("lag-with-slow", false, &all),
        arm("eta-with-slow", true, &all),
    ];
    let courses = courses(arms, console).await?;
    let [alone, beside, eta] = &courses[..] else { anyhow::bail!("a run is missing") };
    let share = beside.updates_per_s / alone.updates_per_s;
    let claims = vec![
        (
            "four of ten nodes twenty times slower leave 0.95 of the updates a second of the six fast ones",
            share >= KEPT,
            json!({"share": share, "least": KEPT, "alone": alone.updates_per_s, "beside": beside.updates_per_s}),
        ),
        (
            "the rule with eta = S - kappa does not",
            eta.updates_per_s < KEPT * alone.updates_per_s,
            json!({"share": eta.updates_per_s / alone.updates_per_s}),
        ),
        (
            "the owners of the slow nodes are told why they get no orders, and no others",
            alone.told == 0 && beside.told == slow.len(),
            json!({"alone": alone.told, "beside": beside.told, "slow": slow.len()}),
        ),
    ];
    chart::bars(
        &picture(&study, "slow-volunteers.png")?,
        "Updates a second beside slow volunteers",
        "updates/s",
        &figures(&courses, |course| course.updates_per_s),
    )?;
    Ok(report(&courses, claims, console))
}

/// Makes the runs one after the other: side by side they would take the processor from each other.
async fn courses(arms: Vec<PacedRun>, console: &Console) -> anyhow::Result<Vec<PacedCourse>> {
    Binaries::fresh(console).await?;
    let scratch = tempfile::tempdir()?;
    let mut courses = Vec::new();
    for arm in arms {
        console.say(format!("{}: {} nodes, {} updates", arm.name, arm.nodes.len(), arm.updates));
        courses.push(paced::course(arm, scratch.path(), console).await?);
    }
    Ok(courses)
}

fn picture(study: &PacedStudy, name: &str) -> anyhow::Result<PathBuf> {
    let out = &study.out;
    std::fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    Ok(out.join(name))
}

fn figures(courses: &[PacedCourse], figure: fn(&PacedCourse) -> f64) -> Vec<(String, f64)> {
    courses.iter().map(|course| (course.run.name.to_owned(), figure(course))).collect()
}

fn report(courses: &[PacedCourse], claims: Vec<Claim>, console: &Console) -> CommandReport {
    for (claim, holds, figures) in &claims {
        console.say(format!("{} {claim} {figures}", if *holds { "holds " } else { "FAILED" }));
    }
    let passed = claims.iter().all(|(_, holds, _)| *holds);
    let results: Vec<Value> = courses.iter().map(PacedCourse::row).collect();
    let claims: Vec<Value> = claims
        .into_iter()
        .map(|(claim, holds, figures)| json!({"claim": claim, "holds": holds, "figures": figures}))
        .collect();
    CommandReport { passed, json: json!({"passed": passed, "results": results, "claims": claims}) }
}
