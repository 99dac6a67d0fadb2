//! Files that come with a policy: a model's configuration and its tensors, its tokenizer, its chat
//! template. None panics, what is read is within its limits and is written as what is read, a
//! policy's own samples pass its audit, and a template writes no more than it may.
#![no_main]

use std::collections::BTreeMap;
use std::sync::{Arc, Once, OnceLock};

use echo_policy::audit::{ClaimedSample, Tolerance, examine};
use echo_policy::fuzzing::is_caught;
use echo_policy::generation::{Completion, Generation, Policy, SampleRequest};
use echo_policy::model::config::{MAX_PARAMETERS, ModelConfig};
use echo_policy::model::weights::{DType, RawTensor, Weights, expected_tensors};
use echo_policy::sampling::SamplingParams;
use echo_policy::text::chat::{ChatTemplate, MAX_OUTPUT_BYTES, MAX_TEMPLATE_BYTES};
use echo_policy::text::tokenizer::{CharTokenizer, HfTokenizer, MAX_ALPHABET, Tokenizer};
use libfuzzer_sys::fuzz_target;
use serde_json::{Map, Value, json};

/// Most ids that a tokenizer of a fuzzed file is asked for: such a file may name any number of tokens.
const MAX_IDS: u32 = 512;
/// Bytes of a chat around a text, where each place within it is tried.
const MAX_AROUND: usize = 1024;
/// Parameters of models that are computed with: their cost is a fuzzer's speed.
const MAX_COMPUTED: u64 = 1 << 16;
/// What a policy is asked for.
const NEW_TOKENS: u32 = 4;
const SAMPLES: u32 = 2;
const SEED: [u8; 32] = [7; 32];

// The first byte says which file it is. A zero byte stands between two files, and in front of a
// text for a tokenizer.
fuzz_target!(|input: &[u8]| {
    forgive_libraries();
    let Some((kind, files)) = input.split_first() else { return };
    let mut parts = files.splitn(if *kind == b'c' { 2 } else { 3 }, |byte| *byte == 0);
    let first = parts.next().unwrap_or_default();
    let (second, third) = (parts.next(), parts.next().unwrap_or_default());
    let text = |bytes| String::from_utf8_lossy(bytes);
    match *kind {
        b'c' => read_config(&text(first), second.unwrap_or_default()),
        b'a' => read_alphabet(&text(first), &text(second.unwrap_or_default())),
        b't' => read_tokenizer(first, second, &text(third)),
        b'j' => {
            let messages = second.and_then(|text| serde_json::from_slice(text).ok());
            read_template(&text(first), messages.unwrap_or_else(conversation));
        }
        b'd' => read_dialogue(first, &text(second.unwrap_or_default())),
        _ => {}
    }
});

/// `elements` are those of the tensors, over and over.
fn read_config(text: &str, elements: &[u8]) {
    let Ok(config) = ModelConfig::from_json(text) else { return };
    assert!(config.validate().is_ok() && config.parameter_count() <= MAX_PARAMETERS);
    let again = ModelConfig::from_json(&config.to_json(DType::BF16)).expect("what was written is read");
    assert_eq!(again.to_json(DType::BF16), config.to_json(DType::BF16));
    assert_eq!(config.inv_freq().len(), config.head_dim / 2);
    let expected = expected_tensors(&config);
    assert_eq!(expected.iter().map(|tensor| tensor.elements() as u64).sum::<u64>(), config.parameter_count());
    let computed = config.parameter_count() <= MAX_COMPUTED && !elements.is_empty();
    let mut elements = elements.iter().copied().cycle();
    let raw = expected.into_iter().map(|tensor| RawTensor {
        bytes: elements
            .by_ref()
            .take(if computed { tensor.elements() * DType::BF16.size() } else { 0 })
            .collect(),
        name: tensor.name,
        dtype: DType::BF16,
        shape: tensor.shape,
    });
    let weights = Weights::from_raw(&config, raw);
    assert_eq!(weights.is_ok(), computed, "of the right names and shapes, with their bytes or without");
    if let Ok(weights) = weights {
        let policy = Policy::load(1, &config, &weights).expect("complete weights are loaded");
        generate(&Arc::new(policy));
    }
}

/// A policy of any weights draws tokens that it has, or says what is wrong with its logits; and
/// finds nothing wrong with its own draws.
fn generate(policy: &Arc<Policy>) {
    let vocabulary = policy.config().vocab_size;
    let request = SampleRequest {
        prompt: (0..3).map(|id| id % vocabulary as u32).collect(),
        seed: SEED,
        samples: SAMPLES,
        stop_ids: policy.config().eos_token_ids.clone(),
        stop_strings: None,
        limits: vec![],
        max_heard: 0,
        params: SamplingParams::unbiased(NEW_TOKENS),
    };
    let draw = || Generation::start(policy.clone(), vec![request.clone()]).and_then(Generation::run);
    let Ok(drawn) = draw() else { return };
    assert_eq!(draw().ok().as_ref(), Some(&drawn));
    let completions = &drawn[0];
    assert_eq!(completions.len(), SAMPLES as usize);
    for completion in completions {
        assert!((1..=NEW_TOKENS as usize).contains(&completion.tokens.len()));
        assert!(completion.tokens.iter().all(|id| (*id as usize) < vocabulary));
        assert!(completion.logprobs.iter().all(|logprob| logprob.is_finite()));
    }
    let examined = |change: &dyn Fn(&mut Completion)| {
        let samples = completions.iter().enumerate().map(|(index, completion)| {
            let mut said = completion.clone();
            change(&mut said);
            ClaimedSample::new(
                index as u32,
                said.tokens.into_iter().map(|id| (id, true)),
                &said.logprobs,
                said.versions,
            )
        });
        let tolerance = Tolerance::f32(request.params.temperature);
        let policies = std::slice::from_ref(policy);
        examine(policies, &request.prompt, &SEED, &request.params, samples, &tolerance)
    };
    let honest = examined(&|_| {}).expect("what was drawn fits the model");
    assert_eq!((honest.fault, honest.is_close), (None, false));
    for invented in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let lie = examined(&|said| said.logprobs[0] = invented).expect("the tokens are the same");
        assert!(lie.fault.is_some());
    }
    assert!(examined(&|said| said.tokens[0] = vocabulary as u32).is_err());
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
    let _ = (tokenizer.bos_id(), tokenizer.adds_bos());
    if let Ok(Some(template)) = tokenizer.chat_template() {
        render(template, &conversation());
    }
    if let Ok(chatting) = tokenizer.in_chat() {
        speak(&chatting, text);
    }
}

/// A template beside a character tokenizer, which gives back the text of its tokens.
fn read_dialogue(template: &[u8], text: &str) {
    static PLAIN: OnceLock<HfTokenizer> = OnceLock::new();
    let plain = PLAIN.get_or_init(|| {
        let characters = CharTokenizer::default();
        let (file, config) = (characters.to_huggingface_json(), characters.to_huggingface_config());
        HfTokenizer::from_bytes(file.as_bytes(), Some(config.as_bytes())).expect("our own files are read")
    });
    let plain = plain.clone().with_template(template);
    let Ok(tokenizer) = Tokenizer::from(plain).in_chat() else { return };
    let (Some(said), Some(empty)) = (speak(&tokenizer, text), speak(&tokenizer, "")) else { return };
    let most = text.len() + tokenizer.around().max(tokenizer.around_prompt());
    for (said, empty) in said.iter().zip(&empty) {
        let shown = |ids: &[u32]| tokenizer.decode(ids, false).expect("these ids were encoded");
        let tokens = |text: &str| tokenizer.encode(text).map_or(usize::MAX, |ids| ids.len());
        let (whole, around) = (shown(said), shown(empty));
        if around.len() > MAX_AROUND {
            continue;
        }
        // Where the template does no more than to put the text into its own, and not into the
        // name of a token.
        let inserted = (0..=around.len()).filter(|at| around.is_char_boundary(*at)).any(|at| {
            let (before, behind) = around.split_at(at);
            whole.len() == around.len() + text.len()
                && whole.strip_prefix(before).and_then(|rest| rest.strip_suffix(behind)) == Some(text)
                && tokens(before).saturating_add(tokens(behind)) == empty.len()
        });
        assert!(!inserted || said.len() <= most, "{} tokens, not {most}", said.len());
    }
}

/// The tokens of a text as a prompt and as an answer: the same twice.
fn speak(tokenizer: &Tokenizer, text: &str) -> Option<[Vec<u32>; 2]> {
    let both = [tokenizer.prompt(text).ok()?, tokenizer.heard(text).ok()?];
    assert_eq!(tokenizer.prompt(text).ok().as_ref(), Some(&both[0]));
    assert_eq!(tokenizer.heard(text).ok().as_ref(), Some(&both[1]));
    Some(both)
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

/// Panics within the `tokenizers` crate and those of the template engine's own code are caught
/// where they matter, and errors like any other: they are no finding. What a template calls of
/// ours must not panic.
fn forgive_libraries() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            let in_engine = panic.location().is_some_and(|place| place.file().contains("/minijinja-"));
            let rendering = std::thread::current().name() == Some("chat-template");
            if !is_caught() && !(rendering && in_engine) {
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
