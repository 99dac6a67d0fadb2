//! Attacks through compilers, which run inside too.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::support::{Run, find, has_groups};
use crate::isolation::{End, Mount, MountSource, Placed, RunLimits, RunOutcome, bombs};

/// Compiles a file inside.
fn compile(name: &str, source: &str, program: &Path, args: &[&str], mounts: &[Mount<'_>]) -> RunOutcome {
    let environment = [("TMPDIR", "/work"), ("PATH", "/usr/bin")];
    let env = environment.map(|(name, value)| (OsString::from(name), OsString::from(value))).into();
    let files = vec![Placed { name, bytes: source.as_bytes(), executable: false }];
    // Short, so that bombs go off soon; honest programs below are small.
    let limits = RunLimits::compile().with_cpu(Duration::from_secs(5));
    let run = Run { env, mounts, files, limits: Some(limits), ..Run::default() };
    run.program(program.to_str().unwrap(), args)
}

fn cpp(source: &str) -> RunOutcome {
    let program = find("g++");
    assert!(program.starts_with("/usr/bin"), "these tests need g++ in /usr/bin, not {}", program.display());
    compile("main.cpp", source, &program, &["-O1", "-o", "main", "main.cpp"], &[])
}

/// It ended without success, and said nothing of the host.
fn fails(name: &str, outcome: &RunOutcome) {
    assert_ne!(outcome.end, End::Exited(0), "{name}: {outcome:?}");
    let said = [&outcome.stdout[..], &outcome.stderr[..]].concat();
    assert!(!String::from_utf8_lossy(&said).contains("root:"), "{name}: {outcome:?}");
}

#[test]
fn honest_programs_compile() {
    let outcome = cpp("#include <vector>\nint main() { return std::vector<int>(3).size() - 3; }");
    assert_eq!(outcome.end, End::Exited(0), "{outcome:?}");
}

#[test]
fn compile_bombs_go_out() {
    for (name, source) in bombs::cpp() {
        let outcome = cpp(&source);
        fails(name, &outcome);
        assert!(outcome.stderr.len() as u64 <= RunLimits::compile().stderr, "{name}");
    }
    let doubled =
        "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(A(A(A(A(x)))))))\nint main() { B(B(y;)) }";
    let outcome = cpp(doubled);
    fails("macros", &outcome);
    if has_groups() {
        let ends = [End::MemoryLimit, End::CpuLimit, End::OutputLimit, End::WallLimit];
        assert!(ends.contains(&outcome.end), "{:?}", outcome.end);
    }
}

#[test]
fn rust_includes_nothing_of_the_host() {
    let sysroot = Command::new(find("rustc")).args(["--print", "sysroot"]).output().unwrap();
    let sysroot = PathBuf::from(String::from_utf8(sysroot.stdout).unwrap().trim());
    let mounts = [Mount { source: MountSource::Path(&sysroot), target: Path::new("/toolchain") }];
    let rust = |source: &str| {
        compile("main.rs", source, Path::new("/toolchain/bin/rustc"), &["-O", "main.rs"], &mounts)
    };
    let honest = rust("fn main() {}");
    if has_groups() {
        assert_eq!(honest.end, End::Exited(0), "{}", String::from_utf8_lossy(&honest.stderr));
    }
    fails("include", &rust(bombs::RUST_INCLUDE));
    let huge = "static HUGE: [u8; 1 << 36] = [1; 1 << 36]; fn main() { println!(\"{}\", HUGE[5]); }";
    fails("huge array", &rust(huge));
}
