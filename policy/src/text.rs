//! From text to token ids and back, and the chat templates around a conversation.
//!
//! May import nothing but `fuzzing`.
//!
//! ```text
//! a task's prompt -> chat::ChatTemplate::render -> a conversation as text
//!                 -> tokenizer::Tokenizer::encode -> token ids
//! a response      -> tokenizer::Tokenizer::decode -> text
//! ```

pub mod chat;
pub mod tokenizer;
