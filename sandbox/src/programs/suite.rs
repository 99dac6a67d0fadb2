//! The tests of a problem, and how they are checked.

use std::collections::BTreeSet;
use std::time::Duration;

use echo_protocol::wire::content_id::ContentId;
use serde::{Deserialize, Serialize};

use super::program::{MAX_SOURCE_BYTES, Submission};
use crate::isolation::RunLimits;
use crate::programs::checkers::Checker;

/// Tests of one suite.
pub const MAX_TESTS: usize = 1024;

/// Processor time that one test may be given, in milliseconds.
pub const MAX_CPU_MS: u32 = 60_000;

/// Memory that one test may be given, in bytes.
pub const MAX_MEMORY: u64 = 4 << 30;

/// Output that one test may ask for, in bytes. It is held in memory.
pub const MAX_OUTPUT: u64 = 64 << 20;

/// Bytes of the name of an input or output file.
pub const MAX_NAME_BYTES: usize = 64;

/// One test: what the program reads, and what the checker compares its output with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Test {
    /// What the program reads.
    pub input: ContentId,
    /// The jury's answer, which only the checker sees.
    pub answer: ContentId,
}

/// How an output is checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Checking {
    /// By a stock checker, outside of any sandbox: it is ours.
    Stock(Checker),
    /// By a program of the author in a sandbox of its own, when the judged program is gone. It is
    /// called as testlib's checkers are: `input output answer`, and says ok, wrong answer,
    /// presentation error or failure by its exit code 0 to 3.
    Program(Submission),
}

/// Names of the files that a program reads and writes instead of standard input and output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileNames {
    /// What it reads, in its working directory.
    pub input: String,
    /// What it writes there.
    pub output: String,
}

/// The tests of a problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Suite {
    /// At least one and at most [`MAX_TESTS`], in the order in which they are run.
    pub tests: Vec<Test>,
    /// How outputs are checked.
    pub checking: Checking,
    /// Where the program reads and writes; `None` for standard input and output.
    pub files: Option<FileNames>,
    /// Processor time of one test in milliseconds, at most [`MAX_CPU_MS`].
    pub cpu_ms: u32,
    /// Memory of one test in bytes, at most [`MAX_MEMORY`].
    pub memory: u64,
    /// Bytes of output of one test, at most [`MAX_OUTPUT`].
    pub output: u64,
}

/// A suite by which nothing can be judged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SuiteError {
    /// Without tests everything would be right.
    #[error("the suite has no tests; give it at least one")]
    Empty,
    /// A number outside its range.
    #[error("the suite's {setting} is {found}; set it to 1 up to {limit}")]
    Range {
        /// The setting's name and unit, in words.
        setting: &'static str,
        /// The value that the suite has for it.
        found: u64,
        /// The most that is allowed.
        limit: u64,
    },
    /// A name that a test's file cannot have.
    #[error(
        "{name:?} cannot name a test's file; use two different names of 1 to {MAX_NAME_BYTES} letters, digits, `.`, `_` and `-` \
         that begin with a letter or digit"
    )]
    Name {
        /// The refused name, or the one that both files have.
        name: String,
    },
}

impl Suite {
    /// Tests over standard input and output, with the limits of [`RunLimits::run`].
    pub fn new(tests: Vec<Test>, checking: Checking) -> Self {
        let limits = RunLimits::run();
        let cpu_ms = u32::try_from(limits.cpu.as_millis()).unwrap_or(MAX_CPU_MS);
        Self { tests, checking, files: None, cpu_ms, memory: limits.memory, output: limits.stdout }
    }

    /// All data that the tests need, each once.
    pub fn data(&self) -> BTreeSet<ContentId> {
        self.tests.iter().flat_map(|test| [test.input, test.answer]).collect()
    }

    /// Whether everything is within its limits.
    ///
    /// # Errors
    /// The first setting that is out of range, or the file name that cannot be used.
    pub fn check(&self) -> Result<(), SuiteError> {
        if self.tests.is_empty() {
            return Err(SuiteError::Empty);
        }
        let checker = match &self.checking {
            Checking::Program(checker) => checker.source.len() as u64,
            Checking::Stock(_) => 1,
        };
        let ranges = [
            ("number of tests", self.tests.len() as u64, MAX_TESTS as u64),
            ("processor time in milliseconds", self.cpu_ms.into(), MAX_CPU_MS.into()),
            ("memory in bytes", self.memory, MAX_MEMORY),
            ("output in bytes", self.output, MAX_OUTPUT),
            ("checker's length in bytes", checker, MAX_SOURCE_BYTES as u64),
        ];
        if let Some((setting, found, limit)) =
            ranges.into_iter().find(|(_, found, limit)| !(1..=*limit).contains(found))
        {
            return Err(SuiteError::Range { setting, found, limit });
        }
        let Some(FileNames { input, output }) = &self.files else { return Ok(()) };
        match [input, output].into_iter().find(|name| !is_plain(name)) {
            Some(name) => Err(SuiteError::Name { name: name.clone() }),
            None if input == output => Err(SuiteError::Name { name: input.clone() }),
            None => Ok(()),
        }
    }

    pub(super) fn limits(&self) -> RunLimits {
        let limits = RunLimits::run().with_cpu(Duration::from_millis(self.cpu_ms.into()));
        let scratch = limits.scratch + self.files.as_ref().map_or(0, |_| self.output);
        RunLimits { memory: self.memory, stdout: self.output, scratch, ..limits }
    }
}

fn is_plain(name: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    name.len() <= MAX_NAME_BYTES
        && name.bytes().all(plain)
        && name.bytes().next().is_some_and(|first| first.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn suite() -> Suite {
        let id = ContentId::of(b"");
        Suite::new(vec![Test { input: id, answer: id }], Checking::Stock(Checker::Wcmp))
    }

    #[test]
    fn what_is_out_of_range_is_refused() {
        suite().check().unwrap();
        assert_eq!(Suite { tests: Vec::new(), ..suite() }.check(), Err(SuiteError::Empty));
        let refused = |suite: Suite| matches!(suite.check(), Err(SuiteError::Range { .. }));
        assert!(refused(Suite { tests: vec![suite().tests[0]; MAX_TESTS + 1], ..suite() }));
        assert!(refused(Suite { cpu_ms: 0, ..suite() }));
        assert!(refused(Suite { memory: u64::MAX, ..suite() }));
        assert!(refused(Suite { output: MAX_OUTPUT + 1, ..suite() }));
    }

    #[test]
    fn files_have_plain_names() {
        let named = |input: &str, output: &str| {
            Suite { files: Some(FileNames { input: input.into(), output: output.into() }), ..suite() }.check()
        };
        named("sums.in", "sums.out").unwrap();
        for bad in ["", "../sums", "a/b", ".hidden", "a b", "sums.in", &"a".repeat(65)] {
            assert!(matches!(named("sums.in", bad), Err(SuiteError::Name { .. })), "{bad}");
        }
    }
}
