//! The same module says the same everywhere.

use proptest::prelude::*;

use super::*;

proptest! {
    #[test]
    fn two_engines_agree_to_the_bit(seed: [u8; 32], response in any::<String>(), finished: bool) {
        static OTHER: OnceLock<(WasmVerifier, WasmVerifier)> = OnceLock::new();
        let (one, other) = OTHER.get_or_init(|| (example(), load_in(&Runtime::new().unwrap(), EXAMPLE).unwrap()));
        prop_assert_eq!(one.prompt(&seed), other.prompt(&seed));
        prop_assert_eq!(one.solution(&seed), other.solution(&seed));
        let judged = [one, one, other].map(|verifier| verifier.reward(&seed, &response, finished).unwrap());
        prop_assert_eq!(&judged[0], &judged[1]);
        prop_assert_eq!(&judged[0], &judged[2]);
        prop_assert!(judged.iter().all(|verdict| verdict.reward.to_bits() == judged[0].reward.to_bits()));
    }
}

#[test]
fn every_nan_that_is_computed_has_the_same_bits() {
    // Processors differ: without canonical NaNs, x86 gives a negative one here, ARM a positive one.
    let body = "(local $zero f32)
        (f32.convert_i32_u (i32.eq
          (i32.reinterpret_f32 (f32.div (local.get $zero) (f32.mul (local.get $zero) (f32.convert_i32_s (local.get $len)))))
          (i32.const 0x7fc00000)))";
    assert_eq!(judged(body, "").unwrap().reward, 1.0);
}

#[test]
fn the_fuel_of_a_question_is_the_same_to_the_instruction() {
    // As many steps as the response has bytes.
    let body = "(local $i i32)
        (loop $next
          (local.set $i (i32.add (local.get $i) (i32.const 1)))
          (br_if $next (i32.lt_u (local.get $i) (local.get $len))))
        (f32.const 1)";
    let budget = runtime::InstanceBudget { fuel: 10_000, ..runtime().budget };
    let most = [runtime().clone(), Runtime::new().unwrap()].map(|runtime| {
        let counting = load_in(&Runtime { budget, ..runtime }, &judging_by(body, "")).unwrap();
        let judged = |length: usize| counting.reward(&SEED, &"x".repeat(length), true);
        (0..10_000).find(|&length| judged(length) == Err(WasmFailure::Fuel)).unwrap()
    });
    assert!(most[0] > 1_000, "{most:?}");
    assert_eq!(most[0], most[1]);
}
