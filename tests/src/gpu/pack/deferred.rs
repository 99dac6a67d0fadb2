//! Stand-ins for CUDA's libraries, linked in place of them: a program starts without them, and the
//! program looks for each when it first calls one of its functions.
//!
//! Linked as usual, cuBLAS alone would keep the learner from starting on a machine without a card.
//! A stand-in is an object with the names of a library's functions, each of which jumps through a
//! slot. A slot is filled at the first call: by the function of the library that the loader finds,
//! or by one that answers with the library's own word for "I am not there".

use super::super::kit::{CUBLAS, CUBLAS_LT, CURAND};
use super::toolkit::Toolkit;
use anyhow::{Context as _, ensure};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A library that programs link.
struct Library {
    /// As the linker is asked for it: `-lcublas`.
    name: &'static str,
    /// Files that the loader is asked for, the first that is there.
    files: &'static [&'static str],
    /// What its functions return when it is not there.
    absent: u32,
    /// What its functions' names begin with.
    prefix: &'static str,
}

const LIBRARIES: [Library; 5] = [
    // CUDA_ERROR_STUB_LIBRARY
    Library { name: "cuda", files: &["libcuda.so.1"], absent: 34, prefix: "cu" },
    // CUBLAS_STATUS_NOT_INITIALIZED, of both
    Library { name: "cublas", files: &CUBLAS, absent: 1, prefix: "cublas" },
    Library { name: "cublasLt", files: &CUBLAS_LT, absent: 1, prefix: "cublas" },
    // CURAND_STATUS_NOT_INITIALIZED
    Library { name: "curand", files: &CURAND, absent: 101, prefix: "curand" },
    // NVRTC_ERROR_INTERNAL_ERROR
    Library { name: "nvrtc", files: &["libnvrtc.so.13", "libnvrtc.so.12"], absent: 11, prefix: "nvrtc" },
];
/// The runtime is small, and looks for the driver by itself.
const RUNTIME: &str = "libcudart_static.a";

/// Makes the stand-ins in `dir`, where the linker is to look for them. Says whether they are
/// others than before: cargo does not know of them. Fails when a library of the toolkit, a C
/// compiler or binutils are missing.
pub(super) fn make(toolkit: &Toolkit, dir: &Path) -> anyhow::Result<bool> {
    fs::create_dir_all(dir)?;
    let mut changed = false;
    for library in &LIBRARIES {
        let names = library.functions(toolkit)?;
        ensure!(!names.is_empty(), "no function of {} is known", library.name);
        let source = dir.join(format!("{}.c", library.name));
        let text = library.source(&names);
        let archive = dir.join(format!("lib{}.a", library.name));
        if archive.is_file() && fs::read_to_string(&source).is_ok_and(|before| before == text) {
            continue;
        }
        changed = true;
        fs::write(&source, text)?;
        let object = source.with_extension("o");
        run(Command::new("cc").args(["-c", "-O2", "-fPIC", "-o"]).arg(&object).arg(&source))?;
        let _ = fs::remove_file(&archive);
        run(Command::new("ar").arg("rcs").arg(&archive).arg(&object))?;
    }
    let runtime = toolkit.library(RUNTIME).with_context(|| format!("the toolkit has no {RUNTIME}"))?;
    fs::copy(runtime, dir.join("libcudart.a"))?;
    Ok(changed)
}

impl Library {
    /// The names of its functions: what the toolkit's library defines, or for the driver, which
    /// comes with a card, what its header names.
    fn functions(&self, toolkit: &Toolkit) -> anyhow::Result<BTreeSet<String>> {
        let text = if self.name == "cuda" {
            let header = toolkit.home.join("include/cuda.h");
            fs::read_to_string(&header).with_context(|| header.display().to_string())?
        } else {
            let file = toolkit
                .library(&format!("lib{}.so", self.name))
                .with_context(|| format!("the toolkit has no lib{}", self.name))?;
            run(Command::new("nm").args(["--dynamic", "--defined-only", "--format=posix"]).arg(&file))?
        };
        let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let is_function = |word: &&str| {
            let rest = word.strip_prefix(self.prefix).unwrap_or_default();
            rest.starts_with(|c: char| c.is_ascii_uppercase()) && !word.ends_with("_t")
        };
        Ok(words.filter(is_function).map(str::to_owned).collect())
    }

    /// C with assembly for x86-64 under the System V convention: whatever a function's arguments
    /// are, they pass through untouched.
    fn source(&self, functions: &BTreeSet<String>) -> String {
        let Self { name, files, absent, .. } = self;
        let list = |words: &mut dyn Iterator<Item = &str>| {
            words.map(|word| format!("\"{word}\"")).collect::<Vec<_>>().join(", ")
        };
        let (files, names) =
            (list(&mut files.iter().copied()), list(&mut functions.iter().map(String::as_str)));
        let count = functions.len();
        let mut text = format!(
            r#"#include <dlfcn.h>
#include <stddef.h>
#include <string.h>
static const char *const files[] = {{{files}}};
static const char *const names[] = {{{names}}};
__attribute__((visibility("hidden"))) void *echo_{name}_slots[{count}];
static int absent(void) {{ return {absent}; }}
static const char *nameless(void) {{ return "the library is not there"; }}
__attribute__((visibility("hidden"), used)) void *echo_{name}_find(size_t index) {{
    static void *library;
    for (size_t i = 0; !library && i < sizeof files / sizeof *files; i++) library = dlopen(files[i], RTLD_LAZY | RTLD_GLOBAL);
    void *found = library ? dlsym(library, names[index]) : NULL;
    // These return a text, but for the driver's, which take a place for it.
    const char *word = strstr(names[index], "String") ? "String" : strstr(names[index], "StatusName");
    void *none = word && strncmp(names[index], "cuGet", 5) ? (void *)nameless : (void *)absent;
    return echo_{name}_slots[index] = found ? found : none;
}}
__asm__(".text\n"
"echo_{name}_enter:\n"
"push %rbp\nmov %rsp, %rbp\npush %rdi\npush %rsi\npush %rdx\npush %rcx\npush %r8\npush %r9\nsub $128, %rsp\n"
"#
        );
        let each =
            |text: &mut String, words: fn(usize) -> String| (0..8).for_each(|i| text.push_str(&words(i)));
        each(&mut text, |i| format!("\"movups %xmm{i}, {}(%rsp)\\n\"\n", 16 * i));
        let _ = writeln!(text, "\"mov %r11, %rdi\\ncall echo_{name}_find\\nmov %rax, %r11\\n\"");
        each(&mut text, |i| format!("\"movups {}(%rsp), %xmm{i}\\n\"\n", 16 * i));
        text.push_str("\"add $128, %rsp\\npop %r9\\npop %r8\\npop %rcx\\npop %rdx\\npop %rsi\\npop %rdi\\npop %rbp\\njmp *%r11\\n\"\n");
        for (index, function) in functions.iter().enumerate() {
            let _ = writeln!(
                text,
                "\".globl {function}\\n.type {function}, @function\\n{function}:\\nmov echo_{name}_slots+{}(%rip), %r11\\ntest %r11, %r11\\n\
                 jz 1f\\njmp *%r11\\n1: mov ${index}, %r11\\njmp echo_{name}_enter\\n\"",
                8 * index
            );
        }
        text.push_str(");\n");
        text
    }
}

fn run(command: &mut Command) -> anyhow::Result<String> {
    let program = command.get_program().to_owned();
    let output = command.output().with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(
        output.status.success(),
        "{}: {}",
        program.display(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(all(test, target_os = "linux", target_arch = "x86_64"))]
mod tests {
    use super::*;

    /// A caller of two functions of a library that is made here, one with arguments in every kind
    /// of register and on the stack.
    const CALLER: &str = r#"
        int cuOne(void);
        double cuMany(int a, double b, long c, void *d, int e, int f, int g, double h, int i, int j);
        #include <stdio.h>
        int main(void) { printf("%d %.1f %.1f\n", cuOne(), cuMany(1, 2.5, 3, 0, 4, 5, 6, 7.5, 8, 9), cuMany(1, 1, 1, 0, 1, 1, 1, 1, 1, 1)); }"#;
    const REAL: &str = r#"
        int cuOne(void) { return 7; }
        double cuMany(int a, double b, long c, void *d, int e, int f, int g, double h, int i, int j) {
            return a + b + c + e + f + g + h + i + j;
        }"#;

    #[test]
    fn calls_reach_the_library_that_is_there_and_say_so_where_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let library = Library {
            name: "cuda",
            files: &["libecho-none.so", "libecho-real.so"],
            absent: 34,
            prefix: "cu",
        };
        let names = BTreeSet::from(["cuMany".to_owned(), "cuOne".to_owned()]);
        fs::write(path("stand-in.c"), library.source(&names)).unwrap();
        fs::write(path("caller.c"), CALLER).unwrap();
        fs::write(path("real.c"), REAL).unwrap();
        let program = path("caller");
        run(Command::new("cc")
            .arg("-o")
            .arg(&program)
            .args([path("caller.c"), path("stand-in.c")])
            .arg("-ldl"))
        .unwrap();
        let said = || run(Command::new(&program).env("LD_LIBRARY_PATH", dir.path())).unwrap();
        assert!(said().starts_with("34 "), "{}", said());
        run(Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .arg(path("libecho-real.so"))
            .arg(path("real.c")))
        .unwrap();
        assert_eq!(said(), "7 46.0 9.0\n");
    }
}
