//! What the tests of this module share: one sandbox for all of them.

use std::sync::{Arc, OnceLock};

use super::judge::{Judge, JudgeOptions, Judging};
use super::language::Language;
use super::program::Submission;
use super::store::TestStore;
use super::suite::{Suite, Test};
use super::verdict::{ProgramVerdict, TestReport};
use crate::programs::checkers::Checker;
use crate::programs::suite::Checking;

/// A judge of this machine. The tests need what a node needs that takes tasks with code.
pub(super) fn judge() -> Arc<Judge> {
    Judge::shared().expect("these tests run programs, for which this machine lacks what follows")
}

/// The data of all tests.
pub(super) fn store() -> Arc<TestStore> {
    static STORE: OnceLock<Arc<TestStore>> = OnceLock::new();
    let open = || {
        let dir = tempfile::tempdir().unwrap();
        let store = Arc::new(TestStore::open(dir.path(), 1 << 20).unwrap());
        // The store outlives the directory's guard: nothing is dropped in a static.
        std::mem::forget(dir);
        store
    };
    Arc::clone(STORE.get_or_init(open))
}

/// Tests with these inputs and answers, compared word by word.
pub(super) fn suite(tests: &[(&str, &str)]) -> Suite {
    let put = |text: &str| store().put(text.as_bytes()).unwrap();
    let tests = tests.iter().map(|(input, answer)| Test { input: put(input), answer: put(answer) });
    Suite::new(tests.collect(), Checking::Stock(Checker::Wcmp))
}

pub(super) fn judging(language: Language, source: &str, suite: Suite, stop_early: bool) -> Judging {
    let submission = Submission { language, source: source.into() };
    Judge::judge(&judge(), submission, suite, store(), JudgeOptions { stop_early }).unwrap()
}

pub(super) fn verdicts(reports: impl IntoIterator<Item = TestReport>) -> Vec<ProgramVerdict> {
    reports.into_iter().map(|report| report.verdict).collect()
}
