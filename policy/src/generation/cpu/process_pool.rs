//! What this process computes passes with.

use parking_lot::Mutex;

use super::forward_pass::{PassWorkspace, Tools};
use super::simd::Processor;
use super::thread_team::{TeamMember, ThreadTeam};
use crate::generation::threads::is_aside;
use crate::sync::ticket_lock::TicketLock;

/// Operations of a pass below which it is not worth waking other threads: some fifty microseconds of one.
const SMALL: usize = 2_000_000;

/// Shared by all models of the process: two passes at a time would only take the cores from each other.
static ROOM: Room = Room::new();
/// For threads whose passes nobody is to wait for: see
/// [`compute_aside`](crate::generation::threads::compute_aside).
static ASIDE: Room = Room::new();

/// A pool, for one pass at a time.
struct Room {
    pool: Mutex<Option<ComputePool>>,
    /// Who enters it next.
    turns: TicketLock,
}

impl Room {
    const fn new() -> Self {
        Self { pool: Mutex::new(None), turns: TicketLock::new() }
    }
}

/// A team, its memory, and the tools of each of its threads.
pub(super) struct ComputePool {
    /// As many as were asked for; the system may have started fewer.
    threads: usize,
    /// The name of the instructions that its tools compute with.
    instructions: &'static str,
    team: ThreadTeam,
    pub(super) workspace: PassWorkspace,
    tools: Vec<Mutex<Tools>>,
}

impl ComputePool {
    fn new(threads: usize, processor: Processor) -> Self {
        let team = ThreadTeam::new(threads);
        let tools = (0..team.size()).map(|_| Mutex::new(Tools::new(processor))).collect();
        Self { threads, instructions: processor.name(), team, workspace: PassWorkspace::default(), tools }
    }

    /// Calls `enter` with the room for a pass of so many operations: that of the process, with as
    /// many threads as rayon's pool, or for a small pass one of the caller's own.
    pub(super) fn enter<R>(operations: usize, processor: Processor, enter: impl FnOnce(&mut Self) -> R) -> R {
        let threads = rayon::current_num_threads();
        if operations < SMALL {
            return enter(&mut Self::new(1, processor));
        }
        let entered = if is_aside() { &ASIDE } else { &ROOM };
        let _turn = entered.turns.take();
        let mut room = entered.pool.lock();
        let fits = |room: &mut Self| room.threads == threads && room.instructions == processor.name();
        if !room.as_mut().is_some_and(fits) {
            *room = None;
        }
        enter(room.get_or_insert_with(|| Self::new(threads, processor)))
    }

    /// The team's workspace and what runs a job of at most `phases` phases on its threads,
    /// each with its tools.
    pub(super) fn split(&mut self) -> (&mut PassWorkspace, Runner<'_>) {
        (&mut self.workspace, Runner { team: &mut self.team, tools: &self.tools })
    }
}

/// A team with the tools of its threads.
pub(super) struct Runner<'a> {
    team: &'a mut ThreadTeam,
    tools: &'a [Mutex<Tools>],
}

impl Runner<'_> {
    /// Runs `job`, of at most `phases` phases, on every thread that comes, each with its tools.
    pub(super) fn run(self, phases: usize, job: impl Fn(&TeamMember<'_>, &mut Tools) + Sync) {
        let tools = self.tools;
        self.team.run(phases, &|worker| {
            let mut tools = tools[worker.index()].lock();
            job(worker, &mut tools);
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::threads::compute_aside;
    use std::thread;

    #[test]
    fn a_pass_aside_does_not_wait_for_one_of_the_process() {
        let processor = Processor::best();
        let entered = ComputePool::enter(SMALL, processor, |_| {
            let aside = thread::spawn(move || {
                compute_aside();
                ComputePool::enter(SMALL, processor, |pool| pool.threads)
            });
            // In the same room it would wait for us, and we for it.
            aside.join().unwrap()
        });
        assert_eq!(entered, rayon::current_num_threads());
    }
}
