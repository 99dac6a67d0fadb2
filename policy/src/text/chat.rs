//! Chat templates: the Jinja2 programs that turn a conversation into the text a model was trained on.
//!
//! A template comes with a tokenizer, from `chat_template.jinja` or from `chat_template` in
//! `tokenizer_config.json`, and is rendered as transformers renders it: `trim_blocks` and
//! `lstrip_blocks` on, `tojson` without HTML escapes, Python's text of numbers and lists. A
//! template is a program written by somebody else, so its instructions, its output and what it
//! allocates are limited. Powers, `str.format` and the filters whose result is not bounded by their
//! input are not available to it.
//!
//! ```
//! use echo_policy::text::chat::ChatTemplate;
//!
//! let source = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{{ eos_token }}{% endfor %}";
//! let special = [("eos_token".to_owned(), "</s>".to_owned())].into();
//! let template = ChatTemplate::new(source, special)?;
//! let messages = serde_json::json!([{"role": "user", "content": "hi"}]);
//! assert_eq!(template.render(&messages, &serde_json::Map::new())?, "<user>hi</s>");
//! # Ok::<(), echo_policy::text::chat::ChatError>(())
//! ```

use std::collections::BTreeMap;

use serde_json::{Map, Value};

mod budget;
mod filters;
mod json;
mod methods;
mod operators;
mod python;
mod render;
mod rewrite;
mod text;
mod time;

pub use budget::MAX_RENDER_BYTES;
pub use json::MAX_JSON_INDENT;
pub use python::MAX_VALUE_DEPTH;
pub use render::{MAX_FIXED_TEXT_BYTES, MAX_FUEL, MAX_OUTPUT_BYTES, MAX_RANGE_BOUND, MAX_RECURSION};
pub use time::ChatTime;

/// Bytes of a template's source. The largest published ones have about 20 KiB.
pub const MAX_TEMPLATE_BYTES: usize = 256 << 10;

/// A chat template that cannot be used, or a conversation that it refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChatError {
    /// The source is longer than any real template.
    #[error(
        "the chat template has {bytes} bytes, more than the {MAX_TEMPLATE_BYTES} allowed; give a smaller one"
    )]
    TooLarge {
        /// Length of the template in bytes.
        bytes: usize,
    },
    /// The source is not a template that this engine accepts.
    #[error(
        "the chat template does not parse: {0}; correct chat_template.jinja or tokenizer_config.json, or put prompts as plain text with `chat = false` in [prompt]"
    )]
    Syntax(String),
    /// The template failed, refused the conversation (`raise_exception`) or went beyond a limit.
    #[error(
        "the chat template could not be rendered: {0}; check the messages against what the template expects"
    )]
    Render(String),
    /// `chat_template` of tokenizer_config.json has an unknown form.
    #[error(
        "tokenizer_config.json: `chat_template` must be a string or a list of {{name, template}} with one named `default`"
    )]
    Form,
}

/// A template and the special tokens that it may name.
#[derive(Debug, Clone)]
pub struct ChatTemplate {
    source: String,
    /// Used instead of `source` when tools are given, where a tokenizer has several templates.
    tool_source: Option<String>,
    special_tokens: BTreeMap<String, String>,
}

impl ChatTemplate {
    /// Checks and keeps a template. `special_tokens` maps names such as `eos_token` to the token's text.
    ///
    /// # Errors
    /// When the source is too large or does not parse.
    pub fn new(
        source: impl Into<String>,
        special_tokens: BTreeMap<String, String>,
    ) -> Result<Self, ChatError> {
        Ok(Self { source: checked(source.into())?, tool_source: None, special_tokens })
    }

    /// Reads `chat_template` of a parsed `tokenizer_config.json`: a string, or a list of
    /// named templates of which `default` and `tool_use` are kept. `None` when the
    /// tokenizer has no template.
    ///
    /// # Errors
    /// When the field has another form, or a template is too large or does not parse.
    pub fn from_config(
        config: &Value,
        special_tokens: BTreeMap<String, String>,
    ) -> Result<Option<Self>, ChatError> {
        match config.get("chat_template") {
            None | Some(Value::Null) => Ok(None),
            Some(Value::String(source)) => Self::new(source.as_str(), special_tokens).map(Some),
            Some(Value::Array(list)) => {
                let named = |name: &str| {
                    let entry = list.iter().find(|entry| entry["name"] == name)?;
                    entry["template"].as_str().map(str::to_owned)
                };
                let mut template = Self::new(named("default").ok_or(ChatError::Form)?, special_tokens)?;
                template.tool_source = named("tool_use").map(checked).transpose()?;
                Ok(Some(template))
            }
            Some(_) => Err(ChatError::Form),
        }
    }

    /// Renders `messages`, a list of objects with `role` and `content`. `kwargs` are the template's
    /// other variables, such as `add_generation_prompt`, `tools` or `enable_thinking`; as in
    /// transformers, `tools` and `documents` are none and `add_generation_prompt` is false unless
    /// given. Templates find no `strftime_now`.
    ///
    /// # Errors
    /// When the template refuses the conversation or goes beyond a limit.
    pub fn render(&self, messages: &Value, kwargs: &Map<String, Value>) -> Result<String, ChatError> {
        self.render_with_time(messages, kwargs, None)
    }

    /// Like [`ChatTemplate::render`], for templates that print the date: `strftime_now` tells
    /// them it is `now`.
    ///
    /// # Errors
    /// Those that [`ChatTemplate::render`] fails with.
    pub fn render_at(
        &self,
        messages: &Value,
        kwargs: &Map<String, Value>,
        now: ChatTime,
    ) -> Result<String, ChatError> {
        self.render_with_time(messages, kwargs, Some(now))
    }

    fn render_with_time(
        &self,
        messages: &Value,
        kwargs: &Map<String, Value>,
        now: Option<ChatTime>,
    ) -> Result<String, ChatError> {
        let mut root = Map::new();
        root.insert("tools".into(), Value::Null);
        root.insert("documents".into(), Value::Null);
        root.insert("add_generation_prompt".into(), Value::Bool(false));
        for (name, token) in &self.special_tokens {
            root.insert(name.clone(), Value::from(token.as_str()));
        }
        root.extend(kwargs.iter().map(|(name, value)| (name.clone(), value.clone())));
        root.insert("messages".into(), messages.clone());
        let with_tools = !root["tools"].is_null();
        let source = self.tool_source.as_ref().filter(|_| with_tools).unwrap_or(&self.source);
        render::render(source, root, now).map_err(ChatError::Render)
    }
}

fn checked(source: String) -> Result<String, ChatError> {
    if source.len() > MAX_TEMPLATE_BYTES {
        return Err(ChatError::TooLarge { bytes: source.len() });
    }
    render::check(&source).map_err(ChatError::Syntax)?;
    Ok(source)
}

#[cfg(test)]
mod tests;
