//! Strings that end a turn.

use std::sync::Arc;

use super::bounds::within;
use crate::generation::EngineError;
use crate::sampling::SamplingError;

/// Most strings that end the turns of one request.
pub const MAX_STOP_STRINGS: usize = 16;
/// Longest of them, in bytes.
pub const MAX_STOP_BYTES: usize = 256;

/// Turns token ids into text.
type Decode = dyn Fn(&[u32]) -> String + Send + Sync;

/// Strings that end a turn, wherever its text comes to hold one of them: the token within which a
/// string ends is the turn's last, and stays whole.
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
    /// `decode` turns the last tokens of a turn into text. It may garble the first characters,
    /// which are cut off from those before.
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
            return Err(SamplingError::Parameter { name: "stop_strings", value: 0.0, wanted }.into());
        }
        Ok(Self { strings, longest, decode: Arc::new(decode) })
    }

    /// Whether the text of a turn has just come to hold one of the strings; it held none
    /// before its last token.
    pub(super) fn end(&self, turn: &[u32]) -> bool {
        // Most tokens are a byte of text or more, some are less; twice the longest leaves room
        // for a garbled beginning.
        let wanted = 2 * self.longest;
        let mut tokens = wanted.min(turn.len());
        while tokens > 0 {
            let text = (self.decode)(&turn[turn.len() - tokens..]);
            if self.strings.iter().any(|string| text.contains(string)) {
                return true;
            }
            if text.len() >= wanted || tokens == turn.len() {
                break;
            }
            tokens = turn.len().min(2 * tokens);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_without_text_hide_no_string() {
        // 0 has no text.
        let decode = |tokens: &[u32]| {
            tokens.iter().filter_map(|token| char::from_digit(*token, 10)).filter(|c| *c != '0').collect()
        };
        let stop = StopStrings::new(vec!["123".to_owned()], decode).unwrap();
        assert!(stop.end(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 3]));
        assert!(!stop.end(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 4]));
        assert!(!stop.end(&[]) && !stop.end(&[0, 0]));
    }
}
