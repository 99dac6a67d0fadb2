//! One program to run, and what it finds around itself.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

use super::limits::RunLimits;

/// Where a program starts, and the only place where it can write.
pub const WORK: &str = "/work";

/// The most mounts of one job.
pub const MAX_MOUNTS: usize = 16;

/// The most files put into or collected from [`WORK`] by one job.
pub const MAX_FILES: usize = 64;

/// The most bytes of a file's name, a mount's place, and of all arguments and variables together.
pub const MAX_TEXT_BYTES: usize = 64 << 10;

/// One program to run.
///
/// Paths are those inside: the root is read-only and holds the system's directories
/// ([`super::Requirements::system`]), `/dev` with `null`, `zero`, `full` and `urandom`, and [`WORK`].
#[derive(Debug, Clone, Copy)]
pub struct Job<'a> {
    /// The program, an absolute path inside. There is no search.
    pub program: &'a Path,
    /// Its arguments after its own name.
    pub args: &'a [OsString],
    /// Its whole environment; nothing is inherited.
    pub env: &'a [(OsString, OsString)],
    /// What it sees besides the system's directories, at most [`MAX_MOUNTS`].
    pub mounts: &'a [Mount<'a>],
    /// What lies in [`WORK`] when it starts, at most [`MAX_FILES`].
    pub files: &'a [Placed<'a>],
    /// What is read from [`WORK`] when it has ended, at most [`MAX_FILES`].
    pub collect: &'a [Collect<'a>],
    /// What it reads from standard input.
    pub stdin: &'a [u8],
    /// What it may use.
    pub limits: RunLimits,
}

/// A directory or file of the host that a job sees, read-only.
#[derive(Debug, Clone, Copy)]
pub struct Mount<'a> {
    /// The directory or file of the host that is shown.
    pub source: MountSource<'a>,
    /// Where it is seen: an absolute path inside, outside of [`WORK`] and of the system's directories.
    pub target: &'a Path,
}

/// What a mount shows.
#[derive(Debug, Clone, Copy)]
pub enum MountSource<'a> {
    /// A path of the host. Its last part may be a symbolic link, which is followed.
    Path(&'a Path),
    /// A directory or file that is open already.
    Open(&'a File),
}

/// A file put into [`WORK`] before the program starts. The program may change it. What is large and
/// the same for many runs is better mounted.
#[derive(Debug, Clone, Copy)]
pub struct Placed<'a> {
    /// A relative path of plain names; directories on the way are made.
    pub name: &'a str,
    /// The file's whole content, counted against [`RunLimits::scratch`].
    pub bytes: &'a [u8],
    /// Whether it can be executed.
    pub executable: bool,
}

/// A file read from [`WORK`] after the program has ended.
#[derive(Debug, Clone, Copy)]
pub struct Collect<'a> {
    /// A relative path of plain names. No link on the way is followed.
    pub name: &'a str,
    /// The most bytes it may have.
    pub limit: u64,
}
