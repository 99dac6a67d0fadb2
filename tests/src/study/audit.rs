//! How well the sampling audit tells honest nodes from cheats: false alarms, detection by kind of
//! cheat, and what an audit costs.
//!
//! A tiny policy is trained by imitation and goes on by reinforcement, so that there are real
//! versions of it. Honest machines and cheats then answer the same kind of orders with responses of
//! the same length, and [`echo_policy::audit`] judges every response by itself, with the limits
//! that learners and verifiers use. Everything but the cost is the same every time, and what GPUs
//! of several makers round differently. What became of an arm is on the disk as soon as it is
//! known, a line of JSON each.
//!
//! [`vocabulary`] tries the rule for large vocabularies, against a cheat that knows it.

mod arms;
mod cost;
mod forged_response;
mod gpu;
mod players;
mod policies;
mod rates;
pub mod vocabulary;

use super::worker_pool;
use crate::models::random_weights::Size;
use crate::output::console::{CommandReport, Console};
use anyhow::Context;
use arms::{Absent, AuditArm, ExpectedFinding};
use cost::Cost;
use echo_policy::audit::{Audit, AuditFault, Draw, Evidence};
use echo_policy::generation::Policy;
use echo_policy::sampling::{DrawRule, SamplingParams};
use policies::Versions;
use rates::{Rate, Seen};
use serde_json::json;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

/// False alarms among honest responses, at most.
const FALSE_ALARMS: f64 = 1e-3;
/// Responses of a cheat that are found, at least.
const DETECTION: f64 = 0.99;
/// What an audit costs of generating what it looks at, at most.
const COST: f64 = 0.1;
/// Orders that a job answers together.
const TOGETHER: usize = 20;
/// What arms come to, as they come, in the study's directory.
const LINES: &str = "audit.jsonl";

/// How many responses are audited, and of what length.
#[derive(Clone, Debug)]
pub struct AuditStudy {
    /// Honest responses of each machine.
    pub honest: usize,
    /// Responses of each cheat.
    pub cheats: usize,
    /// Honest responses of a GPU, or none: a processor that plays one is slow.
    pub gpu: usize,
    /// Tokens of a response.
    pub tokens: u32,
    /// The model with which the cost is measured.
    pub cost: Size,
    /// Decides weights, prompts and samples.
    pub seed: u64,
    /// The directory in which `audit.jsonl` is written.
    pub out: PathBuf,
}

/// What a node was asked.
struct Order {
    prompt: Vec<u32>,
    seed: [u8; 32],
}

/// What a node says that its response to an order is: sample 0 of it, every token drawn
/// under the newest version.
#[derive(Clone, Debug, PartialEq)]
struct Claim {
    tokens: Vec<u32>,
    logprobs: Vec<f32>,
}

/// How responses are drawn, but for cheats.
fn params(tokens: u32) -> SamplingParams {
    SamplingParams::unbiased(tokens)
}

/// What became of one response.
struct Verdict {
    evidence: Evidence,
    fault: Option<AuditFault>,
}

/// Trains, lets everybody answer, audits, and says what was found. Passes when false alarms,
/// detection and cost are within their bounds.
///
/// # Errors
/// When training or the engine fails, or the results cannot be written.
pub fn run(study: &AuditStudy, console: &Console) -> anyhow::Result<CommandReport> {
    let since = Instant::now();
    let path = study.out.join(LINES);
    let cannot = || format!("cannot write {}", path.display());
    std::fs::create_dir_all(&study.out).with_context(cannot)?;
    let mut lines = File::create(&path).with_context(cannot)?;
    let versions = Versions::train(study, console)?;
    let (arms, absent) = arms::arms(&versions, study)?;
    for Absent { arm, why } in &absent {
        console.say(format!("  without {arm}: {why}"));
    }
    let (mut rows, mut results) = (Vec::new(), Vec::new());
    for arm in &arms {
        let seen = try_arm(arm, &versions)?;
        console.say(row(arm, &seen));
        let result = result(arm, &seen);
        writeln!(lines, "{result}").with_context(cannot)?;
        rows.push(seen);
        results.push(result);
    }
    let cost = Cost::measure(study.cost, DrawRule::Intervals, console)?;
    let claims = claims(&arms, &rows, study, &cost);
    for claim in &claims {
        let word = if claim["holds"] == true { "holds:" } else { "does not hold:" };
        console.say(format!("{word} {}", claim["claim"].as_str().unwrap_or_default()));
    }
    let passed = claims.iter().all(|claim| claim["holds"] == true);
    let json = json!({
        "study": "audit",
        "setting": versions.description(),
        "tokens": study.tokens,
        "entropy": versions.entropy(),
        "results": results,
        "absent": absent,
        "cost": cost,
        "claims": claims,
        "seconds": since.elapsed().as_secs_f64(),
    });
    Ok(CommandReport { passed, json })
}

/// Has an arm answer all its orders, and audits each response.
fn try_arm(arm: &AuditArm, versions: &Versions) -> anyhow::Result<Seen> {
    let orders = arm.responses;
    let firsts: Vec<usize> = (0..orders).step_by(TOGETHER).collect();
    let auditing = versions.newest(arm.precision)?;
    let verdicts = worker_pool::share(&firsts, |&first| {
        let orders = versions.orders(first..orders.min(first + TOGETHER))?;
        let claims = (arm.player)(&orders)?;
        let judged = orders.iter().zip(&claims).map(|(order, claim)| judge(arm, &auditing, order, claim));
        judged.collect::<anyhow::Result<Vec<_>>>()
    })?;
    Ok(Seen::of(verdicts.into_iter().flatten()))
}

/// Audits one response with the limits of its arm.
fn judge(arm: &AuditArm, policy: &Arc<Policy>, order: &Order, claim: &Claim) -> anyhow::Result<Verdict> {
    let params = params(claim.tokens.len() as u32);
    let draws: Vec<Draw> = (0..claim.tokens.len())
        .map(|at| Draw { at, position: at as u32, logprob: claim.logprobs[at] })
        .collect();
    let evidence =
        Audit::new(policy.as_ref(), &order.prompt, &order.seed, &params)?.look(0, &claim.tokens, &draws)?;
    let fault = evidence.fault(&arm.tolerance);
    Ok(Verdict { evidence, fault })
}

/// Limits that all but a thousandth of the responses keep.
fn kept(seen: &Seen) -> serde_json::Value {
    let [border, mean, max] = seen.kept_but_for(FALSE_ALARMS);
    json!({"border": border, "mean": mean, "max": max})
}

/// What an arm came to, for scripts.
fn result(arm: &AuditArm, seen: &Seen) -> serde_json::Value {
    json!({
        "arm": arm.name, "expected": arm.expected, "declared": arm.precision.name(), "audited_in": arm.precision.name(),
        "limits": {"border": arm.tolerance.border, "off": arm.tolerance.off, "mean": arm.tolerance.mean, "max": arm.tolerance.max},
        "responses": seen.found.of, "found": seen.found.count, "share": seen.found.share(),
        "share_ci95": [seen.found.at_least(), seen.found.at_most()],
        "by_tokens": seen.by_tokens, "by_logprobs": seen.by_logprobs,
        "kept_by_999_of_1000": kept(seen),
        "tokens_off": seen.evidence.share_off(arm.tolerance.border),
        "dlogp": {
            "mean": seen.evidence.mean(), "p99": seen.evidence.quantile(0.99), "max": seen.evidence.quantile(1.0),
        },
    })
}

fn row(arm: &AuditArm, seen: &Seen) -> String {
    let (Rate { count, of }, [border, mean, max]) = (seen.found, seen.kept_but_for(FALSE_ALARMS));
    format!(
        "  {:<44} {:<4} {count:>5} of {of:>5} found ({:.4} to {:.4}); |Δ log p| mean {:.1e}, p99 {:.1e}, max {:.1e}; {:.1e} of tokens off; \
         limits for all but a thousandth: border {border:.1e}, mean {mean:.1e}, max {max:.1e}",
        arm.name,
        arm.precision.name(),
        seen.found.at_least(),
        seen.found.at_most(),
        seen.evidence.mean(),
        seen.evidence.quantile(0.99),
        seen.evidence.quantile(1.0),
        seen.evidence.share_off(arm.tolerance.border),
    )
}

fn claims(arms: &[AuditArm], rows: &[Seen], study: &AuditStudy, cost: &Cost) -> Vec<serde_json::Value> {
    let mut claims = Vec::new();
    for (arm, seen) in arms.iter().zip(rows) {
        let (share, bounds) = (seen.found.share(), [seen.found.at_least(), seen.found.at_most()]);
        let (text, holds) = match arm.expected {
            ExpectedFinding::Honest => (
                format!(
                    "{}: at most {FALSE_ALARMS} of {} honest responses are found",
                    arm.name, arm.responses
                ),
                share <= FALSE_ALARMS,
            ),
            ExpectedFinding::Found => (
                format!(
                    "in {}, {}: at least {DETECTION} are found at {} tokens",
                    arm.precision, arm.name, study.tokens
                ),
                share >= DETECTION,
            ),
            ExpectedFinding::Weaker => continue,
        };
        claims.push(json!({"claim": text, "holds": holds, "figures": {"share": share, "ci95": bounds}}));
    }
    for (claim, share) in [
        (format!("a response's audit costs at most {COST} of generating it alone"), cost.one_alone()),
        (
            format!("a group's audit, of one of its responses, costs at most {COST} of generating the group"),
            cost.one_of_group(),
        ),
    ] {
        claims.push(json!({"claim": claim, "holds": share <= COST, "figures": {"share": share}}));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_audit_is_tried_on_everybody_and_finds_the_cheats_alone() {
        let dir = tempfile::tempdir().unwrap();
        let study = AuditStudy {
            honest: 4,
            cheats: 4,
            gpu: 2,
            tokens: 48,
            cost: Size::Tiny,
            seed: 3,
            out: dir.path().to_owned(),
        };
        let CommandReport { json, .. } = run(&study, &Console::new(true)).unwrap();
        let results = json["results"].as_array().unwrap();
        let lines = std::fs::read_to_string(dir.path().join(LINES)).unwrap();
        let lines: Vec<serde_json::Value> =
            lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(&lines, results);
        let shares = |expected: &str| -> Vec<f64> {
            let of = results.iter().filter(|result| result["expected"] == expected);
            of.map(|result| result["share"].as_f64().unwrap()).collect()
        };
        assert!(!shares("honest").is_empty() && shares("honest").iter().all(|share| *share == 0.0));
        let found = shares("found");
        assert!(found.iter().filter(|share| **share == 1.0).count() > 40, "{found:?}");
        let on_gpu = |result: &serde_json::Value| result["arm"].as_str().unwrap().contains("wgpu");
        for result in results {
            let responses = if on_gpu(result) { 2 } else { 4 };
            assert!(result["responses"] == responses && result["dlogp"]["p99"].is_number(), "{result}");
        }
        // A GPU is there, or it is said why none is.
        let absent = json["absent"].as_array().unwrap();
        assert_eq!(results.iter().filter(|result| on_gpu(result)).count() + absent.len(), 1, "{absent:?}");
        assert!(json["cost"]["audit_one_s"].as_f64().unwrap() > 0.0);
    }
}
