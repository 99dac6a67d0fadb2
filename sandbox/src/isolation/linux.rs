//! Isolation on Linux.
//!
//! [`IsolationHost`] has a pool of [`zygote_client::ZygoteSlot`]s. Each speaks with a [`zygote`], a
//! small process that forks one run at a time. [`supervisor`] follows the run from the host's side.
//! It reads the counters of a control group ([`cgroups`]) or, where there is none, of the process
//! tree ([`process_tree`]). [`collect`] reads the files that the program left.

mod bytes;
mod cgroups;
mod channel;
mod collect;
mod failure_stage;
mod message;
mod pool;
mod probe;
mod process_tree;
mod supervisor;
mod validate;
mod zygote;
mod zygote_client;

#[cfg(test)]
mod tests;

#[cfg(feature = "fuzzing")]
pub(crate) use self::message::fuzzing::zygote_message;
use self::pool::Pool;
use self::zygote_client::{SlotPlan, ZygoteSlot};
use super::{IsolateError, IsolationReport, Job, Requirements, RunOutcome, Unfit};

/// The most runs at one time. More callers wait.
pub(super) const MAX_SLOTS: usize = 64;

/// Where control groups of runs are made, of whatever version.
pub(super) fn group_places() -> Vec<std::path::PathBuf> {
    cgroups::Hierarchies::find().places()
}

/// Whether programs that this process started as root may run as this user.
pub(super) fn is_user_of_programs(user: u32) -> bool {
    zygote_client::users().contains(&user)
}

/// The system's half of a [`super::Sandbox`]: its zygotes, and how to start more.
#[derive(Debug)]
pub(super) struct IsolationHost {
    plan: SlotPlan,
    pool: Pool<ZygoteSlot>,
    processors: u32,
    pub(super) report: IsolationReport,
}

impl IsolationHost {
    pub(super) fn open(requirements: &Requirements) -> Result<Self, Unfit> {
        let (plan, slots, report) = probe::open(requirements)?;
        let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u32);
        Ok(Self { plan, pool: Pool::new(slots, MAX_SLOTS), processors, report })
    }

    pub(super) fn run(&self, job: &Job<'_>) -> Result<RunOutcome, IsolateError> {
        let task = validate::task(job, &self.plan.system)?;
        let start = || ZygoteSlot::start(&self.plan);
        let taken = self.pool.take(start, |slot| slot.lives() && slot.rest().is_ok());
        let mut slot = taken.map_err(|failure| IsolateError::System {
            stage: failure.stage.text(),
            source: failure.error(),
        })?;
        let outcome = supervisor::run(&mut slot, &task, job.stdin, job.collect, self.processors);
        if outcome.is_ok() || matches!(outcome, Err(IsolateError::Program { .. })) {
            slot.give_back();
        }
        outcome
    }
}
