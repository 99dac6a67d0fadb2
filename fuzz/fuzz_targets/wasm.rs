//! Modules from strangers: none may panic the host or run for long, and whatever loads gives
//! rewards within [0, 1], twice the same.
#![no_main]

use std::sync::OnceLock;

use echo_fuzz::{Edit, edited};
use echo_protocol::wire::content_id::ContentId;
use echo_sandbox::wasm::Runtime;
use libfuzzer_sys::fuzz_target;

/// The module that comes with the crate, as text.
const EXAMPLE: &str = include_str!("../../sandbox/verifiers/letter_counting.wat");

fuzz_target!(|input: (Vec<Edit>, &[u8])| {
    static SAMPLE: OnceLock<Vec<u8>> = OnceLock::new();
    let (edits, bytes) = input;
    let made =
        edited(SAMPLE.get_or_init(|| wat::parse_str(EXAMPLE).expect("the example is a module")), &edits);
    let bytes = if bytes.is_empty() { &made } else { bytes };
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    let runtime = RUNTIME.get_or_init(|| Runtime::new().expect("WebAssembly runs where fuzzers do"));
    let Ok(verifier) = runtime.load(ContentId::of(bytes), bytes) else { return };
    let seed = [7; 32];
    if let Ok(prompt) = verifier.prompt(&seed) {
        assert!(prompt.chars().count() <= verifier.longest_prompt());
    }
    let _ = verifier.solution(&seed);
    for (response, finished) in [("", true), ("2", true), ("3\u{1f980}\n", false)] {
        if let Ok(verdict) = verifier.reward(&seed, response, finished) {
            assert!((0.0..=1.0).contains(&verdict.reward));
            assert_eq!(verifier.reward(&seed, response, finished), Ok(verdict));
        }
    }
});
