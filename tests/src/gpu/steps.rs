//! The steps of a check: what each is called, how long it may take, and what it found.
//!
//! Each is a function that fills an [`GpuStepOutcome`] as it goes, so that what was measured before
//! a failure is kept.

mod card;
mod generate;
mod survey;
mod train;
mod training_loop;
mod vectors;
mod wgpu;

use anyhow::Context as _;
use clap::ValueEnum;
use echo_policy::generation::device::{About, Device, FoundDevice, Survey};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The file of a step's result, in its directory.
const RESULT: &str = "result.json";

/// A step. They run in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GpuStep {
    /// What there is: devices, driver, memory, how fast it copies and multiplies.
    Survey,
    /// Whether its numbers are right.
    Vectors,
    /// How fast it generates, beside `transformers`.
    Generate,
    /// How fast it trains, beside PyTorch.
    Train,
    /// A whole network that learns.
    Loop,
    /// The wgpu backend: numbers and rates.
    Wgpu,
}

/// What a process that runs one step is told.
#[derive(Clone, Debug)]
pub struct StepOptions {
    /// The one step that the process runs.
    pub step: GpuStep,
    /// Where its files go.
    pub dir: PathBuf,
    /// At a small size on the processor.
    pub rehearse: bool,
    /// Vulkan in software will do, at a small size.
    pub software: bool,
}

/// What a step found.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct GpuStepOutcome {
    /// Whether all that it claims holds.
    pub ok: bool,
    /// Whether there was no device to try.
    pub absent: bool,
    /// What was measured, by the name of the figure.
    pub figures: Map<String, Value>,
    /// What was judged: `claim` and `holds`.
    pub claims: Vec<Value>,
    /// Why it failed or could not run; `None` while all is well.
    pub reason: Option<String>,
    /// Where it is kept while it grows: what was measured before a step is killed counts.
    #[serde(skip)]
    place: Option<PathBuf>,
}

/// There is nothing to run a step on.
#[derive(Debug, thiserror::Error)]
#[error("no device: {0}")]
struct NoDevice(String);

impl GpuStep {
    /// All, in their order.
    pub const ALL: [Self; 6] =
        [Self::Survey, Self::Vectors, Self::Generate, Self::Train, Self::Loop, Self::Wgpu];

    /// Its name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Survey => "survey",
            Self::Vectors => "vectors",
            Self::Generate => "generate",
            Self::Train => "train",
            Self::Loop => "loop",
            Self::Wgpu => "wgpu",
        }
    }

    /// What it does, in a few words.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Survey => "devices, memory, copies, products",
            Self::Vectors => "numbers, draws and audits against the reference",
            Self::Generate => "responses of a model of 0.6 billion parameters, beside transformers",
            Self::Train => "training steps of that model, beside PyTorch",
            Self::Loop => "a learner and nodes on this machine learn two-digit addition",
            Self::Wgpu => "numbers and responses through Vulkan",
        }
    }

    /// No more than this.
    #[must_use]
    pub fn limit(self) -> Duration {
        Duration::from_secs(match self {
            Self::Survey => 60,
            Self::Vectors => 150,
            Self::Generate => 180,
            Self::Train => 200,
            Self::Loop => 180,
            Self::Wgpu => 120,
        })
    }

    /// What it takes on a server with an H100 and a little more, or at a small size; without that
    /// much time it is not begun.
    #[must_use]
    pub fn expected(self, small: bool) -> Duration {
        Duration::from_secs(match self {
            Self::Survey => 5,
            _ if small => 10,
            Self::Vectors | Self::Wgpu => 45,
            Self::Generate => 100,
            Self::Train => 150,
            Self::Loop => 75,
        })
    }
}

impl fmt::Display for GpuStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl StepOptions {
    /// The words of the command line that says the same.
    #[must_use]
    pub fn words(&self) -> Vec<std::ffi::OsString> {
        let mut words = vec![
            "gpu".into(),
            "step".into(),
            self.step.name().into(),
            "--dir".into(),
            self.dir.clone().into(),
        ];
        words.extend(self.rehearse.then(|| "--rehearse".into()));
        words.extend(self.software.then(|| "--software".into()));
        words
    }

    /// The device that nodes would generate on through CUDA; in a rehearsal the processor stands in for it.
    fn cuda(&self) -> anyhow::Result<FoundDevice> {
        let survey = Survey::take();
        let wanted = |about: &About| match about {
            About::Cuda { .. } => !self.rehearse,
            About::Cpu { .. } => self.rehearse,
            About::Wgpu { .. } => false,
        };
        let found = survey.found.into_iter().find(|found| wanted(&found.about) && found.obstacle.is_none());
        Ok(found.ok_or_else(|| NoDevice(survey.absent.join("; ")))?)
    }

    /// The device of [`Self::cuda`], opened for generation.
    fn open_cuda(&self) -> anyhow::Result<Device> {
        Ok(self.cuda()?.open()?)
    }

    /// The adapter of the wgpu backend: a card, or software where that is allowed.
    fn vulkan(&self) -> anyhow::Result<FoundDevice> {
        let survey = Survey::take();
        let is_wgpu = |found: &FoundDevice| matches!(&found.about, About::Wgpu { adapter, .. } if self.software || *adapter != "software");
        let found = survey.found.into_iter().find(is_wgpu);
        let none = || {
            NoDevice("no card answers through Vulkan, which needs the driver and libvulkan1; --software takes Vulkan in software".into())
        };
        Ok(found.ok_or_else(none)?)
    }
}

impl Default for GpuStepOutcome {
    fn default() -> Self {
        Self { ok: true, absent: false, figures: Map::new(), claims: Vec::new(), reason: None, place: None }
    }
}

impl GpuStepOutcome {
    /// One that failed before anything was found.
    pub(super) fn failed(reason: String) -> Self {
        Self { ok: false, reason: Some(reason), ..Self::default() }
    }

    /// What there was of one that was not done.
    pub(super) fn cut_short(mut self, reason: String) -> Self {
        (self.ok, self.reason) = (false, Some(reason));
        self
    }

    /// One that had no device.
    #[cfg(test)]
    pub(super) fn absent(reason: String) -> Self {
        Self { absent: true, ..Self::failed(reason) }
    }

    /// What a step left in its directory.
    pub(super) fn load(dir: &Path) -> anyhow::Result<Self> {
        Ok(serde_json::from_slice(&fs::read(dir.join(RESULT))?)?)
    }

    fn figure(&mut self, name: &str, value: impl Serialize) {
        let value = serde_json::to_value(value).unwrap_or_default();
        eprintln!("{name}: {value}");
        self.figures.insert(name.to_owned(), value);
        self.keep();
    }

    fn claim(&mut self, claim: &str, holds: bool) {
        eprintln!("{}: {claim}", if holds { "holds" } else { "DOES NOT HOLD" });
        self.ok &= holds;
        self.claims.push(json!({"claim": claim, "holds": holds}));
        self.keep();
    }

    /// Writes down what there is. That the disk refuses it is said when the step ends.
    fn keep(&self) {
        if let Some(place) = &self.place {
            let _ = self.save(place);
        }
    }

    fn save(&self, place: &Path) -> anyhow::Result<()> {
        // At once: a step may be killed while it writes.
        let beside = place.with_extension("partial");
        fs::write(&beside, serde_json::to_vec_pretty(self)?)
            .and_then(|()| fs::rename(&beside, place))
            .with_context(|| place.display().to_string())
    }

    fn fail(&mut self, reason: String) {
        self.ok = false;
        let before = self.reason.take().map(|reason| reason + "; ").unwrap_or_default();
        self.reason = Some(before + &reason);
    }

    /// Takes in that a part failed, and lets the others go on.
    fn part(&mut self, name: &str, done: anyhow::Result<()>) {
        if let Err(error) = done {
            eprintln!("{name} failed: {error:#}");
            self.fail(format!("{name}: {error:#}"));
        }
    }
}

/// Runs one step in this process, and leaves its result in its directory.
///
/// # Errors
/// When the result cannot be written.
pub async fn run(options: &StepOptions) -> anyhow::Result<GpuStepOutcome> {
    fs::create_dir_all(&options.dir)?;
    let place = options.dir.join(RESULT);
    let mut outcome = GpuStepOutcome { place: Some(place.clone()), ..GpuStepOutcome::default() };
    let done = match options.step {
        GpuStep::Survey => survey::run(options, &mut outcome),
        GpuStep::Vectors => vectors::run(options, &mut outcome),
        GpuStep::Generate => generate::run(options, &mut outcome),
        GpuStep::Train => train::run(options, &mut outcome),
        GpuStep::Loop => training_loop::run(options, &mut outcome).await,
        GpuStep::Wgpu => wgpu::run(options, &mut outcome),
    };
    if let Err(error) = done {
        // What failed before has failed, whatever is missing.
        outcome.absent = outcome.ok && error.is::<NoDevice>();
        outcome.fail(format!("{error:#}"));
    }
    outcome.save(&place)?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_found_before_a_step_is_cut_short_is_kept_and_has_not_passed() {
        let dir = tempfile::tempdir().unwrap();
        let mut outcome =
            GpuStepOutcome { place: Some(dir.path().join(RESULT)), ..GpuStepOutcome::default() };
        outcome.figure("rate", 3);
        outcome.claim("it counts", true);
        let found = GpuStepOutcome::load(dir.path()).unwrap().cut_short("killed".into());
        assert_eq!((found.figures["rate"].as_u64(), found.claims.len()), (Some(3), 1));
        assert!(!found.ok && found.reason.as_deref() == Some("killed"));
    }

    #[test]
    fn a_part_that_fails_leaves_the_others_and_is_named() {
        let mut outcome = GpuStepOutcome::default();
        outcome.part("one", Err(anyhow::anyhow!("broken")));
        outcome.part("two", Ok(()));
        outcome.part("three", Err(anyhow::anyhow!("gone")));
        assert_eq!(outcome.reason.as_deref(), Some("one: broken; three: gone"));
        assert!(!outcome.ok);
        outcome.claim("it holds", true);
        assert!(!outcome.ok);
    }

    #[test]
    fn the_words_of_a_step_are_those_that_the_command_line_takes() {
        let options =
            StepOptions { step: GpuStep::Loop, dir: "some where".into(), rehearse: true, software: false };
        assert_eq!(options.words(), ["gpu", "step", "loop", "--dir", "some where", "--rehearse"]);
        assert!(GpuStep::ALL.iter().all(|step| step.expected(false) <= step.limit()));
    }
}
