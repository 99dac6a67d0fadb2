//! A set of rows that is ready to be asked: its file is read, and its task built.

use crate::common::workload::Workload;
use crate::training::evaluation::asking::{AskError, Asked, Asking};
use crate::training::evaluation::engine::{LoadError, load};
use crate::training::evaluation::journal::{AnsweredRow, Journal, JournalError, Pinned};
use crate::training::evaluation::options::EvaluationSet;
use crate::training::evaluation::questions::{Questions, QuestionsError};
use crate::training::evaluation::summary::EvaluationSummary;
use echo_policy::model::weights::Weights;
use echo_protocol::run::charter::TaskSpec;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::content_id::ContentId;
use echo_sandbox::task::files::TaskFiles;
use echo_sandbox::tasks::wasm;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Why a set has no result.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// No device takes the policy.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// Its file cannot be gone on with.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It cannot go on.
    #[error(transparent)]
    Ask(#[from] AskError),
}

/// The row of a set's evaluation in `metrics.jsonl`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SetRow {
    /// The version evaluated.
    pub evaluated: u64,
    /// The set's name, and its figures by their names.
    pub evaluation: BTreeMap<String, Map<String, Value>>,
}

/// A set with its rows.
#[derive(Debug)]
pub struct PreparedSet {
    options: EvaluationSet,
    spec: TaskSpec,
    questions: Questions,
}

impl PreparedSet {
    /// Makes the questions of a set, of `file` where its task is made of one.
    ///
    /// # Errors
    /// When the task cannot be built of that.
    pub fn new(options: EvaluationSet, file: Option<Vec<u8>>) -> Result<Self, QuestionsError> {
        let mut files = TaskFiles::none();
        let data = file.map(|bytes| files.add(bytes));
        if let (Some(module), Some(found)) = (wasm::module_of(&options.task), data)
            && module != found
        {
            return Err(QuestionsError::OtherModule { name: options.task, found });
        }
        let name: &str = if wasm::asks_for_module(&options.task) { wasm::NAME } else { &options.task };
        let spec = TaskSpec { data, params: options.params.clone(), ..TaskSpec::new(name) };
        let questions = Questions::new(&spec, &files, options.seed, options.limit)?;
        Ok(Self { options, spec, questions })
    }

    /// What the run file says of it.
    #[must_use]
    pub fn options(&self) -> &EvaluationSet {
        &self.options
    }

    /// What it asks.
    #[must_use]
    pub fn questions(&self) -> &Questions {
        &self.questions
    }

    /// How many rows it has.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.questions.count()
    }

    /// Whether it is due at a version, which may be the run's last.
    #[must_use]
    pub fn is_due(&self, version: PolicyVersion, is_last: bool) -> bool {
        let every = self.options.every;
        version.0 == 0 || is_last || (every > 0 && version.0.is_multiple_of(every))
    }

    /// All that its rows depend on, for these weights.
    #[must_use]
    pub fn pinned(&self, workload: &Workload, weights: &Weights) -> Pinned {
        let asking = self.asking(workload);
        let EvaluationSet { samples, temperature, top_p, top_k, precision, seed, keep_texts, .. } =
            self.options;
        Pinned {
            evaluation: Pinned::FORM,
            model: content_of(workload, weights),
            prompt: asking.prompt_id(),
            data: self.spec.data,
            task: self.spec.name.clone(),
            params: self.spec.params.clone(),
            samples,
            temperature,
            top_p,
            top_k,
            max_new_tokens: asking.params.max_new_tokens,
            precision,
            seed,
            texts: keep_texts,
        }
    }

    /// Answers the rows that the file at `path` does not have, by the policy of `weights`. `each` is called
    /// after every row. Returns what all rows come to, nothing where there are none, and how it ended.
    ///
    /// # Errors
    /// [`SetError`]; what is written stays, and the next call goes on from there.
    pub fn answer(
        &self,
        workload: &Workload,
        (version, weights): (PolicyVersion, &Weights),
        path: &Path,
        stop: &CancellationToken,
        each: impl FnMut(&Journal, &AnsweredRow),
    ) -> Result<(Option<EvaluationSummary>, Asked), SetError> {
        let mut journal = Journal::open(path, &self.pinned(workload, weights))?;
        let is_missing = |row: usize| !journal.rows().contains_key(&row);
        let asked = if (0..self.rows()).any(is_missing) {
            let EvaluationSet { device, precision, .. } = &self.options;
            let policy = Arc::new(load(device, *precision, version.0, &workload.model, weights)?);
            self.asking(workload).ask(policy, &mut journal, stop, each)?
        } else {
            Asked { finished: true, unanswered: Vec::new() }
        };
        Ok((EvaluationSummary::of(&journal, self.rows()), asked))
    }

    /// What is asked, and how; a response is judged as the run judges it.
    fn asking<'a>(&'a self, workload: &'a Workload) -> Asking<'a> {
        Asking {
            workload,
            questions: &self.questions,
            samples: self.options.samples,
            params: self.options.sampling(workload.charter.sampling.max_new_tokens),
            keep_texts: self.options.keep_texts,
        }
    }
}

/// BLAKE3 of the policy's form and weights.
fn content_of(workload: &Workload, weights: &Weights) -> ContentId {
    let mut hasher = blake3::Hasher::new();
    hasher.update(workload.charter.model.as_bytes());
    for tensor in weights.iter() {
        hasher.update(tensor.name().as_bytes()).update(tensor.bytes());
    }
    ContentId::from_bytes(*hasher.finalize().as_bytes())
}
