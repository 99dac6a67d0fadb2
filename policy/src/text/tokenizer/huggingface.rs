//! Tokenizers read from a Hugging Face directory, through the `tokenizers` crate.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use tokenizers::{AddedToken, PostProcessorWrapper};

use super::expansion_limit::ExpansionLimit;
use super::guard::guarded;
use super::{
    CHAT_TEMPLATE_FILE, MAX_TOKENIZER_BYTES, MAX_TOKENIZER_CONFIG_BYTES, TOKENIZER_CONFIG_FILE,
    TokenizerError, forms, read_capped,
};
use crate::text::chat::{ChatError, ChatTemplate, MAX_TEMPLATE_BYTES};

/// What is read of `tokenizer_config.json` beside its special tokens and its template.
#[derive(Deserialize)]
struct Config {
    #[serde(default)]
    added_tokens_decoder: BTreeMap<u32, AddedTokenConfig>,
}

#[derive(Deserialize)]
struct AddedTokenConfig {
    content: String,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    #[serde(default)]
    normalized: bool,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    special: bool,
}

/// A `tokenizer.json` and what `tokenizer_config.json` says about it.
#[derive(Debug, Clone)]
pub struct HfTokenizer {
    inner: tokenizers::Tokenizer,
    growth: ExpansionLimit,
    /// The special tokens' texts by their names in tokenizer_config.json, such as `eos_token`.
    pub(super) special_tokens: BTreeMap<String, String>,
    /// A template that cannot be read is an error where prompts are put by it.
    chat_template: Option<Result<ChatTemplate, ChatError>>,
    /// The token that the post-processor puts before a text.
    prefix: Option<u32>,
    /// Whether the configuration says that it does.
    add_bos_token: Option<bool>,
}

impl HfTokenizer {
    /// Reads a `tokenizer.json`, with `tokenizer_config.json` and `chat_template.jinja` where they
    /// lie beside it. The latter wins over a template in the former.
    ///
    /// # Errors
    /// When a file is unreadable, too large or malformed, or the files contradict each other.
    pub fn from_file(path: &Path) -> Result<Self, TokenizerError> {
        let Some(bytes) = read_capped(path, MAX_TOKENIZER_BYTES)? else {
            forms::refuse_others(path.parent().unwrap_or(Path::new("")))?;
            let source = std::io::ErrorKind::NotFound.into();
            return Err(TokenizerError::File { path: path.to_owned(), source });
        };
        let config = read_capped(&path.with_file_name(TOKENIZER_CONFIG_FILE), MAX_TOKENIZER_CONFIG_BYTES)?;
        let tokenizer = Self::from_bytes(&bytes, config.as_deref())?;
        let template = path.with_file_name(CHAT_TEMPLATE_FILE);
        match read_capped(&template, MAX_TEMPLATE_BYTES as u64)? {
            Some(source) => Ok(tokenizer.with_template(&source)),
            None => Ok(tokenizer),
        }
    }

    /// The same with the contents of a `chat_template.jinja`. One that cannot be used is an error where it
    /// is asked for.
    #[must_use]
    pub fn with_template(mut self, source: &[u8]) -> Self {
        let text = str::from_utf8(source);
        let text = text.map_err(|error| ChatError::Syntax(format!("it is not UTF-8: {error}")));
        let template = text.and_then(|text| ChatTemplate::new(text, self.special_tokens.clone()));
        self.chat_template = Some(template);
        self
    }

    /// Reads the contents of a `tokenizer.json` and, where there is one, of its `tokenizer_config.json`.
    ///
    /// # Errors
    /// When either is malformed, they contradict each other, or texts could grow beyond all limits.
    pub fn from_bytes(tokenizer: &[u8], config: Option<&[u8]>) -> Result<Self, TokenizerError> {
        let growth = ExpansionLimit::of_file(tokenizer)?;
        let mut inner =
            guarded(|| tokenizers::Tokenizer::from_bytes(tokenizer)).map_err(TokenizerError::Malformed)?;
        let growth = growth.with_model(inner.get_model())?;
        // A saved tokenizer may carry the settings of its last batch; a text is encoded whole here.
        inner.with_padding(None);
        inner.with_truncation(None).map_err(|error| TokenizerError::Malformed(error.to_string()))?;
        let prefix = prefix(&inner);
        // Nothing is added around a text; a template that names the text several times would repeat it.
        inner.with_post_processor(None::<PostProcessorWrapper>);
        let Some(config) = config else {
            return Ok(Self {
                inner,
                growth,
                special_tokens: BTreeMap::new(),
                chat_template: None,
                prefix,
                add_bos_token: None,
            });
        };
        let malformed = |error: serde_json::Error| TokenizerError::Config(error.to_string());
        let config: Value = serde_json::from_slice(config).map_err(malformed)?;
        let special_tokens = special_tokens(&config);
        let chat_template = ChatTemplate::from_config(&config, special_tokens.clone()).transpose();
        // It wins over what the post-processor of tokenizer.json does.
        let add_bos_token = config.get("add_bos_token").and_then(Value::as_bool);
        let added = Config::deserialize(&config).map_err(malformed)?.added_tokens_decoder;
        growth.check_added(added.values().map(|token| token.content.as_str()))?;
        add_missing_tokens(&mut inner, added)?;
        if let Some(end) = special_tokens.get("eos_token")
            && inner.token_to_id(end).is_none()
        {
            return Err(TokenizerError::Config(format!("eos_token {end:?} is no token of tokenizer.json")));
        }
        Ok(Self { inner, growth, special_tokens, chat_template, prefix, add_bos_token })
    }

    pub(super) fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.growth.check_text(text)?;
        let encoding = guarded(|| self.inner.encode_fast(text, false));
        encoding.map(|encoding| encoding.get_ids().to_vec()).map_err(TokenizerError::Encode)
    }

    pub(super) fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String, TokenizerError> {
        self.growth.check_tokens(ids.iter().filter_map(|id| self.inner.id_to_token(*id)))?;
        guarded(|| self.inner.decode(ids, skip_special)).map_err(TokenizerError::Decode)
    }

    pub(super) fn vocab_size(&self) -> usize {
        self.inner.get_vocab_size(true)
    }

    pub(super) fn token_id(&self, token: &str) -> Option<u32> {
        self.inner.token_to_id(token)
    }

    /// The id of a special token by its name in tokenizer_config.json, such as `bos_token`.
    pub fn special_id(&self, name: &str) -> Option<u32> {
        self.token_id(self.special_tokens.get(name)?)
    }

    pub(super) fn chat_template(&self) -> Result<Option<&ChatTemplate>, ChatError> {
        self.chat_template.as_ref().map(|template| template.as_ref().map_err(ChatError::clone)).transpose()
    }

    /// The BOS token by its name, or else what is put before a text.
    pub(super) fn bos_id(&self) -> Option<u32> {
        self.special_id("bos_token").or(self.prefix)
    }

    pub(super) fn adds_bos(&self) -> bool {
        self.bos_id().is_some() && self.add_bos_token.unwrap_or(self.prefix.is_some())
    }
}

/// The one token that the post-processor puts before a text, such as `<s>` of Llama.
fn prefix(inner: &tokenizers::Tokenizer) -> Option<u32> {
    let ids = |around| {
        let encoding = guarded(|| inner.encode_fast("a", around)).ok()?;
        Some(encoding.get_ids().to_vec())
    };
    let (plain, whole) = (ids(false)?, ids(true)?);
    let (first, rest) = whole.split_first()?;
    (!plain.is_empty() && rest.starts_with(&plain)).then_some(*first)
}

/// All `*_token` fields that hold a token: a string, or an object with `content`.
fn special_tokens(config: &Value) -> BTreeMap<String, String> {
    let fields = config.as_object().into_iter().flatten().filter(|(name, _)| name.ends_with("_token"));
    let token = |value: &Value| value.as_str().or_else(|| value.get("content")?.as_str()).map(str::to_owned);
    fields.filter_map(|(name, value)| Some((name.clone(), token(value)?))).collect()
}

/// Adds the tokens that only tokenizer_config.json has, as transformers does, and checks that each
/// has the id it says.
fn add_missing_tokens(
    inner: &mut tokenizers::Tokenizer,
    added: BTreeMap<u32, AddedTokenConfig>,
) -> Result<(), TokenizerError> {
    for (id, token) in added {
        let content = token.content.clone();
        if inner.token_to_id(&content).is_none() {
            let token = AddedToken::from(token.content, token.special)
                .lstrip(token.lstrip)
                .rstrip(token.rstrip)
                .normalized(token.normalized)
                .single_word(token.single_word);
            guarded(|| inner.add_tokens([token])).map_err(TokenizerError::Config)?;
        }
        if inner.token_to_id(&content) != Some(id) {
            return Err(TokenizerError::Config(format!(
                "added token {content:?} should have id {id} but has {:?}",
                inner.token_to_id(&content)
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::text::tokenizer::{CharTokenizer, Tokenizer};

    /// A directory with a character tokenizer's files, whose config is changed by `change`.
    fn directory(change: impl FnOnce(&mut Value)) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        CharTokenizer::default().save_huggingface(dir.path()).unwrap();
        let path = dir.path().join(TOKENIZER_CONFIG_FILE);
        let mut config: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        change(&mut config);
        std::fs::write(&path, config.to_string()).unwrap();
        dir
    }

    #[test]
    fn tokens_that_only_the_config_has_are_added() {
        let added = json!({"64": {"content": "<|end|>", "special": true}, "2": {"content": "<eos>", "special": true}});
        let dir = directory(|config| {
            config["added_tokens_decoder"] = added;
            config["eos_token"] = json!({"content": "<|end|>"});
        });
        let tokenizer = Tokenizer::from_dir(dir.path()).unwrap();
        assert_eq!(tokenizer.vocab_size(), 65);
        assert_eq!(tokenizer.eos_id(), Some(64));
        let ids = tokenizer.encode("1+2<|end|>").unwrap();
        assert_eq!(ids.last(), Some(&64));
        assert_eq!(tokenizer.decode(&ids, true).unwrap(), "1+2");
        assert_eq!(tokenizer.decode(&ids, false).unwrap(), "1+2<|end|>");
    }

    #[test]
    fn a_config_of_another_tokenizer_is_refused() {
        let dir = directory(|config| config["added_tokens_decoder"] = json!({"70": {"content": "<|end|>"}}));
        assert!(matches!(Tokenizer::from_dir(dir.path()), Err(TokenizerError::Config(_))));
        let dir = directory(|config| config["eos_token"] = json!("<|nobody|>"));
        let error = Tokenizer::from_dir(dir.path()).unwrap_err().to_string();
        assert!(error.contains("<|nobody|>") && error.contains("no token"), "{error}");
        let dir = directory(|config| *config = json!([1]));
        assert!(matches!(Tokenizer::from_dir(dir.path()), Err(TokenizerError::Config(_))));
    }

    #[test]
    fn the_template_file_wins_over_the_config() {
        let dir = directory(|config| config["chat_template"] = json!("config {{ eos_token }}"));
        let shown = |dir: &Path| {
            let tokenizer = Tokenizer::from_dir(dir).unwrap();
            let template = tokenizer.chat_template().unwrap().unwrap();
            template.render(&json!([]), &serde_json::Map::new()).unwrap()
        };
        assert_eq!(shown(dir.path()), "config <eos>");
        std::fs::write(dir.path().join(CHAT_TEMPLATE_FILE), "file {{ eos_token }}").unwrap();
        assert_eq!(shown(dir.path()), "file <eos>");
        std::fs::write(dir.path().join(CHAT_TEMPLATE_FILE), "{{").unwrap();
        let unreadable = Tokenizer::from_dir(dir.path()).unwrap();
        assert!(matches!(unreadable.chat_template(), Err(TokenizerError::Chat(_))));
        assert!(matches!(unreadable.clone().in_chat(), Err(TokenizerError::Chat(_))));
        assert_eq!(unreadable.prompt("1+1=").unwrap().len(), 4, "plain prompts need no template");
    }

    #[test]
    fn the_post_processor_or_the_config_says_whether_a_text_begins_with_bos() {
        let adds = |post_processor: Value, change: fn(&mut Value)| {
            let dir = directory(change);
            let path = dir.path().join("tokenizer.json");
            let mut file: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
            file["post_processor"] = post_processor;
            std::fs::write(&path, file.to_string()).unwrap();
            Tokenizer::from_dir(dir.path()).unwrap().adds_bos()
        };
        let special = json!({"id": "<bos>", "ids": [1], "tokens": ["<bos>"]});
        let llama = json!({
            "type": "TemplateProcessing",
            "single": [{"SpecialToken": {"id": "<bos>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {"<bos>": special},
        });
        assert!(adds(llama.clone(), |config| config["add_bos_token"] = Value::Null));
        assert!(!adds(Value::Null, |_| ()));
        assert!(!adds(llama, |config| config["add_bos_token"] = json!(false)));
        assert!(adds(Value::Null, |config| {
            config["add_bos_token"] = json!(true);
            config["bos_token"] = json!("<bos>");
        }));
    }

    /// Found by fuzzing: the `tokenizers` crate panics on an invalid decoder.
    #[test]
    fn a_panic_of_the_library_is_an_error() {
        let whole: Value = serde_json::from_str(&CharTokenizer::default().to_huggingface_json()).unwrap();
        for decoder in [json!(5), json!({"type": 5})] {
            let mut broken = whole.clone();
            broken["decoder"] = decoder;
            let refused = HfTokenizer::from_bytes(broken.to_string().as_bytes(), None);
            assert!(matches!(refused, Err(TokenizerError::Malformed(_))), "{refused:?}");
        }
    }

    #[test]
    fn broken_files_are_named() {
        let dir = tempfile::tempdir().unwrap();
        assert!(matches!(Tokenizer::from_dir(dir.path()), Err(TokenizerError::File { .. })));
        std::fs::write(dir.path().join("tokenizer.json"), "{").unwrap();
        assert!(matches!(Tokenizer::from_dir(dir.path()), Err(TokenizerError::Malformed(_))));
        assert!(matches!(
            read_capped(&dir.path().join("tokenizer.json"), 0),
            Err(TokenizerError::TooLarge { .. })
        ));
    }
}
