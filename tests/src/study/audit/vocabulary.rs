//! The sampling audit with a vocabulary of a real size: honest machines, and a cheat that knows the rule.
//!
//! Tokens race ([`echo_policy::sampling::DrawRule::Race`]). A node delivers up to 64 groups, which are
//! looked at as the learner looks at a newcomer's. Near misses add up over them. Claims are about
//! bounds at 95 % (Clopper and Pearson, one-sided), not about shares. Arms that cannot fail, since
//! node and audit compute the same on the same processor, are kept apart and claim nothing.

mod cheat;
mod setting;
mod trial;

use super::cost::Cost;
use super::gpu;
use super::rates::Rate;
use super::worker_pool;
use crate::models::random_weights::Size;
use crate::output::console::{CommandReport, Console};
use anyhow::Context;
use cheat::Cheat;
use echo_policy::model::precision::Precision;
use echo_policy::sampling::DrawRule;
use serde_json::{Value, json};
use setting::Setting;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;
use trial::{Audit, GROUPS, Outcome};

/// Cheats that are found within their groups, at least, and what the lower bound has to be.
const FOUND: f64 = 0.99;
const FOUND_BOUND: f64 = 0.95;
/// Honest groups that are refused: what the upper bound is at most.
const FALSE_ALARMS: f64 = 1e-3;
/// What an audit costs of generating what it looks at, at most.
const COST: f64 = 0.1;
/// Groups of arms that cannot fail: they show that the study itself is sound.
const CONTROL_GROUPS: u64 = 64;
/// Nodes of cheats that nothing is claimed of: each delivers all of its groups, thousands of tokens.
const GAIN_NODES: u64 = 4;
/// Where results go, in the study's directory.
const LINES: &str = "audit-vocabulary.jsonl";

/// How much is tried, and with which model.
#[derive(Clone, Debug)]
pub struct VocabularyStudy {
    /// Tokens of the random model.
    pub vocabulary: usize,
    /// A Hugging Face directory to be used in the random model's place.
    pub model: Option<PathBuf>,
    /// Honest groups of each machine.
    pub groups: u64,
    /// Nodes of each cheat.
    pub nodes: u64,
    /// Honest groups of a GPU, or none.
    pub gpu_groups: u64,
    /// Responses of a group.
    pub group_size: u32,
    /// Tokens of a response.
    pub tokens: u32,
    /// The model with which the cost is measured.
    pub cost: Size,
    /// Decides orders.
    pub seed: u64,
    /// The directory in which results are written.
    pub out: PathBuf,
}

/// What is expected of an arm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// Few honest groups are refused.
    Honest,
    /// The same, of too few groups to claim a bound.
    TooFew,
    /// No honest group can be refused.
    CannotFail,
    /// The cheat is found.
    Found,
    /// What the cheat gains is of interest, whatever it is.
    Gain,
}

/// What became of an arm.
struct Tried {
    name: String,
    precision: Precision,
    expected: Expected,
    outcomes: Vec<Outcome>,
}

/// Has everybody answer, audits, and says what was found.
///
/// # Errors
/// When the model cannot be read, the engine fails, or the results cannot be written.
pub fn run(study: &VocabularyStudy, console: &Console) -> anyhow::Result<CommandReport> {
    let since = Instant::now();
    let path = study.out.join(LINES);
    let cannot = || format!("cannot write {}", path.display());
    std::fs::create_dir_all(&study.out).with_context(cannot)?;
    let mut lines = File::create(&path).with_context(cannot)?;
    let setting = Setting::of(study)?;
    let mut tried: Vec<Tried> = Vec::new();
    let mut note = |arm: Tried| -> anyhow::Result<()> {
        console.say(arm.row());
        writeln!(lines, "{}", arm.json()).with_context(cannot)?;
        tried.push(arm);
        Ok(())
    };
    for precision in Precision::ALL {
        let audit = Audit::new(&setting, precision, study.group_size)?;
        let (same, elsewhere) = (audit.policy.clone(), setting.elsewhere(precision)?);
        let outcomes = honest(CONTROL_GROUPS, |node, groups| audit.honest(&same, node, groups))?;
        let name = "the same kernels on the same processor".to_owned();
        note(Tried { name, precision, expected: Expected::CannotFail, outcomes })?;
        // Exact precisions leave nothing open: whoever adds otherwise computes something else.
        if !precision.is_exact() {
            let outcomes = honest(study.groups, |node, groups| audit.honest(&elsewhere, node, groups))?;
            let name = "honest, another order of sums".to_owned();
            note(Tried { name, precision, expected: Expected::Honest, outcomes })?;
        }
        for (cheat, name, expected) in [
            (Cheat::BestOfFour, "best of 4", Expected::Found),
            (Cheat::Planted, "planted tokens", Expected::Found),
            (Cheat::Careful, "best of 4 where honest nodes differ", Expected::Gain),
            (Cheat::Patient, "best of 4 below the alarm", Expected::Gain),
        ] {
            // In exact precisions there is no race that may end otherwise, and so no gain.
            let nodes = match expected {
                Expected::Gain if precision.is_exact() => continue,
                Expected::Gain => study.nodes.min(GAIN_NODES),
                _ => study.nodes,
            };
            let nodes: Vec<u64> = (0..nodes).collect();
            let outcomes = worker_pool::share(&nodes, |node| audit.cheat(cheat, *node))?;
            note(Tried { name: name.to_owned(), precision, expected, outcomes })?;
        }
    }
    let absent = match gpu::open() {
        Ok(gpu) if study.gpu_groups > 0 => {
            let audit = Audit::new(&setting, Precision::F32, study.group_size)?;
            let policy = setting.on_gpu(&gpu)?;
            let name = format!("honest, wgpu on {}", gpu.info().name);
            let outcomes = vec![audit.honest(&policy, 0, study.gpu_groups)?];
            let is_few = study.gpu_groups < study.groups;
            let expected = if is_few { Expected::TooFew } else { Expected::Honest };
            note(Tried { name, precision: Precision::F32, expected, outcomes })?;
            None
        }
        Ok(_) => None,
        Err(why) => Some(why),
    };
    if let Some(why) = &absent {
        console.say(format!("  without a GPU: {why}"));
    }
    let cost = Cost::measure(study.cost, DrawRule::Race, console)?;
    let mut claims: Vec<Value> = tried.iter().filter_map(Tried::claim).collect();
    claims.extend(of_cost(&cost));
    for claim in &claims {
        let word = if claim["holds"] == true { "holds:" } else { "does not hold:" };
        console.say(format!("{word} {}", claim["claim"].as_str().unwrap_or_default()));
    }
    let passed = claims.iter().all(|claim| claim["holds"] == true);
    let json = json!({
        "passed": passed,
        "study": "audit-vocabulary",
        "vocabulary": setting.vocabulary(),
        "model": study.model,
        "group_size": study.group_size,
        "tokens": study.tokens,
        "results": tried.iter().map(Tried::json).collect::<Vec<_>>(),
        "absent": absent,
        "cost": cost,
        "claims": claims,
        "seconds": since.elapsed().as_secs_f64(),
    });
    Ok(CommandReport { passed, json })
}

/// Honest nodes that deliver so many groups together.
fn honest(
    groups: u64,
    node: impl Fn(u64, u64) -> anyhow::Result<Outcome> + Sync,
) -> anyhow::Result<Vec<Outcome>> {
    let firsts: Vec<u64> = (0..groups).step_by(GROUPS as usize).collect();
    worker_pool::share(&firsts, |first| node(first / GROUPS, GROUPS.min(groups - first)))
}

fn of_cost(cost: &Cost) -> [Value; 2] {
    [
        (format!("a response's audit costs at most {COST} of generating it alone"), cost.one_alone()),
        (
            format!("a group's audit, of one of its responses, costs at most {COST} of generating the group"),
            cost.one_of_group(),
        ),
    ]
    .map(|(claim, share)| json!({"claim": claim, "holds": share <= COST, "figures": {"share": share}}))
}

impl Tried {
    fn sum(&self, of: impl Fn(&Outcome) -> u64) -> u64 {
        self.outcomes.iter().map(of).sum()
    }

    /// Groups that were refused.
    fn refused(&self) -> Rate {
        Rate { count: self.sum(|node| node.refused), of: self.sum(|node| node.groups) }
    }

    /// Nodes that were found.
    fn found(&self) -> Rate {
        let found = self.outcomes.iter().filter(|node| node.refused > 0).count();
        Rate { count: found as u64, of: self.outcomes.len() as u64 }
    }

    /// Samples that are not those that were to be drawn.
    fn altered(&self) -> Rate {
        Rate { count: self.sum(|node| node.altered), of: self.sum(|node| node.samples) }
    }

    fn is_cheat(&self) -> bool {
        matches!(self.expected, Expected::Found | Expected::Gain)
    }

    /// The most groups that a node delivered before it was found.
    fn longest(&self) -> u64 {
        let found = self.outcomes.iter().filter(|node| node.refused > 0);
        found.map(|node| node.groups).max().unwrap_or(0)
    }

    fn row(&self) -> String {
        let (refused, found, altered) = (self.refused(), self.found(), self.altered());
        let name = format!("  {:<40} {:<4}", self.name, self.precision.name());
        if self.is_cheat() {
            format!(
                "{name} {} of {} nodes found ({:.3} and more), within {} groups; {:.3} of samples altered",
                found.count,
                found.of,
                found.at_least(),
                self.longest(),
                altered.share()
            )
        } else {
            format!(
                "{name} {} of {} groups refused, at most {:.2} in 1,000",
                refused.count,
                refused.of,
                1e3 * refused.at_most()
            )
        }
    }

    fn json(&self) -> Value {
        let (refused, found, altered) = (self.refused(), self.found(), self.altered());
        let expected = match self.expected {
            Expected::Honest => "honest",
            Expected::TooFew => "honest, too few for a bound",
            Expected::CannotFail => "cannot_fail",
            Expected::Found => "found",
            Expected::Gain => "gain",
        };
        json!({
            "arm": self.name, "declared": self.precision.name(), "expected": expected,
            "nodes": found.of, "nodes_found": found.count, "found_share": found.share(),
            "found_at_least": found.at_least(),
            "groups": refused.of, "groups_refused": refused.count,
            "refused_by_record": self.sum(|node| node.by_record),
            "refused_in_1000_at_most": 1e3 * refused.at_most(),
            "most_groups_until_found": self.longest(),
            "samples": altered.of, "samples_altered": altered.count, "altered_share": altered.share(),
        })
    }

    /// What is claimed of it, if anything is.
    fn claim(&self) -> Option<Value> {
        let (claim, holds, figures) = match self.expected {
            Expected::CannotFail | Expected::TooFew | Expected::Gain => return None,
            Expected::Honest => {
                let refused = self.refused();
                let text =
                    format!("in {}, {}: at most 1 of 1,000 groups is refused", self.precision, self.name);
                let figures =
                    json!({"refused": refused.count, "groups": refused.of, "at_most": refused.at_most()});
                (text, refused.at_most() <= FALSE_ALARMS, figures)
            }
            Expected::Found => {
                let found = self.found();
                let text = format!(
                    "in {}, {}: at least {FOUND} of the nodes are found within {GROUPS} groups, and surely {FOUND_BOUND}",
                    self.precision, self.name
                );
                let figures = json!({"found": found.count, "nodes": found.of, "at_least": found.at_least()});
                (text, found.share() >= FOUND && found.at_least() >= FOUND_BOUND, figures)
            }
        };
        Some(json!({"claim": claim, "holds": holds, "figures": figures}))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cheats_are_found_and_honest_machines_are_not() {
        let dir = tempfile::tempdir().unwrap();
        let study = VocabularyStudy {
            vocabulary: 4_096,
            model: None,
            groups: 4,
            nodes: 2,
            gpu_groups: 0,
            group_size: 2,
            tokens: 16,
            cost: Size::Tiny,
            seed: 5,
            out: dir.path().to_owned(),
        };
        let CommandReport { json, .. } = run(&study, &Console::new(true)).unwrap();
        let results = json["results"].as_array().unwrap();
        let lines = std::fs::read_to_string(dir.path().join(LINES)).unwrap();
        assert_eq!(lines.lines().count(), results.len());
        for result in results {
            match result["expected"].as_str().unwrap() {
                "honest" | "cannot_fail" => assert_eq!(result["groups_refused"], 0, "{result}"),
                "found" => assert_eq!(result["nodes_found"], 2, "{result}"),
                _ => assert_eq!(result["nodes"], 2, "{result}"),
            }
        }
        let claims = json["claims"].as_array().unwrap();
        // So few groups and nodes show nothing, and the claims say so.
        assert!(claims.iter().take(3).all(|claim| claim["holds"] == false), "{claims:?}");
    }
}
