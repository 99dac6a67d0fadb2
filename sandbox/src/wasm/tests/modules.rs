//! What is no verifier.

use super::*;

fn sound() -> String {
    judging_by("(f32.const 1)", "")
}

#[test]
fn other_bytes_than_those_asked_for_are_refused() {
    let bytes = wat::parse_str(sound()).unwrap();
    let (wanted, found) = (ContentId::of(b"another"), ContentId::of(&bytes));
    assert_eq!(runtime().load(wanted, &bytes).unwrap_err(), ModuleError::OtherContent { wanted, found });
    assert_eq!(runtime().load(found, &bytes).unwrap().id(), found);
}

#[test]
fn the_text_form_and_long_modules_are_refused() {
    let text = sound();
    let refused = runtime().load(ContentId::of(text.as_bytes()), text.as_bytes());
    assert_eq!(refused.unwrap_err(), ModuleError::Text);
    let refused = |bytes: &[u8]| runtime().load(ContentId::of(bytes), bytes).unwrap_err();
    assert_eq!(refused(EXAMPLE.as_bytes()), ModuleError::Text, "comments come first");
    assert!(!refused(b"\n ;; a\n  (module)").to_string().contains('\n'), "one line");
    assert_eq!(refused(b"no module"), ModuleError::Other);
    assert_eq!(refused(b""), ModuleError::Other);
    assert!(matches!(refused(b"\0asm\x09\0\0\0"), ModuleError::Invalid(_)));
    let long = vec![0; MAX_MODULE_BYTES + 1];
    let refused = runtime().load(ContentId::of(&long), &long);
    assert_eq!(refused.unwrap_err(), ModuleError::Long { bytes: MAX_MODULE_BYTES + 1 });
}

#[test]
fn imports_of_any_kind_are_refused() {
    for import in
        ["(func)", "(memory 1)", "(table 1 funcref)", "(global i32)", "(func (param i32) (result i32))"]
    {
        let text = format!("(module (import \"wasi_snapshot_preview1\" \"fd_write\" {import}))");
        let name = "wasi_snapshot_preview1.fd_write".to_owned();
        assert_eq!(load(&text).unwrap_err(), ModuleError::Import { name }, "{import}");
    }
    let long = "x".repeat(10_000);
    let refused = load(&format!("(module (import \"{long}\" \"{long}\" (func)))")).unwrap_err();
    assert!(refused.to_string().len() < 400, "{refused}");
}

#[test]
fn what_is_turned_off_does_not_compile() {
    for more in [
        "(memory 1)",
        "(memory i64 1)",
        "(memory 1 1 shared)",
        "(table 1 externref)",
        "(func (param externref))",
        "(func (result v128) (v128.const i64x2 0 0))",
        "(func (return_call 0))",
        "(tag)",
        "(type (struct))",
        "(memory $m 1 (pagesize 1))",
    ] {
        let refused = load(&judging_by("(f32.const 1)", more));
        assert!(matches!(refused, Err(ModuleError::Invalid(_))), "{more}: {refused:?}");
    }
}

#[test]
fn every_required_export_is_missed() {
    for name in ["memory", "abi_version", "longest_prompt", "longest_response", "alloc", "prompt", "reward"] {
        let renamed = sound().replace(&format!("(export \"{name}\")"), "(export \"other\")");
        match load(&renamed).unwrap_err() {
            ModuleError::Export { name: missed, found, .. } => {
                assert_eq!((missed, found.as_str()), (name, "nothing"));
            }
            other => panic!("{name}: {other:?}"),
        }
    }
}

#[test]
fn exports_of_another_type_are_refused() {
    let refused = |text: String| load(&text).unwrap_err().to_string();
    let prompt = refused(
        sound().replace("(param $seed i32) (result i64) (i64.const 4)", "(result i32) (i32.const 4)"),
    );
    assert!(
        prompt.contains("prompt as (func (param i32) (result i64)); it exports (func (result i32))"),
        "{prompt}"
    );
    for more in
        ["(func (export \"metadata\") (param i32))", "(global (export \"solution\") i32 (i32.const 0))"]
    {
        let refused = load(&judging_by("(f32.const 1)", more));
        assert!(matches!(refused, Err(ModuleError::Export { .. })), "{more}: {refused:?}");
    }
    let no_memory =
        refused(sound().replace("(export \"memory\")", "").replace("\"abi_version\"", "\"memory\""));
    assert!(no_memory.contains("memory as (memory); it exports (func (result i32))"), "{no_memory}");
}

#[test]
fn only_this_version_of_the_interface_is_known() {
    let other = sound().replace("(result i32) (i32.const 1))", "(result i32) (i32.const 2))");
    assert_eq!(load(&other).unwrap_err(), ModuleError::Version { found: 2 });
}

#[test]
fn lengths_that_nothing_could_have_are_refused() {
    for found in [0, -1, MAX_TEXT_CHARS as i32 + 1, i32::MAX, i32::MIN] {
        let text =
            sound().replacen("(result i32) (i32.const 4))", &format!("(result i32) (i32.const {found}))"), 1);
        assert_eq!(load(&text).unwrap_err(), ModuleError::Longest { name: "longest_prompt", found });
    }
}

#[test]
fn too_much_from_the_start_is_refused() {
    let refused = |loaded| match loaded {
        Err(ModuleError::Invalid(_)) => true,
        Ok(_) => false,
        Err(other) => panic!("{other}"),
    };
    let memory = |pages: usize| load(&sound().replace("\"memory\") 1)", &format!("\"memory\") {pages})")));
    let most = MAX_MEMORY_BYTES / (64 << 10);
    assert!(!refused(memory(most)) && refused(memory(most + 1)) && refused(memory(65_536)));
    let table = |more: &str| load(&judging_by("(f32.const 1)", more));
    assert!(!refused(table(&format!("(table {MAX_TABLE_ELEMENTS} funcref)"))));
    assert!(refused(table(&format!("(table {} funcref)", MAX_TABLE_ELEMENTS + 1))));
    assert!(refused(table("(table 1 funcref) (table 1 funcref)")));
}

#[test]
fn modules_that_fail_before_the_first_question_are_refused() {
    for (more, failure) in [
        ("(func $start (loop $for_ever (br $for_ever))) (start $start)", Some(WasmFailure::Fuel)),
        ("(func $start (call $start)) (start $start)", Some(WasmFailure::Stack)),
        ("(func $start unreachable) (start $start)", None),
        ("(data (i32.const 65536) \"x\")", None),
        ("(data (i32.const -1) \"x\")", None),
        ("(func $f) (table 1 funcref) (elem (i32.const 1) $f)", None),
    ] {
        match load(&judging_by("(f32.const 1)", more)).unwrap_err() {
            ModuleError::Failure(found) => match failure {
                Some(failure) => assert_eq!(found, failure, "{more}"),
                None => assert!(matches!(found, WasmFailure::Trap(_)), "{more}: {found:?}"),
            },
            other => panic!("{more}: {other:?}"),
        }
    }
}
