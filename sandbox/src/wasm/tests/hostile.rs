//! Modules that want to run for ever, take everything, or lead out of their memory.

use std::time::{Duration, Instant};

use super::call::ModuleCall;
use super::module::Module;
use super::*;

#[test]
fn an_endless_loop_ends_with_its_fuel() {
    let start = Instant::now();
    assert_eq!(judged("(loop $for_ever (br $for_ever)) (f32.const 1)", ""), Err(WasmFailure::Fuel));
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn a_tree_of_calls_without_a_loop_ends_too() {
    // 16^20 calls.
    let leaf = "(func $f0)".to_owned();
    let tree: String =
        (1..=20).map(|i| format!("(func $f{i} {})", format!("(call $f{})", i - 1).repeat(16))).collect();
    assert_eq!(judged("(call $f20) (f32.const 1)", &(leaf + &tree)), Err(WasmFailure::Fuel));
}

#[test]
fn filling_and_copying_memory_costs_fuel_by_the_byte() {
    for work in ["memory.fill", "memory.copy"] {
        let body = format!(
            "(drop (memory.grow (i32.const 900)))
            (loop $for_ever ({work} (i32.const 0) (i32.const 1) (i32.const 50000000)) (br $for_ever)) (f32.const 1)"
        );
        let start = Instant::now();
        assert_eq!(judged(&body, ""), Err(WasmFailure::Fuel));
        assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    }
}

#[test]
fn the_wall_clock_stops_what_fuel_does_not() {
    let budget = runtime::InstanceBudget { fuel: u64::MAX, ticks: 2 };
    let runtime = Runtime { budget, ..runtime().clone() };
    let text = judging_by("(loop $for_ever (br $for_ever)) (f32.const 1)", "");
    assert_eq!(load_in(&runtime, &text).unwrap().reward(&SEED, "", true), Err(WasmFailure::Time));
}

#[test]
fn no_memory_beyond_the_limit() {
    let growing = |pages: u64| judged(&format!("(drop (memory.grow (i32.const {pages}))) (f32.const 1)"), "");
    let most = MAX_MEMORY_BYTES as u64 / (64 << 10);
    assert!(growing(most - 1).is_ok());
    for pages in [most, 65_535, 65_536, u32::MAX.into()] {
        assert!(matches!(growing(pages), Err(WasmFailure::Memory(_))), "{pages}");
    }
    let table = |elements: usize| {
        let body = format!("(drop (table.grow (ref.null func) (i32.const {elements}))) (f32.const 1)");
        judged(&body, "(table 1 funcref)")
    };
    assert!(table(MAX_TABLE_ELEMENTS - 1).is_ok());
    assert!(matches!(table(MAX_TABLE_ELEMENTS), Err(WasmFailure::Memory(_))));
    // How it ends is the runtime's choice: so many elements cost more fuel than there is, too.
    let most = table(u32::MAX as usize);
    assert!(matches!(most, Err(WasmFailure::Memory(_) | WasmFailure::Fuel)), "{most:?}");
}

#[test]
fn deep_recursion_is_stopped() {
    let deep = "(func $down (param i32) (result i32) (i32.add (i32.const 1) (call $down (local.get 0))))";
    let judged = judged("(drop (call $down (i32.const 0))) (f32.const 1)", deep);
    assert_eq!(judged, Err(WasmFailure::Stack));
    assert!(example().reward(&SEED, "1", true).is_ok(), "the thread goes on");
}

#[test]
fn traps_are_no_rewards() {
    for body in [
        "unreachable",
        "(f32.convert_i32_s (i32.div_s (local.get $len) (i32.const 0)))",
        "(f32.convert_i32_s (i32.div_s (i32.const 0x80000000) (i32.const -1)))",
        "(f32.convert_i32_s (i32.trunc_f32_s (f32.const 1e30)))",
        "(f32.load (i32.const -1))",
        "(f32.load (i32.const 65533))",
        "(f32.load offset=0xffffffff (i32.const -1))",
        "(f32.store (i32.const 0x7fffffff) (f32.const 1)) (f32.const 1)",
        "(call_indirect (result f32) (i32.const 0))",
        "(call_indirect (result f32) (i32.const 1))",
        "(call_indirect (result f32) (i32.const 99))",
        "(memory.fill (i32.const 65000) (i32.const 0) (i32.const 1000)) (f32.const 1)",
    ] {
        let judged = judged(body, "(table 2 funcref) (func $other) (elem (i32.const 1) $other)");
        assert!(matches!(judged, Err(WasmFailure::Trap(_))), "{body}: {judged:?}");
    }
}

#[test]
fn addresses_from_the_module_are_checked() {
    for (address, fits) in
        [("1024", true), ("65504", true), ("65505", false), ("65536", false), ("-1", false)]
    {
        let text = judging_by("(f32.const 1)", "")
            .replace("(result i32) (i32.const 1024)", &format!("(result i32) (i32.const {address})"));
        let judged = load(&text).unwrap().reward(&SEED, "", true);
        assert_eq!(judged.is_ok(), fits, "{address}: {judged:?}");
        assert!(fits || matches!(judged, Err(WasmFailure::Outside { what: "seed", .. })), "{judged:?}");
    }
}

#[test]
fn a_response_of_any_length_is_judged_or_fails() {
    for length in [1 << 16, 1 << 20, 60 << 20] {
        assert_eq!(example().reward(&SEED, &"1".repeat(length), true).unwrap().reward, 0.0, "{length}");
    }
    let long = example().reward(&SEED, &"1".repeat(MAX_MEMORY_BYTES), true);
    assert!(matches!(long, Err(WasmFailure::Memory(_))), "{long:?}");
}

#[test]
fn one_instance_too_many_waits_for_a_place() {
    let runtime = Runtime::new().unwrap();
    let bytes = wat::parse_str(EXAMPLE).unwrap();
    let module = &Module::compile(&runtime, ContentId::of(&bytes), &bytes).unwrap();
    let all: Vec<_> = (0..MAX_INSTANCES).map(|_| ModuleCall::new(module).unwrap()).collect();
    let (made, waited) = std::sync::mpsc::channel();
    std::thread::scope(move |scope| {
        let mut all = all;
        scope.spawn(move || made.send(ModuleCall::new(module).is_ok()));
        assert!(waited.recv_timeout(Duration::from_millis(200)).is_err(), "all places are taken");
        drop(all.pop());
        assert_eq!(waited.recv_timeout(Duration::from_secs(20)), Ok(true));
    });
}
