//! The tokens that end a response, as `generation_config.json` names them.

use std::path::Path;

use serde_json::Value;

use super::{MAX_TOKENIZER_CONFIG_BYTES, TokenizerError, read_capped};

/// File name of a Hugging Face directory.
pub(crate) const GENERATION_CONFIG_FILE: &str = "generation_config.json";

/// `eos_token_id` of the `generation_config.json` in `dir`, one id or several. `None` where there is no
/// such file, or it names none.
///
/// # Errors
/// When the file cannot be read, is not JSON, or names something that is no id.
pub fn end_tokens(dir: &Path) -> Result<Option<Vec<u32>>, TokenizerError> {
    let path = dir.join(GENERATION_CONFIG_FILE);
    let Some(bytes) = read_capped(&path, MAX_TOKENIZER_CONFIG_BYTES)? else { return Ok(None) };
    let refused = |why: String| TokenizerError::Generation { path: path.clone(), why };
    let config: Value = serde_json::from_slice(&bytes).map_err(|error| refused(error.to_string()))?;
    let id = |value: &Value| value.as_u64().and_then(|id| u32::try_from(id).ok());
    let ids: Option<Vec<u32>> = match config.get("eos_token_id") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::Array(ids)) => ids.iter().map(id).collect(),
        Some(one) => id(one).map(|id| vec![id]),
    };
    let why = || refused("`eos_token_id` has to be a token id or a list of them".to_owned());
    ids.map(Some).ok_or_else(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_id_or_several_or_none() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(end_tokens(dir.path()).unwrap(), None);
        let read = |text: &str| {
            std::fs::write(dir.path().join(GENERATION_CONFIG_FILE), text).unwrap();
            end_tokens(dir.path())
        };
        assert_eq!(read(r#"{"eos_token_id": [151645, 151643]}"#).unwrap(), Some(vec![151_645, 151_643]));
        assert_eq!(read(r#"{"eos_token_id": 2}"#).unwrap(), Some(vec![2]));
        assert_eq!(read(r#"{"temperature": 0.6}"#).unwrap(), None);
        assert_eq!(read(r#"{"eos_token_id": null}"#).unwrap(), None);
        for wrong in [r#"{"eos_token_id": -1}"#, r#"{"eos_token_id": [2, "</s>"]}"#, "{"] {
            let refused = read(wrong).unwrap_err().to_string();
            assert!(refused.contains(GENERATION_CONFIG_FILE), "{refused}");
        }
    }
}
