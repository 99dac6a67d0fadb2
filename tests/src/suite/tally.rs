//! Adds up what test programs say of themselves.

use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// The results of a number of test programs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TestTally {
    /// Tests that passed, in all programs.
    pub passed: u64,
    /// Tests that failed, in all programs.
    pub failed: u64,
    /// Tests that were ignored, in the words of the test programs.
    pub skipped: u64,
    /// Test programs that reported.
    pub programs: u64,
    /// Tests that have run for long, by what their programs say, and not ended.
    #[serde(skip)]
    slow: BTreeSet<String>,
}

impl TestTally {
    /// Tests that have run for long and not ended.
    pub fn slow(&self) -> impl Iterator<Item = &str> {
        self.slow.iter().map(String::as_str)
    }

    /// Reads a line of output. Only the summary of a test program is counted:
    /// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`.
    pub fn read_line(&mut self, line: &str) {
        if let Some(test) = line.trim().strip_prefix("test ") {
            match test.split_once(" has been running for over ") {
                Some((name, _)) => drop(self.slow.insert(name.to_owned())),
                None => drop(test.split_once(" ... ").map(|(name, _)| self.slow.remove(name))),
            }
        }
        if let Some([passed, failed, skipped]) = summary(line) {
            self.passed += passed;
            self.failed += failed;
            self.skipped += skipped;
            self.programs += 1;
        }
    }

    /// Ends the count. What went wrong without a failed test becomes a failure,
    /// with the returned explanation.
    pub fn close(&mut self, cargo_succeeded: bool) -> Option<&'static str> {
        let reason = match (self.failed, cargo_succeeded) {
            (0, false) => {
                "cargo test failed although no test did: one does not build, or died before its summary"
            }
            (0, true) if self.passed == 0 => "not one test ran, which counts as a failure",
            _ => return None,
        };
        self.failed = 1;
        Some(reason)
    }
}

fn summary(line: &str) -> Option<[u64; 3]> {
    let line = without_colours(line);
    let (_, counts) = line.trim().strip_prefix("test result: ")?.split_once(". ")?;
    let mut sums = [None; 3];
    for part in counts.split(';') {
        let Some((number, what)) = part.trim().split_once(' ') else { continue };
        let place = ["passed", "failed", "ignored"].iter().position(|known| *known == what);
        if let (Some(place), Ok(number)) = (place, number.parse()) {
            sums[place] = Some(number);
        }
    }
    Some([sums[0]?, sums[1]?, sums[2]?])
}

/// The text without terminal escapes (`ESC [ … letter`), which cargo can be configured to always emit.
fn without_colours(line: &str) -> String {
    let mut parts = line.split("\u{1b}[");
    let plain = parts.next().unwrap_or_default().to_owned();
    parts.fold(plain, |text, part| {
        let rest = part.find(|c: char| c.is_ascii_alphabetic()).map_or("", |end| &part[end + 1..]);
        text + rest
    })
}

impl fmt::Display for TestTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two programs of the standard harness, one of libtest-mimic, and documentation tests.
    const OUTPUT: &str = "
running 3 tests
test a::tests::one ... ok
test a::tests::two ... FAILED
test a::tests::three ... ignored

failures:

---- a::tests::two stdout ----
assertion failed: test result: ok. 99 passed; 0 failed; 0 ignored; 0 measured
failures:
    a::tests::two

test result: FAILED. 1 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.12s


running 4 tests
test models/llama-f32 ... ok
test [skipped: no vectors] objectives ... ignored
test models/qwen ... ok

test result: ok. 2 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.50s

   Doc-tests echo_lab

running 0 tests

test result: ok. 0 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s
\u{1b}[1mtest result: \u{1b}[32mok\u{1b}[0m. 5 passed; 0 failed; 0 ignored; 0 measured; 3 filtered out; finished in 0.01s
";

    fn tally(output: &str) -> TestTally {
        let mut tally = TestTally::default();
        output.lines().for_each(|line| tally.read_line(line));
        tally
    }

    #[test]
    fn adds_up_summaries_and_nothing_else() {
        let mut sums = tally(OUTPUT);
        assert_eq!(sums, TestTally { passed: 8, failed: 1, skipped: 3, programs: 4, ..TestTally::default() });
        assert_eq!(sums.close(false), None);
        assert_eq!(sums.to_string(), "8 passed, 1 failed, 3 skipped");
    }

    #[test]
    fn a_crash_or_an_empty_run_is_a_failure() {
        let green =
            "test result: ok. 2 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.00s";
        let mut crashed = tally(green);
        assert!(crashed.close(false).is_some());
        assert_eq!((crashed.passed, crashed.failed), (2, 1));
        let mut empty = tally("");
        assert!(empty.close(true).is_some());
        assert_eq!(empty.failed, 1);
        assert_eq!(tally(green).close(true), None);
    }

    #[test]
    fn malformed_summaries_are_no_summaries() {
        for line in [
            "test result: ",
            "test result: ok.",
            "test result: ok. x passed; 0 failed; 0 ignored",
            "\u{1b}[",
            "é\u{1b}[é",
        ] {
            assert_eq!(tally(line), TestTally::default(), "{line:?}");
        }
    }
}
