//! Files that come with a policy: a model's configuration, its tokenizer, its chat template. None panics, what is read is within its
//! limits and is written as what is read, and a template writes no more than it may.
#![no_main]

use std::collections::BTreeMap;
use std::sync::Once;

use echo_policy::chat::{ChatTemplate, MAX_OUTPUT_BYTES, MAX_TEMPLATE_BYTES};
use echo_policy::config::{MAX_PARAMETERS, ModelConfig};
use echo_policy::tokenizer::{CharTokenizer, HfTokenizer, MAX_ALPHABET, Tokenizer};
use echo_policy::weights::{DType, RawTensor, Weights, expected_tensors};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

/// Most ids that a tokenizer of a fuzzed file is asked for: such a file may name any number of tokens.
const MAX_IDS: u32 = 512;

/// The first byte says which file it is. A zero byte stands between two files, and in front of a text for a tokenizer.
fuzz_target!(|input: &[u8]| {
    forgive_libraries();
    let Some((kind, files)) = input.split_first() else { return };
    let mut parts = files.splitn(3, |byte| *byte == 0);
    let first = parts.next().unwrap_or_default();
    let (second, third) = (parts.next(), parts.next().unwrap_or_default());
    match *kind {
        b'c' => read_config(&String::from_utf8_lossy(first)),
        b'a' => read_alphabet(
            &String::from_utf8_lossy(first),
            &String::from_utf8_lossy(second.unwrap_or_default()),
        ),
        b't' => read_tokenizer(first, second, &String::from_utf8_lossy(third)),
        b'j' => {
            let messages = second.and_then(|text| serde_json::from_slice(text).ok());
            read_template(&String::from_utf8_lossy(first), messages.unwrap_or_else(conversation));
        }
        _ => {}
    }
});

fn read_config(text: &str) {
    let Ok(config) = ModelConfig::from_json(text) else { return };
    assert!(config.validate().is_ok() && config.parameter_count() <= MAX_PARAMETERS);
    let again = ModelConfig::from_json(&config.to_json(DType::BF16)).expect("what was written is read");
    assert_eq!(again.to_json(DType::BF16), config.to_json(DType::BF16));
    assert_eq!(config.inv_freq().len(), config.head_dim / 2);
    let expected = expected_tensors(&config);
    assert_eq!(expected.iter().map(|tensor| tensor.elements() as u64).sum::<u64>(), config.parameter_count());
    // Tensors of the right names and shapes, without their bytes.
    let raw = expected.into_iter().map(|tensor| RawTensor {
        name: tensor.name,
        dtype: DType::BF16,
        shape: tensor.shape,
        bytes: Vec::new(),
    });
    assert!(Weights::from_raw(&config, raw).is_err());
}

fn read_alphabet(alphabet: &str, text: &str) {
    let Ok(tokenizer) = CharTokenizer::new(alphabet) else { return };
    assert!(alphabet.chars().count() <= MAX_ALPHABET && tokenizer.alphabet() == alphabet);
    let tokenizer = Tokenizer::from(tokenizer);
    if let Ok(ids) = tokenizer.encode(text) {
        assert_eq!(tokenizer.decode(&ids, false).ok().as_deref(), Some(text));
    }
}

fn read_tokenizer(tokenizer: &[u8], config: Option<&[u8]>, text: &str) {
    let Ok(read) = HfTokenizer::from_bytes(tokenizer, config) else { return };
    let tokenizer = Tokenizer::from(read);
    if let Ok(ids) = tokenizer.encode(text) {
        assert_eq!(tokenizer.encode(text).ok(), Some(ids.clone()));
        for skip_special in [false, true] {
            let _ = tokenizer.decode(&ids, skip_special);
        }
    }
    let _ = tokenizer.decode(&(0..MAX_IDS).collect::<Vec<_>>(), false);
    let _ = (tokenizer.vocab_size(), tokenizer.eos_id(), tokenizer.pad_id());
    if let Some(template) = tokenizer.chat_template() {
        render(template, &conversation());
    }
}

fn read_template(source: &str, messages: Value) {
    let special = BTreeMap::from([("eos_token".to_owned(), "</s>".to_owned())]);
    match ChatTemplate::new(source, special) {
        Ok(template) => render(&template, &messages),
        Err(_) => return,
    }
    assert!(source.len() <= MAX_TEMPLATE_BYTES);
}

/// Renders twice: the same comes out.
fn render(template: &ChatTemplate, messages: &Value) {
    let settings = [("add_generation_prompt".to_owned(), json!(true)), ("tools".to_owned(), json!([]))];
    let settings: Map<String, Value> = settings.into_iter().collect();
    if let Ok(text) = template.render(messages, &settings) {
        assert!(text.len() <= MAX_OUTPUT_BYTES);
        assert_eq!(template.render(messages, &settings).ok(), Some(text));
    }
}

/// Panics of the template engine and of the `tokenizers` crate are caught, and errors like any other: they are no finding.
fn forgive_libraries() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let in_tokenizers = panic.location().is_some_and(|place| place.file().contains("/tokenizers-"));
            if std::thread::current().name() != Some("chat-template") && !in_tokenizers {
                hook(panic);
            }
        }));
    });
}

fn conversation() -> Value {
    json!([
        {"role": "system", "content": "be brief"},
        {"role": "user", "content": "1+1?"},
        {"role": "assistant", "content": "2", "tool_calls": [{"function": {"name": "f", "arguments": {"x": 1.5}}}]},
    ])
}
