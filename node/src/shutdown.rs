//! Ctrl-C and SIGTERM, turned into one token.

use std::io;

use tokio_util::sync::CancellationToken;

/// A token that is cancelled when the process is asked to end. Must be called within a tokio runtime.
///
/// # Errors
/// When the system does not let us listen for signals.
pub fn on_signals() -> io::Result<CancellationToken> {
    let token = CancellationToken::new();
    let cancelled = token.clone();
    let mut terminated = terminate()?;
    tokio::spawn(async move {
        tokio::select! {
            interrupted = tokio::signal::ctrl_c() => {
                if let Err(error) = interrupted {
                    tracing::error!(%error, "cannot listen for Ctrl-C; stopping at once");
                }
            }
            () = terminated.recv() => {}
        }
        cancelled.cancel();
    });
    Ok(token)
}

#[cfg(unix)]
struct Terminate(tokio::signal::unix::Signal);

#[cfg(unix)]
impl Terminate {
    async fn recv(&mut self) {
        self.0.recv().await;
    }
}

#[cfg(unix)]
fn terminate() -> io::Result<Terminate> {
    tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).map(Terminate)
}

#[cfg(not(unix))]
struct Terminate;

#[cfg(not(unix))]
impl Terminate {
    async fn recv(&mut self) {
        std::future::pending::<()>().await;
    }
}

#[cfg(not(unix))]
fn terminate() -> io::Result<Terminate> {
    Ok(Terminate)
}
