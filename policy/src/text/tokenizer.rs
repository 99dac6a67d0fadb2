//! Text to token ids and back: the built-in character tokenizer of the procedural tasks, or
//! a Hugging Face one.
//!
//! ```
//! use echo_policy::text::tokenizer::{CharTokenizer, Tokenizer};
//!
//! let tokenizer = Tokenizer::from(CharTokenizer::default());
//! let ids = tokenizer.encode("12+34=")?;
//! assert_eq!(tokenizer.decode(&ids, true)?, "12+34=");
//! # Ok::<(), echo_policy::text::tokenizer::TokenizerError>(())
//! ```

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::text::chat::{ChatError, ChatTemplate};
use dialogue::Chat;

mod characters;
mod dialogue;
mod end_tokens;
mod expansion_limit;
pub mod forms;
mod guard;
mod huggingface;
mod prompt_form;

pub use characters::{CHARACTER_VOCABULARY, CharTokenizer, DEFAULT_ALPHABET, MAX_ALPHABET};
pub(crate) use end_tokens::GENERATION_CONFIG_FILE;
pub use end_tokens::end_tokens;
pub use expansion_limit::{MAX_GROWN, MAX_GROWTH};
pub use huggingface::HfTokenizer;
pub use prompt_form::PromptForm;

/// Bytes of a `tokenizer.json`. The largest published ones have about 35 MiB.
pub const MAX_TOKENIZER_BYTES: u64 = 128 << 20;
/// Bytes of a `tokenizer_config.json`.
pub const MAX_TOKENIZER_CONFIG_BYTES: u64 = 8 << 20;
/// Bytes of a text to encode, and ids of a sequence to decode.
pub const MAX_TEXT: usize = 64 << 20;

/// A tokenizer that cannot be built, or a text or id that it does not know.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    /// A file could not be read or written.
    #[error("cannot access {path}: {source}; check that it exists and that its permissions allow it")]
    File {
        /// File that was to be read or written.
        path: PathBuf,
        /// What the system reported.
        source: std::io::Error,
    },
    /// The tokenizer is in a form that is not read.
    #[error(
        "{dir} has {name} and no tokenizer.json; make one with transformers: AutoTokenizer.from_pretrained(\"{dir}\").save_pretrained(\"{dir}\")"
    )]
    OtherForm {
        /// The model's directory.
        dir: PathBuf,
        /// A file of its tokenizer.
        name: &'static str,
    },
    /// A file or text is larger than its limit.
    #[error("{what} is larger than the {limit} bytes allowed; give a smaller one")]
    TooLarge {
        /// A path, `the text` or `the sequence`.
        what: String,
        /// The named limit of [`crate::text::tokenizer`].
        limit: u64,
    },
    /// tokenizer.json is not one that the `tokenizers` crate reads.
    #[error("tokenizer.json is malformed: {0}; fetch the file again")]
    Malformed(String),
    /// A text could grow within the tokenizer beyond all limits.
    #[error(
        "tokenizer.json: {part} can make a text {growth} times as long, more than the {MAX_GROWTH} times allowed; use another tokenizer"
    )]
    Grows {
        /// Parts of the tokenizer that let it grow.
        part: &'static str,
        /// How many times as long, or the largest number there is.
        growth: u64,
    },
    /// tokenizer_config.json contradicts tokenizer.json or is not JSON.
    #[error("tokenizer_config.json: {0}; take both files from the same model")]
    Config(String),
    /// The chat template beside the tokenizer cannot be used.
    #[error(transparent)]
    Chat(#[from] ChatError),
    /// Prompts cannot be messages of a chat.
    #[error("the tokenizer does not chat: {0}; set `chat = false` in [prompt], and prompts stay plain text")]
    NoChat(String),
    /// A setting of prompts that this tokenizer cannot follow.
    #[error("[prompt] {0}")]
    Prompt(String),
    /// generation_config.json is not JSON, or its end tokens are none.
    #[error("{path}: {why}; correct the file or remove it")]
    Generation {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The alphabet of a character tokenizer cannot be used.
    #[error("alphabet: {0}; list each character once, at most {MAX_ALPHABET} of them")]
    Alphabet(String),
    /// A character that the alphabet does not have.
    #[error(
        "character {character:?} at position {position} is not in the alphabet; remove it from the text or add it to the run's alphabet"
    )]
    UnknownCharacter {
        /// Character that has no token.
        character: char,
        /// Its index in the text, in characters from 0.
        position: usize,
    },
    /// An id beyond the vocabulary.
    #[error(
        "token id {id} at index {index} is beyond the vocabulary of {vocabulary}; the ids belong to another tokenizer"
    )]
    UnknownId {
        /// Id that has no token.
        id: u32,
        /// Its index in the sequence.
        index: usize,
        /// Number of ids in the vocabulary.
        vocabulary: usize,
    },
    /// The `tokenizers` crate refused a text.
    #[error("cannot encode the text: {0}; it has characters that the tokenizer has no token for")]
    Encode(String),
    /// The `tokenizers` crate refused a sequence of ids.
    #[error("cannot decode the ids: {0}; they belong to another tokenizer")]
    Decode(String),
}

impl TokenizerError {
    /// Whether it is a text's own fault, so that others may be encoded without it.
    #[must_use]
    pub fn is_of_text(&self) -> bool {
        matches!(self, Self::UnknownCharacter { .. } | Self::Encode(_) | Self::Chat(ChatError::Render(_)))
    }
}

/// Either kind of tokenizer, and how it puts prompts. No kind adds tokens around a text by itself.
#[derive(Debug, Clone)]
pub struct Tokenizer {
    kind: Kind,
    form: PromptForm,
    /// Set where the chat template is in use.
    chat: Option<Chat>,
    /// Most tokens of a prompt beside its question.
    opening: usize,
}

#[derive(Debug, Clone)]
enum Kind {
    /// One token a character.
    Characters(CharTokenizer),
    /// Read from a Hugging Face directory. Clones share it.
    HuggingFace(Arc<HfTokenizer>),
}

impl From<CharTokenizer> for Tokenizer {
    fn from(tokenizer: CharTokenizer) -> Self {
        Self::of(Kind::Characters(tokenizer))
    }
}

impl From<HfTokenizer> for Tokenizer {
    fn from(tokenizer: HfTokenizer) -> Self {
        Self::of(Kind::HuggingFace(Arc::new(tokenizer)))
    }
}

impl Tokenizer {
    fn of(kind: Kind) -> Self {
        Self { kind, form: PromptForm::default(), chat: None, opening: 0 }
    }

    /// Opens `tokenizer.json` of a Hugging Face directory, with `tokenizer_config.json` and
    /// `chat_template.jinja` where they are present. A template that does not parse is an error where it is
    /// asked for, and none here.
    ///
    /// # Errors
    /// When a file is unreadable, too large or malformed.
    pub fn from_dir(dir: &Path) -> Result<Self, TokenizerError> {
        HfTokenizer::from_file(&dir.join(TOKENIZER_FILE)).map(Self::from)
    }

    /// The ids of `text`, nothing added before or after. A special token's text inside a Hugging
    /// Face tokenizer's input becomes that token.
    ///
    /// # Errors
    /// When the text is longer than [`MAX_TEXT`] bytes, could become longer than [`MAX_GROWN`], or
    /// has a character without a token.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        if text.len() > MAX_TEXT {
            return Err(TokenizerError::TooLarge { what: "the text".into(), limit: MAX_TEXT as u64 });
        }
        match &self.kind {
            Kind::Characters(tokenizer) => tokenizer.encode(text),
            Kind::HuggingFace(tokenizer) => tokenizer.encode(text),
        }
    }

    /// The text of `ids`; special tokens are left out or written by name. A Hugging Face
    /// tokenizer leaves out ids that it does not know, since a model's output layer may be
    /// wider than its vocabulary.
    ///
    /// # Errors
    /// When there are more than [`MAX_TEXT`] ids, their text could become longer than [`MAX_GROWN`]
    /// bytes, or a character tokenizer does not know one of them.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        if ids.len() > MAX_TEXT {
            return Err(TokenizerError::TooLarge { what: "the sequence".into(), limit: MAX_TEXT as u64 });
        }
        match &self.kind {
            Kind::Characters(tokenizer) => tokenizer.decode(ids, skip_special),
            Kind::HuggingFace(tokenizer) => tokenizer.decode(ids, skip_special),
        }
    }

    /// Number of tokens, added ones included. A model's output layer may be wider.
    pub fn vocab_size(&self) -> usize {
        match &self.kind {
            Kind::Characters(tokenizer) => tokenizer.vocabulary(),
            Kind::HuggingFace(tokenizer) => tokenizer.vocab_size(),
        }
    }

    /// All tokens that end a response: [`Tokenizer::eos_id`], and those of [`PromptForm::end_tokens`].
    pub fn end_ids(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = self.eos_id().into_iter().collect();
        ids.extend(self.form.end_tokens.iter().filter(|id| Some(**id) != self.eos_id()));
        ids
    }

    /// The token that begins a text; `None` when a Hugging Face directory names none.
    pub fn bos_id(&self) -> Option<u32> {
        match &self.kind {
            Kind::Characters(_) => Some(CharTokenizer::BOS),
            Kind::HuggingFace(tokenizer) => tokenizer.bos_id(),
        }
    }

    /// Whether the tokenizer, as its makers set it up, puts the BOS token before a text.
    pub fn adds_bos(&self) -> bool {
        match &self.kind {
            Kind::Characters(_) => false,
            Kind::HuggingFace(tokenizer) => tokenizer.adds_bos(),
        }
    }

    /// The token that ends a response; `None` when a Hugging Face directory names none.
    pub fn eos_id(&self) -> Option<u32> {
        match &self.kind {
            Kind::Characters(_) => Some(CharTokenizer::EOS),
            Kind::HuggingFace(tokenizer) => tokenizer.special_id("eos_token"),
        }
    }

    /// The token that fills batches; `None` when a Hugging Face directory names none.
    pub fn pad_id(&self) -> Option<u32> {
        match &self.kind {
            Kind::Characters(_) => Some(CharTokenizer::PAD),
            Kind::HuggingFace(tokenizer) => tokenizer.special_id("pad_token"),
        }
    }

    /// The id of a token by its text, such as `<|im_end|>` or `<eos>`.
    pub fn token_id(&self, token: &str) -> Option<u32> {
        match &self.kind {
            Kind::Characters(tokenizer) => tokenizer.token_id(token),
            Kind::HuggingFace(tokenizer) => tokenizer.token_id(token),
        }
    }

    /// The chat template that came with the tokenizer.
    ///
    /// # Errors
    /// [`TokenizerError::Chat`] when there is one that cannot be read.
    pub fn chat_template(&self) -> Result<Option<&ChatTemplate>, TokenizerError> {
        match &self.kind {
            Kind::Characters(_) => Ok(None),
            Kind::HuggingFace(tokenizer) => Ok(tokenizer.chat_template()?),
        }
    }
}

/// File names of a Hugging Face directory.
pub(crate) const TOKENIZER_FILE: &str = "tokenizer.json";
pub(crate) const TOKENIZER_CONFIG_FILE: &str = "tokenizer_config.json";
pub(crate) const CHAT_TEMPLATE_FILE: &str = "chat_template.jinja";

/// Reads a file of at most `limit` bytes; `None` when it does not exist.
pub(crate) fn read_capped(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, TokenizerError> {
    let failed = |source| TokenizerError::File { path: path.to_owned(), source };
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
    };
    let mut bytes = Vec::new();
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > limit {
        return Err(TokenizerError::TooLarge { what: path.display().to_string(), limit });
    }
    Ok(Some(bytes))
}
