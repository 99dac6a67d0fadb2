//! The interaction log ℒ of ECHO-2 F.3 and its conversion to chat messages (F.4).

use serde::Serialize;

use crate::tasks::holdem::action::Action;
use crate::tasks::holdem::answer::AnswerFault;

/// Who a message is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageRole {
    /// The rules of the episode, which open the conversation.
    System,
    /// The environment: the state of the table before a decision.
    User,
    /// The policy: the only role whose tokens are trained on.
    Assistant,
}

/// A message of a conversation, as chat templates take it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Message {
    /// The speaker, as chat templates name it.
    pub role: MessageRole,
    /// The message's text, without any template.
    pub content: String,
}

impl Message {
    fn new(role: MessageRole, content: impl Into<String>) -> Self {
        Self { role, content: content.into() }
    }
}

/// (s_t, a_t, r_t): one decision of the policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedTurn {
    /// s_t: what the policy saw.
    pub state: String,
    /// a_t: the answer as it was generated.
    pub answer: String,
    /// What was done at the table.
    pub action: Action,
    /// What was wrong with the answer.
    pub fault: Option<AnswerFault>,
    /// r_t: by how much the policy's chips changed until its next decision or the end, less the
    /// penalty. The first one includes what was posted before.
    pub reward: i64,
}

/// ℒ: the rules and all turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EpisodeLog {
    /// The rules as the policy reads them, the system prompt.
    pub rules: String,
    /// The turns, in order.
    pub turns: Vec<LoggedTurn>,
}

impl EpisodeLog {
    /// ℳ of eq. 15 and 16: the rules, then each state as a user message and each answer
    /// as an assistant message.
    pub fn messages(&self) -> Vec<Message> {
        let turn = |turn: &LoggedTurn| {
            [asked(&turn.state), Message::new(MessageRole::Assistant, turn.answer.as_str())]
        };
        let rules = Message::new(MessageRole::System, self.rules.as_str());
        std::iter::once(rules).chain(self.turns.iter().flat_map(turn)).collect()
    }

    /// ℳ, and after it the state that is to be answered.
    pub(super) fn messages_with(&self, state: &str) -> Vec<Message> {
        let mut messages = self.messages();
        messages.push(asked(state));
        messages
    }

    /// R = Σ r_t of eq. 20: the net profit in chips, less the penalties.
    pub fn total(&self) -> i64 {
        self.turns.iter().map(|turn| turn.reward).sum()
    }
}

fn asked(state: &str) -> Message {
    Message::new(MessageRole::User, format!("state: {state}"))
}
