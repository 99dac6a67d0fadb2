//! Ctrl-C and SIGTERM, which mean the same in every phase of a program.
//!
//! While a program starts, a request to end ends the process at once: nothing is there yet that would have to
//! be put away. Once it has taken the token of [`Signals::stop`], the first request cancels that token, and
//! the second ends the process.
//!
//! The requests are awaited on a thread of their own. A main thread that computes or waits for a disk cannot
//! keep the process alive, and neither can the kernel, which ignores SIGTERM for the first process of a
//! container as long as nobody listens to it.

use super::{leave, threads};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use tokio::runtime::Builder;
use tokio_util::sync::CancellationToken;

/// Added to a signal's number in the exit code of a process that it ended, as shells do.
const ENDED_BY_SIGNAL: u8 = 128;

/// Listens for requests to end until the process does.
#[derive(Clone, Debug)]
pub struct Signals {
    /// Whether somebody heeds the token.
    heeded: Arc<AtomicBool>,
    stop: CancellationToken,
}

/// What a request leads to.
#[derive(Debug, PartialEq, Eq)]
enum Next {
    Stop,
    Leave,
}

impl Signals {
    /// Listens from now on.
    ///
    /// # Errors
    /// When the system refuses the thread, or does not let us listen.
    pub fn listen() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().build()?;
        let guard = runtime.enter();
        let mut requests = Requests::new()?;
        drop(guard);
        let signals = Self { heeded: Arc::default(), stop: CancellationToken::new() };
        let listening = signals.clone();
        let thread = thread::Builder::new().name("signals".into());
        let follow = move || runtime.block_on(async move { listening.follow(&mut requests).await });
        thread.spawn(follow).map_err(threads::explained)?;
        Ok(signals)
    }

    /// The token that the first request cancels. Whoever takes it promises to end soon after.
    #[must_use]
    pub fn stop(&self) -> CancellationToken {
        self.heeded.store(true, Ordering::SeqCst);
        self.stop.clone()
    }

    async fn follow(&self, requests: &mut Requests) {
        loop {
            let signal = requests.next().await;
            match self.next() {
                Next::Stop => self.stop.cancel(),
                Next::Leave => {
                    tracing::info!("ending at once, as asked");
                    leave(ENDED_BY_SIGNAL + signal);
                }
            }
        }
    }

    fn next(&self) -> Next {
        let heeded = self.heeded.load(Ordering::SeqCst) && !self.stop.is_cancelled();
        if heeded { Next::Stop } else { Next::Leave }
    }
}

/// Done at the first request from now on. Later ones do nothing.
///
/// Where the system does not let us listen it never is, and a request ends the process by itself.
pub async fn requested() {
    match Requests::new() {
        Ok(mut requests) => drop(requests.next().await),
        Err(error) => {
            tracing::warn!(%error, "cannot listen for Ctrl-C and SIGTERM");
            std::future::pending::<()>().await;
        }
    }
}

/// The requests that have come since it was made.
#[cfg(unix)]
struct Requests {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Requests {
    /// Within a tokio runtime.
    fn new() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// The number of the next one.
    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.terminate.recv() => 15,
        }
    }
}

#[cfg(windows)]
struct Requests {
    interrupt: tokio::signal::windows::CtrlC,
    close: tokio::signal::windows::CtrlClose,
    shutdown: tokio::signal::windows::CtrlShutdown,
}

#[cfg(windows)]
impl Requests {
    fn new() -> io::Result<Self> {
        use tokio::signal::windows::{ctrl_c, ctrl_close, ctrl_shutdown};
        Ok(Self { interrupt: ctrl_c()?, close: ctrl_close()?, shutdown: ctrl_shutdown()? })
    }

    async fn next(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 2,
            _ = self.close.recv() => 15,
            _ = self.shutdown.recv() => 15,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_stops_whoever_heeds_it_once_and_ends_everybody_else() {
        let signals = Signals { heeded: Arc::default(), stop: CancellationToken::new() };
        assert_eq!(signals.next(), Next::Leave, "nobody has taken the token");
        let stop = signals.stop();
        assert_eq!(signals.next(), Next::Stop);
        signals.stop.cancel();
        assert!(stop.is_cancelled());
        assert_eq!(signals.next(), Next::Leave, "the second request");
    }
}
