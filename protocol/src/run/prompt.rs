//! How a run puts its prompts, and which part of a response it judges.
//!
//! Prompts are not sent: nodes, verifiers and the learner build them from an order's number. So all
//! that shapes them is in the charter.

use serde::{Deserialize, Serialize};

/// Most bytes of the system prompt, the template and the template's arguments together. A charter has
/// 32 KiB for everything.
pub const MAX_PROMPT_BYTES: usize = 12 << 10;
/// Most further end tokens. Published models name one to five.
pub const MAX_END_TOKENS: usize = 16;
/// What stands for the task's question in a template.
pub const QUESTION: &str = "{question}";

/// How prompts are put. The default is the task's question alone, and it is not written into a charter:
/// charters of before there was a choice have the same bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PromptSpec {
    /// The system message of a policy that chats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system: Option<String>,
    /// The text around the question, which stands at its one [`QUESTION`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    /// A JSON object: further variables of the chat template.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arguments: Option<String>,
    /// The moment that a chat template prints as today, in seconds since 1970: templates that ask for it
    /// must come to the same text everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub now: Option<i64>,
    /// Whether prompts begin with the tokenizer's BOS token.
    #[serde(skip_serializing_if = "is_false")]
    pub bos: bool,
    /// Tokens that end a response beside the tokenizer's own end token.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub end_tokens: Vec<u32>,
    /// Whether only what stands in the last `<answer>` … `</answer>` of a response is judged.
    #[serde(skip_serializing_if = "is_false")]
    pub answer_tags: bool,
    /// Whether prompts end within `<think>`, so that a response without `</think>` is all thinking.
    #[serde(skip_serializing_if = "is_false")]
    pub thinking_is_open: bool,
}

impl PromptSpec {
    /// Whether it goes without saying.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Bytes of all its texts together.
    pub fn bytes(&self) -> usize {
        [&self.system, &self.template, &self.arguments].into_iter().flatten().map(String::len).sum()
    }

    /// Whether the template, if there is one, names the question exactly once.
    pub fn asks_once(&self) -> bool {
        self.template.as_ref().is_none_or(|template| template.matches(QUESTION).count() == 1)
    }
}

fn is_false(flag: &bool) -> bool {
    !flag
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::codec::{decode, encode};

    #[test]
    fn only_what_was_chosen_is_written() {
        let plain = encode(&PromptSpec::default(), 1 << 10).unwrap();
        // An empty map of CBOR.
        assert_eq!(plain, [0xa0]);
        let chosen = PromptSpec {
            system: Some("be brief".into()),
            template: Some("Q: {question}\nA:".into()),
            arguments: Some(r#"{"enable_thinking":false}"#.into()),
            now: Some(1_700_000_000),
            bos: true,
            end_tokens: vec![2, 7],
            answer_tags: true,
            thinking_is_open: true,
        };
        let bytes = encode(&chosen, 1 << 10).unwrap();
        assert_eq!(decode::<PromptSpec>(&bytes, 1 << 10).unwrap(), chosen);
        assert_eq!(decode::<PromptSpec>(&plain, 1 << 10).unwrap(), PromptSpec::default());
        assert_eq!(chosen.bytes(), 8 + 16 + 25);
    }

    #[test]
    fn a_template_asks_once() {
        let asks = |template: &str| {
            PromptSpec { template: Some(template.into()), ..PromptSpec::default() }.asks_once()
        };
        assert!(PromptSpec::default().asks_once() && asks("{question}") && asks("{{question}}"));
        assert!(!asks("") && !asks("{question} {question}") && !asks("{Question}"));
    }
}
