use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::json;

use super::*;
use crate::text::tokenizer::{CharTokenizer, HfTokenizer, Tokenizer};

/// A character tokenizer's file with other parts.
fn file(parts: Value) -> Vec<u8> {
    let mut file: Value = serde_json::from_str(&CharTokenizer::default().to_huggingface_json()).unwrap();
    for (name, part) in parts.as_object().unwrap() {
        file[name] = part.clone();
    }
    file.to_string().into_bytes()
}

fn growth(parts: Value) -> Result<ExpansionLimit, TokenizerError> {
    ExpansionLimit::of_file(&file(parts))
}

/// A table of characters: a trie of `size` bytes as it says, of `trie` bytes in truth, and entries.
fn table(size: u32, trie: usize, entries: &str) -> Value {
    let bytes = [&size.to_le_bytes()[..], &vec![0; trie], entries.as_bytes()].concat();
    json!({"type": "Precompiled", "precompiled_charsmap": BASE64_STANDARD.encode(bytes)})
}

fn replace(pattern: &str, content: &str) -> Value {
    json!({"type": "Replace", "pattern": {"String": pattern}, "content": content})
}

fn sequence(kind: &str, steps: Vec<Value>) -> Value {
    json!({"type": "Sequence", kind: steps})
}

fn refused_as_malformed(normalizer: Value) {
    for normalizer in [normalizer.clone(), sequence("normalizers", vec![normalizer])] {
        let refused = growth(json!({"normalizer": normalizer}));
        assert!(matches!(refused, Err(TokenizerError::Malformed(_))), "{refused:?}");
    }
}

#[test]
fn a_table_of_characters_has_what_it_claims() {
    // The library would make room for 8 GiB first.
    let claim = json!({"type": "Precompiled", "precompiled_charsmap": "/////w=="});
    let error = growth(json!({"normalizer": claim})).unwrap_err().to_string();
    assert!(error.contains("of 4 bytes says that its trie has 4294967295"), "{error}");
    refused_as_malformed(claim);
    refused_as_malformed(json!({"precompiled_charsmap": "/////w"}));
    refused_as_malformed(json!(["/////w=="]));
    refused_as_malformed(table(1 << 20, 1024, "a\0"));
    refused_as_malformed(table(1028, 1024, "a\0"));

    let sound = growth(json!({"normalizer": table(1024, 1024, "a\0four\0b\0")})).unwrap();
    assert_eq!(sound.normalized, 4);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("tokenizer.json");
    std::fs::write(
        &path,
        file(json!({"normalizer": {"type": "Precompiled", "precompiled_charsmap": "/////w=="}})),
    )
    .unwrap();
    assert!(matches!(HfTokenizer::from_file(&path), Err(TokenizerError::Malformed(_))));
}

#[test]
fn what_grows_a_text_without_bound_is_refused() {
    let doubling = || vec![replace("a", "aa"); 30];
    let spaces =
        [json!({"type": "Metaspace", "replacement": " "}), json!({"type": "Metaspace", "replacement": "a"})];
    let long = "x".repeat(MAX_GROWTH + 1);
    let dir = tempfile::tempdir().unwrap();
    for parts in [
        json!({"normalizer": sequence("normalizers", doubling())}),
        json!({"decoder": sequence("decoders", doubling())}),
        json!({"normalizer": replace("a", &long)}),
        json!({"decoder": replace("a", &long)}),
        json!({"normalizer": {"type": "Replace", "pattern": {"Regex": ""}, "content": long}}),
        json!({"normalizer": {"type": "Prepend", "prepend": long}}),
        json!({"normalizer": table(4, 4, &long)}),
        json!({"pre_tokenizer": sequence("pretokenizers", spaces.iter().cycle().take(30).cloned().collect())}),
    ] {
        let path = dir.path().join("tokenizer.json");
        std::fs::write(&path, file(parts)).unwrap();
        let refused = HfTokenizer::from_file(&path);
        assert!(matches!(refused, Err(TokenizerError::Grows { .. })), "{refused:?}");
    }
}

#[test]
fn tokens_longer_than_what_they_stand_for_count() {
    let long = "x".repeat(MAX_GROWTH + 1);
    let unknown = json!({"type": "WordLevel", "vocab": {&long: 0}, "unk_token": &long});
    let bpe = |prefix: &str, unknown: &str, long_id: u32| {
        json!({
            "type": "BPE", "vocab": {"a": 0, "b": 1, &long: long_id}, "merges": [], "unk_token": unknown,
            "continuing_subword_prefix": prefix
        })
    };
    let read =
        |model: &Value| HfTokenizer::from_bytes(&file(json!({"model": model, "added_tokens": []})), None);
    for model in [unknown, bpe(&long, "a", 2), bpe("", &long, 2), bpe("", "a", 0)] {
        let refused = read(&model);
        assert!(matches!(refused, Err(TokenizerError::Grows { .. })), "{refused:?}");
    }
    // A long token that stands for itself alone is none of these.
    read(&bpe("", "a", 2)).unwrap();
}

#[test]
fn a_text_is_as_long_as_the_growth_lets_it() {
    let parts =
        json!({"normalizer": replace("a", &"a".repeat(1024)), "decoder": replace("1", &"1".repeat(1024))});
    let tokenizer = Tokenizer::from(HfTokenizer::from_bytes(&file(parts.clone()), None).unwrap());
    let growth = growth(parts).unwrap();
    let limit = MAX_GROWN / 1024;
    growth.check_added([&*"x".repeat(limit - 1)]).unwrap();
    assert!(matches!(
        growth.check_added([&*"x".repeat(limit)]),
        Err(TokenizerError::TooLarge { limit: 16_384, .. })
    ));
    assert!(matches!(tokenizer.encode(&"a".repeat(limit)), Err(TokenizerError::TooLarge { .. })));
    let one = tokenizer.token_id("1").unwrap();
    assert!(matches!(tokenizer.decode(&vec![one; limit], true), Err(TokenizerError::TooLarge { .. })));
    assert_eq!(tokenizer.decode(&[one], true).unwrap().len(), 1024);

    // The library normalizes added tokens as soon as it reads them.
    let added = json!([{"id": 64, "content": "a".repeat(limit), "normalized": true}]);
    let refused = ExpansionLimit::of_file(&file(
        json!({"normalizer": replace("a", &"a".repeat(1024)), "added_tokens": added}),
    ));
    assert!(matches!(refused, Err(TokenizerError::TooLarge { .. })), "{refused:?}");
}

/// What published tokenizers consist of.
#[test]
fn usual_tokenizers_are_read() {
    let space = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true});
    let bytes =
        json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false});
    let split = json!({"type": "Split", "pattern": {"Regex": "\\p{N}{1,3}"}, "behavior": "Isolated", "invert": false});
    let several = json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"});
    // The longest entry of SentencePiece's usual table has 33 bytes.
    let map = table(1024, 1024, &format!("a\0{}\0", "ﷺ".repeat(11)));
    let back = |first: Vec<Value>| sequence("decoders", first);
    for (parts, expected) in [
        // Qwen2 and 3.
        (
            json!({"normalizer": {"type": "NFC"}, "pre_tokenizer": sequence("pretokenizers", vec![split.clone(), bytes.clone()]),
                "decoder": bytes, "post_processor": bytes}),
            (6, 2),
        ),
        // Llama 3: nothing is normalized.
        (
            json!({"normalizer": null, "pre_tokenizer": sequence("pretokenizers", vec![split.clone(), bytes.clone()]), "decoder": bytes}),
            (2, 2),
        ),
        // Llama 2.
        (
            json!({"normalizer": sequence("normalizers", vec![json!({"type": "Prepend", "prepend": "▁"}), replace(" ", "▁")]),
                "pre_tokenizer": null, "decoder": back(vec![replace("▁", " "), json!({"type": "ByteFallback"}),
                    json!({"type": "Fuse"}), json!({"type": "Strip", "content": " ", "start": 1, "stop": 0})])}),
            (12, 1),
        ),
        // Gemma.
        (
            json!({"normalizer": replace(" ", "▁"), "pre_tokenizer": split,
                "decoder": back(vec![replace("▁", " "), json!({"type": "ByteFallback"}), json!({"type": "Fuse"})])}),
            (3, 1),
        ),
        // T5 and what else was made with SentencePiece.
        (
            json!({"normalizer": sequence("normalizers", vec![map.clone(), json!({"type": "Strip", "strip_left": false, "strip_right": true}), several]),
                "pre_tokenizer": sequence("pretokenizers", vec![json!({"type": "WhitespaceSplit"}), space.clone()]), "decoder": space}),
            (33 * 4 * 6, 1),
        ),
        // ALBERT: the longest chain.
        (
            json!({"normalizer": sequence("normalizers", vec![replace("``", "\""), replace("''", "\""), json!({"type": "NFKD"}),
                json!({"type": "StripAccents"}), json!({"type": "Lowercase"}), map]), "pre_tokenizer": space, "decoder": space,
                "added_tokens": [], "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<pad>", 0.0]], "byte_fallback": false}}),
            (11 * 2 * 33 * 6, 1),
        ),
    ] {
        let growth = growth(parts.clone()).unwrap();
        assert_eq!((growth.normalized, growth.decoded), expected, "{parts}");
        HfTokenizer::from_bytes(&file(parts), None).unwrap();
    }
}

/// A template may name a text several times over. No kind adds anything around a text, so it is not asked.
#[test]
fn a_post_processor_does_not_repeat_a_text() {
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let template =
        json!({"type": "TemplateProcessing", "single": [text, text], "pair": [text], "special_tokens": {}});
    let tokenizer = HfTokenizer::from_bytes(&file(json!({"post_processor": template})), None).unwrap();
    assert_eq!(Tokenizer::from(tokenizer).encode("12").unwrap().len(), 2);
}
