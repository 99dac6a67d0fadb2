//! Strings that end a turn.

use std::sync::Arc;

use super::request::within;
use crate::error::EngineError;

/// Most strings that end the turns of one request.
pub const MAX_STOP_STRINGS: usize = 16;
/// Longest of them, in bytes.
pub const MAX_STOP_BYTES: usize = 256;

/// Turns token ids into text.
type Decode = dyn Fn(&[u32]) -> String + Send + Sync;

/// Strings that end a turn, wherever its text comes to hold one of them: the token within which a string ends is the turn's last, and
/// stays whole.
#[derive(Clone)]
pub struct StopStrings {
    strings: Vec<String>,
    /// Bytes of the longest.
    longest: usize,
    decode: Arc<Decode>,
}

impl std::fmt::Debug for StopStrings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("StopStrings").field(&self.strings).finish()
    }
}

impl StopStrings {
    /// `decode` turns the last tokens of a turn into text. It may garble the first characters, which are cut off from those before.
    ///
    /// # Errors
    /// When there are too many strings, or one is empty or too long.
    pub fn new(
        strings: Vec<String>,
        decode: impl Fn(&[u32]) -> String + Send + Sync + 'static,
    ) -> Result<Self, EngineError> {
        within("stop strings", strings.len(), MAX_STOP_STRINGS)?;
        let longest = strings.iter().map(String::len).max().unwrap_or(0);
        within("bytes of a stop string", longest, MAX_STOP_BYTES)?;
        if strings.iter().any(String::is_empty) {
            let wanted = "a text of at least one character";
            return Err(EngineError::Parameter { name: "stop_strings", value: 0.0, wanted });
        }
        Ok(Self { strings, longest, decode: Arc::new(decode) })
    }

    /// Whether the text of a turn has just come to hold one of the strings; it held none before its last token.
    pub(super) fn end(&self, turn: &[u32]) -> bool {
        // A token is a byte of text or more; twice as many leave room for those that are none, and for a garbled beginning.
        let window = &turn[turn.len().saturating_sub(2 * self.longest)..];
        if window.is_empty() {
            return false;
        }
        let text = (self.decode)(window);
        self.strings.iter().any(|string| text.contains(string))
    }
}
