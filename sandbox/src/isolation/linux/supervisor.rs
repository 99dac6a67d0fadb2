//! Watches a run from its start to its end: feeds it, takes what it writes, and ends it at its limits.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::failure_stage::{Stage, StageFailure};
use super::message::{self, Exit, PreparedJob, ZygoteReply};
use super::zygote_client::{PATIENCE, ZygoteSlot};
use super::{collect, process_tree};
use crate::isolation::{Collect, Collected, End, IsolateError, RunOutcome, Usage};

/// The least and the most time between two looks at the counters.
const LEAST_TICK: Duration = Duration::from_millis(10);
const MOST_TICK: Duration = Duration::from_millis(100);

/// How much is read or written at once.
const PIECE: usize = 64 << 10;

/// Runs a task in a slot that rests.
pub(super) fn run(
    slot: &mut ZygoteSlot,
    task: &PreparedJob,
    stdin: &[u8],
    wanted: &[Collect<'_>],
    processors: u32,
) -> Result<RunOutcome, IsolateError> {
    let system = |stage| move |source| IsolateError::System { stage, source };
    if let Some(group) = &mut slot.group {
        group.begin(&task.limits).map_err(system("setting the limits of a control group"))?;
    }
    let make = || -> io::Result<_> {
        Ok([pipe_with(PipeFlags::CLOEXEC)?, pipe_with(PipeFlags::CLOEXEC)?, pipe_with(PipeFlags::CLOEXEC)?])
    };
    let [(their_in, our_in), (our_out, their_out), (our_err, their_err)] =
        make().map_err(system("making pipes"))?;
    for end in [&our_in, &our_out, &our_err] {
        rustix::io::ioctl_fionbio(end, true).map_err(io::Error::from).map_err(system("making pipes"))?;
    }
    let started = Instant::now();
    slot.ending = true;
    message::send_task(&slot.channel, task, [their_in.as_fd(), their_out.as_fd(), their_err.as_fd()])
        .map_err(system(Stage::Channel.text()))?;
    drop((their_in, their_out, their_err));
    let mut watch = Watch {
        slot,
        task,
        started,
        processors: processors.max(1),
        stdin: (!stdin.is_empty()).then(|| Feed { pipe: File::from(our_in), rest: stdin }),
        stdout: Drain::new(our_out, task.limits.stdout),
        stderr: Drain::new(our_err, task.limits.stderr),
        work: None,
        pid: None,
        exit: None,
        killed: None,
        counted: Duration::ZERO,
    };
    watch.until_exit()?;
    watch.outcome(wanted)
}

struct Watch<'a> {
    slot: &'a mut ZygoteSlot,
    task: &'a PreparedJob,
    started: Instant,
    processors: u32,
    stdin: Option<Feed<'a>>,
    stdout: Drain,
    stderr: Drain,
    work: Option<OwnedFd>,
    /// The first process of the run, as the host numbers it.
    pid: Option<u32>,
    exit: Option<Exit>,
    /// The limit for which the run was ended, and when.
    killed: Option<(End, Instant)>,
    /// Processor time at the last look.
    counted: Duration,
}

impl Watch<'_> {
    /// Goes on until the program has ended, or the run is gone.
    fn until_exit(&mut self) -> Result<(), IsolateError> {
        let mut tick = self.started + self.pause();
        while self.exit.is_none() && self.slot.ending {
            let now = Instant::now();
            if now >= tick {
                self.look(now)?;
                tick = now + self.pause();
            }
            if let Some((_, since)) = self.killed
                && since.elapsed() > PATIENCE
            {
                let source = io::ErrorKind::TimedOut.into();
                return Err(IsolateError::System { stage: "waiting for a killed run", source });
            }
            self.await_something(tick.saturating_duration_since(now))?;
        }
        Ok(())
    }

    /// Until the next look: no more than the processors need to use up what is left.
    fn pause(&self) -> Duration {
        let limits = &self.task.limits;
        let cpu = limits.cpu.saturating_sub(self.counted) / self.processors;
        let wall = limits.wall.saturating_sub(self.started.elapsed());
        cpu.max(LEAST_TICK).min(wall).clamp(Duration::from_millis(1), MOST_TICK)
    }

    /// Looks at the limits that nobody else watches.
    fn look(&mut self, now: Instant) -> Result<(), IsolateError> {
        let failed =
            |source| IsolateError::System { stage: "reading the counters of a control group", source };
        let limits = &self.task.limits;
        let mut memory = false;
        match &self.slot.group {
            Some(group) => {
                self.counted = group.cpu().map_err(failed)?;
                memory = group.out_of_memory().map_err(failed)?;
            }
            None => self.counted = self.counted.max(self.pid.map(process_tree::cpu).unwrap_or_default()),
        }
        if memory {
            self.kill(End::MemoryLimit)?;
        } else if self.counted >= limits.cpu {
            self.kill(End::CpuLimit)?;
        } else if now - self.started >= limits.wall {
            self.kill(End::WallLimit)?;
        }
        Ok(())
    }

    fn kill(&mut self, end: End) -> Result<(), IsolateError> {
        if self.killed.is_none() {
            self.killed = Some((end, Instant::now()));
            message::send_kill(&self.slot.channel)
                .map_err(|source| IsolateError::System { stage: Stage::Channel.text(), source })?;
        }
        Ok(())
    }

    fn await_something(&mut self, most: Duration) -> Result<(), IsolateError> {
        let mut fds = Vec::with_capacity(4);
        fds.push(PollFd::new(&self.slot.channel, PollFlags::IN));
        let stdin = self.stdin.as_ref().map(|feed| &feed.pipe);
        let outs = [self.stdout.pipe.as_ref(), self.stderr.pipe.as_ref()];
        fds.extend(stdin.map(|pipe| PollFd::new(pipe, PollFlags::OUT)));
        fds.extend(outs.into_iter().flatten().map(|pipe| PollFd::new(pipe, PollFlags::IN)));
        let most = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
        let polled = poll(&mut fds, Some(&most));
        let answered = !fds[0].revents().is_empty();
        match polled {
            Ok(0) | Err(Errno::INTR) => return Ok(()),
            Ok(_) => {}
            Err(error) => return Err(IsolateError::System { stage: "polling", source: error.into() }),
        }
        self.move_bytes()?;
        if answered { self.hear() } else { Ok(()) }
    }

    /// Writes and reads what goes without waiting.
    fn move_bytes(&mut self) -> Result<(), IsolateError> {
        let failed = |source| IsolateError::System { stage: "moving input and output", source };
        if let Some(feed) = &mut self.stdin
            && feed.push().map_err(failed)?
        {
            self.stdin = None;
        }
        for drain in [&mut self.stdout, &mut self.stderr] {
            drain.pull().map_err(failed)?;
        }
        if self.stdout.over || self.stderr.over {
            self.kill(End::OutputLimit)?;
        }
        Ok(())
    }

    fn hear(&mut self) -> Result<(), IsolateError> {
        let failed = |source| IsolateError::System { stage: Stage::Channel.text(), source };
        match ZygoteReply::receive(&self.slot.channel).map_err(failed)? {
            Some(ZygoteReply::Born(pid)) => self.pid = Some(pid),
            Some(ZygoteReply::Work(work)) => self.work = Some(work),
            Some(ZygoteReply::Exited(exit)) => self.exit = Some(exit),
            Some(ZygoteReply::Over) => self.slot.ending = false,
            Some(ZygoteReply::Failed(failure)) => return Err(self.failed(failure)),
            Some(ZygoteReply::Ready { .. }) => return Err(failed(io::ErrorKind::InvalidData.into())),
            None => return Err(failed(io::ErrorKind::UnexpectedEof.into())),
        }
        Ok(())
    }

    fn failed(&self, failure: StageFailure) -> IsolateError {
        match failure.stage {
            Stage::Exec => {
                let program = self.task.program.to_string_lossy().into_owned();
                IsolateError::Program { program, source: failure.error() }
            }
            stage => IsolateError::System { stage: stage.text(), source: failure.error() },
        }
    }

    /// What came out of it. All processes of the run are gone, so that nothing changes any more.
    fn outcome(mut self, wanted: &[Collect<'_>]) -> Result<RunOutcome, IsolateError> {
        self.stdin = None;
        self.move_bytes()?;
        let limits = &self.task.limits;
        let failed = |stage| move |source| IsolateError::System { stage, source };
        let exit = self.exit;
        let waited = exit.map_or(Duration::ZERO, |exit| exit.cpu);
        let (cpu, memory, peak) = match &self.slot.group {
            Some(group) => {
                let read = || Ok((group.cpu()?, group.out_of_memory()?, group.peak()));
                read().map_err(failed("reading the counters of a control group"))?
            }
            None => (self.counted.max(waited), false, None),
        };
        let wall = exit.map_or_else(|| self.started.elapsed(), |exit| exit.wall);
        let end = if self.stdout.over || self.stderr.over {
            End::OutputLimit
        } else if memory {
            End::MemoryLimit
        } else if cpu >= limits.cpu {
            End::CpuLimit
        } else if let Some((end, _)) = self.killed {
            end
        } else if wall >= limits.wall {
            End::WallLimit
        } else {
            let source = || io::Error::other("its first process was killed from outside");
            let status = exit.ok_or_else(source).map_err(failed("watching a run"))?.status;
            match libc::WIFSIGNALED(status) {
                true => End::Signalled(libc::WTERMSIG(status)),
                false => End::Exited(libc::WEXITSTATUS(status)),
            }
        };
        let collected = match (end, &self.work) {
            (End::Exited(_), Some(work)) => {
                let collected =
                    wanted.iter().map(|wanted| collect::collect(work, wanted)).collect::<io::Result<_>>();
                collected.map_err(failed("collecting files"))?
            }
            _ => vec![Collected::Absent; wanted.len()],
        };
        let memory_peak = peak.or(exit.map(|exit| exit.resident)).unwrap_or(0);
        let usage = Usage { cpu, wall, memory_peak };
        Ok(RunOutcome { end, stdout: self.stdout.bytes, stderr: self.stderr.bytes, collected, usage })
    }
}

/// Standard input that is still to be written.
struct Feed<'a> {
    pipe: File,
    rest: &'a [u8],
}

impl Feed<'_> {
    /// Writes what fits; says whether that was all, or nobody reads any more.
    fn push(&mut self) -> io::Result<bool> {
        while !self.rest.is_empty() {
            match self.pipe.write(&self.rest[..self.rest.len().min(PIECE)]) {
                Ok(written) => self.rest = &self.rest[written..],
                Err(error) => match error.kind() {
                    io::ErrorKind::WouldBlock => return Ok(false),
                    io::ErrorKind::Interrupted => {}
                    io::ErrorKind::BrokenPipe => return Ok(true),
                    _ => return Err(error),
                },
            }
        }
        Ok(true)
    }
}

/// Output, up to a limit.
struct Drain {
    /// `None` when all who could write are gone.
    pipe: Option<File>,
    bytes: Vec<u8>,
    limit: usize,
    over: bool,
}

impl Drain {
    fn new(pipe: OwnedFd, limit: u64) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX - 1);
        Self { pipe: Some(File::from(pipe)), bytes: Vec::new(), limit, over: false }
    }

    /// Reads what is there.
    fn pull(&mut self) -> io::Result<()> {
        while let Some(pipe) = &mut self.pipe {
            // One more than allowed tells too much from just enough.
            let room = (self.limit - self.bytes.len()).saturating_add(1).min(PIECE);
            let before = self.bytes.len();
            let got = pipe.take(room as u64).read_to_end(&mut self.bytes);
            if self.bytes.len() > self.limit {
                self.bytes.truncate(self.limit);
                self.over = true;
                self.pipe = None;
                return Ok(());
            }
            match got {
                Ok(0) => self.pipe = None,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
                // `take` ended, or the pipe did.
                Ok(_) if self.bytes.len() - before < room => self.pipe = None,
                Ok(_) => {}
            }
        }
        Ok(())
    }
}
