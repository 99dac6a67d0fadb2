//! Child processes on a leash: whatever the lab starts, it stops, however it ends itself.

mod ask;
mod error;
mod group;
mod interrupt;
mod log;

pub(crate) use ask::{last_line, printed, runs, succeeds};
pub use error::ProcessError;
pub use interrupt::{interruptible, to_its_end};
pub use log::LOG_TAIL_LINES;

use std::path::PathBuf;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use tokio::process::{Child, ChildStdout};
use tokio::time::timeout;

/// A killed process is gone within this time, or the system is broken.
const REAP_LIMIT: Duration = Duration::from_secs(5);
/// The pause between two looks at a process that was killed by a dropped guard.
const REAP_PAUSE: Duration = Duration::from_millis(1);

/// Where a process writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessOutput {
    /// Standard output and error, interleaved, are appended to this file.
    Log(PathBuf),
    /// Both go to our own standard error.
    Inherit,
    /// The standard output is ours to read through [`Process::take_stdout`], the standard error
    /// goes to our own.
    Lines,
}

/// A process that we started, in a process group of its own where those exist. Dropped, it is
/// killed and reaped, and so is what it started.
#[derive(Debug)]
pub struct Process {
    name: String,
    child: Child,
    log: Option<PathBuf>,
}

impl Process {
    /// Starts `command` without any input. Called within a tokio runtime.
    ///
    /// # Errors
    /// [`ProcessError::Log`] when its log cannot be opened, [`ProcessError::Start`]
    /// when it cannot start.
    pub fn start(name: &str, command: Command, output: ProcessOutput) -> Result<Self, ProcessError> {
        let program = command.get_program().to_owned();
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::null()).kill_on_drop(true);
        match &output {
            ProcessOutput::Log(path) => {
                let (out, err) =
                    log::open(path).map_err(|source| ProcessError::Log { path: path.clone(), source })?;
                command.stdout(out).stderr(err);
            }
            ProcessOutput::Inherit => {
                command.stdout(std::io::stderr()).stderr(Stdio::inherit());
            }
            ProcessOutput::Lines => {
                command.stdout(Stdio::piped()).stderr(Stdio::inherit());
            }
        }
        // Ctrl-C in a terminal reaches our own group only: we, not the terminal, decide how children end.
        #[cfg(unix)]
        command.process_group(0);
        let name = name.to_owned();
        let failed = |source| ProcessError::Start { name: name.clone(), program: program.into(), source };
        let child = command.spawn().map_err(failed)?;
        let log = if let ProcessOutput::Log(path) = output { Some(path) } else { None };
        Ok(Self { name, child, log })
    }

    /// The name it was given.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its process id, as long as it has not been reaped.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.id()
    }

    /// The standard output of a process started with [`ProcessOutput::Lines`], once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// The last [`LOG_TAIL_LINES`] lines of its log; empty without one.
    #[must_use]
    pub fn log_tail(&self) -> String {
        self.log.as_deref().map(log::tail).unwrap_or_default()
    }

    /// How it ended, if it has.
    ///
    /// # Errors
    /// [`ProcessError::System`] when the system does not say.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>, ProcessError> {
        self.child.try_wait().map_err(|source| ProcessError::System { name: self.name.clone(), source })
    }

    /// An error if it has ended, with the last lines of its log: for processes that are not meant to.
    ///
    /// # Errors
    /// [`ProcessError::Ended`] with status and log, or [`ProcessError::System`].
    pub fn must_run(&mut self) -> Result<(), ProcessError> {
        match self.ended()? {
            None => Ok(()),
            Some(status) => {
                Err(ProcessError::Ended { name: self.name.clone(), status, log_tail: self.log_tail() })
            }
        }
    }

    /// Waits until it ends by itself.
    ///
    /// # Errors
    /// [`ProcessError::StillRunning`] after `limit`; the process goes on.
    pub async fn wait(&mut self, limit: Duration) -> Result<ExitStatus, ProcessError> {
        match timeout(limit, self.child.wait()).await {
            Ok(ended) => ended.map_err(|source| ProcessError::System { name: self.name.clone(), source }),
            Err(_) => Err(ProcessError::StillRunning {
                name: self.name.clone(),
                after: limit,
                log_tail: self.log_tail(),
            }),
        }
    }

    /// Kills it at once (SIGKILL), and what it started, and waits until it is gone. Nothing happens
    /// if it has ended.
    ///
    /// # Errors
    /// [`ProcessError`], when the system does not do it.
    pub async fn kill(&mut self) -> Result<(), ProcessError> {
        self.signal_kill();
        self.wait(REAP_LIMIT).await.map(drop)
    }

    /// Asks it to end (SIGTERM), and kills it if it has not within `grace`. Systems without
    /// SIGTERM kill at once.
    ///
    /// # Errors
    /// [`ProcessError`], when the system does not do it.
    pub async fn stop(&mut self, grace: Duration) -> Result<ExitStatus, ProcessError> {
        if let Some(pid) = self.child.id()
            && group::terminate(pid)
            && let Ok(status) = self.wait(grace).await
        {
            return Ok(status);
        }
        self.signal_kill();
        self.wait(REAP_LIMIT).await
    }

    /// Asks it to end (SIGTERM). False if it could not be asked.
    pub fn terminate(&self) -> bool {
        self.child.id().is_some_and(group::terminate)
    }

    /// Has it stand still (SIGSTOP), or go on (SIGCONT). False if it could not be asked.
    #[must_use]
    pub fn freeze(&self, frozen: bool) -> bool {
        self.child.id().is_some_and(|pid| group::freeze(pid, frozen))
    }

    fn signal_kill(&mut self) {
        // Not reaped yet, so the id is still ours and so is the group that bears it.
        if let Some(pid) = self.child.id() {
            group::kill(pid);
            if let Err(error) = self.child.start_kill() {
                tracing::debug!(name = self.name, %error, "already gone");
            }
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.signal_kill();
        let begun = Instant::now();
        while matches!(self.child.try_wait(), Ok(None)) && begun.elapsed() < REAP_LIMIT {
            std::thread::sleep(REAP_PAUSE);
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests;
