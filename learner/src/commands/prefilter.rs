//! Pre-filtering by pass rate (RLAX §6.2): of the rows that a task is made of those remain that the
//! starting policy answers right now and then. What it always or never answers right teaches it
//! nothing, and is not even generated.
//!
//! Rows are answered one after the other, each as often as is asked for, at the run's own
//! settings. What was found of each is written at once beside the output, so that the work goes on
//! where it was interrupted.

use crate::common::workload::Workload;
use crate::config::RunConfig;
use crate::founding::{Beginning, begin};
use crate::storage::atomic_file::write_whole;
use crate::training::local_rollouts::answers;
use anyhow::{Context, bail, ensure};
use clap::Args;
use echo_policy::generation::Policy;
use echo_policy::model::weights::Weights;
use echo_protocol::run::charter::TaskSpec;
use echo_protocol::run::prompt::PromptSpec;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::order::Purpose;
use echo_sandbox::rollout::mix::TaskMix;
use echo_sandbox::task::files::TaskFiles;
use echo_sandbox::task::spec::SpecError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Nobody waits longer for a word.
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// What is filtered, and how.
#[derive(Args, Clone, Debug)]
pub struct PrefilterPlan {
    /// The task whose file is filtered; may be left out where the run file has one task.
    #[arg(long)]
    pub task: Option<String>,
    /// Responses to each row, 2 to 1024.
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(2..=1024))]
    pub responses: u32,
    /// The least share of right responses with which a row remains.
    #[arg(long, value_name = "SHARE", default_value_t = 0.001, allow_negative_numbers = true)]
    pub min_pass_rate: f64,
    /// The highest.
    #[arg(long, value_name = "SHARE", default_value_t = 0.999, allow_negative_numbers = true)]
    pub max_pass_rate: f64,
    /// Where the rows that remain are written. Must not exist.
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
    /// Print one JSON object.
    #[arg(long)]
    pub json: bool,
}

/// How often the responses to a row were right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Measured {
    row: ContentId,
    /// `None`: nothing could be judged.
    right: Option<u32>,
}

/// What all rows came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PrefilterOutcome {
    /// Rows whose share of right responses lies within the bounds.
    pub kept: usize,
    /// Rows of which too few responses were right.
    pub too_hard: usize,
    /// Rows of which too many were.
    pub too_easy: usize,
    /// Rows that cannot be judged.
    pub unjudged: usize,
}

/// Filters the file of a task of `config`.
///
/// # Errors
/// When the task is made of no rows, the policy is not there yet, or a file cannot be read or written.
pub fn prefilter(config: &RunConfig, plan: &PrefilterPlan) -> anyhow::Result<PrefilterOutcome> {
    let range = plan.min_pass_rate..=plan.max_pass_rate;
    let shares = 0.0..=1.0;
    ensure!(
        !range.is_empty() && shares.contains(range.start()) && shares.contains(range.end()),
        "--min-pass-rate {} and --max-pass-rate {} have to be shares between 0 and 1, the first no higher than the second",
        range.start(),
        range.end()
    );
    ensure!(
        !plan.output.exists(),
        "{} exists: move it away, or name another --output",
        plan.output.display()
    );
    ensure!(
        config.warmup.is_none(),
        "a policy that is warmed up is another one for each run: make it once with `echo-learner warmup --output start`, name it in the run \
         file as [model] path = \"start\", leave [warmup] out there, and filter then"
    );
    // Of no run: so that the same file, policy and settings have the same orders, and what is found
    // can be gone on with.
    let key = NodeKey::from_secret([0; 32]);
    let beginning = begin(config, &key, UnixMillis(0), |_, _| ())?;
    let spec = chosen(&beginning.workload, plan.task.as_deref())?;
    let file = spec.data.and_then(|id| beginning.task_files().get(&id)).cloned();
    let file = file.with_context(|| format!("task {} has no file", spec.name))?;
    let Beginning { mut workload, weights, .. } = beginning;
    let policy = Arc::new(Policy::load(0, &workload.model, &weights)?);
    let mut journal = Journal::open(&plan.output, &settings(&workload, &spec, &weights, plan.responses))?;

    let rows: Vec<&[u8]> = lines(&file).collect();
    let (mut outcome, mut kept, mut reported) = (PrefilterOutcome::default(), Vec::new(), Instant::now());
    for (at, row) in rows.iter().enumerate() {
        let id = ContentId::of(row);
        let right = match journal.found.get(&id) {
            Some(right) => *right,
            None => {
                let right = measure(&mut workload, &spec, &policy, at as u64, row, plan.responses)?;
                journal.write(id, right)?;
                right
            }
        };
        match right.map(|right| f64::from(right) / f64::from(plan.responses)) {
            None => outcome.unjudged += 1,
            Some(share) if share < plan.min_pass_rate => outcome.too_hard += 1,
            Some(share) if share > plan.max_pass_rate => outcome.too_easy += 1,
            Some(_) => {
                outcome.kept += 1;
                kept.extend_from_slice(row);
                kept.push(b'\n');
            }
        }
        if reported.elapsed() > REPORT_EVERY {
            reported = Instant::now();
            tracing::info!("{} of {} rows: {}", at + 1, rows.len(), outcome.text());
        }
    }
    tracing::info!("{} rows: {}", rows.len(), outcome.text());
    ensure!(
        outcome.kept > 0,
        "no row remains: raise [sampling] max_new_tokens if responses are cut, lengthen [warmup], take another policy, ask for more --responses, or widen the range; what was found is in {}",
        journal.path.display()
    );
    write_whole(&plan.output, &kept)?;
    Ok(outcome)
}

impl PrefilterOutcome {
    /// The counts as a sentence for the log.
    fn text(&self) -> String {
        let Self { kept, too_hard, too_easy, unjudged } = self;
        let unjudged =
            if *unjudged == 0 { String::new() } else { format!(", {unjudged} that cannot be judged") };
        format!("{kept} remain, {too_hard} too hard, {too_easy} too easy{unjudged}")
    }
}

/// The task that is meant.
fn chosen(workload: &Workload, name: Option<&str>) -> anyhow::Result<TaskSpec> {
    let specs = || workload.charter.tasks.iter().zip(workload.mix.tasks());
    let of_rows = specs().filter(|(_, task)| task.held_out_rows().is_some());
    let of_rows = of_rows.map(|(spec, _)| spec.name.as_str()).collect::<Vec<_>>().join(", ");
    let wanted = |spec: &TaskSpec| name.is_none_or(|name| name == spec.name);
    let mut found = specs().filter(|(spec, _)| wanted(spec));
    match (found.next(), found.next()) {
        (Some((spec, task)), None) if task.held_out_rows().is_some() => Ok(spec.clone()),
        (Some((spec, _)), None) => {
            bail!("task {} is not made of the rows of a file: it has nothing to filter", spec.name)
        }
        (Some(_), Some(_)) => {
            bail!("the run file has several tasks: name one that is made of rows with --task: {of_rows}")
        }
        (None, _) => {
            bail!("the run file has no task {}; made of rows are: {of_rows}", name.unwrap_or_default())
        }
    }
}

/// The rows of a data set as they stand in its file.
fn lines(file: &[u8]) -> impl Iterator<Item = &[u8]> {
    file.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty())
}

/// How many of the responses to `row` are right. The task over this row alone asks nothing else.
fn measure(
    workload: &mut Workload,
    spec: &TaskSpec,
    policy: &Arc<Policy>,
    at: u64,
    row: &[u8],
    responses: u32,
) -> anyhow::Result<Option<u32>> {
    let mut files = TaskFiles::none();
    let data = Some(files.add(row));
    workload.mix = match TaskMix::new(&[TaskSpec { data, ..spec.clone() }], &files) {
        Ok(mix) => Arc::new(mix.judging(workload.mix.judged_part())),
        // The task leaves the row out, as no answer could earn on it.
        Err(SpecError::Data { .. }) => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let order = workload.order(Purpose::Train, at);
    match answers(workload, policy.clone(), &[order], responses) {
        Ok(answers) => {
            let right = answers.iter().flatten().filter(|answer| answer.verdict.correct).count();
            Ok(Some(right as u32))
        }
        Err(error) if error.is_of_order() => {
            tracing::warn!(%error, "row {} cannot be judged", at + 1);
            Ok(None)
        }
        Err(error) => Err(error.into()),
    }
}

/// What the measurements depend on, as one name.
fn settings(workload: &Workload, spec: &TaskSpec, weights: &Weights, responses: u32) -> ContentId {
    let charter = &workload.charter;
    let mut hasher = blake3::Hasher::new();
    for tensor in weights.iter() {
        hasher.update(tensor.name().as_bytes()).update(tensor.bytes());
    }
    let mut parts = format!("{:?} {:?} {:?} {responses}", charter.sampling, charter.tokenizer, spec);
    if !charter.prompt.is_default() {
        parts += &format!(" {:?}", PromptSpec { now: None, ..charter.prompt.clone() });
    }
    hasher.update(charter.model.as_bytes()).update(parts.as_bytes());
    ContentId::of(hasher.finalize().as_bytes())
}

/// What was found of each row so far.
struct Journal {
    path: PathBuf,
    file: File,
    found: BTreeMap<ContentId, Option<u32>>,
}

impl Journal {
    /// Opens the journal beside `output`, which belongs to `settings`.
    fn open(output: &Path, settings: &ContentId) -> anyhow::Result<Self> {
        let mut path = output.as_os_str().to_owned();
        path.push(".measured.jsonl");
        let path = PathBuf::from(path);
        let named = || path.display().to_string();
        let text = if path.exists() { fs::read_to_string(&path).with_context(named)? } else { String::new() };
        // An interrupted process may have left half of a line.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        let mut lines = text[..whole].lines();
        let damaged = || format!("{} is damaged: delete it to measure anew", path.display());
        let begun: Option<ContentId> =
            lines.next().map(serde_json::from_str).transpose().with_context(damaged)?;
        ensure!(
            begun.is_none_or(|begun| begun == *settings),
            "{} was measured with another policy, task or settings: delete it, or name another --output",
            path.display()
        );
        let found: Vec<Measured> =
            lines.map(serde_json::from_str).collect::<Result<_, _>>().with_context(damaged)?;
        let file = OpenOptions::new().create(true).append(true).open(&path).with_context(named)?;
        file.set_len(whole as u64).with_context(named)?;
        let mut journal = Self { found: found.iter().map(|m| (m.row, m.right)).collect(), file, path };
        if begun.is_none() {
            journal.append(settings)?;
        } else {
            tracing::info!("going on with {}: {} rows are measured", journal.path.display(), found.len());
        }
        Ok(journal)
    }

    fn write(&mut self, row: ContentId, right: Option<u32>) -> anyhow::Result<()> {
        self.found.insert(row, right);
        self.append(&Measured { row, right })
    }

    fn append(&mut self, line: &impl Serialize) -> anyhow::Result<()> {
        let line = serde_json::to_string(line)? + "\n";
        self.file.write_all(line.as_bytes()).with_context(|| self.path.display().to_string())
    }
}

#[cfg(test)]
mod tests;
