//! The tokenizer's files of a Hugging Face directory, from the tokens of a GGUF file.

use super::gguf::Vocabulary;
use anyhow::Context as _;
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

/// Writes `tokenizer.json` and `tokenizer_config.json` into a directory.
/// Fails when they cannot be written, or a pair that is joined is not two tokens.
pub(super) fn write(vocabulary: &Vocabulary, dir: &Path) -> anyhow::Result<()> {
    fs::write(dir.join("tokenizer.json"), tokenizer(vocabulary)?.to_string())?;
    let config = serde_json::to_string_pretty(&config(&vocabulary.chat_template))?;
    Ok(fs::write(dir.join("tokenizer_config.json"), config)?)
}

fn tokenizer(vocabulary: &Vocabulary) -> anyhow::Result<Value> {
    let ids = vocabulary.tokens.iter().zip(0_u32..);
    let ids: Map<String, Value> = ids.map(|(token, id)| (token.clone(), id.into())).collect();
    let merges = vocabulary.merges.iter().map(|pair| -> anyhow::Result<Value> {
        let (left, right) = pair.split_once(' ').with_context(|| format!("{pair:?} is no pair of tokens"))?;
        Ok(json!([left, right]))
    });
    let added: Vec<Value> = vocabulary
        .control
        .iter()
        .map(|id| {
            json!({
                "id": id, "content": vocabulary.tokens[*id], "single_word": false, "lstrip": false,
                "rstrip": false, "normalized": false, "special": true,
            })
        })
        .collect();
    let bytes = |add_prefix_space: bool| {
        json!({
            "type": "ByteLevel", "add_prefix_space": add_prefix_space, "trim_offsets": true, "use_regex": true,
        })
    };
    Ok(json!({
        "version": "1.0",
        "truncation": null,
        "padding": null,
        "added_tokens": added,
        "normalizer": null,
        // llama.cpp's `smollm` splits numbers into digits, and only then text into words.
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": true}, bytes(false)],
        },
        "post_processor": null,
        "decoder": bytes(true),
        "model": {
            "type": "BPE",
            "dropout": null,
            "unk_token": null,
            "continuing_subword_prefix": null,
            "end_of_word_suffix": null,
            "fuse_unk": false,
            "byte_fallback": false,
            "ignore_merges": false,
            "vocab": ids,
            "merges": merges.collect::<anyhow::Result<Vec<Value>>>()?,
        },
    }))
}

fn config(chat_template: &str) -> Value {
    json!({
        "tokenizer_class": "GPT2Tokenizer",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>",
        "unk_token": "<|endoftext|>",
        "add_prefix_space": false,
        "clean_up_tokenization_spaces": false,
        "model_max_length": 8192,
        "chat_template": chat_template,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_policy::text::tokenizer::Tokenizer;

    fn small() -> Vocabulary {
        let tokens =
            ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "1", "2", "Ġ", "a", "b", "ab", "Ġab", "12"];
        Vocabulary {
            tokens: tokens.map(str::to_owned).to_vec(),
            control: vec![0, 1, 2],
            merges: ["a b", "Ġ ab", "1 2"].map(str::to_owned).to_vec(),
            chat_template: "{% for m in messages %}{{ m.content }}{% endfor %}<|im_end|>".to_owned(),
        }
    }

    #[test]
    fn digits_stand_alone_and_pairs_are_joined() {
        let dir = tempfile::tempdir().unwrap();
        write(&small(), dir.path()).unwrap();
        let tokenizer = Tokenizer::from_dir(dir.path()).unwrap();
        assert_eq!(tokenizer.encode("ab ab").unwrap(), [8, 9]);
        assert_eq!(tokenizer.encode("12<|im_end|>").unwrap(), [3, 4, 2], "12 is no token of a text");
        assert_eq!(tokenizer.decode(&[9, 3, 4, 2], true).unwrap(), " ab12");
        assert_eq!(tokenizer.eos_id(), Some(2));
    }

    #[test]
    fn a_pair_that_is_none_is_refused() {
        let broken = Vocabulary { merges: vec!["ab".to_owned()], ..small() };
        let error = tokenizer(&broken).unwrap_err().to_string();
        assert!(error.contains("\"ab\""), "{error}");
    }
}
