//! What the forms came to, for people and scripts.

use super::course::{Outcome, PrecisionCourse};
use super::form::Form;
use super::{Beginning, PrecisionStudy};
use crate::output::console::{CommandReport, Console};
use crate::study::chart::{PlotLine, lines};
use crate::study::statistics::Mean;
use serde_json::{Value, json};
use std::time::Duration;

/// Largest mean gap of log-probs at lag 0, in nats: engine and trainer have the same numbers there.
const MOST_GAP: f64 = 0.005;
/// How near the published way is to the true one where nothing is rounded.
const ALL_OF_IT: f64 = 0.9999;
/// From here on the reward of a course says something about its form.
const MANY_UPDATES: u64 = 60;

/// The courses in the order in which they were made.
type Outcomes = [(Form, f64, Outcome)];

/// A course in one line.
pub(super) fn line(form: Form, rate: f64, outcome: &Outcome) -> String {
    let name = format!("  {:<9} {rate:>7e}", form.to_string());
    match outcome {
        Err(refusal) => format!("{name}  refused: {refusal}"),
        Ok(course) => {
            let [changed, bytes] = course.of_publications();
            let likeness = course.likeness.map_or_else(
                || "nothing moved".to_owned(),
                |likeness| format!("cosine {:.3}, carried {:.3}", likeness.cosine, likeness.carried),
            );
            format!(
                "{name}  {likeness}, {:.2} % changed, {:.2} of {:.0} MB a publication, gap by rounding {:.4}, held-out {:.3}",
                100.0 * changed,
                bytes / 1e6,
                course.full_bytes as f64 / 1e6,
                course.rounding_gap,
                course.held_out
            )
        }
    }
}

/// Draws cosines and bytes by rate: `publication-precision-cosine.png` and `publication-precision-bytes.png`.
pub(super) fn draw(study: &PrecisionStudy, outcomes: &Outcomes) -> anyhow::Result<()> {
    type Figure = fn(&PrecisionCourse) -> Option<f64>;
    let pictures: [(&str, &str, Figure); 2] = [
        ("cosine", "cosine of the published way with the true one", |course| {
            course.likeness.map(|likeness| likeness.cosine)
        }),
        ("bytes", "bytes of a publication", |course| Some(course.of_publications()[1])),
    ];
    for (name, axis, figure) in pictures {
        let of_form = |form: &Form| {
            let own = outcomes.iter().filter(|(other, _, _)| other == form);
            let points = own.filter_map(|(_, rate, outcome)| {
                let mean = outcome.as_ref().ok().and_then(figure)?;
                // One course each: there is no interval.
                Some((*rate, Mean { mean, ci95: 0.0 }))
            });
            PlotLine { name: form.to_string(), points: points.collect() }
        };
        let series: Vec<PlotLine> = study.forms.iter().map(of_form).collect();
        let path = study.out.join(format!("publication-precision-{name}.png"));
        lines(&path, "forms of publications", "learning rate", axis, &series)?;
    }
    Ok(())
}

pub(super) fn report(
    study: &PrecisionStudy,
    beginning: &Beginning,
    outcomes: &Outcomes,
    took: Duration,
    console: &Console,
) -> CommandReport {
    let claims = claims(&study.rates, outcomes);
    for claim in &claims {
        let word = if claim["holds"] == true { "holds:" } else { "does not hold:" };
        console.say(format!("{word} {}", claim["claim"].as_str().unwrap_or_default()));
    }
    let passed = claims.iter().all(|claim| claim["holds"] == true);
    let rows = outcomes.iter().map(|(form, rate, outcome)| row(*form, *rate, outcome));
    let json = json!({
        "study": "publication-precision",
        "passed": passed,
        "model": if study.model.is_some() { "smollm2" } else { "tiny" },
        "parameters": beginning.practice.model().parameter_count(),
        "updates": study.updates,
        "groups": study.groups,
        "held_out_orders": study.orders,
        "held_out_before": beginning.held_out,
        "seconds": took.as_secs_f64(),
        "results": rows.collect::<Vec<_>>(),
        "claims": claims,
        "leaves_out": leaves_out(study.updates),
    });
    CommandReport { passed, json }
}

/// What the figures do not say.
fn leaves_out(updates: u64) -> String {
    let learning = if updates < MANY_UPDATES {
        "so few updates do not tell the forms' rewards apart: --updates 60 --groups 6 does; "
    } else {
        ""
    };
    format!(
        "{learning}one seed; every batch is at lag 0, so ratios have no noise of staleness; positions and errors of `residual` are counted \
         as they are, without a codec"
    )
}

fn row(form: Form, rate: f64, outcome: &Outcome) -> Value {
    let course = match outcome {
        Err(refusal) => {
            return json!({"form": form.to_string(), "learning_rate": rate, "refused": refusal});
        }
        Ok(course) => course,
    };
    let [changed, bytes] = course.of_publications();
    json!({
        "form": form.to_string(),
        "learning_rate": rate,
        "refused": null,
        "cosine": course.likeness.map(|likeness| likeness.cosine),
        "carried": course.likeness.map(|likeness| likeness.carried),
        "changed_mean": changed,
        "bytes_mean": bytes,
        "bytes": course.publications.iter().map(|publication| publication.bytes).collect::<Vec<_>>(),
        "full_bytes": course.full_bytes,
        "logp_gap_lag_0": course.gap,
        "rounding_gap": course.rounding_gap,
        "rewards": course.rewards,
        "held_out_after": course.held_out,
    })
}

fn claims(rates: &[f64], outcomes: &Outcomes) -> Vec<Value> {
    let courses =
        || outcomes.iter().filter_map(|(form, rate, outcome)| Some((*form, *rate, outcome.as_ref().ok()?)));
    let course =
        |form: Form, rate: f64| courses().find(|(f, r, _)| (*f, *r) == (form, rate)).map(|(_, _, c)| c);
    let cosine = |form: Form, rate: f64| course(form, rate)?.likeness.map(|likeness| likeness.cosine);
    let claim = |text: String, holds: bool, figures: Value| json!({"claim": text, "holds": holds, "figures": figures});
    let mut claims = Vec::new();
    let gap = courses().filter_map(|(_, _, course)| course.gap).reduce(f64::max);
    if let Some(gap) = gap {
        claims.push(claim(
            format!("whatever the form, nodes and trainer agree within {MOST_GAP} nats at lag 0"),
            gap <= MOST_GAP,
            json!({"largest": gap}),
        ));
    }
    for &rate in rates {
        if let Some(whole) = cosine(Form::F32, rate) {
            let text = format!("at {rate:e}, f32 carries every step: its cosine is at least {ALL_OF_IT}");
            claims.push(claim(text, whole >= ALL_OF_IT, json!({"f32": whole})));
        }
        let Some(plain) = cosine(Form::Bf16, rate) else { continue };
        for (form, why) in [
            (Form::F16, "f16 carries more of each step than bf16"),
            (Form::Residual, "the largest errors beside it bring bf16 nearer to the true way"),
        ] {
            if let Some(other) = cosine(form, rate) {
                let figures = json!({"bf16": plain, form.to_string(): other});
                claims.push(claim(format!("at {rate:e}, {why}"), other > plain, figures));
            }
        }
        let carried = |form: Form| course(form, rate)?.likeness.map(|likeness| likeness.carried);
        if let Some((plain, chance)) = carried(Form::Bf16).zip(carried(Form::Chance)) {
            let text =
                format!("at {rate:e}, rounding by chance carries more of the way than bf16 to the nearest");
            claims.push(claim(text, chance > plain, json!({"bf16": plain, "chance": chance})));
        }
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::precision::masters::{Likeness, Publication};

    fn outcome(cosine: f64, gap: f64) -> Outcome {
        Ok(PrecisionCourse {
            rewards: vec![0.5],
            held_out: 0.5,
            likeness: Some(Likeness { cosine, carried: cosine }),
            publications: vec![
                Publication { changed: 0.1, bytes: 100 },
                Publication { changed: 0.3, bytes: 300 },
            ],
            full_bytes: 1000,
            gap: Some(gap),
            rounding_gap: 0.1,
        })
    }

    #[test]
    fn claims_are_of_the_forms_that_were_tried() {
        let outcomes = [
            (Form::Bf16, 1e-6, outcome(0.5, 1e-4)),
            (Form::F16, 1e-6, outcome(0.4, 2e-4)),
            (Form::F32, 1e-6, outcome(1.0, 6e-3)),
        ];
        let holds: Vec<bool> =
            claims(&[1e-6], &outcomes).iter().map(|claim| claim["holds"] == true).collect();
        assert_eq!(holds, [false, true, false], "the gap of f32 is too large, and f16 is not nearer");
        assert_eq!(claims(&[1e-6], &outcomes[..1]).len(), 1);
        let refused: [(Form, f64, Outcome); 1] = [(Form::F16, 1e-6, Err("too large".to_owned()))];
        assert!(claims(&[1e-6], &refused).is_empty());
        assert_eq!(row(Form::F16, 1e-6, &refused[0].2)["refused"], "too large");
    }

    #[test]
    fn means_are_over_publications() {
        let course = outcome(0.5, 0.0).unwrap();
        assert_eq!(course.of_publications(), [0.2, 200.0]);
        let row = row(Form::Bf16, 1e-6, &Ok(course));
        assert_eq!((&row["bytes_mean"], &row["refused"]), (&json!(200.0), &Value::Null));
        assert!(leaves_out(5).contains("--updates 60") && !leaves_out(60).contains("--updates"));
    }
}
