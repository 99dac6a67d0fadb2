//! `[prompt]`

use crate::common::option_error::OptionError;
use echo_protocol::run::prompt::{MAX_PROMPT_BYTES, PromptSpec, QUESTION};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// `[prompt]`: how prompts are put, and which part of a response is judged; the charter fixes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PromptSection {
    /// Whether prompts, and what environments say, are messages of the policy's chat template; left out,
    /// where there is one that can be used.
    pub chat: Option<bool>,
    /// The system message.
    pub system: Option<String>,
    /// The text around a question, which stands at `{question}`.
    pub template: Option<String>,
    /// Whether prompts begin with the BOS token; left out, where the tokenizer adds it to plain text.
    pub bos: Option<bool>,
    /// Whether only what stands in the last `<answer>` … `</answer>` of a response is judged.
    pub answer_tags: bool,
    /// Further variables of the chat template, such as `enable_thinking`.
    pub arguments: Map<String, Value>,
}

impl PromptSection {
    /// The charter's form of what the run file says itself; founding adds what follows from the model.
    pub(crate) fn charter(&self) -> PromptSpec {
        let arguments = Some(&self.arguments).filter(|arguments| !arguments.is_empty());
        PromptSpec {
            system: self.system.clone(),
            template: self.template.clone(),
            arguments: arguments.map(|arguments| Value::Object(arguments.clone()).to_string()),
            answer_tags: self.answer_tags,
            ..PromptSpec::default()
        }
    }

    /// Whether the charter says something else.
    pub(crate) fn differs(&self, chats: bool, fixed: &PromptSpec) -> bool {
        let arguments = fixed.arguments.as_deref().unwrap_or("{}");
        let arguments: Map<String, Value> = serde_json::from_str(arguments).unwrap_or_default();
        // Founding writes the question alone for messages, where the file leaves it out.
        let template = |template: &Option<String>| template.clone().filter(|template| template != QUESTION);
        self.chat.is_some_and(|chat| chat != chats)
            || self.system != fixed.system
            || template(&self.template) != template(&fixed.template)
            || self.bos.is_some_and(|bos| bos != fixed.bos)
            || self.answer_tags != fixed.answer_tags
            || self.arguments != arguments
    }

    /// Checks what can be checked without the tokenizer. `chat` is what the run file says of it, false
    /// for a model without a chat template.
    pub(super) fn validate(&self, chat: Option<bool>) -> Result<(), OptionError> {
        let spec = self.charter();
        if spec.bytes() > MAX_PROMPT_BYTES {
            let (field, found) = ("prompt", spec.bytes() as u64);
            let rule =
                "system, template and arguments may have 12288 bytes together: the charter carries them";
            return Err(OptionError::Number { field, found, rule });
        }
        let refuse =
            |field, found: &str, rule| Err(OptionError::Setting { field, found: format!("{found:?}"), rule });
        if let Some(template) = &self.template
            && !spec.asks_once()
        {
            return refuse("prompt.template", template, "it has to name {question} exactly once");
        }
        if chat != Some(false) {
            return Ok(());
        }
        if let Some(system) = &self.system {
            let rule = "only a policy that chats has a system message: write the text into `template`";
            return refuse("prompt.system", system, rule);
        }
        match self.arguments.keys().next() {
            Some(name) => {
                refuse("prompt.arguments", name, "only a chat template has arguments: leave them out")
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(text: &str) -> PromptSection {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn a_charter_says_what_the_run_file_says() {
        let text = "system = 'be brief'\ntemplate = 'Q: {question}'\nanswer_tags = true\narguments = { enable_thinking = false, n = 2 }";
        let chosen = section(text);
        let spec = chosen.charter();
        assert_eq!(spec.arguments.as_deref(), Some(r#"{"enable_thinking":false,"n":2}"#));
        assert!(spec.answer_tags && !chosen.differs(true, &spec));
        assert!(PromptSection::default().charter().is_default());
        assert_eq!(section(&toml::to_string(&chosen).unwrap()), chosen);
        let other = [
            "chat = false",
            "bos = true",
            "system = 'be kind'",
            "template = 'Q: {question}'",
            "answer_tags = true",
            "arguments = { n = 2 }",
        ];
        for other in other {
            assert!(section(other).differs(true, &PromptSpec::default()), "{other}");
        }
        assert!(!section("chat = true\nbos = false").differs(true, &PromptSpec::default()));
    }

    #[test]
    fn what_nobody_would_look_at_is_refused() {
        let refused = |text: &str, chat, why: &str| {
            let error = section(text).validate(chat).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        refused("template = 'Q:'", None, "{question} exactly once");
        refused("system = 'be brief'", Some(false), "into `template`");
        refused("arguments = { a = 1 }", Some(false), "prompt.arguments = \"a\"");
        refused(&format!("system = '{}'", "x".repeat(MAX_PROMPT_BYTES + 1)), None, "12288 bytes");
        section("system = 'be brief'\narguments = { a = 1 }").validate(None).unwrap();
        section("template = 'Q: {question}'").validate(Some(false)).unwrap();
    }
}
