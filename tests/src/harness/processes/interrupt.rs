//! Ctrl-C ends the lab through its destructors, so that no child is left behind.

use crate::output::console::Interrupted;
use anyhow::Context as _;
use echo_protocol::program::signals::requested;

/// Runs `work` on a new runtime until it is done, or until Ctrl-C or SIGTERM: `work` is then
/// dropped, and with it every process that it holds.
///
/// # Errors
/// [`Interrupted`], or what `work` returns.
pub fn interruptible<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    to_its_end(async {
        tokio::select! {
            done = work => done,
            () = requested() => Err(Interrupted.into()),
        }
    })
}

/// Runs `work`, which heeds Ctrl-C and SIGTERM itself, on a new runtime until it is done.
///
/// # Errors
/// What `work` returns, or that no runtime could be started.
pub fn to_its_end<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Runtime::new().context("cannot start the runtime")?.block_on(work)
}
