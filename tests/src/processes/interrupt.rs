//! Ctrl-C ends the lab through its destructors, so that no child is left behind.

use crate::console::Interrupted;
use anyhow::Context as _;
use echo_bootstrap::node::stop_requested;

/// Runs `work` on a new runtime until it is done, or until Ctrl-C or SIGTERM: `work` is then dropped, and with it every
/// process that it holds.
///
/// # Errors
/// [`Interrupted`], or what `work` returns.
pub fn interruptible<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        tokio::select! {
            done = work => done,
            () = stop_requested() => Err(Interrupted.into()),
        }
    })
}
