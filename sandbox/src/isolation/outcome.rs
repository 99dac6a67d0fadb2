//! How a run ended, and what came out of it.

use std::time::Duration;

/// What came out of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// How the run ended, or which limit ended it.
    pub end: End,
    /// The first bytes of standard output, at most [`super::RunLimits::stdout`].
    pub stdout: Vec<u8>,
    /// The first bytes of standard error, at most [`super::RunLimits::stderr`].
    pub stderr: Vec<u8>,
    /// What was asked for in [`super::Job::collect`], in that order. After any other end than
    /// [`End::Exited`] all are [`Collected::Absent`].
    pub collected: Vec<Collected>,
    /// Time and memory of the whole process tree.
    pub usage: Usage,
}

/// How a run ended. Where several are true, the first of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// It wrote more than it may.
    OutputLimit,
    /// It used more memory than it may.
    MemoryLimit,
    /// It used more processor time than it may.
    CpuLimit,
    /// It ran longer than it may.
    WallLimit,
    /// A signal killed the program.
    Signalled(i32),
    /// The program exited with this code.
    Exited(i32),
}

/// What a run used, its whole process tree together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Processor time, user and system. Where a control group counts it, with the millisecond or
    /// two that it takes to build the run.
    pub cpu: Duration,
    /// Time on the clock from the start of the program to its end.
    pub wall: Duration,
    /// The most bytes of memory at one time: of the tree where a control group counts them, with
    /// the cache of files that it was the first to read, else of its largest process.
    pub memory_peak: u64,
}

/// What became of a file that was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Collected {
    /// The content of a regular file within its limit.
    Bytes(Vec<u8>),
    /// There is no such file, or its path leads over a link.
    Absent,
    /// There is something else than a regular file.
    NotRegular,
    /// It is larger than allowed.
    TooLarge {
        /// The file's length in bytes, above the limit that was given.
        bytes: u64,
    },
}
