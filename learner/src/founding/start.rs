//! What training begins with: model, weights, tokenizer, and the charter that names them.

use super::error::PrepareError;
use super::tasks::Tasks;
use crate::config::{RunConfig, RunFileError, TinySection};
use echo_policy::model::config::{ModelConfig, ModelConfigError as ModelError};
use echo_policy::model::weights::{DType, Weights};
use echo_policy::text::tokenizer::{CharTokenizer, DEFAULT_ALPHABET, Tokenizer, forms};
use echo_protocol::run::charter::{Charter, TaskSpec, TokenizerSpec};
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use echo_protocol::wire::time::UnixMillis;
use echo_sandbox::rollout::mix::TaskMix;
use std::path::{Path, PathBuf};

/// What training begins with.
pub(super) struct StartingPoint {
    model: ModelConfig,
    pub(super) weights: Weights,
    tokenizer: TokenizerSpec,
    pub(super) files: Option<PathBuf>,
}

impl StartingPoint {
    pub(super) fn of(config: &RunConfig, mix: &TaskMix) -> Result<Self, PrepareError> {
        if let Some(tiny) = &config.model.tiny {
            let alphabet = alphabet(mix);
            let vocabulary = CharTokenizer::of_charter(&alphabet)?.vocabulary();
            let model = tiny_model(tiny, vocabulary)?;
            let weights = Weights::random(&model, config.run.seed);
            let tokenizer = TokenizerSpec::Characters { alphabet };
            return Ok(Self { model, weights, tokenizer, files: None });
        }
        let path = config.model.path.as_ref().ok_or(RunFileError::Model)?;
        let chat = chats(path, config.model.chat)?;
        let tokenizer = if chat { TokenizerSpec::Chat } else { TokenizerSpec::Snapshot };
        Ok(Self { tokenizer, ..Self::at(path)? })
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
        Ok(Self { model, weights, tokenizer, files: Some(path.to_owned()) })
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
    Ok(Charter {
        name: config.run.name.clone(),
        learner,
        created,
        model: parts.model,
        tokenizer: parts.tokenizer,
        tasks: parts.tasks,
        group_size: config.sampling.group_size,
        sampling: config.sampling.charter(u32::try_from(parts.longest).unwrap_or(u32::MAX)),
        staleness: config.staleness()?,
        snapshot_type: config.snapshot.dtype,
        chunk_bytes: config.snapshot.chunk_bytes,
        precisions: config.admission.precisions.clone(),
        takeover: config.sampling.takeover,
    })
}

/// The model of `[model.tiny]` over the character tokenizer.
pub(super) fn tiny_model(section: &TinySection, vocabulary: usize) -> Result<ModelConfig, ModelError> {
    let mut model = ModelConfig::tiny_qwen3(section.sizes(vocabulary))?;
    model.eos_token_ids = vec![CharTokenizer::EOS];
    model.pad_token_id = Some(CharTokenizer::PAD);
    Ok(model)
}

/// Whether prompts for the policy in `path` are messages of its chat template: as the run file
/// says, or where there is one that can be used.
fn chats(path: &Path, wanted: Option<bool>) -> Result<bool, PrepareError> {
    if wanted == Some(false) {
        return Ok(false);
    }
    let tokenizer = Tokenizer::from_dir(path)?;
    let has_template = tokenizer.chat_template().is_some();
    match tokenizer.in_chat() {
        Ok(_) => Ok(true),
        Err(error) if wanted == Some(true) => Err(error.into()),
        Err(error) => {
            if has_template {
                tracing::warn!(%error, "the policy's chat template is not used");
            }
            Ok(false)
        }
    }
}

/// Tokens of the character tokenizer that the tasks of a run file give a model of `[model.tiny]`.
pub(crate) fn character_vocabulary(config: &RunConfig) -> Result<usize, PrepareError> {
    Ok(CharTokenizer::of_charter(&alphabet(&Tasks::read(config)?.mix))?.vocabulary())
}

/// The characters of a character tokenizer for these tasks, empty for the default ones.
fn alphabet(mix: &TaskMix) -> String {
    let more: String = mix.alphabet().into_iter().filter(|c| !DEFAULT_ALPHABET.contains(*c)).collect();
    if more.is_empty() { more } else { format!("{DEFAULT_ALPHABET}{more}") }
}
