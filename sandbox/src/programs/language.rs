//! The languages: how a source becomes something that runs.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::isolation::RunLimits;

/// A language that programs are judged in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// Python 3, without its site packages.
    Python,
    /// C++ by the 2017 standard, compiled.
    #[serde(rename = "c++17")]
    Cpp17,
    /// C++ by the 2020 standard, compiled.
    #[serde(rename = "c++20")]
    Cpp20,
    /// Rust, edition 2021, without crates.
    Rust,
    /// Go, without modules beside the standard library.
    Go,
}

/// How a language is built and run. Names are those in the sandbox, where everything happens
/// in the work directory.
#[derive(Debug)]
pub(super) struct LanguageSpec {
    /// The name in configurations and messages.
    pub(super) name: &'static str,
    /// The program that compiles or interprets.
    pub(super) tool: &'static str,
    /// What to do when that is not installed.
    pub(super) mend: &'static str,
    /// The file that the source is placed in, below `/work`.
    pub(super) source: &'static str,
    /// The tool's arguments: to compile the source into [`ARTIFACT`], or, for an interpreter, to run it.
    pub(super) args: &'static [&'static str],
    /// The environment of the tool. A compiled program has [`JUDGED_ENV`] alone.
    pub(super) env: &'static [(&'static str, &'static str)],
    /// Whether the tool runs the source itself.
    pub(super) interpreted: bool,
    /// Prints one line, to see whether the tool works.
    pub(super) hello: &'static str,
}

/// The file that compilers write the executable to.
pub(super) const ARTIFACT: &str = "main";

/// The one line that [`LanguageSpec::hello`] prints when the tool works.
pub(super) const HELLO: &str = "hello";

/// Opens what the Python runner says about a source that is no Python.
pub(super) const NOT_PYTHON: &str = "not Python: ";

/// How Python is always started: without `site`, which costs a third of the start and brings
/// the packages of the machine, and with one seed for its hashes, so that verifiers see the
/// same order of sets.
pub(super) const PYTHON_ARGS: [&str; 3] = ["-s", "-S", "-B"];
/// The digits of its integers are not limited: time is, and answers may be long.
pub(super) const PYTHON_ENV: [(&str, &str); 4] =
    [("PYTHONHASHSEED", "0"), ("PYTHONIOENCODING", "utf-8"), ("PYTHONINTMAXSTRDIGITS", "0"), JUDGED_ENV];

/// By this, programs know that they are judged: contest sites have it as a variable and as a macro of
/// C++, and programs that lack it read from files of their author's.
pub(super) const JUDGED_ENV: (&str, &str) = ("ONLINE_JUDGE", "1");

/// An interpreted source is not compiled apart: a second start of the interpreter takes longer than
/// reading most sources. The runner says whether it is Python at all, in a form that only costs the
/// program its own verdict to forge. It runs the source without `compile`, whose first call takes a
/// tenth of the start: an error of the source itself has no frame below the runner's.
const PYTHON_RUNNER: &str = "\
import sys, builtins
builtins.exit = builtins.quit = sys.exit
sys.argv[0] = __file__ = 'main.py'
del sys, builtins
try:
    exec(open('main.py', 'rb').read())
except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError) as error:
    if error.__traceback__.tb_next: raise
    import sys
    sys.stderr.write('not Python: %s: %s\\n' % (type(error).__name__, error))
    sys.exit(1)
";

/// Programs are linked statically: they start faster, and need nothing of the machine that runs them.
const CPP17: LanguageSpec = LanguageSpec {
    name: "c++17",
    tool: "g++",
    mend: "install g++ (on Debian and Ubuntu: apt install g++)",
    source: "main.cpp",
    args: &["-O2", "-std=c++17", "-DONLINE_JUDGE", "-static", "-s", "-o", ARTIFACT, "main.cpp"],
    env: &[("PATH", "/usr/bin:/bin"), ("TMPDIR", "/work"), ("LC_ALL", "C")],
    interpreted: false,
    hello: "#include <iostream>\nint main() { std::cout << \"hello\\n\"; }\n",
};

/// In the order of the languages.
static TABLE: [(Language, LanguageSpec); 5] = [
    (
        Language::Python,
        LanguageSpec {
            name: "python",
            tool: "python3",
            mend: "install Python 3.9 or newer (on Debian and Ubuntu: apt install python3)",
            source: "main.py",
            args: &[PYTHON_ARGS[0], PYTHON_ARGS[1], PYTHON_ARGS[2], "-c", PYTHON_RUNNER],
            env: &PYTHON_ENV,
            interpreted: true,
            hello: "print('hello')\n",
        },
    ),
    (Language::Cpp17, CPP17),
    (
        Language::Cpp20,
        LanguageSpec {
            name: "c++20",
            args: &["-O2", "-std=c++20", "-DONLINE_JUDGE", "-static", "-s", "-o", ARTIFACT, "main.cpp"],
            ..CPP17
        },
    ),
    (
        Language::Rust,
        LanguageSpec {
            name: "rust",
            tool: "rustc",
            mend: "install Rust (https://rustup.rs), and a C linker (on Debian and Ubuntu: apt install gcc)",
            source: "main.rs",
            args: &[
                "--edition=2021",
                "-O",
                "-Ccodegen-units=1",
                "-Ctarget-feature=+crt-static",
                "-Cstrip=symbols",
                "-o",
                ARTIFACT,
                "main.rs",
            ],
            env: CPP17.env,
            interpreted: false,
            hello: "fn main() { println!(\"hello\"); }\n",
        },
    ),
    (
        Language::Go,
        LanguageSpec {
            name: "go",
            tool: "go",
            mend: "install Go (on Debian and Ubuntu: apt install golang-go)",
            source: "main.go",
            args: &["build", "-p", "2", "-ldflags=-s -w", "-o", ARTIFACT, "main.go"],
            env: &[
                ("PATH", "/usr/bin:/bin"),
                ("TMPDIR", "/work"),
                ("HOME", "/work"),
                ("GOCACHE", "/work/.cache"),
                ("GOPATH", "/work/.go"),
                ("GOPROXY", "off"),
                ("GOTOOLCHAIN", "local"),
                ("GO111MODULE", "off"),
                ("CGO_ENABLED", "0"),
            ],
            interpreted: false,
            hello: "package main\nimport \"fmt\"\nfunc main() { fmt.Println(\"hello\") }\n",
        },
    ),
];

impl Language {
    /// All languages, interpreted Python first, in the order of their declaration.
    pub const ALL: [Self; 5] = [Self::Python, Self::Cpp17, Self::Cpp20, Self::Rust, Self::Go];

    pub(super) fn recipe(self) -> &'static LanguageSpec {
        &TABLE[self as usize].1
    }

    /// The name in configurations and messages.
    pub fn name(self) -> &'static str {
        self.recipe().name
    }

    /// What its compiler may use.
    pub fn compile_limits(self) -> RunLimits {
        let limits = RunLimits::compile();
        match self {
            // Go compiles its standard library into an empty cache, on all processors at once, and
            // its runtime starts threads freely.
            Self::Go => {
                RunLimits { memory: 1 << 30, scratch: 512 << 20, ..limits }.with_cpu(Duration::from_secs(60))
            }
            _ => limits,
        }
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A name that no language has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no language of this name: use one of {}", Language::ALL.map(Language::name).join(", "))]
pub struct UnknownLanguage;

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(name: &str) -> Result<Self, UnknownLanguage> {
        Self::ALL.into_iter().find(|language| language.name() == name).ok_or(UnknownLanguage)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_has_its_own_row_and_name() {
        for (at, language) in Language::ALL.into_iter().enumerate() {
            assert_eq!(TABLE[at].0, language);
            assert_eq!(language.name().parse(), Ok(language));
            assert_eq!(serde_json::to_value(language).unwrap(), language.name());
        }
        assert_eq!("cobol".parse::<Language>(), Err(UnknownLanguage));
    }

    #[test]
    fn the_runner_says_what_the_judge_looks_for() {
        assert!(PYTHON_RUNNER.contains(&format!("'{NOT_PYTHON}%s")));
    }
}
