//! testlib's stock checkers: is a program's output as good as the jury's answer?
//!
//! Problem sets name the checker that judges them, and most name one of these. Verdicts and
//! messages are those of the C++ programs (built for 64-bit Linux), down to what they make of
//! carriage returns, NULs and empty exponents, so that a problem is judged here as it was
//! where it came from.
//!
//! ```
//! # use echo_sandbox::programs::checkers::{Checker, CheckerVerdict, check};
//! let checker: Checker = "rcmp6".parse()?;
//! let judgement = check(checker, b"", b"0.3333333", b"0.333333333\n");
//! assert_eq!(judgement.verdict, CheckerVerdict::Ok);
//! assert_eq!(check(checker, b"", b"a third", b"0.333333333\n").verdict, CheckerVerdict::PresentationError);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! What a message quotes of a file is at most 64 bytes of it, with what is not UTF-8
//! replaced. Messages name no files: the programs append the path of a malformed answer, and
//! there is none here.
//!
//! Time is linear in the files, but for sorting. Beyond the files about their size again is held at
//! most; only to compare without regard to order ([`Checker::Uncmp`]) it is two 64-bit integers for
//! each number of the jury's.

mod cases;
mod integers;
mod lines;
mod message;
mod number;
mod reals;
mod stream;
mod verdict;
mod words;

pub mod vectors;

use serde::{Deserialize, Serialize};

pub use stream::{MAX_FILE_BYTES, MAX_TOKEN_BYTES};
pub use verdict::{CheckerVerdict, Judgement};

use stream::Files;

/// A stock checker, by testlib's name for it.
///
/// The two examples of scored checkers (`pointscmp`, `pointsinfo`) are left out: they show an
/// interface and judge nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Checker {
    /// One real number, absolute error up to 1.5e-6.
    Acmp,
    /// `Case i: x` for i = 1, 2, ..., with a 64-bit integer each.
    Caseicmp,
    /// `Case i: x y ...`, with any number of 64-bit integers each.
    Casencmp,
    /// `Case i: x y ...`, with any number of tokens each.
    Casewcmp,
    /// One real number, absolute or relative error up to 1e-6.
    Dcmp,
    /// Lines, byte for byte.
    Fcmp,
    /// One integer of any length.
    Hcmp,
    /// One integer that fits 32 bits, signed.
    Icmp,
    /// Lines, each as a sequence of tokens.
    Lcmp,
    /// A sequence of 64-bit integers.
    Ncmp,
    /// A sequence of yes or no, in any case.
    Nyesno,
    /// One real number, absolute error up to 1.5e-6.
    Rcmp,
    /// A sequence of real numbers, absolute or relative error up to 1e-4.
    Rcmp4,
    /// A sequence of real numbers, absolute or relative error up to 1e-6.
    Rcmp6,
    /// A sequence of real numbers, absolute or relative error up to 1e-9.
    Rcmp9,
    /// A sequence of real numbers, absolute error up to 1.5e-5.
    Rncmp,
    /// 64-bit integers in any order.
    Uncmp,
    /// A sequence of tokens.
    Wcmp,
    /// One yes or no, in any case.
    Yesno,
}

impl Checker {
    /// All of them, by name.
    pub const ALL: [Self; 19] = [
        Self::Acmp,
        Self::Caseicmp,
        Self::Casencmp,
        Self::Casewcmp,
        Self::Dcmp,
        Self::Fcmp,
        Self::Hcmp,
        Self::Icmp,
        Self::Lcmp,
        Self::Ncmp,
        Self::Nyesno,
        Self::Rcmp,
        Self::Rcmp4,
        Self::Rcmp6,
        Self::Rcmp9,
        Self::Rncmp,
        Self::Uncmp,
        Self::Wcmp,
        Self::Yesno,
    ];

    /// The name in problem sets and run files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Acmp => "acmp",
            Self::Caseicmp => "caseicmp",
            Self::Casencmp => "casencmp",
            Self::Casewcmp => "casewcmp",
            Self::Dcmp => "dcmp",
            Self::Fcmp => "fcmp",
            Self::Hcmp => "hcmp",
            Self::Icmp => "icmp",
            Self::Lcmp => "lcmp",
            Self::Ncmp => "ncmp",
            Self::Nyesno => "nyesno",
            Self::Rcmp => "rcmp",
            Self::Rcmp4 => "rcmp4",
            Self::Rcmp6 => "rcmp6",
            Self::Rcmp9 => "rcmp9",
            Self::Rncmp => "rncmp",
            Self::Uncmp => "uncmp",
            Self::Wcmp => "wcmp",
            Self::Yesno => "yesno",
        }
    }
}

/// A name that no stock checker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no stock checker of this name: use one of {}", Checker::ALL.map(Checker::name).join(", "))]
pub struct UnknownChecker;

impl std::str::FromStr for Checker {
    type Err = UnknownChecker;

    fn from_str(name: &str) -> Result<Self, UnknownChecker> {
        Self::ALL.into_iter().find(|checker| checker.name() == name).ok_or(UnknownChecker)
    }
}

/// Judges the contestant's `output` by the jury's `answer`. No stock checker reads the test's
/// `input`, but all refuse one beyond [`MAX_FILE_BYTES`].
#[must_use]
pub fn check(checker: Checker, input: &[u8], output: &[u8], answer: &[u8]) -> Judgement {
    judge(checker, input, output, answer).unwrap_or_else(|decided| decided)
}

fn judge(checker: Checker, input: &[u8], output: &[u8], answer: &[u8]) -> Result<Judgement, Judgement> {
    let mut files = Files::open(input, output, answer)?;
    let accepted = match checker {
        Checker::Acmp | Checker::Rcmp => reals::one(&mut files, reals::ACMP),
        Checker::Dcmp => reals::one(&mut files, reals::DCMP),
        Checker::Rcmp4 => reals::sequence(&mut files, reals::RCMP4),
        Checker::Rcmp6 => reals::sequence(&mut files, reals::RCMP6),
        Checker::Rcmp9 => reals::sequence(&mut files, reals::RCMP9),
        Checker::Rncmp => reals::sequence(&mut files, reals::RNCMP),
        Checker::Caseicmp => cases::single(&mut files),
        Checker::Casencmp => cases::integers(&mut files),
        Checker::Casewcmp => cases::words(&mut files),
        Checker::Fcmp => lines::exact(&mut files),
        Checker::Lcmp => lines::words(&mut files),
        Checker::Hcmp => integers::huge(&mut files),
        Checker::Icmp => integers::one(&mut files),
        Checker::Ncmp => integers::ordered(&mut files),
        Checker::Uncmp => integers::unordered(&mut files),
        Checker::Wcmp => words::sequence(&mut files),
        Checker::Yesno => words::yes_or_no(&mut files),
        Checker::Nyesno => words::yes_and_no(&mut files),
    }?;
    // An answer that only begins right is not accepted.
    if !files.output.seek_end() {
        return Err(Judgement::new(
            CheckerVerdict::PresentationError,
            "Extra information in the output file".into(),
        ));
    }
    Ok(Judgement::new(CheckerVerdict::Ok, accepted))
}

#[cfg(test)]
mod tests;
