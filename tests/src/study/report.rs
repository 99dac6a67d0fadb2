//! What a study found, for people and scripts.

use super::Study;
use super::course::SeedCourse;
use super::delay::Delay;
use super::plans::{Name, StudyPlan};
use super::statistics::{Average, Mean};
use crate::output::console::{CommandReport, Console};
use serde_json::{Value, json};
use std::time::Duration;

/// What GEPO has to keep of its accuracy without delay.
const KEPT: f64 = 0.97;

/// One arm over all seeds.
struct Row<'a> {
    algo: &'a str,
    delay: Delay,
    best: Mean,
    last: Mean,
    courses: &'a [SeedCourse],
}

pub(super) fn report(
    plan: &StudyPlan,
    courses: &[&[SeedCourse]],
    study: &Study,
    took: Duration,
    console: &Console,
) -> anyhow::Result<CommandReport> {
    let over = |courses: &[SeedCourse], figure: fn(&SeedCourse) -> f64| {
        Mean::of(&courses.iter().map(figure).collect::<Vec<_>>())
    };
    let rows: Vec<Row<'_>> = plan
        .arms
        .iter()
        .zip(courses)
        .map(|(arm, courses)| Row {
            algo: &arm.algo,
            delay: arm.delay,
            best: over(courses, SeedCourse::best),
            last: over(courses, SeedCourse::last),
            courses,
        })
        .collect();
    console.say(format!(
        "{:<16} {:>6}  {:>15}  {:>15}  {:>9} {:>9} {:>7} {:>7} {:>7}",
        "arm", "delay", "best", "last", "Var(w)", "KL", "clip", "equal", "dropped"
    ));
    for row in &rows {
        // Where no update was made there is no figure.
        let [variance, kl, clip] = row.diagnostics().map(|figure| figure.unwrap_or(f64::NAN));
        let [degenerate, dropped] = row.groups();
        console.say(format!(
            "{:<16} {:>6}  {:.3} ± {:.3}    {:.3} ± {:.3}    {variance:>9.3} {kl:>9.4} {clip:>7.3} {degenerate:>7.3} {dropped:>7.3}",
            row.algo, row.delay.updates, row.best.mean, row.best.ci95, row.last.mean, row.last.ci95
        ));
    }
    if plan.name == Name::Decoupled {
        for row in &rows {
            let [share, reported, recomputed] = row.recomputing();
            let text =
                |figure: Option<f64>| figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.4}"));
            console.say(format!(
                "{:<16} {:>6}  {:.1} % of the update recomputes log π; p95 of |Δ log π| {}, to the recomputed {}",
                row.algo,
                row.delay.updates,
                100.0 * share.unwrap_or_default(),
                text(reported),
                text(recomputed)
            ));
        }
    }
    let claims = claims(plan.name, &rows);
    for claim in &claims {
        console.say(format!(
            "{} {}",
            if claim["holds"] == true { "holds:" } else { "does not hold:" },
            claim["claim"]
        ));
    }
    let passed = claims.iter().all(|claim| claim["holds"] == true);
    let json = json!({
        "study": plan.name.to_string(),
        "setting": plan.description(),
        "updates": plan.updates,
        "delay_model": format!("{:?}", study.delay_model),
        "seconds": took.as_secs_f64(),
        "results": rows.iter().map(|row| row.to_json(plan.name)).collect::<Vec<_>>(),
        "claims": claims,
    });
    Ok(CommandReport { passed, json })
}

impl Row<'_> {
    /// The mean over seeds of what is known of a course.
    fn mean(&self, figure: fn(&SeedCourse) -> Option<f64>) -> Option<f64> {
        Average::of(self.courses.iter().filter_map(figure)).get()
    }

    /// The weights' variance, KL, the share of clipped terms.
    fn diagnostics(&self) -> [Option<f64>; 3] {
        [
            self.mean(|course| course.weight_variance.get()),
            self.mean(|course| course.kl.get()),
            self.mean(|course| course.clip_share.get()),
        ]
    }

    /// Shares of the groups drawn: with equal rewards towards the end, and dropped by the filter.
    fn groups(&self) -> [f64; 2] {
        let over = |figure: fn(&SeedCourse) -> f64| Average::of(self.courses.iter().map(figure)).get();
        [over(|course| course.degenerate_last), over(|course| course.dropped)]
            .map(|share| share.unwrap_or(f64::NAN))
    }

    /// What recomputing takes of an update, and the gaps without and with it.
    fn recomputing(&self) -> [Option<f64>; 3] {
        [
            self.mean(|course| course.proximal_share.get()),
            self.mean(|course| course.logp_gap_p95.get()),
            self.mean(|course| course.logp_gap_recomputed_p95.get()),
        ]
    }

    fn to_json(&self, name: Name) -> Value {
        let [variance, kl, clip] = self.diagnostics();
        let [degenerate, dropped] = self.groups();
        let mut json = json!({
            "algo": self.algo, "delay": self.delay.updates, "seeds": self.courses.len(),
            "best_mean": self.best.mean, "best_ci95": self.best.ci95,
            "last_mean": self.last.mean, "last_ci95": self.last.ci95,
            "weight_variance": variance, "kl": kl, "clip_share": clip,
            "degenerate_last": degenerate, "dropped_share": dropped,
        });
        // A share of time is another every time: only where it is the question.
        if name == Name::Decoupled {
            let [share, reported, recomputed] = self.recomputing();
            json["proximal_share"] = json!(share);
            json["logp_gap_p95"] = json!(reported);
            json["logp_gap_recomputed_p95"] = json!(recomputed);
        }
        json
    }
}

fn claims(name: Name, rows: &[Row<'_>]) -> Vec<Value> {
    let row = |algo: &str, delay: u64| rows.iter().find(|row| row.algo == algo && row.delay.updates == delay);
    let last = |algo: &str, delay: u64| row(algo, delay).map(|row| row.last);
    let claim =
        |text: &str, holds: bool, figures: Value| json!({"claim": text, "holds": holds, "figures": figures});
    let pair = |a: Mean, b: Mean| json!([[a.mean, a.ci95], [b.mean, b.ci95]]);
    let longest = rows.iter().map(|row| row.delay.updates).max().unwrap_or(0);
    let compared = |text: &str, a: Option<Mean>, b: Option<Mean>, holds: fn(&Mean, &Mean) -> bool| {
        a.zip(b).map(|(a, b)| claim(text, holds(&a, &b), pair(a, b)))
    };
    match name {
        Name::Staleness => [
            row("gepo", longest).zip(row("gepo", 0)).map(|(delayed, prompt)| {
                let start = Mean::of(&prompt.courses.iter().map(SeedCourse::first).collect::<Vec<_>>());
                // A policy that learned nothing would keep all of it.
                let learned = prompt.last.is_clearly_above(&start);
                claim(
                    "GEPO learns without delay, and keeps at least 97 % of its last accuracy under the longest delay",
                    learned && delayed.last.mean >= KEPT * prompt.last.mean,
                    json!({"start": start.mean, "figures": pair(delayed.last, prompt.last)}),
                )
            }),
            compared(
                "GEPO's last accuracy under the longest delay is above GRPO's, with intervals apart",
                last("gepo", longest),
                last("grpo", longest),
                Mean::is_clearly_above,
            ),
        ]
        .into_iter()
        .flatten()
        .collect(),
        Name::Decoupled => [1, 4, 8, 16]
            .into_iter()
            .filter_map(|eta| {
                let text = format!("decoupled PPO ends above naive PPO at η = {eta}");
                Some(paired(&text, row("decoupled_ppo", eta)?, row("naive_ppo", eta)?))
            })
            .collect(),
        // Has a report of its own.
        Name::Variance => Vec::new(),
        Name::EchoClip => ["grpo", "dapo"]
            .into_iter()
            .filter_map(|algo| {
                let text = format!("EchoClip raises the last accuracy of {algo}");
                Some(paired(&text, row(&format!("{algo}_echo"), 0)?, row(algo, 0)?))
            })
            .collect(),
    }
}

/// That one arm ends above another. Both began with the same policy and prompts for each
/// seed, so their difference is taken by seed: it holds when the 95 % interval of that
/// difference lies above zero.
fn paired(text: &str, above: &Row<'_>, below: &Row<'_>) -> Value {
    let by_seed = above.courses.iter().zip(below.courses).map(|(a, b)| a.last() - b.last());
    let difference = Mean::of(&by_seed.collect::<Vec<_>>());
    json!({
        "claim": format!("{text} (difference by seed, its 95 % interval above 0)"),
        "holds": difference.mean > difference.ci95,
        "figures": {"difference": [difference.mean, difference.ci95]},
    })
}
