//! The host's end of a zygote: one run at a time.

use std::io;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::MAX_SLOTS;
use super::cgroups::{ControlGroup, Hierarchies};
use super::failure_stage::{At, Stage, StageFailure};
use super::message::{self, ZygoteReply, ZygoteSetup};
use super::zygote::MARK;

/// How long a zygote may take to start, and to clean up after a run.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

/// Users that no system gives out begin here. Every run at one time has one of its own.
const FIRST_USER: u32 = 0x7000_0000;

/// The user of programs inside a user namespace, where it is the only one.
const USER_INSIDE: u32 = 1000;

/// Users are told apart by the process and this count.
static SLOTS: AtomicU32 = AtomicU32::new(0);

/// What all slots of a sandbox are made by.
#[derive(Debug, Clone)]
pub(super) struct SlotPlan {
    pub(super) system: Vec<PathBuf>,
    pub(super) user_namespace: bool,
    /// Where control groups are made; without them resource limits have to do.
    pub(super) hierarchies: Option<Hierarchies>,
}

/// A zygote, and the control group of its runs.
#[derive(Debug)]
pub(super) struct ZygoteSlot {
    pub(super) channel: UnixStream,
    pub(super) group: Option<ControlGroup>,
    /// Whether runs have a `/proc`.
    pub(super) proc: bool,
    /// Whether the zygote still has to say that the last run is over.
    pub(super) ending: bool,
    zygote: Child,
}

impl ZygoteSlot {
    /// Starts a zygote, and makes a control group if `plan` has hierarchies.
    pub(super) fn start(plan: &SlotPlan) -> Result<Self, StageFailure> {
        let number = SLOTS.fetch_add(1, Ordering::Relaxed);
        let group = plan.hierarchies.as_ref().map(ControlGroup::create).transpose().at(Stage::JoinGroup)?;
        let started = start(plan, number, group.as_ref());
        if started.is_err()
            && let Some(group) = &group
        {
            group.remove();
        }
        let (channel, zygote, proc) = started?;
        Ok(Self { channel, group, proc, ending: false, zygote })
    }

    /// Whether its zygote is still there, which somebody else may have killed.
    pub(super) fn lives(&mut self) -> bool {
        matches!(self.zygote.try_wait(), Ok(None))
    }

    /// Waits until nothing is left of the last run.
    pub(super) fn rest(&mut self) -> io::Result<()> {
        while self.ending {
            match ZygoteReply::receive(&self.channel)? {
                Some(ZygoteReply::Over) => self.ending = false,
                Some(_) => {}
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        Ok(())
    }
}

impl Drop for ZygoteSlot {
    /// Lets the zygote end what runs and remove its groups, and waits for that.
    fn drop(&mut self) {
        self.channel.shutdown(std::net::Shutdown::Both).ok();
        let asked = Instant::now();
        let mut pause = Duration::from_micros(100);
        while asked.elapsed() < PATIENCE {
            match self.zygote.try_wait() {
                Ok(None) => {}
                Ok(Some(status)) if status.success() => return,
                Ok(Some(_)) | Err(_) => break,
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(10));
        }
        // What it could not do is done here, as far as that goes.
        self.zygote.kill().ok();
        self.zygote.wait().ok();
        if let Some(group) = &self.group {
            group.remove();
        }
    }
}

fn start(
    plan: &SlotPlan,
    number: u32,
    group: Option<&ControlGroup>,
) -> Result<(UnixStream, Child, bool), StageFailure> {
    let (channel, theirs) = UnixStream::pair().at(Stage::Channel)?;
    channel.set_read_timeout(Some(PATIENCE)).at(Stage::Channel)?;
    channel.set_write_timeout(Some(PATIENCE)).at(Stage::Channel)?;
    let mut setup = ZygoteSetup {
        user_namespace: plan.user_namespace,
        user: if plan.user_namespace { USER_INSIDE } else { user(number) },
        system: plan.system.clone(),
        rlimits_only: group.is_none(),
        ..ZygoteSetup::default()
    };
    if let Some(group) = group {
        group.describe(&mut setup);
    }
    let mut zygote = Command::new("/proc/self/exe")
        .arg0("echo-sandbox-keeper")
        .env(MARK, "1")
        .stdin(OwnedFd::from(theirs))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .at(Stage::Channel)?;
    let ready = message::send_setup(&channel, &setup)
        .and_then(|()| ZygoteReply::receive(&channel))
        .at(Stage::Channel);
    let failure = match ready {
        Ok(Some(ZygoteReply::Ready { proc })) => return Ok((channel, zygote, proc)),
        Ok(Some(ZygoteReply::Failed(failure))) => failure,
        Ok(_) => StageFailure { stage: Stage::Channel, errno: libc::EPIPE },
        Err(failure) => failure,
    };
    zygote.kill().ok();
    zygote.wait().ok();
    Err(failure)
}

/// The users of this process's slots.
pub(super) fn users() -> Range<u32> {
    const PROCESSES: u32 = 1 << 20;
    let first = FIRST_USER + (std::process::id() % PROCESSES) * MAX_SLOTS as u32;
    first..first + MAX_SLOTS as u32
}

/// A user that no other run has, if this process may become any; else the last that it may become.
fn user(number: u32) -> u32 {
    let wanted = users().start + number % MAX_SLOTS as u32;
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().ok());
        let (first, _, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
        Some(first..first + count)
    });
    let ranges = ranges.collect::<Vec<_>>();
    if ranges.is_empty() || ranges.iter().any(|range| range.contains(&u64::from(wanted))) {
        return wanted;
    }
    ranges.iter().map(|range| range.end - 1).max().and_then(|last| u32::try_from(last).ok()).unwrap_or(wanted)
}
