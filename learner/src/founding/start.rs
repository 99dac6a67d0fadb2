//! What training begins with: model, weights, tokenizer, and the charter that names them.

use super::error::PrepareError;
use super::tasks::Tasks;
use crate::common::workload::prompt_form;
use crate::config::{PromptSection, RunConfig, RunFileError, TinySection};
use echo_policy::model::config::{ModelConfig, ModelConfigError as ModelError};
use echo_policy::model::weights::{DType, Weights};
use echo_policy::text::chat::ChatError;
use echo_policy::text::tokenizer::{
    CharTokenizer, DEFAULT_ALPHABET, Tokenizer, TokenizerError, end_tokens, forms,
};
use echo_protocol::run::charter::{Charter, TaskSpec, TokenizerSpec};
use echo_protocol::run::prompt::{MAX_END_TOKENS, PromptSpec, QUESTION};
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use echo_protocol::wire::time::UnixMillis;
use echo_sandbox::rollout::mix::TaskMix;
use echo_sandbox::task::JudgedPart;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// What training begins with.
pub(super) struct StartingPoint {
    model: ModelConfig,
    pub(super) weights: Weights,
    tokenizer: TokenizerSpec,
    pub(super) prompt: PromptSpec,
    pub(super) files: Option<PathBuf>,
}

impl StartingPoint {
    /// The run's model as it begins; `created` is when the run is founded.
    pub(super) fn of(config: &RunConfig, mix: &TaskMix, created: UnixMillis) -> Result<Self, PrepareError> {
        if let Some(tiny) = &config.model.tiny {
            let alphabet = alphabet(mix, &config.prompt);
            let characters = CharTokenizer::of_charter(&alphabet)?;
            let model = tiny_model(tiny, characters.vocabulary())?;
            let weights = Weights::random(&model, config.run.seed);
            let prompt = PromptSpec { bos: config.prompt.bos.unwrap_or(false), ..config.prompt.charter() };
            let prompt = tried(characters.into(), false, prompt)?;
            let tokenizer = TokenizerSpec::Characters { alphabet };
            return Ok(Self { model, weights, tokenizer, prompt, files: None });
        }
        let path = config.model.path.as_ref().ok_or(RunFileError::Model)?;
        let (tokenizer, prompt) = prompts(path, config, created)?;
        Ok(Self { tokenizer, prompt, ..Self::at(path)? })
    }

    /// The policy in a Hugging Face directory; one without a tokenizer gets the character tokenizer.
    pub(super) fn at(path: &Path) -> Result<Self, PrepareError> {
        let model = ModelConfig::from_file(&path.join("config.json"))?;
        let weights = Weights::load_dir(path, &model)?;
        // The first update would otherwise be blamed for it.
        weights.check_finite()?;
        let tokenizer = match path.join("tokenizer.json").exists() {
            true => TokenizerSpec::Snapshot,
            false => {
                // The character tokenizer would read a policy of another vocabulary without a word.
                forms::refuse_others(path)?;
                TokenizerSpec::Characters { alphabet: String::new() }
            }
        };
        let prompt = PromptSpec::default();
        Ok(Self { model, weights, tokenizer, prompt, files: Some(path.to_owned()) })
    }

    pub(super) fn charter(
        &self,
        config: &RunConfig,
        tasks: &Tasks,
        key: &NodeKey,
        created: UnixMillis,
    ) -> Result<Charter, PrepareError> {
        let made_of = CharterParts {
            model: self.model.to_json(DType::F32),
            tokenizer: self.tokenizer.clone(),
            tasks: tasks.specs.clone(),
            prompt: self.prompt.clone(),
            longest: tasks.mix.longest_answer(),
        };
        Ok(charter_of(config, made_of, key.public(), created)?)
    }
}

/// What a charter has of model and tasks.
pub(super) struct CharterParts {
    /// The model's `config.json`.
    pub(super) model: String,
    pub(super) tokenizer: TokenizerSpec,
    pub(super) tasks: Vec<TaskSpec>,
    pub(super) prompt: PromptSpec,
    /// The longest answer of the tasks, in tokens.
    pub(super) longest: usize,
}

/// The charter that a run of `config` is founded with. Everything that a charter fixes is taken from
/// the run file here: `overruled` compares what this makes with the charter of a run.
pub(super) fn charter_of(
    config: &RunConfig,
    parts: CharterParts,
    learner: PublicKey,
    created: UnixMillis,
) -> Result<Charter, RunFileError> {
    let longest = u32::try_from(parts.longest).unwrap_or(u32::MAX);
    // A model that cannot be read is refused elsewhere.
    let vocabulary = ModelConfig::from_json(&parts.model).map_or(0, |model| model.vocab_size);
    Ok(Charter {
        name: config.run.name.clone(),
        learner,
        created,
        model: parts.model,
        tokenizer: parts.tokenizer,
        tasks: parts.tasks,
        group_size: config.sampling.group_size,
        sampling: config.sampling.charter(longest, vocabulary),
        staleness: config.staleness()?,
        snapshot_type: config.snapshot.dtype,
        chunk_bytes: config.snapshot.chunk_bytes,
        precisions: config.admission.precisions.clone(),
        takeover: config.sampling.takeover,
        prompt: parts.prompt,
    })
}

/// The model of `[model.tiny]` over the character tokenizer.
pub(super) fn tiny_model(section: &TinySection, vocabulary: usize) -> Result<ModelConfig, ModelError> {
    let mut model = ModelConfig::tiny_qwen3(section.sizes(vocabulary))?;
    model.eos_token_ids = vec![CharTokenizer::EOS];
    model.pad_token_id = Some(CharTokenizer::PAD);
    Ok(model)
}

/// How prompts are put to the policy in `path`: what the run file leaves open, tokenizer and model say.
fn prompts(
    path: &Path,
    config: &RunConfig,
    created: UnixMillis,
) -> Result<(TokenizerSpec, PromptSpec), PrepareError> {
    let tokenizer = Tokenizer::from_dir(path)?;
    let model = ModelConfig::from_file(&path.join("config.json"))?;
    let mut prompt = config.prompt.charter();
    prompt.end_tokens = further_ends(path, &tokenizer, &model)?;
    let chat = match config.chat() {
        Some(false) => false,
        wanted => chats(&tokenizer, wanted.is_some(), &mut prompt, created)?,
    };
    prompt.bos = config.prompt.bos.unwrap_or(!chat && tokenizer.adds_bos());
    if chat && prompt.template.is_none() {
        // A message has no line break at its end, as a plain prompt may have one.
        prompt.template = Some(QUESTION.to_owned());
    }
    let spec = if chat { TokenizerSpec::Chat } else { TokenizerSpec::Snapshot };
    Ok((spec, tried(tokenizer, chat, prompt)?))
}

/// The tokenizer in `path` with the prompts of a run file, and the part of a response that is judged. Weights
/// are not read.
pub(crate) fn prompting(
    path: &Path,
    config: &RunConfig,
    created: UnixMillis,
) -> Result<(Tokenizer, JudgedPart), PrepareError> {
    let (spec, prompt) = prompts(path, config, created)?;
    let form = prompt_form(spec == TokenizerSpec::Chat, &prompt)?;
    Ok((Tokenizer::from_dir(path)?.with_prompts(form)?, JudgedPart::from(&prompt)))
}

/// Whether prompts are messages of the tokenizer's chat template: as the run file says, or where there is
/// one that can be used. A template that asks for the date gets that of the founding.
fn chats(
    tokenizer: &Tokenizer,
    wanted: bool,
    prompt: &mut PromptSpec,
    created: UnixMillis,
) -> Result<bool, PrepareError> {
    let attempt = |prompt: &PromptSpec| tokenizer.clone().with_prompts(prompt_form(true, prompt)?).map(drop);
    let mut tried = attempt(prompt);
    if tried.as_ref().is_err_and(asks_for_date) {
        let dated = PromptSpec { now: i64::try_from(created.0 / 1000).ok(), ..prompt.clone() };
        tried = attempt(&dated);
        *prompt = dated;
    }
    let Err(error) = tried else { return Ok(true) };
    prompt.now = None;
    // What the run file says of chats, or a template that is broken, is not passed over.
    let has_template = tokenizer.chat_template()?.is_some();
    if wanted || prompt.system.is_some() || prompt.arguments.is_some() {
        return Err(error.into());
    }
    if has_template {
        tracing::warn!(%error, "the policy's chat template is not used");
    }
    Ok(false)
}

fn asks_for_date(error: &TokenizerError) -> bool {
    matches!(error, TokenizerError::Chat(ChatError::Render(why)) if why.contains("strftime_now"))
}

/// The prompts that a tokenizer was tried with, and whether they end within the policy's thinking.
fn tried(tokenizer: Tokenizer, chat: bool, prompt: PromptSpec) -> Result<PromptSpec, PrepareError> {
    let thinking_is_open = tokenizer.with_prompts(prompt_form(chat, &prompt)?)?.opens_thinking()?;
    Ok(PromptSpec { thinking_is_open, ..prompt })
}

/// The tokens that end a response beside the tokenizer's own, as transformers has them: those of
/// generation_config.json, or else those of config.json.
fn further_ends(path: &Path, tokenizer: &Tokenizer, model: &ModelConfig) -> Result<Vec<u32>, PrepareError> {
    let named = end_tokens(path)?.unwrap_or_else(|| model.eos_token_ids.clone());
    let further = |id: &u32| (*id as usize) < model.vocab_size && Some(*id) != tokenizer.eos_id();
    let distinct: BTreeSet<u32> = named.into_iter().filter(further).collect();
    Ok(distinct.into_iter().take(MAX_END_TOKENS).collect())
}

/// Tokens of the character tokenizer that the tasks of a run file give a model of `[model.tiny]`.
pub(crate) fn character_vocabulary(config: &RunConfig) -> Result<usize, PrepareError> {
    let alphabet = alphabet(&Tasks::read(config)?.mix, &config.prompt);
    Ok(CharTokenizer::of_charter(&alphabet)?.vocabulary())
}

/// The characters of a character tokenizer for these tasks and prompts, empty for the default ones.
fn alphabet(mix: &TaskMix, prompt: &PromptSection) -> String {
    let mut all = mix.alphabet();
    all.extend(
        prompt
            .template
            .iter()
            .flat_map(|template| template.replace(QUESTION, "").chars().collect::<Vec<_>>()),
    );
    let spec = prompt.charter();
    all.extend(JudgedPart::from(&spec).around(String::new()).chars());
    let more: String = all.into_iter().filter(|c| !DEFAULT_ALPHABET.contains(*c)).collect();
    if more.is_empty() { more } else { format!("{DEFAULT_ALPHABET}{more}") }
}
