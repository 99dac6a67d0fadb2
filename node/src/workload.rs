//! What a run asks of a node, read from its charter.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use echo_policy::generation::SampleRequest;
use echo_policy::model::config::{ModelConfig, ModelConfigError};
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::{DType, expected_tensors};
use echo_policy::sampling;
use echo_policy::sampling::SamplingParams;
use echo_policy::text::tokenizer::{CharTokenizer, HfTokenizer, PromptForm, Tokenizer, TokenizerError};
use echo_protocol::run::charter::{
    Charter, DrawRule, RunId, Takeover, TaskSpec, TokenizerSpec, task_file_name,
};
use echo_protocol::run::prompt::PromptSpec;
use echo_protocol::snapshot::manifest::{Manifest, TensorType};
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::order::{OrderCounter, Purpose, WorkOrder};
use echo_protocol::work::trajectory::Form;
use echo_sandbox::rollout::assignment::Assignment;
use echo_sandbox::rollout::mix::TaskMix;
use echo_sandbox::task::episode::Play;
use echo_sandbox::task::files::TaskFiles;
use echo_sandbox::task::spec::SpecError;
use echo_sandbox::task::{JudgedPart, TaskError};
use echo_sandbox::tasks::registry;

use crate::devices::precision;
use crate::devices::precision::NotTaken;

/// Most bytes of a snapshot's companion files together: a tokenizer and its companions, and
/// the files of tasks.
pub const MAX_COMPANION_BYTES: u64 = 256 << 20;

/// A run that this node cannot work for, or an order that it cannot prepare or judge.
#[derive(Debug, thiserror::Error)]
pub enum NodeWorkloadError {
    /// The model is of a kind that this version does not know.
    #[error("the run's model: {0}; a newer echo-node may know it")]
    Model(#[from] ModelConfigError),
    /// A task that this version does not know.
    #[error("the run's tasks: {0}; a newer echo-node may know them")]
    Tasks(SpecError),
    /// The owner wants to compute in what the run does not take.
    #[error(transparent)]
    Precision(#[from] NotTaken),
    /// A task that this machine cannot do.
    #[error(
        "this node cannot generate for the run: {0}\nMend that and start again, or help without generating: --role relay"
    )]
    Machine(SpecError),
    /// The tokenizer cannot be built, or has no token for something.
    #[error("the run's tokenizer: {0}")]
    Tokenizer(#[from] TokenizerError),
    /// Work was begun before the first snapshot brought the tasks' files.
    #[error("the files of the run's tasks have not come yet")]
    TasksNotHere,
    /// A file that the tokenizer needs is not in the snapshot.
    #[error("the snapshot lacks {0}, which the run's charter promises")]
    MissingFile(&'static str),
    /// Nothing ends a response.
    #[error("the run's tokenizer names no token that ends a response")]
    NoEnd,
    /// A snapshot that is not what the charter says.
    #[error("snapshot {version} contradicts the run's charter: {what}")]
    OffCharter {
        /// The version that the manifest names.
        version: echo_protocol::run::version::PolicyVersion,
        /// What differs from the charter, in words.
        what: String,
    },
    /// Judging failed; the response is worth nothing at all, not even a reward of 0.
    #[error(transparent)]
    Judge(#[from] TaskError),
    /// An episode that nobody played to its end.
    #[error("an episode of the order is not over")]
    NotOver,
}

impl From<SpecError> for NodeWorkloadError {
    fn from(error: SpecError) -> Self {
        match error {
            SpecError::Machine { .. } => Self::Machine(error),
            _ => Self::Tasks(error),
        }
    }
}

/// A run: its tasks, its model and how it is sampled.
#[derive(Debug)]
pub struct NodeWorkload {
    /// The run's id, the hash of its signed charter.
    pub run: RunId,
    /// The key of its learner, which signs leases and manifests.
    pub learner: PublicKey,
    /// Shape of the model.
    pub model: ModelConfig,
    /// G: trajectories of an order.
    pub group_size: u32,
    sampling: SamplingParams,
    snapshot_type: TensorType,
    chunk_bytes: u32,
    takeover: Takeover,
    precision: Precision,
    form: Form,
    tokenizer: TokenizerSpec,
    prompt: PromptSpec,
    specs: Vec<TaskSpec>,
    /// Built once the files are there that tasks are made of.
    tasks: OnceLock<TaskMix>,
}

impl NodeWorkload {
    /// The workload of a charter that was opened.
    ///
    /// # Errors
    /// When this version of the node does not know the model or a task.
    pub fn new(run: RunId, charter: &Charter) -> Result<Self, NodeWorkloadError> {
        let s = &charter.sampling;
        TaskMix::check(&charter.tasks)?;
        let model = ModelConfig::from_json(&charter.model)?;
        let form = Form::of(charter, u32::try_from(model.vocab_size).unwrap_or(u32::MAX));
        let workload = Self {
            run,
            learner: charter.learner,
            model,
            group_size: charter.group_size,
            sampling: SamplingParams {
                temperature: s.temperature,
                top_p: s.top_p,
                top_k: s.top_k,
                max_new_tokens: s.max_new_tokens,
                rule: match s.draw {
                    DrawRule::Intervals => sampling::DrawRule::Intervals,
                    DrawRule::Race => sampling::DrawRule::Race,
                },
            },
            snapshot_type: charter.snapshot_type,
            chunk_bytes: charter.chunk_bytes,
            takeover: charter.takeover,
            precision: Precision::default(),
            form,
            tokenizer: charter.tokenizer.clone(),
            prompt: charter.prompt.clone(),
            specs: charter.tasks.clone(),
            tasks: OnceLock::new(),
        };
        // Where no file is awaited, a task that cannot be built is reported at once.
        if workload.specs.iter().all(|spec| spec.data.is_none()) {
            workload.build_tasks(&[])?;
        }
        Ok(workload)
    }

    /// The same, generated in `wanted`, or else in what the run would have its nodes compute in.
    ///
    /// # Errors
    /// [`NodeWorkloadError::Precision`] when the run does not take it.
    pub fn computed_in(self, wanted: Option<Precision>) -> Result<Self, NodeWorkloadError> {
        let precision = precision::choose(&self.form.precisions, wanted)?;
        Ok(Self { precision, ..self })
    }

    /// Checks that this machine can do what the run's tasks need, as far as that is known before their
    /// files are there. Only a node that generates has to.
    ///
    /// # Errors
    /// [`NodeWorkloadError::Machine`], which names what is missing and how to get it.
    pub fn check_machine(&self) -> Result<(), NodeWorkloadError> {
        Ok(self.specs.iter().try_for_each(registry::check_machine)?)
    }

    /// Builds the run's tasks, if they are not yet; `files` are a snapshot's companions.
    ///
    /// # Errors
    /// [`NodeWorkloadError::Tasks`], for example when a file is missing;
    /// [`NodeWorkloadError::Machine`] when this machine lacks what they need,
    /// for example a compiler.
    pub fn build_tasks(&self, files: &[(String, Vec<u8>)]) -> Result<(), NodeWorkloadError> {
        if self.tasks.get().is_none() {
            let mix = TaskMix::new(&self.specs, &TaskFiles::of_snapshot(&self.specs, files))?;
            let mix = mix.judging(JudgedPart::from(&self.prompt));
            // Whoever was first built the same.
            let _ = self.tasks.set(mix);
        }
        Ok(())
    }

    /// Whether a snapshot's companion file is of use: those of tasks are the run's, and are read once.
    pub fn needs(&self, file: &str) -> bool {
        let of_task = || self.specs.iter().filter_map(|spec| spec.data).any(|id| task_file_name(&id) == file);
        self.tasks.get().is_none() || !of_task()
    }

    /// What holds for the form of every group of the run.
    pub fn form(&self) -> &Form {
        &self.form
    }

    /// In which numbers policies compute here.
    pub fn precision(&self) -> Precision {
        self.precision
    }

    /// What becomes of the samples on their way when a newer policy is installed.
    pub fn takeover(&self) -> Takeover {
        self.takeover
    }

    /// The element type of snapshots, in the words of the policy crate.
    pub fn dtype(&self) -> DType {
        match self.snapshot_type {
            TensorType::F32 => DType::F32,
            TensorType::Bf16 => DType::BF16,
            TensorType::F16 => DType::F16,
        }
    }

    /// How tokens are drawn.
    pub fn sampling(&self) -> &SamplingParams {
        &self.sampling
    }

    /// An order, and what it asks for.
    ///
    /// # Errors
    /// [`NodeWorkloadError::TasksNotHere`] before the first snapshot has brought their files.
    pub fn assignment(
        &self,
        counter: OrderCounter,
    ) -> Result<(WorkOrder, Assignment<'_>), NodeWorkloadError> {
        let tasks = self.tasks.get().ok_or(NodeWorkloadError::TasksNotHere)?;
        let order = WorkOrder::derive(&self.run, Purpose::Train, counter);
        let assignment = Assignment::of(tasks, &order);
        Ok((order, assignment))
    }

    /// Checks that a manifest describes this run's model, in the charter's chunks, before anything
    /// of it is fetched: a volunteer's disk is not for whatever somebody publishes.
    ///
    /// # Errors
    /// [`NodeWorkloadError::OffCharter`], which says where they differ.
    pub fn check(&self, manifest: &Manifest) -> Result<(), NodeWorkloadError> {
        let fail = |what: String| Err(NodeWorkloadError::OffCharter { version: manifest.version, what });
        if manifest.run != self.run {
            return fail(format!("it belongs to run {}", manifest.run.short()));
        }
        if manifest.chunk_bytes != self.chunk_bytes {
            return fail(format!("its chunks have {} bytes, not {}", manifest.chunk_bytes, self.chunk_bytes));
        }
        let companions: u64 = manifest.files.iter().map(|file| file.length).sum();
        if companions > MAX_COMPANION_BYTES {
            return fail(format!("its files have {companions} bytes"));
        }
        let mut expected: BTreeMap<String, Vec<u64>> = expected_tensors(&self.model)
            .into_iter()
            .map(|spec| (spec.name, spec.shape.into_iter().map(|side| side as u64).collect()))
            .collect();
        for tensor in &manifest.tensors {
            match expected.remove(&tensor.name) {
                Some(shape) if shape == tensor.shape && tensor.dtype == self.snapshot_type => {}
                Some(_) => return fail(format!("tensor {:?} has another shape or type", tensor.name)),
                None => return fail(format!("tensor {:?} is unknown or repeated", tensor.name)),
            }
        }
        match expected.into_keys().next() {
            Some(name) => fail(format!("tensor {name:?} is missing")),
            None => Ok(()),
        }
    }

    /// The run's tokenizer; `files` are the snapshot's companions.
    ///
    /// # Errors
    /// [`NodeWorkloadError::Tokenizer`]; [`NodeWorkloadError::MissingFile`] when the snapshot lacks a file.
    pub fn tokenizer(&self, files: &[(String, Vec<u8>)]) -> Result<Tokenizer, NodeWorkloadError> {
        let file = |name: &str| files.iter().find(|(n, _)| n == name).map(|(_, bytes)| bytes.as_slice());
        let tokenizer: Tokenizer = match &self.tokenizer {
            TokenizerSpec::Characters { alphabet } => CharTokenizer::of_charter(alphabet)?.into(),
            TokenizerSpec::Snapshot | TokenizerSpec::Chat => {
                let name = "tokenizer.json";
                let tokenizer = file(name).ok_or(NodeWorkloadError::MissingFile(name))?;
                let mut tokenizer = HfTokenizer::from_bytes(tokenizer, file("tokenizer_config.json"))?;
                if let Some(template) = file("chat_template.jinja") {
                    tokenizer = tokenizer.with_template(template);
                }
                tokenizer.into()
            }
        };
        Ok(tokenizer.with_prompts(self.prompt_form()?)?)
    }

    /// How the charter has prompts put: the learner reads it in the same way.
    fn prompt_form(&self) -> Result<PromptForm, TokenizerError> {
        let PromptSpec { system, template, arguments, now, bos, end_tokens, .. } = self.prompt.clone();
        let chat = self.tokenizer == TokenizerSpec::Chat;
        let form = PromptForm { chat, system, template, now, bos, end_tokens, ..PromptForm::default() };
        arguments.iter().try_fold(form, |form, arguments| form.with_arguments(arguments))
    }

    /// What the engine is asked for an order: its prompt, its seed, G samples.
    ///
    /// # Errors
    /// [`NodeWorkloadError::Tokenizer`] when the prompt has no tokens for something;
    /// [`NodeWorkloadError::NoEnd`].
    pub fn request(
        &self,
        counter: OrderCounter,
        tokenizer: &Tokenizer,
    ) -> Result<SampleRequest, NodeWorkloadError> {
        let (order, assignment) = self.assignment(counter)?;
        Ok(SampleRequest {
            prompt: tokenizer.prompt(&assignment.prompt().text)?,
            seed: order.sampler_seed(),
            samples: self.group_size,
            stop_ids: Some(tokenizer.end_ids())
                .filter(|ids| !ids.is_empty())
                .ok_or(NodeWorkloadError::NoEnd)?,
            stop_strings: None,
            limits: Vec::new(),
            // No tokenizer has more tokens than characters for what environments say.
            max_heard: u32::try_from(assignment.longest_heard(tokenizer.around())).unwrap_or(u32::MAX),
            params: self.sampling,
        })
    }

    /// Begins an episode of the order.
    ///
    /// # Errors
    /// [`NodeWorkloadError::TasksNotHere`] before the first snapshot has brought their files.
    pub fn play(&self, counter: OrderCounter) -> Result<Play<'_>, NodeWorkloadError> {
        Ok(self.assignment(counter)?.1.play())
    }
}

#[cfg(test)]
mod tests;
