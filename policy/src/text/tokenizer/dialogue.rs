//! From what is said to a policy to the tokens that it reads.
//!
//! A policy reads a prompt, and between its turns what an environment answers. Either is plain
//! text, or a message of the user in the chat template that came with the tokenizer. What else stands
//! around a task's question, [`PromptForm`] says. The policy's
//! own turns never pass through the template: they stay the tokens that were drawn, the one that
//! ends a turn included, and the template's text begins after that one. So what stands around a
//! turn depends on no turn before it, and whoever has an episode's texts (a node, the learner's
//! audit, its trainer) has the same tokens by [`Tokenizer::prompt`] and [`Tokenizer::heard`], and a
//! mask of the policy's own.

use serde_json::{Value, json};

use super::{Kind, PromptForm, Tokenizer, TokenizerError};
use crate::text::chat::ChatTime;

/// Stands for what the assistant and the user said, where only what is around it matters.
const TURN: &str = "what-the-assistant-said";
const WORDS: &str = "what-the-user-said";
/// What opens a model's thinking.
const THINK: &str = "<think>";

/// What is known of a chat template that is in use.
#[derive(Debug, Clone)]
pub(super) struct Chat {
    /// The text of the token that ends the assistant's turns.
    end: String,
    /// Most tokens around what an environment says.
    around: usize,
}

impl Tokenizer {
    /// The same tokenizer, whose prompts and answers of environments are messages of the chat
    /// template that came with it.
    ///
    /// # Errors
    /// [`TokenizerError::NoChat`] when there is no template, or it does not end the assistant's
    /// turns with the token that ends responses.
    pub fn in_chat(self) -> Result<Self, TokenizerError> {
        self.with_prompts(PromptForm { chat: true, ..PromptForm::default() })
    }

    /// The same tokenizer, which puts prompts in this form.
    ///
    /// # Errors
    /// [`TokenizerError::Prompt`] when the form contradicts itself or the tokenizer, and those of
    /// [`Tokenizer::in_chat`] where it chats.
    pub fn with_prompts(self, form: PromptForm) -> Result<Self, TokenizerError> {
        form.check()?;
        if form.bos && self.bos_id().is_none() {
            return Err(TokenizerError::Prompt("bos: the tokenizer names no BOS token".into()));
        }
        let chat = if form.chat { Some(Chat { end: self.turn_end()?, around: 0 }) } else { None };
        Self { form, chat, opening: 0, ..self }.measured()
    }

    /// The text of the token that ends the assistant's turns.
    fn turn_end(&self) -> Result<String, TokenizerError> {
        if self.chat_template()?.is_none() {
            return Err(no_chat("it has no chat template"));
        }
        let end = match &self.kind {
            Kind::HuggingFace(tokenizer) => tokenizer.special_tokens.get("eos_token").cloned(),
            Kind::Characters(_) => None,
        };
        end.ok_or_else(|| no_chat("tokenizer_config.json names no eos_token"))
    }

    /// Checks what a chat template does with words, and counts the tokens that stand around them.
    fn measured(mut self) -> Result<Self, TokenizerError> {
        self.opening = self.most_tokens(&self.prompt_text("")?)? + usize::from(self.form.bos);
        if self.chat.is_none() {
            return Ok(self);
        }
        for shown in [self.prompt_text(WORDS)?, self.answer(WORDS)?] {
            if !shown.contains(WORDS) {
                return Err(no_chat("its chat template leaves out what the user says"));
            }
        }
        let around = self.most_tokens(&self.answer("")?)?;
        self.chat = self.chat.map(|chat| Chat { around, ..chat });
        Ok(self)
    }

    /// The text of a prompt: the question in its template, or the conversation that it opens, up to where
    /// the assistant speaks.
    ///
    /// # Errors
    /// [`TokenizerError::Chat`] when the chat template refuses the text.
    pub fn prompt_text(&self, text: &str) -> Result<String, TokenizerError> {
        let asked = self.form.question(text);
        match self.chat {
            Some(_) => self.conversation(vec![json!({"role": "user", "content": asked})]),
            None => Ok(asked),
        }
    }

    /// The tokens of a prompt: those of its text, with the BOS token before them where the form says so.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`]; [`TokenizerError::Chat`] when the template refuses the text.
    pub fn prompt(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = self.encode(&self.prompt_text(text)?)?;
        let bos = self.bos_id().filter(|_| self.form.bos);
        if let Some(bos) = bos.filter(|bos| ids.first() != Some(bos)) {
            ids.insert(0, bos);
        }
        Ok(ids)
    }

    /// Whether prompts end within `<think>`, so that a response begins with thinking.
    ///
    /// # Errors
    /// [`TokenizerError::Chat`] when the chat template refuses the text.
    pub fn opens_thinking(&self) -> Result<bool, TokenizerError> {
        Ok(self.prompt_text(WORDS)?.trim_end().ends_with(THINK))
    }

    /// The tokens of what an environment says after a turn that has ended itself: the text, or the
    /// user's message, up to where the assistant speaks again.
    ///
    /// # Errors
    /// Those that [`Tokenizer::prompt`] fails with.
    pub fn heard(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        match self.chat {
            Some(_) => self.encode(&self.answer(text)?),
            None => self.encode(text),
        }
    }

    /// Most tokens that [`Tokenizer::heard`] gives beyond one for each
    /// byte of the text, where the template writes the text once and whatever it is, and
    /// normalizing makes no text longer. Elsewhere a text may turn out too long for the model,
    /// which is an error of that text alone.
    pub fn around(&self) -> usize {
        self.chat.as_ref().map_or(0, |chat| chat.around)
    }

    /// The same for [`Tokenizer::prompt`].
    pub fn around_prompt(&self) -> usize {
        self.opening
    }

    /// What stands between two turns of the assistant. The conversation before does not matter to
    /// it, so it is a short one.
    fn answer(&self, text: &str) -> Result<String, TokenizerError> {
        let shown = self.conversation(vec![
            json!({"role": "user", "content": WORDS}),
            json!({"role": "assistant", "content": TURN}),
            json!({"role": "user", "content": text}),
        ])?;
        let end = self.chat.as_ref().map_or("", |chat| chat.end.as_str());
        let behind = shown.split_once(TURN).and_then(|(_, behind)| behind.strip_prefix(end));
        let wrong = || {
            no_chat(&format!(
                "its chat template does not end what the assistant says with {end:?}, its eos_token. Where the model ends its turns \
                 with another token, name that one as eos_token in tokenizer_config.json"
            ))
        };
        behind.map(str::to_owned).ok_or_else(wrong)
    }

    fn conversation(&self, messages: Vec<Value>) -> Result<String, TokenizerError> {
        let template = self.chat_template()?.ok_or_else(|| no_chat("it has no chat template"))?;
        let system = self.form.system.as_ref().map(|system| json!({"role": "system", "content": system}));
        let messages = Value::Array(system.into_iter().chain(messages).collect());
        let mut variables = self.form.arguments.clone();
        variables.insert("add_generation_prompt".to_owned(), Value::Bool(true));
        Ok(match self.form.now {
            Some(now) => template.render_at(&messages, &variables, ChatTime::from_unix_seconds(now))?,
            None => template.render(&messages, &variables)?,
        })
    }

    /// Most tokens that `text` makes, whatever stands within it: its special tokens, and one for
    /// each byte of the rest.
    fn most_tokens(&self, text: &str) -> Result<usize, TokenizerError> {
        let mut most = text.len();
        for id in self.encode(text)? {
            if self.decode(&[id], true)?.is_empty() {
                most = (most + 1).saturating_sub(self.decode(&[id], false)?.len());
            }
        }
        Ok(most)
    }
}

fn no_chat(why: &str) -> TokenizerError {
    TokenizerError::NoChat(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tokenizer::{CHAT_TEMPLATE_FILE, CharTokenizer};
    use serde_json::Map;
    use std::path::Path;

    const TEMPLATE: &str = "{% for m in messages %}{% if m.role == 'user' %}<bos>{{ m.content }}\n{% else %}{{ m.content }}<eos>\n{% endif %}\
                            {% endfor %}{% if add_generation_prompt %}a:{% endif %}";

    /// A character tokenizer's directory with a chat template.
    fn open(dir: &Path, template: &str) -> Tokenizer {
        CharTokenizer::default().save_huggingface(dir).unwrap();
        std::fs::write(dir.join(CHAT_TEMPLATE_FILE), template).unwrap();
        Tokenizer::from_dir(dir).unwrap()
    }

    #[test]
    fn prompts_and_answers_are_messages_that_leave_the_assistant_its_own_tokens() {
        let dir = tempfile::tempdir().unwrap();
        let tokenizer = open(dir.path(), TEMPLATE);
        assert_eq!(
            (tokenizer.prompt("1+1").unwrap(), tokenizer.around()),
            (tokenizer.encode("1+1").unwrap(), 0)
        );
        let tokenizer = tokenizer.in_chat().unwrap();
        let text = |ids: Vec<u32>| tokenizer.decode(&ids, false).unwrap();
        assert_eq!(text(tokenizer.prompt("1+1").unwrap()), "<bos>1+1\na:");
        assert_eq!(text(tokenizer.heard("no").unwrap()), "\n<bos>no\na:");
        assert_eq!(tokenizer.around(), "\n\na:".len() + 1);

        // A conversation of several turns, put together turn by turn, is what the template makes of
        // all of it at once.
        let said =
            |words: &str| [tokenizer.encode(words).unwrap(), vec![tokenizer.eos_id().unwrap()]].concat();
        let (prompt, heard) = (tokenizer.prompt("guess").unwrap(), tokenizer.heard("higher").unwrap());
        let mut whole = [prompt, said("3"), heard, said("5")].concat();
        whole.extend(tokenizer.encode("\n").unwrap());
        let messages = json!([
            {"role": "user", "content": "guess"}, {"role": "assistant", "content": "3"},
            {"role": "user", "content": "higher"}, {"role": "assistant", "content": "5"},
        ]);
        // This template writes what opens the assistant's message only where it is to speak.
        let rendered = tokenizer.chat_template().unwrap().unwrap().render(&messages, &Map::new()).unwrap();
        assert_eq!(text(whole).replace("a:", ""), rendered);
    }

    /// A template with a system message of its own and a thinking that can be turned off.
    const THINKING: &str = "{% if messages[0].role != 'system' %}<bos>s:be kind<eos>{% endif %}{% for m in messages %}<bos>{{ m.role|first }}:{{ m.content }}<eos>\
                            {% endfor %}{% if add_generation_prompt %}<bos>a:{{ '' if thinks is defined and not thinks else '<think>' }}{% endif %}";

    fn form() -> PromptForm {
        PromptForm { chat: true, ..PromptForm::default() }
    }

    #[test]
    fn a_system_message_a_template_and_arguments_shape_a_chat() {
        let dir = tempfile::tempdir().unwrap();
        let alphabet = "abcdefghijklmnopqrstuvwxyz<>?:+1 ";
        CharTokenizer::new(alphabet).unwrap().save_huggingface(dir.path()).unwrap();
        std::fs::write(dir.path().join(CHAT_TEMPLATE_FILE), THINKING).unwrap();
        let plain = Tokenizer::from_dir(dir.path()).unwrap();
        let shown = |form: PromptForm| {
            let tokenizer = plain.clone().with_prompts(form).unwrap();
            let text = tokenizer.decode(&tokenizer.prompt("1+1?").unwrap(), false).unwrap();
            assert!(tokenizer.prompt("1+1?").unwrap().len() <= 4 + tokenizer.around_prompt(), "{text}");
            (text, tokenizer.opens_thinking().unwrap())
        };
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(shown(form()), ("<bos>s:be kind<eos><bos>u:1+1?<eos><bos>a:<think>".to_owned(), true));
        let asked = PromptForm { template: text("say: {question}"), ..form() };
        assert_eq!(shown(asked.clone()).0, "<bos>s:be kind<eos><bos>u:say: 1+1?<eos><bos>a:<think>");
        let brief = PromptForm { system: text("be brief"), ..asked };
        let brief = brief.with_arguments(r#"{"thinks": false}"#).unwrap();
        let want = "<bos>s:be brief<eos><bos>u:say: 1+1?<eos><bos>a:";
        assert_eq!(shown(brief.clone()), (want.to_owned(), false));
        // What an environment says is in no template, and the system does not speak again.
        let tokenizer = plain.clone().with_prompts(brief).unwrap();
        let heard = tokenizer.decode(&tokenizer.heard("no").unwrap(), false).unwrap();
        assert_eq!(heard, "<bos>u:no<eos><bos>a:");

        let template = text("ask: {question} <think>");
        let base = PromptForm { template, ..PromptForm::default() };
        assert_eq!(shown(base), ("ask: 1+1? <think>".to_owned(), true));
    }

    #[test]
    fn prompts_begin_with_one_bos_where_the_form_says_so() {
        let dir = tempfile::tempdir().unwrap();
        let plain = open(dir.path(), TEMPLATE);
        let ids = |form: PromptForm| plain.clone().with_prompts(form).unwrap().prompt("1+1=").unwrap();
        let without = ids(PromptForm::default());
        let with = ids(PromptForm { bos: true, ..PromptForm::default() });
        assert_eq!((&with[1..], with[0]), (&without[..], CharTokenizer::BOS));
        // The chat template writes it already.
        let chats = ids(PromptForm { bos: true, ..form() });
        assert_eq!(chats, ids(form()));
        assert_eq!(chats.iter().filter(|id| **id == CharTokenizer::BOS).count(), 1);
        let heard = |form: PromptForm| plain.clone().with_prompts(form).unwrap().heard("no").unwrap();
        assert_eq!(heard(PromptForm { bos: true, ..PromptForm::default() }), plain.encode("no").unwrap());
    }

    #[test]
    fn every_end_token_ends_a_response_once() {
        let dir = tempfile::tempdir().unwrap();
        let plain = open(dir.path(), TEMPLATE);
        assert_eq!(plain.end_ids(), [CharTokenizer::EOS]);
        let end_tokens = vec![7, CharTokenizer::EOS, 0];
        let several = plain.with_prompts(PromptForm { end_tokens, ..PromptForm::default() }).unwrap();
        assert_eq!(several.end_ids(), [CharTokenizer::EOS, 7, 0]);
    }

    #[test]
    fn a_template_that_asks_for_the_date_gets_the_runs() {
        let dir = tempfile::tempdir().unwrap();
        let plain = open(
            dir.path(),
            &TEMPLATE.replacen("{{ m.content }}", "{{ strftime_now('%d') }} {{ m.content }}", 1),
        );
        assert!(matches!(plain.clone().in_chat(), Err(TokenizerError::Chat(_))));
        let dated = plain.with_prompts(PromptForm { now: Some(1_721_952_000), ..form() }).unwrap();
        assert_eq!(dated.prompt_text("1+1").unwrap(), "<bos>26 1+1\na:");
    }

    #[test]
    fn a_template_that_cannot_be_used_says_why() {
        let refused = |template: &str, why: &str| {
            let dir = tempfile::tempdir().unwrap();
            let error = open(dir.path(), template).in_chat().unwrap_err();
            assert!(error.to_string().contains(why), "{error}");
        };
        refused("{{ messages[0].content }}", "does not end what the assistant says");
        refused("{% for m in messages %}{{ m.content }}<pad>{% endfor %}", "\"<eos>\"");
        refused(
            "{% for m in messages %}{{ 'x' if m.role == 'user' else m.content }}<eos>{% endfor %}",
            "leaves out",
        );
        refused("{{ raise_exception('no') }}", "could not be rendered");
        assert!(matches!(
            Tokenizer::from(CharTokenizer::default()).in_chat(),
            Err(TokenizerError::NoChat(_))
        ));
    }
}
