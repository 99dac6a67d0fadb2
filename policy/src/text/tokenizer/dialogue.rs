//! From what is said to a policy to the tokens that it reads.
//!
//! A policy reads a prompt, and between its turns what an environment answers. Either is plain
//! text, or a message of the user in the chat template that came with the tokenizer. The policy's
//! own turns never pass through the template: they stay the tokens that were drawn, the one that
//! ends a turn included, and the template's text begins after that one. So what stands around a
//! turn depends on no turn before it, and whoever has an episode's texts (a node, the learner's
//! audit, its trainer) has the same tokens by [`Tokenizer::prompt`] and [`Tokenizer::heard`], and a
//! mask of the policy's own.

use serde_json::{Map, Value, json};

use super::huggingface::Chat;
use super::{HfTokenizer, Tokenizer, TokenizerError};

/// Stands for what the assistant and the user said, where only what is around it matters.
const TURN: &str = "what-the-assistant-said";
const WORDS: &str = "what-the-user-said";

impl Tokenizer {
    /// The same tokenizer, whose prompts and answers of environments are messages of the chat
    /// template that came with it.
    ///
    /// # Errors
    /// [`TokenizerError::NoChat`] when there is no template, or it does not end the assistant's
    /// turns with the token that ends responses.
    pub fn in_chat(self) -> Result<Self, TokenizerError> {
        match self {
            Self::Characters(_) => Err(no_chat("it has no chat template")),
            Self::HuggingFace(tokenizer) => Ok(tokenizer.in_chat()?.into()),
        }
    }

    /// The tokens of a prompt: the text, or the conversation that it opens, up to where the assistant speaks.
    ///
    /// # Errors
    /// As [`Tokenizer::encode`]; [`TokenizerError::Chat`] when the template refuses the text.
    pub fn prompt(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        match self.chatting() {
            Some(tokenizer) => self.encode(&tokenizer.opening(text)?),
            None => self.encode(text),
        }
    }

    /// The tokens of what an environment says after a turn that has ended itself: the text, or the
    /// user's message, up to where the assistant speaks again.
    ///
    /// # Errors
    /// Those that [`Tokenizer::prompt`] fails with.
    pub fn heard(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        match self.chatting() {
            Some(tokenizer) => self.encode(&tokenizer.answer(text)?),
            None => self.encode(text),
        }
    }

    /// Most tokens that [`Tokenizer::prompt`] and [`Tokenizer::heard`] give beyond one for each
    /// byte of the text, where the template writes the text once and whatever it is, and
    /// normalizing makes no text longer. Elsewhere a text may turn out too long for the model,
    /// which is an error of that text alone.
    pub fn around(&self) -> usize {
        self.chatting().and_then(|tokenizer| tokenizer.chat.as_ref()).map_or(0, |chat| chat.around)
    }

    fn chatting(&self) -> Option<&HfTokenizer> {
        match self {
            Self::HuggingFace(tokenizer) => Some(tokenizer.as_ref()).filter(|one| one.chat.is_some()),
            Self::Characters(_) => None,
        }
    }
}

impl HfTokenizer {
    fn in_chat(mut self) -> Result<Self, TokenizerError> {
        let end = self.special_tokens.get("eos_token").cloned();
        let end = end.ok_or_else(|| no_chat("tokenizer_config.json names no eos_token"))?;
        self.chat = Some(Chat { end, around: 0 });
        for shown in [self.opening(WORDS)?, self.answer(WORDS)?] {
            if !shown.contains(WORDS) {
                return Err(no_chat("its chat template leaves out what the user says"));
            }
        }
        let around = [self.opening("")?, self.answer("")?];
        let around = [self.most_tokens(&around[0])?, self.most_tokens(&around[1])?];
        self.chat = self.chat.map(|chat| Chat { around: around[0].max(around[1]), ..chat });
        Ok(self)
    }

    /// The conversation that a prompt opens.
    fn opening(&self, text: &str) -> Result<String, TokenizerError> {
        self.conversation(&json!([{"role": "user", "content": text}]))
    }

    /// What stands between two turns of the assistant. The conversation before does not matter to
    /// it, so it is a short one.
    fn answer(&self, text: &str) -> Result<String, TokenizerError> {
        let shown = self.conversation(&json!([
            {"role": "user", "content": WORDS},
            {"role": "assistant", "content": TURN},
            {"role": "user", "content": text},
        ]))?;
        let end = self.chat.as_ref().map_or("", |chat| chat.end.as_str());
        let behind = shown.split_once(TURN).and_then(|(_, behind)| behind.strip_prefix(end));
        let wrong =
            || no_chat(&format!("its chat template does not end what the assistant says with {end:?}"));
        behind.map(str::to_owned).ok_or_else(wrong)
    }

    fn conversation(&self, messages: &Value) -> Result<String, TokenizerError> {
        let template = self.chat_template.as_ref().ok_or_else(|| no_chat("it has no chat template"))?;
        let kwargs = Map::from_iter([("add_generation_prompt".to_owned(), Value::Bool(true))]);
        Ok(template.render(messages, &kwargs)?)
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
        let rendered = tokenizer.chat_template().unwrap().render(&messages, &Map::new()).unwrap();
        assert_eq!(text(whole).replace("a:", ""), rendered);
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
