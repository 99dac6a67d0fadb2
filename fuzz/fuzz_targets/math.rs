//! Mathematical answers from strangers: whatever they are, judging takes the work that its budgets
//! allow, and says the same twice; a number is itself and no other, and what is framed is read as
//! it would be alone.
//!
//! Work is counted in what is allocated, which a clock does not change: a loop that its budget does
//! not see shows there.
#![no_main]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use echo_sandbox::fuzzing::{equals_with, judge_counted};
use echo_sandbox::tasks::math::{
    MAX_STEPS, MatchType, MathOptions, extract, gsm8k, judge, latex, vectors, verify,
};
use libfuzzer_sys::fuzz_target;

/// Allocations of one judgement: for nothing at all, for each byte of both texts, and for each step
/// of a budget. Four times what was seen.
const CALLS: [u64; 3] = [2_000, 16, 8];
/// The same in bytes.
const BYTES: [u64; 3] = [1 << 20, 2 << 10, 4 << 10];

/// The system's allocator, which counts.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);
static ALLOCATED: AtomicU64 = AtomicU64::new(0);

fn count(bytes: usize) {
    ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
    ALLOCATED.fetch_add(bytes as u64, Ordering::Relaxed);
}

// SAFETY: all that it does beside counting is the system's.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.saturating_sub(layout.size()));
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        unsafe { System.dealloc(block, layout) }
    }
}

// The first byte chooses the options, the first line is the gold answer, the rest is the response.
fuzz_target!(|input: &[u8]| {
    let Some((choice, texts)) = input.split_first() else { return };
    let texts = String::from_utf8_lossy(texts);
    let (gold, response) = texts.split_once('\n').unwrap_or((&texts, &texts));
    let options = options(*choice);
    // What is kept from judgement to judgement, as caches of patterns are, is not counted.
    let before_counting = judge(gold, response, &options);
    let before = (ALLOCATIONS.load(Ordering::Relaxed), ALLOCATED.load(Ordering::Relaxed));
    let (judged, steps) = judge_counted(gold, response, &options);
    let calls = ALLOCATIONS.load(Ordering::Relaxed) - before.0;
    let bytes = ALLOCATED.load(Ordering::Relaxed) - before.1;
    assert!(steps.iter().all(|steps| *steps <= MAX_STEPS));
    let size = [1, (gold.len() + response.len()) as u64, steps.iter().map(|steps| u64::from(*steps)).sum()];
    let allowed = |each: [u64; 3]| each.iter().zip(size).map(|(each, size)| each * size).sum::<u64>();
    assert!(calls <= allowed(CALLS), "{calls} allocations in {size:?}");
    assert!(bytes <= allowed(BYTES), "{bytes} bytes in {size:?}");
    assert_eq!(before_counting, judged);

    // A text that gives no answer is left out: nothing is equal to it, not even itself.
    for parsed in [extract(gold, &options), latex(gold), gsm8k(gold).unwrap_or_default()] {
        assert!(parsed.text().is_none_or(str::is_empty) || verify(&parsed, &parsed, &options));
        assert_ne!(equals_with(&parsed, 0, &options), Some(false), "{parsed:?}");
        // Not 1: of 1.5 and 2.5, the even neighbour is the same.
        assert_ne!(equals_with(&parsed, 2, &options), Some(true), "{parsed:?}");
    }
    check_frame(gold.trim(), &options);
    vectors::check(texts.as_bytes());
});

/// What stands alone in a frame is read as what stands in none.
fn check_frame(formula: &str, options: &MathOptions) {
    let announces = ["boxed", "fbox", "final", "think", "answer"].iter().any(|word| formula.to_lowercase().contains(word));
    if announces || !is_balanced(formula) {
        return;
    }
    let plain = latex(formula);
    let options = MathOptions { boxed_match_priority: Some(0), ..options.clone() };
    for response in [format!("The answer is \\boxed{{{formula}}}."), format!("\\boxed{{ {formula} }}")] {
        let (judged, [steps, ..]) = judge_counted("", &response, &options);
        // What cannot be read is looked for elsewhere.
        if plain.is_understood() && steps < MAX_STEPS {
            assert_eq!(judged.extracted, plain, "{response}");
        }
    }
}

/// Whether every brace is closed, and none before it was opened.
fn is_balanced(text: &str) -> bool {
    let depth = text.bytes().try_fold(0_u32, |depth, byte| match byte {
        b'{' => Some(depth + 1),
        b'}' => depth.checked_sub(1),
        _ => Some(depth),
    });
    depth == Some(0)
}

/// Options made of the bits of one byte.
fn options(choice: u8) -> MathOptions {
    let has = |bit: u8| choice >> bit & 1 == 1;
    let mut match_types = vec![MatchType::Latex, MatchType::Expr];
    if has(0) {
        match_types.push(MatchType::String);
    }
    if has(1) {
        match_types.reverse();
    }
    MathOptions {
        match_types,
        precision: if has(2) { 6 } else { u32::from(choice) },
        strict: !has(3),
        allow_set_relation_comp: has(4),
        boxed_match_priority: (!has(5)).then_some(if has(6) { 100 } else { 0 }),
    }
}
