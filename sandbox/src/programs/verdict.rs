//! Verdicts on judged programs, by the short names that judges use.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::isolation::{End, Usage};
use crate::programs::checkers::CheckerVerdict;

/// Bytes of a report's message; what is longer is cut.
pub const MAX_MESSAGE_BYTES: usize = 2 << 10;

/// The verdict on a program, or on one test of it. Shown by the short names that judges use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgramVerdict {
    /// AC: the output is right, within all limits.
    Accepted,
    /// WA: the answer is wrong.
    WrongAnswer,
    /// PE: the answer has not the form that was asked for.
    PresentationError,
    /// TLE(cpu): more processor time than allowed, over the whole process tree.
    CpuLimit,
    /// TLE(wall): longer than allowed, without using the processor that long.
    WallLimit,
    /// MLE: more memory than allowed.
    MemoryLimit,
    /// OLE: more output than allowed.
    OutputLimit,
    /// RE: ended with this code where 0 was due, or with 0 before it had answered.
    RuntimeError(i32),
    /// SG: killed by this signal.
    Signalled(i32),
    /// CE: not a program of its language, or not one that compiles within limits.
    CompileError,
    /// The judging failed, whatever the program is worth. Never a reward: judge again, elsewhere or later.
    Internal,
}

impl ProgramVerdict {
    /// Whether the program is right; `None` when that is not known.
    pub fn score(self) -> Option<bool> {
        match self {
            Self::Internal => None,
            verdict => Some(verdict == Self::Accepted),
        }
    }

    /// The verdict on a whole program from those on its tests: the first that is neither accepted
    /// nor [`Self::Internal`], because no failure of ours makes a wrong answer right; then
    /// `Internal`, if there is one.
    pub fn combined(verdicts: impl IntoIterator<Item = Self>) -> Self {
        let mut combined = Self::Accepted;
        for verdict in verdicts {
            match verdict {
                Self::Accepted => {}
                Self::Internal => combined = Self::Internal,
                _ => return verdict,
            }
        }
        combined
    }

    /// What the end of a run alone decides; `None` for a program that ended by itself and well.
    pub(super) fn of_end(end: End) -> Option<Self> {
        match end {
            End::Exited(0) => None,
            End::Exited(code) => Some(Self::RuntimeError(code)),
            End::Signalled(signal) => Some(Self::Signalled(signal)),
            End::CpuLimit => Some(Self::CpuLimit),
            End::WallLimit => Some(Self::WallLimit),
            End::MemoryLimit => Some(Self::MemoryLimit),
            End::OutputLimit => Some(Self::OutputLimit),
        }
    }
}

impl From<CheckerVerdict> for ProgramVerdict {
    /// Points are for contests with partial scores: here they are a checker's misuse.
    fn from(verdict: CheckerVerdict) -> Self {
        match verdict {
            CheckerVerdict::Ok => Self::Accepted,
            CheckerVerdict::WrongAnswer => Self::WrongAnswer,
            CheckerVerdict::PresentationError => Self::PresentationError,
            CheckerVerdict::Fail | CheckerVerdict::Points => Self::Internal,
        }
    }
}

impl fmt::Display for ProgramVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accepted => f.write_str("AC"),
            Self::WrongAnswer => f.write_str("WA"),
            Self::PresentationError => f.write_str("PE"),
            Self::CpuLimit => f.write_str("TLE(cpu)"),
            Self::WallLimit => f.write_str("TLE(wall)"),
            Self::MemoryLimit => f.write_str("MLE"),
            Self::OutputLimit => f.write_str("OLE"),
            Self::RuntimeError(code) => write!(f, "RE({code})"),
            Self::Signalled(signal) => write!(f, "SG({signal})"),
            Self::CompileError => f.write_str("CE"),
            Self::Internal => f.write_str("Internal"),
        }
    }
}

/// The verdict on one test.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TestReport {
    /// How the program did on this test.
    pub verdict: ProgramVerdict,
    /// What led to it, for people: a compiler's or checker's message, the end of standard error, or
    /// what failed here. At most [`MAX_MESSAGE_BYTES`]; never shown to a judged program.
    pub message: String,
    /// Processor time of the program in microseconds.
    pub cpu_us: u64,
    /// The most memory of the program in bytes.
    pub memory_peak: u64,
}

impl TestReport {
    /// A report without a run.
    pub(super) fn new(verdict: ProgramVerdict, message: impl AsRef<[u8]>) -> Self {
        Self { verdict, message: cut(message.as_ref()), cpu_us: 0, memory_peak: 0 }
    }

    /// The same with what a run used.
    #[must_use]
    pub(super) fn using(self, usage: Usage) -> Self {
        let cpu_us = u64::try_from(usage.cpu.as_micros()).unwrap_or(u64::MAX);
        Self { cpu_us, memory_peak: usage.memory_peak, ..self }
    }
}

/// The last bytes of a text, where compilers and interpreters say what was wrong.
fn cut(text: &[u8]) -> String {
    let text = text.trim_ascii_end();
    let from = text.len().saturating_sub(MAX_MESSAGE_BYTES);
    let mut shown = String::from_utf8_lossy(&text[from..]).into_owned();
    // A replacement character is longer than the byte that it stands for.
    let mut from = shown.len().saturating_sub(MAX_MESSAGE_BYTES);
    while !shown.is_char_boundary(from) {
        from += 1;
    }
    shown.drain(..from);
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn internal_has_no_score_and_hides_no_wrong_answer() {
        use ProgramVerdict::*;
        assert_eq!(
            [Accepted, CompileError, Internal].map(ProgramVerdict::score),
            [Some(true), Some(false), None]
        );
        assert_eq!(ProgramVerdict::combined([Accepted, Internal, Accepted]), Internal);
        assert_eq!(ProgramVerdict::combined([Accepted, Internal, Signalled(9), WrongAnswer]), Signalled(9));
        assert_eq!(ProgramVerdict::combined([Accepted, Accepted]), Accepted);
        assert_eq!(RuntimeError(3).to_string(), "RE(3)");
    }

    #[test]
    fn messages_keep_their_end_within_the_limit() {
        let report = TestReport::new(
            ProgramVerdict::CompileError,
            [[0xff; 5_000].as_slice(), b"\xc3\xa9nd\n"].concat(),
        );
        assert!(
            report.message.len() <= MAX_MESSAGE_BYTES && report.message.ends_with("énd"),
            "{}",
            report.message
        );
    }
}
