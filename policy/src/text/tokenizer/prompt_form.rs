//! How prompts are put: what stands around a task's question.

use serde_json::{Map, Value};

use super::TokenizerError;

/// What stands for the question in a template.
const QUESTION: &str = "{question}";
/// Variables of a chat template that are not the run's to set.
const OWN_VARIABLES: [&str; 2] = ["messages", "add_generation_prompt"];

/// How a tokenizer puts prompts. The default is the question alone, as plain text.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PromptForm {
    /// Whether prompts, and what environments say, are messages of the user in the chat template that came
    /// with the tokenizer.
    pub chat: bool,
    /// The system message before the first one of the user; needs `chat`.
    pub system: Option<String>,
    /// The text around a question, which stands at its one `{question}` without the space at its end. With
    /// `chat` it is the user's message.
    pub template: Option<String>,
    /// Further variables of the chat template, such as `enable_thinking`; needs `chat`.
    pub arguments: Map<String, Value>,
    /// The moment that a chat template prints as today, in seconds since 1970; without one, templates find
    /// no `strftime_now`.
    pub now: Option<i64>,
    /// Whether prompts begin with the BOS token. One that the chat template writes is not repeated.
    pub bos: bool,
    /// Tokens that end a response beside the tokenizer's `eos_token`.
    pub end_tokens: Vec<u32>,
}

impl PromptForm {
    /// The same with the arguments of a JSON object.
    ///
    /// # Errors
    /// [`TokenizerError::Prompt`] when it is none, or sets what is not the run's to set.
    pub fn with_arguments(self, json: &str) -> Result<Self, TokenizerError> {
        let refused = |why: String| TokenizerError::Prompt(format!("arguments: {why}"));
        let arguments: Map<String, Value> =
            serde_json::from_str(json).map_err(|error| refused(error.to_string()))?;
        match OWN_VARIABLES.iter().find(|name| arguments.contains_key(**name)) {
            Some(name) => Err(refused(format!("`{name}` follows from the conversation; leave it out"))),
            None => Ok(Self { arguments, ..self }),
        }
    }

    /// Checks what holds whatever the tokenizer is.
    pub(super) fn check(&self) -> Result<(), TokenizerError> {
        let refused = |why: &str| Err(TokenizerError::Prompt(why.to_owned()));
        if let Some(template) = &self.template
            && template.matches(QUESTION).count() != 1
        {
            return refused("template: it has to name {question} exactly once");
        }
        if self.chat {
            return Ok(());
        }
        if self.system.is_some() {
            return refused(
                "system: only a policy that chats has a system message; write it into `template`",
            );
        }
        match self.arguments.is_empty() {
            true => Ok(()),
            false => refused("arguments: they are the chat template's, and the policy does not chat"),
        }
    }

    /// The text that asks a question.
    pub(super) fn question(&self, text: &str) -> String {
        match &self.template {
            Some(template) => template.replacen(QUESTION, text.trim_end(), 1),
            None => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_stands_in_its_template_as_it_is() {
        let template = Some("Q: {question}\nA:".to_owned());
        let form = PromptForm { template, ..PromptForm::default() };
        assert_eq!(form.question("what is {question}?"), "Q: what is {question}?\nA:");
        assert_eq!(form.question("1+1?\n"), "Q: 1+1?\nA:", "a line break of the task's own goes");
        assert_eq!(PromptForm::default().question("1+1?\n"), "1+1?\n");
    }

    #[test]
    fn what_would_be_looked_at_by_nobody_is_refused() {
        let refused = |form: PromptForm, why: &str| {
            let error = form.check().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        };
        let text = |text: &str| Some(text.to_owned());
        refused(PromptForm { template: text("Q:"), ..PromptForm::default() }, "exactly once");
        refused(PromptForm { system: text("be brief"), ..PromptForm::default() }, "write it into `template`");
        let plain = PromptForm::default().with_arguments(r#"{"enable_thinking": false}"#).unwrap();
        refused(plain.clone(), "does not chat");
        PromptForm { chat: true, system: text("be brief"), ..plain }.check().unwrap();
        for wrong in ["[]", "{", r#"{"messages": []}"#, r#"{"add_generation_prompt": false}"#] {
            let error = PromptForm::default().with_arguments(wrong).unwrap_err();
            assert!(matches!(error, TokenizerError::Prompt(_)), "{error}");
        }
    }
}
