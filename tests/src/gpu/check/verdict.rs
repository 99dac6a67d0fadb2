//! What all steps came to: a table for people, one JSON object for scripts, and an exit code.

use super::super::kit::Kit;
use super::super::steps::{GpuStep, GpuStepOutcome};
use crate::output::console::{CommandReport, NoDevice};
use serde_json::{Value, json};
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// A step that has ended.
#[derive(Clone, Debug)]
pub struct EndedStep {
    step: GpuStep,
    seconds: f64,
    outcome: GpuStepOutcome,
    skipped: bool,
    log: Option<PathBuf>,
}

/// What all of them came to.
#[derive(Clone, Debug)]
pub struct GpuVerdict {
    ended: Vec<EndedStep>,
    kit: Kit,
    seconds: f64,
}

impl EndedStep {
    pub(super) fn new(step: GpuStep, seconds: f64, outcome: GpuStepOutcome, log: PathBuf) -> Self {
        Self { step, seconds, outcome, skipped: false, log: Some(log) }
    }

    pub(super) fn skipped(step: GpuStep, why: String) -> Self {
        Self { step, seconds: 0.0, outcome: GpuStepOutcome::failed(why), skipped: true, log: None }
    }

    fn json(&self) -> Value {
        let GpuStepOutcome { ok, figures, claims, reason, .. } = &self.outcome;
        json!({
            "name": self.step.name(), "ok": ok, "skipped": self.skipped, "seconds": self.seconds,
            "figures": figures, "claims": claims, "reason": reason,
        })
    }

    fn word(&self) -> &'static str {
        match (&self.outcome, self.skipped) {
            (GpuStepOutcome { ok: true, .. }, _) => "ok",
            (_, true) => "skipped",
            (GpuStepOutcome { absent: true, .. }, _) => "no device",
            _ => "FAILED",
        }
    }
}

impl fmt::Display for EndedStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} after {:.1} s", self.word(), self.seconds)?;
        if let Some(reason) = &self.outcome.reason {
            write!(f, ": {reason}")?;
        }
        match &self.log {
            Some(log) if !self.outcome.ok => write!(f, " (log: {})", log.display()),
            _ => Ok(()),
        }
    }
}

impl GpuVerdict {
    pub(super) fn new(ended: Vec<EndedStep>, kit: &Kit, took: Duration) -> Self {
        Self { ended, kit: kit.clone(), seconds: took.as_secs_f64() }
    }

    /// Whether some step passed, and every other had no device: a card is not bound to know Vulkan.
    fn passed(&self) -> bool {
        let mut ended = self.ended.iter();
        ended.all(|ended| ended.outcome.ok || ended.outcome.absent) && !self.nothing_to_try()
    }

    fn nothing_to_try(&self) -> bool {
        self.ended.iter().all(|ended| ended.outcome.absent)
    }

    /// What the command says at its end.
    ///
    /// # Errors
    /// [`NoDevice`] when no step had one.
    pub fn report(&self) -> anyhow::Result<CommandReport> {
        match self.nothing_to_try() {
            true => Err(NoDevice(self.json()).into()),
            false => Ok(CommandReport { passed: self.passed(), json: self.json() }),
        }
    }

    /// The object for scripts.
    #[must_use]
    pub fn json(&self) -> Value {
        let found = |name: &str| {
            let survey = self.ended.iter().find(|ended| ended.step == GpuStep::Survey);
            survey.and_then(|survey| survey.outcome.figures.get(name)).cloned().unwrap_or(Value::Null)
        };
        let claims: Vec<&Value> = self.ended.iter().flat_map(|ended| &ended.outcome.claims).collect();
        json!({
            "passed": self.passed(),
            "steps": self.ended.iter().map(EndedStep::json).collect::<Vec<_>>(),
            "claims": claims,
            "device": found("device"), "driver": found("driver"),
            "commit": self.kit.commit, "kit": self.kit, "seconds": self.seconds,
        })
    }

    /// The table for people: a line for each step, and below it its figures.
    #[must_use]
    pub fn table(&self) -> String {
        let mut lines = Vec::new();
        for ended in &self.ended {
            lines.push(format!("{:<9} {:<10} {:>6.1} s", ended.step.name(), ended.word(), ended.seconds));
            for (name, value) in ended.outcome.figures.iter() {
                lines.extend(rows(name, value));
            }
            for claim in ended.outcome.claims.iter().filter(|claim| claim["holds"] != true) {
                lines.push(format!("  DOES NOT HOLD: {}", claim["claim"].as_str().unwrap_or_default()));
            }
            lines.extend(
                ended
                    .outcome
                    .reason
                    .iter()
                    .map(|reason| format!("  {}", reason.lines().next().unwrap_or_default())),
            );
        }
        lines.join("\n")
    }
}

/// A figure as lines; what lies within another bears both names.
fn rows(name: &str, value: &Value) -> Vec<String> {
    match value {
        Value::Object(fields) => {
            fields.iter().flat_map(|(field, value)| rows(&format!("{name}.{field}"), value)).collect()
        }
        Value::Array(_) | Value::Null => Vec::new(),
        Value::Number(number) if number.is_f64() => {
            let value = number.as_f64().unwrap_or_default();
            let text = if value != 0.0 && value.abs() < 0.01 {
                format!("{value:.2e}")
            } else {
                format!("{value:.2}")
            };
            vec![format!("  {name:<44} {text}")]
        }
        Value::String(text) => vec![format!("  {name:<44} {text}")],
        other => vec![format!("  {name:<44} {other}")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended(step: GpuStep, outcome: GpuStepOutcome) -> EndedStep {
        EndedStep::new(step, 1.5, outcome, PathBuf::from("log.txt"))
    }

    fn verdict(steps: Vec<EndedStep>) -> GpuVerdict {
        GpuVerdict::new(steps, &Kit { commit: "abc".into(), ..Kit::default() }, Duration::from_secs(2))
    }

    #[test]
    fn a_failure_is_told_from_a_missing_device() {
        let good = || ended(GpuStep::Survey, GpuStepOutcome::default());
        let absent = || ended(GpuStep::Train, GpuStepOutcome::absent("no card".into()));
        let bad = || ended(GpuStep::Vectors, GpuStepOutcome::failed("off by one".into()));
        let skipped = || EndedStep::skipped(GpuStep::Wgpu, "no time".into());
        let passed = |steps| {
            verdict(steps).report().map(|report| report.passed).map_err(|error| error.is::<NoDevice>())
        };
        assert_eq!(passed(vec![good()]), Ok(true));
        assert_eq!(passed(vec![absent(), absent()]), Err(true));
        assert_eq!(passed(vec![good(), absent()]), Ok(true));
        assert_eq!(passed(vec![good(), bad(), absent()]), Ok(false));
        assert_eq!(passed(vec![good(), skipped()]), Ok(false));
    }

    #[test]
    fn the_object_names_device_and_commit_and_the_table_shows_every_figure() {
        let mut survey = GpuStepOutcome::default();
        survey.figures.insert("device".into(), json!("Card 9"));
        survey.figures.insert("copy".into(), json!({"gb_s": 1234.5, "share": 0.001}));
        survey.claims.push(json!({"claim": "it answers", "holds": false}));
        let verdict = verdict(vec![
            ended(GpuStep::Survey, survey),
            ended(GpuStep::Loop, GpuStepOutcome::failed("a\nb".into())),
        ]);
        let json = verdict.json();
        assert_eq!(
            (&json["device"], &json["commit"], &json["passed"]),
            (&json!("Card 9"), &json!("abc"), &json!(false))
        );
        assert_eq!(json["steps"][1]["name"], "loop");
        assert_eq!(json["claims"][0]["holds"], false);
        let table = verdict.table();
        for part in
            ["copy.gb_s", "1234.50", "1.00e-3", "DOES NOT HOLD: it answers", "loop      FAILED", "  a"]
        {
            assert!(table.contains(part), "{part}: {table}");
        }
        assert!(!table.contains("\nb"));
    }
}
