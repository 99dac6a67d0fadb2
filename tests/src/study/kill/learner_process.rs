//! One process of the learner, from its start to its end or its death.

mod log;

use crate::harness::processes::{Process, ProcessOutput};
use anyhow::{bail, ensure};
use echo_learner::storage::run_dir::RunDir;
use log::LogEvent;
pub(super) use log::{Phase, ProcessLog, UndisturbedTimes};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::time::sleep;

/// The pause between two looks at the log.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// When within its life the learner is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum When {
    /// Before it begins to work, wherever it stands.
    StartUp,
    /// Within the time between two publications.
    Anytime,
    /// While it writes a checkpoint.
    Checkpoint,
    /// While it publishes a version.
    Publication,
    /// While it closes its books, exports the policy and writes the summary.
    End,
}

/// One SIGKILL that is planned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Kill {
    /// Not before this update.
    pub(super) at: u64,
    /// In which part of its life, from that update on.
    pub(super) when: When,
    /// After this share of the time that it usually takes.
    pub(super) share: f64,
}

impl Kill {
    /// Whether this begins the time in which it is killed.
    fn is_armed_by(&self, event: LogEvent) -> bool {
        let (now, version) = match event {
            LogEvent::Step(phase, version) => {
                (self.when == When::Anytime || self.when == When::End && phase == Some(Phase::End), version)
            }
            LogEvent::Begun(phase, version) => {
                let now = match self.when {
                    When::Checkpoint => phase == Phase::Checkpoint,
                    When::Publication => phase == Phase::Publication,
                    When::StartUp | When::Anytime | When::End => false,
                };
                (now, version)
            }
            LogEvent::Ended(..) => return false,
        };
        now && version >= self.at
    }

    fn delay(&self, pace: &UndisturbedTimes) -> Duration {
        let usual = match self.when {
            When::StartUp => pace.start_up,
            When::Anytime => pace.period,
            When::Checkpoint => pace.checkpoint,
            When::Publication => pace.publication,
            When::End => pace.end,
        };
        usual.mul_f64(self.share)
    }
}

/// What both threads of a learner do.
#[derive(Default)]
struct Doing {
    learning: Option<Phase>,
    releasing: Option<Phase>,
}

impl Doing {
    fn see(&mut self, event: LogEvent) {
        match event {
            LogEvent::Step(phase, _) => self.learning = phase.or(self.learning),
            LogEvent::Begun(phase, _) => self.releasing = Some(phase),
            LogEvent::Ended(..) => self.releasing = None,
        }
    }

    /// What a kill is said to have struck: the releasing thread, where it did something.
    fn phase(&self) -> Phase {
        self.releasing.or(self.learning).unwrap_or(Phase::StartUp)
    }
}

/// A learner process, from its start to its end or its kill.
pub(super) struct Life {
    process: Process,
    log: ProcessLog,
}

impl Life {
    /// Goes on with the run in `dir`, as an operator would.
    pub(super) fn start(learner: &Path, dir: &RunDir, log: PathBuf) -> anyhow::Result<Self> {
        let mut command = Command::new(learner);
        command.arg("resume").arg(dir.path()).env("ECHO_LEARNER_LOG", "warn,echo_learner=debug");
        let process = Process::start("learner", command, ProcessOutput::Log(log.clone()))?;
        Ok(Self { process, log: ProcessLog::new(log) })
    }

    pub(super) fn log(&self) -> &ProcessLog {
        &self.log
    }

    /// Waits for its good end.
    pub(super) async fn ended(&mut self, limit: Duration) -> anyhow::Result<()> {
        let status = self.process.wait(limit).await?;
        ensure!(status.success(), "the learner ended with {status}:\n{}", self.process.log_tail());
        Ok(())
    }

    /// Kills it when the time has come, and says in the midst of what; `None` when it ended well before.
    pub(super) async fn watch(
        &mut self,
        kill: Option<&Kill>,
        pace: &UndisturbedTimes,
        limit: Duration,
    ) -> anyhow::Result<Option<Phase>> {
        let (mut tail, started) = (self.log.follow(), Instant::now());
        let start_up = kill.filter(|kill| kill.when == When::StartUp);
        let mut due = start_up.map(|kill| started + kill.delay(pace));
        let mut doing = Doing::default();
        loop {
            for event in tail.events()? {
                doing.see(event);
                if let Some(kill) = kill.filter(|kill| due.is_none() && kill.is_armed_by(event)) {
                    due = Some(Instant::now() + kill.delay(pace));
                }
            }
            if due.is_some_and(|due| due <= Instant::now()) {
                self.process.kill().await?;
                tail.events()?.into_iter().for_each(|event| doing.see(event));
                return Ok(Some(doing.phase()));
            }
            if let Some(status) = self.process.ended()? {
                ensure!(status.success(), "the learner ended with {status}:\n{}", self.process.log_tail());
                return Ok(None);
            }
            if started.elapsed() > limit {
                bail!("the learner still runs after {limit:?}:\n{}", self.process.log_tail());
            }
            sleep(LOOK_EVERY).await;
        }
    }
}
