//! What the example says, and what comes of what modules say.

use echo_protocol::work::trajectory::{MAX_OMEGA_ENTRIES, MAX_OMEGA_TEXT, MetaValue, Omega};

use super::*;
use crate::task::spec::SpecError;
use crate::task::{Response, Task, TaskError, TaskSeed, Verdict};
use crate::tasks::wasm::{WasmTask, module_of};

fn counting(letter: u8, letters: &[u8]) -> [u8; 32] {
    let mut seed = [0; 32];
    (seed[0], seed[1]) = (letter - b'a', letters.len() as u8 - 4);
    for (place, letter) in seed[2..].iter_mut().zip(letters) {
        *place = letter - b'a';
    }
    seed
}

fn off(distance: i64) -> Omega {
    Omega::from([("off".to_owned(), MetaValue::Integer(distance))])
}

#[test]
fn the_example_asks_judges_and_knows_the_answer() {
    let example = example();
    let seed = counting(b'b', b"abcab");
    assert_eq!(example.prompt(&seed).unwrap(), "count b in abcab=");
    assert_eq!(example.solution(&seed).unwrap().as_deref(), Some("2"));
    let judged = |text: &str, finished| example.reward(&seed, text, finished).unwrap();
    assert_eq!(judged("2", true), Verdict { reward: 1.0, correct: true, metadata: off(0) });
    assert_eq!(judged("3", true), Verdict { reward: 0.5, correct: false, metadata: off(1) });
    assert_eq!(judged("9", true), Verdict { reward: 0.0, correct: false, metadata: off(7) });
    let nothing = Verdict { reward: 0.0, correct: false, metadata: Omega::new() };
    for text in ["", "22", "b", " 2", "2 ", "zwei", "\u{662}"] {
        assert_eq!(judged(text, true), nothing, "{text:?}");
    }
    assert_eq!(judged("2", false), nothing, "cut by length");
}

#[test]
fn the_longest_prompt_is_as_long_as_announced() {
    let seed = counting(b'c', b"abcabcabc");
    assert_eq!(example().prompt(&seed).unwrap().len(), example().longest_prompt());
    assert_eq!(example().longest_response(), 1);
}

#[test]
fn a_module_is_a_task() {
    let bytes = wat::parse_str(EXAMPLE).unwrap();
    let task = WasmTask::load(&bytes).unwrap();
    let id = ContentId::of(&bytes);
    assert_eq!(module_of(&format!("wasm:{id}")), Some(id));
    assert!(["wasm", "wasm:", "wasm:12", "chain_sum"].iter().all(|name| module_of(name).is_none()));
    for byte in 0..=u8::MAX {
        let seed = TaskSeed([byte; 32]);
        let solution = task.solution(seed);
        assert!(task.reward(seed, &Response { text: &solution, finished: true }).unwrap().correct);
        assert!(!task.reward(seed, &Response { text: &solution, finished: false }).unwrap().correct);
        assert!(task.prompt(seed).text.len() <= task.longest_prompt());
    }
}

#[test]
fn a_failure_is_internal_and_no_solution_is_said_so() {
    let task = WasmTask::load(&wat::parse_str(judging_by("unreachable", "")).unwrap()).unwrap();
    let judged = task.reward(TaskSeed(SEED), &Response { text: "", finished: true });
    assert!(matches!(judged, Err(TaskError::Internal { .. })), "{judged:?}");
    assert!(!task.knows_solutions());
    assert!(matches!(WasmTask::load(b"no module"), Err(SpecError::Module { .. })));
}

#[test]
fn solutions_of_a_module_are_tried_and_all_faults_named() {
    let tried = |text: &str| WasmTask::load(&wat::parse_str(text).unwrap()).unwrap().try_solutions();
    tried(EXAMPLE).unwrap();
    // Without solutions there is nothing to be wrong.
    tried(&judging_by("(f32.const 0)", "")).unwrap();
    let solution = r#"(func (export "solution") (param $seed i32) (result i64) (i64.const 1))"#;
    tried(&judging_by("(f32.const 1)", solution)).unwrap();
    let refused = |body: &str| tried(&judging_by(body, solution)).unwrap_err().to_string();
    let too_much = refused("(f32.const 2)");
    assert!(
        too_much.contains("64 of 64 prompts") && too_much.contains("reward 2, outside [0, 1]"),
        "{too_much}"
    );
    let too_little = refused("(f32.const 0.5)");
    assert!(too_little.contains("earns 0.5, and a right answer earns 1"), "{too_little}");
    // The response is written over the seed's first byte: this `alloc` gives one address alone.
    let odd = "(i32.and (i32.load8_u offset=1 (local.get $seed)) (i32.const 1))";
    let both = refused(&format!("(if (result f32) {odd} (then (f32.const 2)) (else (f32.const 0)))"));
    assert!(both.contains("earns 0,") && both.contains("outside [0, 1]"), "{both}");
    let trap = refused("unreachable");
    assert!(trap.contains("not judged") && trap.contains("unreachable"), "{trap}");
    for words in ["trajectory", "lease"] {
        assert!(!trap.contains(words), "{trap}");
    }
}

#[test]
fn nothing_is_carried_from_one_response_to_the_next() {
    // The first response that an instance judges earns 1, the others 0.
    let body = "(global.set $left (f32.sub (global.get $left) (f32.const 1)))
        (f32.add (global.get $left) (f32.const 1))";
    let verifier = load(&judging_by(body, "(global $left (mut f32) (f32.const 1))")).unwrap();
    for _ in 0..100 {
        assert_eq!(verifier.reward(&SEED, "", true).unwrap().reward, 1.0);
    }
}

#[test]
fn what_is_given_arrives() {
    // The sum of all bytes of seed and response, over 1,000.
    let body = r#"(local $sum i32)
        (local.set $len (i32.add (i32.add (local.get $response) (local.get $len)) (i32.const -1)))
        (loop $next
          (local.set $sum (i32.add (local.get $sum) (i32.load8_u (local.get $seed))))
          (local.set $seed (i32.add (local.get $seed) (i32.const 1)))
          (br_if $next (i32.le_u (local.get $seed) (local.get $len))))
        (f32.div (f32.convert_i32_u (local.get $sum)) (f32.const 1000))"#;
    // `alloc` gives one address after the other.
    let text = judging_by(body, "(global $free (mut i32) (i32.const 1024))").replace(
        "(param $len i32) (result i32) (i32.const 1024)",
        "(param $len i32) (result i32)
          (global.set $free (i32.add (global.get $free) (local.get $len)))
          (i32.sub (global.get $free) (local.get $len))",
    );
    let verdict = load(&text).unwrap().reward(&SEED, "ab", true).unwrap();
    assert_eq!(verdict.reward, (7.0 * 32.0 + 97.0 + 98.0) / 1000.0);
}

#[test]
fn rewards_outside_their_range_are_refused() {
    for (body, allowed) in [
        ("(f32.const 0)", true),
        ("(f32.const 1)", true),
        ("(f32.const 0x1p-149)", true),
        ("(f32.const nan)", false),
        ("(f32.const -nan:0x200001)", false),
        ("(f32.const inf)", false),
        ("(f32.const -inf)", false),
        ("(f32.const -0x1p-149)", false),
        ("(f32.const 0x1.000002p0)", false),
    ] {
        let judged = judged(body, "");
        assert_eq!(judged.is_ok(), allowed, "{body}: {judged:?}");
        assert!(allowed || matches!(judged, Err(WasmFailure::Reward(_))), "{body}: {judged:?}");
    }
    assert_eq!(judged("(f32.const -0)", "").unwrap().reward.to_bits(), 0);
    assert!(!judged("(f32.const 0x1.fffffep-1)", "").unwrap().correct);
}

#[test]
fn prompts_and_solutions_are_texts_as_long_as_announced() {
    let prompt_of = |returned: &str, data: &str| {
        let more = format!(
            r#"(func (export "solution") (param i32) (result i64) (i64.const {returned}))
               (data (i32.const 0) "{data}")"#
        );
        let text = judging_by("(f32.const 0)", &more);
        let text =
            text.replace("(result i64) (i64.const 4)", &format!("(result i64) (i64.const {returned})"));
        let verifier = load(&text).unwrap();
        let (prompt, solution) = (verifier.prompt(&SEED), verifier.solution(&SEED));
        match (&prompt, &solution) {
            (Ok(prompt), Ok(Some(solution))) => assert_eq!(prompt, solution),
            (Err(_), Err(_)) => {}
            _ => panic!("{prompt:?}, {solution:?}"),
        }
        prompt
    };
    assert_eq!(prompt_of("4", "abcd").as_deref(), Ok("abcd"));
    assert_eq!(prompt_of("0x3_0000_0001", "abcd").as_deref(), Ok("d"));
    assert_eq!(prompt_of("0", "abcd").as_deref(), Ok(""));
    assert_eq!(prompt_of("8", "\\c3\\a4\\c3\\b6\\c3\\bc\\c3\\9f").as_deref(), Ok("äöüß"));
    let what = "prompt";
    let long = |found, unit, limit| Err(WasmFailure::Long { what, found, unit, limit });
    assert_eq!(prompt_of("5", "abcde"), long(5, "characters", 4));
    assert_eq!(prompt_of("17", "abcde"), long(17, "bytes", 16));
    assert_eq!(prompt_of("0xffff_ffff", ""), long(u32::MAX as usize, "bytes", 16));
    assert_eq!(prompt_of("1", "\\ff"), Err(WasmFailure::NotText { what }));
    assert_eq!(prompt_of("0xffff_0000_0001", ""), Ok("\0".into()), "the last byte of the memory");
    let outside = |address, bytes| Err(WasmFailure::Outside { what, address, bytes });
    assert_eq!(prompt_of("0xffff_0000_0002", ""), outside(0xffff, 2));
    assert_eq!(prompt_of("-0xffff_fffc", ""), outside(u32::MAX, 4));
}

fn noted(text: &str) -> Result<Omega, WasmFailure> {
    let escaped: String = text.bytes().map(|byte| format!("\\{byte:02x}")).collect();
    let length = text.len();
    let more = format!(
        r#"(func (export "metadata") (result i64) (i64.const {length})) (data (i32.const 0) "{escaped}")"#
    );
    judged("(f32.const 1)", &more).map(|verdict| verdict.metadata)
}

#[test]
fn metadata_are_a_flat_object_within_the_limits_of_omega() {
    let all = noted(r#"{"flag": true, "integer": -3, "number": 0.5, "text": "ä\n"}"#).unwrap();
    let expected = [
        ("flag", MetaValue::Flag(true)),
        ("integer", MetaValue::Integer(-3)),
        ("number", MetaValue::Number(0.5)),
        ("text", MetaValue::Text("ä\n".into())),
    ];
    assert_eq!(all, expected.map(|(key, value)| (key.to_owned(), value)).into());
    for empty in ["", "{}", " { } "] {
        assert_eq!(noted(empty).as_ref(), Ok(&Omega::new()), "{empty:?}");
    }
    let full = |entries: usize| {
        let entries: Vec<String> = (0..entries).map(|i| format!("\"k{i}\":{i}")).collect();
        noted(&format!("{{{}}}", entries.join(",")))
    };
    assert_eq!(full(MAX_OMEGA_ENTRIES).unwrap().len(), MAX_OMEGA_ENTRIES);
    let long = "x".repeat(MAX_OMEGA_TEXT + 1);
    let refused = [
        full(MAX_OMEGA_ENTRIES + 1),
        noted(&format!(r#"{{"{long}":1}}"#)),
        noted(&format!(r#"{{"text":"{long}"}}"#)),
        noted("7"),
        noted("[1]"),
        noted(r#"{"a":{"b":1}}"#),
        noted(r#"{"a":null}"#),
        noted(r#"{"a":1e999}"#),
        noted(r#"{"a":NaN}"#),
        noted(r#"{"a":1}x"#),
        noted(r#"{"a":1"#),
        noted(&"[".repeat(1_000)),
    ];
    for refused in refused {
        assert!(matches!(refused, Err(WasmFailure::Metadata(_))), "{refused:?}");
    }
    let long = noted(&" ".repeat(MAX_METADATA_BYTES + 1));
    assert!(matches!(long, Err(WasmFailure::Long { what: "metadata", .. })), "{long:?}");
}
