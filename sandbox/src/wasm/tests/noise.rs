//! Bytes from anywhere neither panic nor run for long, and whatever loads only gives rewards.

use proptest::prelude::*;

use super::*;

/// Little fuel: altered modules often loop.
fn hasty() -> Runtime {
    Runtime { budget: runtime::InstanceBudget { fuel: 100_000, ticks: MAX_TICKS }, ..runtime().clone() }
}

fn try_out(bytes: &[u8]) {
    let Ok(verifier) = hasty().load(ContentId::of(bytes), bytes) else { return };
    for (response, finished) in [("", true), ("2", true), ("\u{1f980}\n", false)] {
        if let Ok(verdict) = verifier.reward(&SEED, response, finished) {
            assert!((0.0..=1.0).contains(&verdict.reward));
        }
    }
    if let Ok(prompt) = verifier.prompt(&SEED) {
        assert!(prompt.chars().count() <= verifier.longest_prompt());
    }
    let _ = verifier.solution(&SEED);
}

proptest! {
    #[test]
    fn garbage_is_refused(bytes in prop::collection::vec(any::<u8>(), 0..2_000), magic: bool) {
        let header: &[u8] = if magic { b"\0asm\x01\0\0\0" } else { b"" };
        try_out(&[header, &bytes].concat());
    }

    #[test]
    fn an_altered_example_is_refused_or_keeps_the_rules(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
        whole in prop::bool::weighted(0.9),
    ) {
        let mut bytes = wat::parse_str(EXAMPLE).unwrap();
        for (at, byte) in changes {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        if !whole {
            bytes.truncate(cut.index(bytes.len()));
        }
        try_out(&bytes);
    }
}
