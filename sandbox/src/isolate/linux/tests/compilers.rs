//! Attacks through compilers, which run inside too.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::support::{Run, find, has_groups};
use crate::isolate::{End, Limits, Mount, Outcome, Placed, Source};

/// Compiles a file inside.
fn compile(name: &str, source: &str, program: &Path, args: &[&str], mounts: &[Mount<'_>]) -> Outcome {
    let environment = [("TMPDIR", "/work"), ("PATH", "/usr/bin")];
    let env = environment.map(|(name, value)| (OsString::from(name), OsString::from(value))).into();
    let files = vec![Placed { name, bytes: source.as_bytes(), executable: false }];
    // Short, so that bombs go off soon; honest programs below are small.
    let limits = Limits::compile().with_cpu(Duration::from_secs(5));
    let run = Run { env, mounts, files, limits: Some(limits), ..Run::default() };
    run.program(program.to_str().unwrap(), args)
}

fn cpp(source: &str) -> Outcome {
    let program = find("g++");
    assert!(program.starts_with("/usr/bin"), "these tests need g++ in /usr/bin, not {}", program.display());
    compile("main.cpp", source, &program, &["-O1", "-o", "main", "main.cpp"], &[])
}

/// It ended without success, and said nothing of the host.
fn fails(outcome: &Outcome) {
    assert_ne!(outcome.end, End::Exited(0), "{outcome:?}");
    let said = [&outcome.stdout[..], &outcome.stderr[..]].concat();
    assert!(!String::from_utf8_lossy(&said).contains("root:"), "{outcome:?}");
}

#[test]
fn honest_programs_compile() {
    let outcome = cpp("#include <vector>\nint main() { return std::vector<int>(3).size() - 3; }");
    assert_eq!(outcome.end, End::Exited(0), "{outcome:?}");
}

#[test]
fn compile_bombs_go_out() {
    fails(&cpp(
        "template<int N> struct A { static const int v = A<N - 1>::v + A<N - 2>::v; };\nint main() { return A<800000>::v; }",
    ));
    fails(&cpp("#include \"/dev/zero\"\nint main() {}"));
    fails(&cpp("#include \"/etc/passwd\"\nint main() {}"));
    fails(&cpp("asm(\".incbin \\\"/etc/passwd\\\"\");\nint main() {}"));
    let array = cpp("char huge[1L << 40] = {1};\nint main() { return huge[5]; }");
    fails(&array);
    let doubled =
        "#define A(x) x x x x x x x x x x\n#define B(x) A(A(A(A(A(A(A(x)))))))\nint main() { B(B(y;)) }";
    let outcome = cpp(doubled);
    fails(&outcome);
    if has_groups() {
        let ends = [End::MemoryLimit, End::CpuLimit, End::OutputLimit, End::WallLimit];
        assert!(ends.contains(&outcome.end), "{:?}", outcome.end);
    }
    let errors = format!("int main() {{ {} }}", "nothing + 1;\n".repeat(20_000));
    let outcome = cpp(&errors);
    fails(&outcome);
    assert!(outcome.stderr.len() as u64 <= Limits::compile().stderr);
}

#[test]
fn rust_includes_nothing_of_the_host() {
    let sysroot = Command::new(find("rustc")).args(["--print", "sysroot"]).output().unwrap();
    let sysroot = PathBuf::from(String::from_utf8(sysroot.stdout).unwrap().trim());
    let mounts = [Mount { source: Source::Path(&sysroot), target: Path::new("/toolchain") }];
    let rust = |source: &str| {
        compile("main.rs", source, Path::new("/toolchain/bin/rustc"), &["-O", "main.rs"], &mounts)
    };
    let honest = rust("fn main() {}");
    if has_groups() {
        assert_eq!(honest.end, End::Exited(0), "{}", String::from_utf8_lossy(&honest.stderr));
    }
    fails(&rust("fn main() { print!(\"{}\", include_str!(\"/etc/passwd\")); }"));
    fails(&rust("static HUGE: [u8; 1 << 36] = [1; 1 << 36]; fn main() { println!(\"{}\", HUGE[5]); }"));
}
