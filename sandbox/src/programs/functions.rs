//! Functions that are called with arguments and checked by asserts: tasks in the form of HumanEval and MBPP.
//!
//! An author's checks are code of the form `assert candidate(2) == 4`: the expected answer
//! stands beside the call. Run in one process with the judged program, as is usual, they can
//! be read, patched, or skipped with `exit(0)`. Here two interpreters take part, each in a
//! sandbox of its own:
//!
//! - the **subject** runs the judged program. It is given a list of *operations* - call this
//!   function with these arguments, get that attribute - and answers each with an *outcome*: a
//!   plain value, the name of an exception, or the news that the value is no plain data and stays
//!   where it is, to be named in later operations.
//! - the **examiner** runs the author's checks with stand-ins for the judged functions.
//!   Comparisons are made here.
//!
//! They share nothing, not even time. The examiner runs first, with guesses for outcomes, and so
//! records which operations the checks ask for ([`Exam::prepare`], once for a task); the subject
//! performs them and is gone; then the examiner runs again with what it answered. When the checks
//! then ask for other operations, because they depend on outcomes, another round follows, at most
//! [`MAX_ROUNDS`]; its operations hold what this program answered, and never what the reference
//! did, which may be the expected answer. Two live processes with a pair of pipes would do the
//! same; this way nothing needs to wait for anything, each run has limits of its own, what is asked
//! first is recorded once for all programs of a task, and what the program does cannot reach the
//! examiner but as data on its standard input.
//!
//! So nothing in the subject's sandbox tells what is expected: not its memory, not its files, not
//! its descriptors. The harness in there can be patched at will, its channel written to, its exit
//! taken over: all that yields is other outcomes, which the program could have returned anyway, or
//! too few, which is a [`ProgramVerdict::RuntimeError`](super::ProgramVerdict::RuntimeError). Plain
//! data carries no `__eq__`, and what stays in the subject is never equal to anything.
//!
//! Arguments are copies, with two exceptions. Where the reference is not accepted so, the checks also
//! see what functions do to their arguments in place: each outcome says which containers of the
//! operations have changed, and the same containers of the checks are changed alike. That is not so
//! for every task, because a program that empties its argument would pass `assert f(x) == sorted(x)`.
//! And a function, class or object of the author's that is an argument is made again in the subject:
//! its code crosses, with what it refers to and nothing else of the checks.
//!
//! Two things differ from running all in one process: the checks do not see the classes of values,
//! beyond those of plain data, of named tuples and of numbers and dates of the library; and a
//! `StopIteration` of the program ends no loop of the checks, nor can they catch it by that name.

mod exam;
mod exam_cache;
pub(crate) mod frames;
mod task;
mod wire;

pub use exam::{Exam, ExamError, MAX_OPERATIONS, MAX_ROUNDS};
pub use exam_cache::{Exams, MAX_EXAMS};
pub use task::{FunctionTask, HumanEval, MAX_CHECKS, MAX_TASK_BYTES, Mbpp};

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
