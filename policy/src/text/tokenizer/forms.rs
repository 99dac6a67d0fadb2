//! Tokenizers in forms that are not read.

use std::path::Path;

use super::TokenizerError;

/// Files of a tokenizer that are of no use without a `tokenizer.json`.
const OTHERS: [&str; 5] =
    ["tokenizer.model", "vocab.json", "tekken.json", "tiktoken.model", "tokenizer_config.json"];

/// Refuses a directory whose tokenizer is in another form than `tokenizer.json`.
///
/// # Errors
/// [`TokenizerError::OtherForm`] names the file, and how it is converted.
pub fn refuse_others(dir: &Path) -> Result<(), TokenizerError> {
    match OTHERS.into_iter().find(|name| dir.join(name).exists()) {
        Some(name) => Err(TokenizerError::OtherForm { dir: dir.to_owned(), name }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tokenizer::Tokenizer;

    #[test]
    fn a_sentencepiece_model_alone_is_named() {
        let dir = tempfile::tempdir().unwrap();
        assert!(refuse_others(dir.path()).is_ok());
        std::fs::write(dir.path().join("tokenizer.model"), [1, 2]).unwrap();
        for error in [refuse_others(dir.path()).unwrap_err(), Tokenizer::from_dir(dir.path()).unwrap_err()] {
            let text = error.to_string();
            assert!(text.contains("tokenizer.model") && text.contains("save_pretrained"), "{text}");
        }
    }
}
