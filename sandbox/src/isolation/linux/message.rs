//! What the host and a zygote say to each other.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::bytes::{ByteReader, ByteWriter};
use super::channel::{self, ChannelFrame};
use super::failure_stage::{Stage, StageFailure};
use crate::isolation::RunLimits;

/// The first message to a zygote: what all its runs share.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ZygoteSetup {
    /// Whether the zygote needs a user namespace to be allowed the rest.
    pub(super) user_namespace: bool,
    /// The user and group that programs run as: inside the user namespace where there is one, else anywhere.
    pub(super) user: u32,
    /// Files through which a process moves itself into the control groups of version 1.
    pub(super) join: Vec<PathBuf>,
    /// The control group of version 2 in which a run is born.
    pub(super) born_in: Option<PathBuf>,
    /// Directories of control groups that the zygote removes when it ends.
    pub(super) remove: Vec<PathBuf>,
    /// What every program sees of the host.
    pub(super) system: Vec<PathBuf>,
    /// Whether only resource limits bound memory, so that memory outside of the address space is refused.
    pub(super) rlimits_only: bool,
}

/// A job as the zygote needs it. With it travel standard input, output and error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PreparedJob {
    pub(super) program: CString,
    /// All arguments, the program's own name first.
    pub(super) args: Vec<CString>,
    /// The whole environment, each entry as `name=value`.
    pub(super) env: Vec<CString>,
    pub(super) mounts: Vec<Bind>,
    pub(super) files: Vec<File>,
    /// Whether the host wants to read from `/work` afterwards.
    pub(super) collects: bool,
    pub(super) limits: RunLimits,
}

/// A mount of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Bind {
    pub(super) source: PathBuf,
    /// Device and inode that the source must have; zeros when any will do.
    pub(super) identity: (u64, u64),
    pub(super) target: PathBuf,
}

/// A file to place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) name: PathBuf,
    pub(super) executable: bool,
    pub(super) bytes: Vec<u8>,
}

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Exit {
    /// As `wait` gives it.
    pub(super) status: i32,
    pub(super) wall: Duration,
    /// Processor time of all processes that were waited for.
    pub(super) cpu: Duration,
    /// The most bytes resident in one process.
    pub(super) resident: u64,
}

/// What a zygote hears.
#[derive(Debug)]
pub(super) enum ZygoteCommand {
    Setup(ZygoteSetup),
    Run(PreparedJob, [OwnedFd; 3]),
    Kill,
}

/// What the host hears: from the zygote, from the first process of a run, or from the program
/// before it is one.
#[derive(Debug)]
pub(super) enum ZygoteReply {
    /// The zygote can run programs; whether they have a `/proc`.
    Ready { proc: bool },
    /// A stage failed, of the zygote's start or of a run.
    Failed(StageFailure),
    /// The first process of a run exists, and has this number on the host.
    Born(u32),
    /// The writable directory of the run.
    Work(OwnedFd),
    /// All processes of the run but the first are gone.
    Exited(Exit),
    /// The first process of the run is gone, and with it all that the run had.
    Over,
}

const SETUP: u8 = 1;
const RUN: u8 = 2;
const KILL: u8 = 3;
const READY: u8 = 4;
const FAILED: u8 = 5;
const BORN: u8 = 6;
const WORK: u8 = 7;
const EXITED: u8 = 8;
const OVER: u8 = 9;

impl ZygoteCommand {
    /// Waits for an order; `None` when the host is gone.
    pub(super) fn receive(channel: &UnixStream) -> io::Result<Option<Self>> {
        let Some(ChannelFrame { kind, body, fds }) = channel::receive(channel)? else { return Ok(None) };
        let mut reader = ByteReader(&body);
        let order = match kind {
            SETUP => read_setup(&mut reader).map(Self::Setup),
            RUN => read_task(&mut reader).zip(fds.try_into().ok()).map(|(task, fds)| Self::Run(task, fds)),
            KILL => Some(Self::Kill),
            _ => None,
        };
        order.map(Some).ok_or(io::ErrorKind::InvalidData.into())
    }
}

impl ZygoteReply {
    /// Waits for an answer; `None` when the zygote is gone.
    pub(super) fn receive(channel: &UnixStream) -> io::Result<Option<Self>> {
        let Some(ChannelFrame { kind, body, fds }) = channel::receive(channel)? else { return Ok(None) };
        let mut reader = ByteReader(&body);
        let answer = match kind {
            READY => reader.number().map(|proc| Self::Ready { proc: proc != 0 }),
            FAILED => read_failure(&mut reader).map(Self::Failed),
            BORN => reader.number().and_then(|pid| u32::try_from(pid).ok()).map(Self::Born),
            WORK => fds.into_iter().next().map(Self::Work),
            EXITED => read_exit(&mut reader).map(Self::Exited),
            OVER => Some(Self::Over),
            _ => None,
        };
        answer.map(Some).ok_or(io::ErrorKind::InvalidData.into())
    }
}

/// Tells the zygote what its runs share.
pub(super) fn send_setup(channel: &UnixStream, setup: &ZygoteSetup) -> io::Result<()> {
    let mut writer = ByteWriter::default();
    writer.number(setup.user_namespace.into());
    writer.number(setup.user.into());
    writer.list(&setup.join, write_path);
    writer.list(setup.born_in.as_slice(), write_path);
    writer.list(&setup.remove, write_path);
    writer.list(&setup.system, write_path);
    writer.number(setup.rlimits_only.into());
    channel::send(channel, SETUP, &writer.0, &[])
}

/// Hands a task to the zygote, which begins the run.
pub(super) fn send_task(
    channel: &UnixStream,
    task: &PreparedJob,
    stdio: [BorrowedFd<'_>; 3],
) -> io::Result<()> {
    let mut writer = ByteWriter::default();
    writer.bytes(task.program.as_bytes());
    writer.list(&task.args, |writer, arg| writer.bytes(arg.as_bytes()));
    writer.list(&task.env, |writer, entry| writer.bytes(entry.as_bytes()));
    writer.list(&task.mounts, |writer, bind| {
        write_path(writer, &bind.source);
        writer.number(bind.identity.0);
        writer.number(bind.identity.1);
        write_path(writer, &bind.target);
    });
    writer.list(&task.files, |writer, file| {
        write_path(writer, &file.name);
        writer.number(file.executable.into());
        writer.bytes(&file.bytes);
    });
    writer.number(task.collects.into());
    let RunLimits { cpu, wall, memory, processes, open_files, scratch, stdout, stderr } = task.limits;
    let nanos = [cpu, wall].map(|time| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    let numbers = [nanos[0], nanos[1], memory, processes.into(), open_files.into(), scratch, stdout, stderr];
    numbers.into_iter().for_each(|number| writer.number(number));
    channel::send(channel, RUN, &writer.0, &stdio)
}

/// Ends a run at once.
pub(super) fn send_kill(channel: &UnixStream) -> io::Result<()> {
    channel::send(channel, KILL, &[], &[])
}

/// Sends what needs no descriptor.
pub(super) fn answer(channel: &UnixStream, answer: &ZygoteReply) -> io::Result<()> {
    let mut writer = ByteWriter::default();
    let kind = match answer {
        ZygoteReply::Ready { proc } => {
            writer.number((*proc).into());
            READY
        }
        ZygoteReply::Failed(failure) => {
            writer.0 = failure_bytes(*failure);
            FAILED
        }
        ZygoteReply::Born(pid) => {
            writer.number((*pid).into());
            BORN
        }
        ZygoteReply::Work(work) => {
            return channel::send(channel, WORK, &[], &[std::os::fd::AsFd::as_fd(work)]);
        }
        ZygoteReply::Exited(exit) => {
            writer.number(exit.status as u64);
            writer.number(exit.wall.as_nanos() as u64);
            writer.number(exit.cpu.as_nanos() as u64);
            writer.number(exit.resident);
            EXITED
        }
        ZygoteReply::Over => OVER,
    };
    channel::send(channel, kind, &writer.0, &[])
}

/// Says what failed from under the filter of system calls.
pub(super) fn answer_failure(channel: BorrowedFd<'_>, failure: StageFailure) -> io::Result<()> {
    channel::send_plainly(channel, FAILED, &failure_bytes(failure))
}

fn failure_bytes(failure: StageFailure) -> Vec<u8> {
    let mut writer = ByteWriter::default();
    writer.number(failure.stage as u64);
    writer.number(failure.errno as u64);
    writer.0
}

fn read_failure(reader: &mut ByteReader<'_>) -> Option<StageFailure> {
    let stage = Stage::from_code(reader.number()?)?;
    Some(StageFailure { stage, errno: reader.number()? as i32 })
}

fn read_exit(reader: &mut ByteReader<'_>) -> Option<Exit> {
    Some(Exit {
        status: reader.number()? as i32,
        wall: Duration::from_nanos(reader.number()?),
        cpu: Duration::from_nanos(reader.number()?),
        resident: reader.number()?,
    })
}

fn read_setup(reader: &mut ByteReader<'_>) -> Option<ZygoteSetup> {
    Some(ZygoteSetup {
        user_namespace: reader.number()? != 0,
        user: u32::try_from(reader.number()?).ok()?,
        join: reader.list(read_path)?,
        born_in: reader.list(read_path)?.pop(),
        remove: reader.list(read_path)?,
        system: reader.list(read_path)?,
        rlimits_only: reader.number()? != 0,
    })
}

fn read_task(reader: &mut ByteReader<'_>) -> Option<PreparedJob> {
    Some(PreparedJob {
        program: read_text(reader)?,
        args: reader.list(read_text)?,
        env: reader.list(read_text)?,
        mounts: reader.list(|reader| {
            let source = read_path(reader)?;
            let identity = (reader.number()?, reader.number()?);
            Some(Bind { source, identity, target: read_path(reader)? })
        })?,
        files: reader.list(|reader| {
            let name = read_path(reader)?;
            let executable = reader.number()? != 0;
            Some(File { name, executable, bytes: reader.bytes()?.to_vec() })
        })?,
        collects: reader.number()? != 0,
        limits: RunLimits {
            cpu: Duration::from_nanos(reader.number()?),
            wall: Duration::from_nanos(reader.number()?),
            memory: reader.number()?,
            processes: u32::try_from(reader.number()?).ok()?,
            open_files: u32::try_from(reader.number()?).ok()?,
            scratch: reader.number()?,
            stdout: reader.number()?,
            stderr: reader.number()?,
        },
    })
}

fn read_text(reader: &mut ByteReader<'_>) -> Option<CString> {
    CString::new(reader.bytes()?).ok()
}

fn read_path(reader: &mut ByteReader<'_>) -> Option<PathBuf> {
    Some(PathBuf::from(OsStr::from_bytes(reader.bytes()?)))
}

fn write_path(writer: &mut ByteWriter, path: &PathBuf) {
    writer.bytes(Path::new(path).as_os_str().as_bytes());
}

#[cfg(feature = "fuzzing")]
pub(super) mod fuzzing;

#[cfg(test)]
mod tests;
