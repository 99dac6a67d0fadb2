//! What a charter means in terms of tokens and rewards: the model's form, the tokenizer and the task mix.

mod element_type;
pub mod lengths;

use echo_policy::generation::SampleRequest;
use echo_policy::model::config::ModelConfig;
use echo_policy::sampling;
use echo_policy::sampling::SamplingParams;
use echo_policy::text::tokenizer::{CharTokenizer, PromptForm, Tokenizer, TokenizerError};
use echo_protocol::run::charter::{Charter, DrawRule, RunId, TokenizerSpec};
use echo_protocol::run::prompt::PromptSpec;
use echo_protocol::work::order::{OrderCounter, Purpose, WorkOrder};
use echo_sandbox::rollout::assignment::Assignment;
use echo_sandbox::rollout::mix::TaskMix;
use echo_sandbox::rollout::replay::TextDecoder;
use echo_sandbox::task::JudgedPart;
use echo_sandbox::task::files::TaskFiles;
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, OnceLock};

pub use element_type::{dtype, tensor_type};

/// A run's charter, opened and ready to derive work from.
#[derive(Debug)]
pub struct Workload {
    /// The run's id, BLAKE3 of its signed charter.
    pub run: RunId,
    /// The charter that all of this follows from.
    pub charter: Charter,
    /// The model's form, from the charter's `config.json`.
    pub model: ModelConfig,
    /// Text to tokens and back.
    pub tokenizer: Tokenizer,
    /// The task mix, with its files read.
    pub mix: Arc<TaskMix>,
    /// Tokens that end a turn; the first is the one that a supervised example ends with.
    ends: Vec<u32>,
    /// Tokens whose text contains a newline, once somebody asked.
    newlines: OnceLock<BTreeSet<u32>>,
}

/// Prompts that show whether tokenizer and model belong together.
const LOOKED_AT: u64 = 4;

/// A charter that cannot be worked on.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// The charter's `config.json` of the model cannot be used.
    #[error("the charter's model: {0}")]
    Model(#[from] echo_policy::model::config::ModelConfigError),
    /// The tokenizer's files are missing or cannot be used.
    #[error("the charter's tokenizer: {0}")]
    Tokenizer(#[from] TokenizerError),
    /// The task mix cannot be made from the charter and its files.
    #[error("the charter's tasks: {0}")]
    Tasks(#[from] echo_sandbox::task::spec::SpecError),
    /// Nothing would end a response.
    #[error(
        "the tokenizer names no end-of-text token that is in its vocabulary, so no response would ever end: set eos_token in tokenizer_config.json"
    )]
    NoEnd,
    /// Tokenizer and model are of different policies.
    #[error(
        "the tokenizer has a token {token}, and the model a vocabulary of {vocabulary}: they do not belong together. Take tokenizer.json and \
         weights of the same model"
    )]
    Vocabulary {
        /// A token of a prompt.
        token: u32,
        /// Tokens that the model knows.
        vocabulary: usize,
    },
    /// A prompt and a response do not fit.
    #[error(
        "task {task}: up to {read} tokens of prompt and environment and a response of {response} tokens do not fit the model's {positions} positions: \
         {}; or {}",
        lengths::shorter(*.read, *.positions),
        lengths::longer(*.is_tiny, .read.saturating_add(*.response))
    )]
    TooLong {
        /// The task that gives most to read.
        task: &'static str,
        /// Longest prompt, and what is heard after it, in tokens.
        read: usize,
        /// Longest response in tokens.
        response: usize,
        /// The longest sequence that the model takes, in tokens.
        positions: usize,
        /// Whether it reads characters, as those of `[model.tiny]` do.
        is_tiny: bool,
    },
}

impl Workload {
    /// Opens a charter; `tokenizer` is where the tokenizer's files lie, where they travel
    /// ([`TokenizerSpec::travels`]), and `files` are those of tasks.
    pub fn open(
        run: RunId,
        charter: Charter,
        tokenizer: &Path,
        files: &TaskFiles,
    ) -> Result<Self, WorkloadError> {
        let model = ModelConfig::from_json(&charter.model)?;
        let tokenizer: Tokenizer = match &charter.tokenizer {
            TokenizerSpec::Characters { alphabet } => CharTokenizer::of_charter(alphabet)?.into(),
            TokenizerSpec::Snapshot | TokenizerSpec::Chat => Tokenizer::from_dir(tokenizer)?,
        };
        let tokenizer = tokenizer
            .with_prompts(prompt_form(charter.tokenizer == TokenizerSpec::Chat, &charter.prompt)?)?;
        tokenizer.eos_id().ok_or(WorkloadError::NoEnd)?;
        let ends = tokenizer.end_ids();
        let mix = TaskMix::new(&charter.tasks, files)?.judging(JudgedPart::from(&charter.prompt));
        let mix = Arc::new(mix);
        let (read, _) = mix.longest_read(tokenizer.around_prompt(), tokenizer.around());
        let response = charter.sampling.max_new_tokens as usize;
        let positions = model.max_position_embeddings;
        if read.saturating_add(response) > positions {
            // Bytes bound tokens from above: what does not fit by them may fit when it is counted.
            let counted = lengths::of(&mix, &tokenizer);
            let (task, read) = (counted.task, counted.read());
            if read.saturating_add(response) > positions {
                let is_tiny = matches!(charter.tokenizer, TokenizerSpec::Characters { .. });
                return Err(WorkloadError::TooLong { task, read, response, positions, is_tiny });
            }
        }
        let workload = Self { run, charter, model, tokenizer, mix, ends, newlines: OnceLock::new() };
        match workload.foreign_token() {
            Some(token) => Err(WorkloadError::Vocabulary { token, vocabulary: workload.model.vocab_size }),
            None => Ok(workload),
        }
    }

    /// A token of the first prompts, or the one that ends a turn, that the model does not know. A prompt that
    /// cannot be made says nothing: others of its task may be.
    fn foreign_token(&self) -> Option<u32> {
        let prompts =
            (0..LOOKED_AT).filter_map(|counter| self.prompt(&self.order(Purpose::Train, counter)).ok());
        let mut tokens = prompts.flatten().chain([self.end()]);
        tokens.find(|token| *token as usize >= self.model.vocab_size)
    }

    /// The order with this number.
    pub fn order(&self, purpose: Purpose, counter: u64) -> WorkOrder {
        WorkOrder::derive(&self.run, purpose, OrderCounter(counter))
    }

    /// What the order asks for.
    pub fn assignment(&self, order: &WorkOrder) -> Assignment<'_> {
        Assignment::of(&self.mix, order)
    }

    /// The order's prompt in tokens.
    pub fn prompt(&self, order: &WorkOrder) -> Result<Vec<u32>, WorkloadError> {
        Ok(self.tokenizer.prompt(&self.assignment(order).prompt().text)?)
    }

    /// What an environment says after a turn, in tokens.
    pub fn heard(&self, text: &str) -> Result<Vec<u32>, WorkloadError> {
        Ok(self.tokenizer.heard(text)?)
    }

    /// A text in tokens, as the policy says it.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, WorkloadError> {
        Ok(self.tokenizer.encode(text)?)
    }

    /// How tokens are drawn.
    pub fn sampling(&self) -> SamplingParams {
        let s = &self.charter.sampling;
        SamplingParams {
            temperature: s.temperature,
            top_p: s.top_p,
            top_k: s.top_k,
            max_new_tokens: s.max_new_tokens,
            rule: match s.draw {
                DrawRule::Intervals => sampling::DrawRule::Intervals,
                DrawRule::Race => sampling::DrawRule::Race,
            },
        }
    }

    /// What the engine is asked for `samples` responses to `order`.
    pub fn request(&self, order: &WorkOrder, samples: u32) -> Result<SampleRequest, WorkloadError> {
        let request = self.request_for(&self.assignment(order), samples)?;
        Ok(SampleRequest { seed: order.sampler_seed(), ..request })
    }

    /// What it is asked for responses to any assignment: at the run's settings, and with a seed of zeros.
    pub fn request_for(
        &self,
        assignment: &Assignment<'_>,
        samples: u32,
    ) -> Result<SampleRequest, WorkloadError> {
        let prompt = self.tokenizer.prompt(&assignment.prompt().text)?;
        // No tokenizer has more tokens than characters for what environments say.
        let max_heard = assignment.longest_heard(self.tokenizer.around());
        let max_heard = u32::try_from(max_heard).unwrap_or(u32::MAX);
        let (stop_ids, params, seed) = (self.ends.clone(), self.sampling(), [0; 32]);
        let (stop_strings, limits) = (None, Vec::new());
        Ok(SampleRequest { prompt, seed, samples, stop_ids, stop_strings, limits, max_heard, params })
    }

    /// The text of a turn; empty where its tokens make no text.
    pub fn text(&self, turn: &[u32]) -> String {
        // Only the token that ended the turn is no part of it: hidden special tokens would let
        // different turns read the same.
        let said = turn.split_last().filter(|(last, _)| self.ends.contains(last));
        let said = said.map_or(turn, |(_, said)| said);
        self.tokenizer.decode(said, false).unwrap_or_default()
    }

    /// Whether the token's text contains a newline.
    pub fn has_newline(&self, id: u32) -> bool {
        let contains = |id: &u32| self.tokenizer.decode(&[*id], false).is_ok_and(|text| text.contains('\n'));
        let all = || (0..self.model.vocab_size as u32).filter(contains).collect();
        self.newlines.get_or_init(all).contains(&id)
    }

    /// The token that ends a turn, where there is no other reason to end it by another one.
    pub fn end(&self) -> u32 {
        self.ends[0]
    }
}

/// How a charter has prompts put: a node reads it in the same way.
pub(crate) fn prompt_form(chat: bool, prompt: &PromptSpec) -> Result<PromptForm, TokenizerError> {
    let PromptSpec { system, template, arguments, now, bos, end_tokens, .. } = prompt.clone();
    let form = PromptForm { chat, system, template, now, bos, end_tokens, ..PromptForm::default() };
    arguments.iter().try_fold(form, |form, arguments| form.with_arguments(arguments))
}

impl TextDecoder for Workload {
    fn decode(&self, ids: &[u32]) -> Result<String, String> {
        self.tokenizer.decode(ids, false).map_err(|e| e.to_string())
    }

    fn is_end(&self, id: u32) -> bool {
        self.ends.contains(&id)
    }

    fn vocabulary(&self) -> u32 {
        self.model.vocab_size as u32
    }
}

#[cfg(test)]
mod tests;
