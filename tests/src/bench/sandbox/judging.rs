//! Small programs, judged on two cores.

use anyhow::ensure;
use echo_sandbox::isolation::Sandbox;
use echo_sandbox::programs::checkers::Checker;
use echo_sandbox::programs::{
    Checking, Judge, JudgeOptions, Language, ProgramVerdict, Submission, Suite, Test, TestStore,
};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

/// Judgings at one time.
pub(super) const THREADS: usize = 2;
/// Programs with one input each.
pub(super) const JUDGINGS: usize = 300;
/// Programs with many inputs, and how many each has.
const PROGRAMS: usize = 20;
const INPUTS: usize = 100;
/// Pairs of one of these programs and one of its inputs.
pub(super) const PAIRS: usize = PROGRAMS * INPUTS;
/// Room for the data of tests, in bytes.
const ROOM: u64 = 1 << 30;

/// A judge, and what it is asked.
pub(super) struct JudgingBench {
    judge: Arc<Judge>,
    store: Arc<TestStore>,
    small: Vec<(Submission, Suite)>,
    large: Vec<(Submission, Suite)>,
}

impl JudgingBench {
    /// Puts the data of all tests into a store in `dir`.
    pub(super) fn prepare(sandbox: Arc<Sandbox>, dir: &Path) -> anyhow::Result<Self> {
        let store = Arc::new(TestStore::open(dir, ROOM)?);
        let tests = (0..INPUTS).map(|number| {
            let input = store.put(format!("{number} {}\n", 2 * number).as_bytes())?;
            Ok(Test { input, answer: store.put(format!("{}\n", 3 * number).as_bytes())? })
        });
        let tests = tests.collect::<anyhow::Result<Vec<_>>>()?;
        let suite = |tests: &[Test]| Suite::new(tests.to_vec(), Checking::Stock(Checker::Ncmp));
        let asked = |number, tests: &[Test]| (submission(number), suite(tests));
        let small = (0..JUDGINGS).map(|number| asked(number, &tests[number % INPUTS..][..1])).collect();
        let large = (0..PROGRAMS).map(|number| asked(number, &tests)).collect();
        Ok(Self { judge: Arc::new(Judge::new(sandbox)), store, small, large })
    }

    /// Judgings of small programs a second.
    pub(super) fn judgings_s(&self) -> anyhow::Result<f64> {
        Ok(JUDGINGS as f64 / self.seconds(&self.small, JUDGINGS)?)
    }

    /// Seconds of [`PAIRS`] pairs of program and input.
    pub(super) fn pairs_s(&self) -> anyhow::Result<f64> {
        self.seconds(&self.large, PAIRS)
    }

    /// Judges all, which have `tests` tests together. Every one has to be accepted.
    fn seconds(&self, asked: &[(Submission, Suite)], tests: usize) -> anyhow::Result<f64> {
        let next = AtomicUsize::new(0);
        let since = Instant::now();
        let judged = thread::scope(|scope| {
            let work = || {
                let mut judged = 0usize;
                while let Some((submission, suite)) = asked.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let (submission, suite) = (submission.clone(), suite.clone());
                    let (store, options) = (Arc::clone(&self.store), JudgeOptions::default());
                    for report in Judge::judge(&self.judge, submission, suite, store, options)? {
                        let (verdict, message) = (report.verdict, report.message);
                        ensure!(
                            verdict == ProgramVerdict::Accepted,
                            "a right program is judged {verdict}: {message}"
                        );
                        judged += 1;
                    }
                }
                anyhow::Ok(judged)
            };
            let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(work)).collect();
            let each = threads.into_iter().map(|thread| thread.join().expect("judging does not panic"));
            each.sum::<anyhow::Result<usize>>()
        })?;
        let seconds = since.elapsed().as_secs_f64();
        ensure!(judged == tests, "{judged} tests were judged, not {tests}");
        Ok(seconds)
    }
}

/// A program that adds numbers; none is the same as another.
fn submission(number: usize) -> Submission {
    let source = format!("offset = {number}\nprint(sum(map(int, input().split()), offset) - offset)\n");
    Submission { language: Language::Python, source }
}
