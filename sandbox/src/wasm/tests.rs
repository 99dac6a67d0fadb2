mod answers;
mod determinism;
mod hostile;
mod modules;
mod noise;

use std::sync::OnceLock;

use echo_protocol::wire::content_id::ContentId;

use super::*;

/// The example of the repository, in text form.
const EXAMPLE: &str = include_str!("../../verifiers/letter_counting.wat");

const SEED: [u8; 32] = [7; 32];

/// One runtime for all tests, as in a process.
fn runtime() -> &'static Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::new().unwrap())
}

fn load_in(runtime: &Runtime, text: &str) -> Result<WasmVerifier, ModuleError> {
    let bytes = wat::parse_str(text).unwrap();
    runtime.load(ContentId::of(&bytes), &bytes)
}

fn load(text: &str) -> Result<WasmVerifier, ModuleError> {
    load_in(runtime(), text)
}

fn example() -> WasmVerifier {
    load(EXAMPLE).unwrap()
}

/// A module that keeps the interface: `body` is the body of `reward`, `more` are further fields.
fn judging_by(body: &str, more: &str) -> String {
    format!(
        r#"(module
        (memory (export "memory") 1)
        (func (export "abi_version") (result i32) (i32.const 1))
        (func (export "longest_prompt") (result i32) (i32.const 4))
        (func (export "longest_response") (result i32) (i32.const 4))
        (func (export "alloc") (param $len i32) (result i32) (i32.const 1024))
        (func (export "prompt") (param $seed i32) (result i64) (i64.const 4))
        (func (export "reward") (param $seed i32) (param $response i32) (param $len i32) (param $finished i32) (result f32) {body})
        {more})"#
    )
}

/// What such a module says about a response.
fn judged(body: &str, more: &str) -> Result<crate::task::Verdict, WasmFailure> {
    load(&judging_by(body, more)).unwrap().reward(&SEED, "answer", true)
}
