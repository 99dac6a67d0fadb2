//! How the system asks the process to end.

/// Done when the process is asked to end: Ctrl-C, and SIGTERM where that exists.
///
/// If the system lets us listen to neither, it never is: the process then dies at once, as it would have anyway.
pub async fn stop_requested() {
    tokio::select! {
        () = interrupt() => {}
        () = terminate() => {}
    }
}

async fn interrupt() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::warn!(%error, "cannot listen for Ctrl-C");
        std::future::pending::<()>().await;
    }
}

#[cfg(unix)]
async fn terminate() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        // `None` would mean that the runtime is being torn down.
        Ok(mut signal) => drop(signal.recv().await),
        Err(error) => {
            tracing::warn!(%error, "cannot listen for SIGTERM");
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(not(unix))]
async fn terminate() {
    std::future::pending::<()>().await;
}
