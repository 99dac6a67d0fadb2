//! What a publication's numbers cost in bytes, and how much of each step they carry.
//!
//! The optimizer's numbers are f32, and nodes get them in some form: rounded, rounded by chance, or with
//! the largest errors beside. For every form and learning rate a policy is trained for some updates,
//! as in a run: groups are generated under what was published, and the passes of an update use the
//! same numbers. Rollouts come from the engine, updates from the learner's trainer, and
//! deltas from the codec of snapshots. There is no network, and every batch is at lag 0.
//!
//! ```text
//! policies ──► forms × rates ──► course (rollouts, update, publication) ──► report (claims), pictures
//!                                    └── masters ── form
//! ```

mod course;
mod form;
mod masters;
mod policies;
mod report;

pub use form::Form;

use crate::models::in_process_training::Practice;
use crate::output::console::{CommandReport, Console};
use anyhow::Context;
use course::course;
use echo_policy::model::weights::{DType, Weights};
use std::path::PathBuf;
use std::time::Instant;

/// What is trained, and for how long.
#[derive(Clone, Debug)]
pub struct PrecisionStudy {
    /// The Hugging Face directory of SmolLM2; without it a tiny policy is trained.
    pub model: Option<PathBuf>,
    /// The forms that are tried.
    pub forms: Vec<Form>,
    /// Learning rates of reinforcement.
    pub rates: Vec<f64>,
    /// Updates of each course, and a publication after each.
    pub updates: u64,
    /// Prompts of an update.
    pub groups: u64,
    /// Held-out orders that are answered before and after.
    pub orders: u64,
    /// Where the pictures go.
    pub out: PathBuf,
}

/// What all courses begin with.
struct Beginning {
    practice: Practice,
    /// In bf16, so that every form but f16 has it without an error.
    weights: Weights,
    /// Share of held-out orders that it answers right.
    held_out: f64,
}

/// Trains with every form and rate, and says what became of the claims. Passes when every claim holds.
///
/// # Errors
/// When the model cannot be read, training fails, or a picture cannot be written.
pub fn run(study: &PrecisionStudy, console: &Console) -> anyhow::Result<CommandReport> {
    std::fs::create_dir_all(&study.out).with_context(|| format!("cannot make {}", study.out.display()))?;
    let since = Instant::now();
    let home = tempfile::tempdir().context("no directory for temporary files")?;
    let (practice, weights) = policies::policy(study.model.as_deref(), home.path(), console)?;
    let weights = weights.to_dtype(DType::BF16);
    let held_out = practice.accuracy(&weights, study.orders)?;
    console.say(format!(
        "{} parameters; {} forms × {} rates, {} updates of {} prompts each; {held_out:.3} of {} held-out orders right before",
        practice.model().parameter_count(),
        study.forms.len(),
        study.rates.len(),
        study.updates,
        study.groups,
        study.orders
    ));
    let beginning = Beginning { practice, weights, held_out };
    let mut outcomes = Vec::new();
    for &rate in &study.rates {
        for &form in &study.forms {
            let outcome = course(study, &beginning, form, rate)?;
            console.say(report::line(form, rate, &outcome));
            outcomes.push((form, rate, outcome));
        }
    }
    report::draw(study, &outcomes)?;
    Ok(report::report(study, &beginning, &outcomes, since.elapsed(), console))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tiny_study_has_a_row_for_every_form_and_rate() {
        let dir = tempfile::tempdir().unwrap();
        let study = PrecisionStudy {
            model: None,
            forms: Form::ALL.to_vec(),
            rates: vec![1e-4],
            updates: 2,
            groups: 8,
            orders: 16,
            out: dir.path().to_owned(),
        };
        let json = run(&study, &Console::new(true)).unwrap().json;
        let rows = json["results"].as_array().unwrap();
        assert_eq!(rows.len(), Form::ALL.len(), "{json}");
        let row = |form: Form| rows.iter().find(|row| row["form"] == form.to_string()).unwrap();
        let cosine = |form: Form| row(form)["cosine"].as_f64().unwrap();
        assert!(cosine(Form::F32) > 0.999_999, "{json}");
        assert!(cosine(Form::F16) > cosine(Form::Bf16), "{json}");
        // Everything is computed again by the engine: a policy that is not the trained one would be far off.
        for row in rows {
            assert!(row["logp_gap_lag_0"].as_f64().unwrap() < 1e-3, "{row}");
            assert!(row["bytes_mean"].as_f64().unwrap() > 0.0, "{row}");
        }
        assert_eq!(row(Form::F32)["rounding_gap"], 0.0, "{json}");
        assert!(json["claims"].as_array().unwrap().iter().all(|claim| claim["holds"].is_boolean()));
        for picture in ["publication-precision-cosine.png", "publication-precision-bytes.png"] {
            assert!(dir.path().join(picture).is_file(), "{picture}");
        }
    }
}
