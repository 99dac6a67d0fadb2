//! What can go wrong with namespaces.

use super::MAX_HOSTS;
use std::io;

/// Why there are no such hosts.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// Not on this system.
    #[error("network namespaces exist on Linux only")]
    NotLinux,
    /// Not for this user.
    #[error("only root may make network namespaces: run as root, or with sudo")]
    NotRoot,
    /// A program is missing.
    #[error("{program} is not installed: apt-get install {package} (or your system's package of that name)")]
    NoTool {
        /// The name of the program.
        program: &'static str,
        /// The Debian package that brings it.
        package: &'static str,
    },
    /// More than there is room for.
    #[error("{0} hosts are more than {MAX_HOSTS}")]
    TooMany(usize),
    /// Every slot is taken.
    #[error("{0} other labs are running on this machine: wait for one to end")]
    NoSlot(usize),
    /// The locks cannot be kept.
    #[error("cannot lock {path}: {source}")]
    Lock {
        /// The path of the lock file.
        path: String,
        /// What the system said.
        source: io::Error,
    },
    /// A call of `ip`, `tc` or `nft` failed.
    #[error("`{line}` failed: {said}")]
    Tool {
        /// The command with its arguments.
        line: String,
        /// What it wrote to its standard error.
        said: String,
    },
    /// A thread could not go there.
    #[error("cannot enter the namespace {name}: {source}")]
    Enter {
        /// The name of the namespace.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// A router does not forward.
    #[error("cannot let {router} forward packets: {source}")]
    Forward {
        /// The name of the namespace that the router is in.
        router: String,
        /// What the system said.
        source: io::Error,
    },
    /// A congestion control cannot be had.
    #[error("TCP cannot use the congestion control {name:?} ({source}); loaded are: {available}")]
    Congestion {
        /// What was asked for.
        name: String,
        /// What the kernel has.
        available: String,
        /// What the system said.
        source: io::Error,
    },
    /// The interface's counters cannot be read.
    #[error("cannot read the counters of an interface: {0}")]
    Counters(io::Error),
    /// The plain copy that checks the links failed.
    #[error("the plain TCP copy that checks the links failed: {0}")]
    Copy(io::Error),
}
