//! What the programs of Echo have in common as processes.
//!
//! The clock that all drivers read, the file of a peer's key, files that are replaced as a whole, the
//! lock on a directory and the database in it, how many files it may open, what is printed and logged,
//! the pace that the lab sets, and how a process ends. May import `wire`.
//!
//! ```text
//! start ──> lock ──> keyfile, database ──> signals: first Ctrl-C stops the work, in order
//!             │                               │
//!             └── refused: a second process   └── output, log_throttle, log_on_change, error_chain
//! ```

pub mod atomic_file;
pub mod clock;
pub mod database;
pub mod descriptors;
pub mod error_chain;
pub mod keyfile;
pub mod lab_pace;
pub mod lock;
pub mod log_on_change;
pub mod log_throttle;
pub mod output;
pub mod signals;
pub mod threads;
pub mod version;

/// Ends the process at once, without what libraries do at an exit.
///
/// NVIDIA's Vulkan driver takes itself down there, and crashes while another thread gives a device
/// back (gfx-rs/wgpu, issue 8365).
pub fn leave(code: u8) -> ! {
    let _ = std::io::Write::flush(&mut std::io::stdout());
    #[cfg(unix)]
    // SAFETY: the call takes a number and does not return.
    unsafe {
        libc::_exit(code.into())
    }
    #[cfg(not(unix))]
    std::process::exit(code.into())
}
