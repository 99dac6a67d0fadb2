//! From a job to what the zygote runs, if it is well-formed.

use std::ffi::{CString, OsStr};
use std::fs;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use super::message::{Bind, File, PreparedJob};
use crate::isolation::{IsolateError, Job, MAX_FILES, MAX_MOUNTS, MAX_TEXT_BYTES, Mount, MountSource, WORK};

/// What a job may not mount over, besides the system's directories.
const RESERVED: [&str; 4] = [WORK, "/dev", "/proc", "/tmp"];

/// Checks a job against the limits of jobs.
pub(super) fn task(job: &Job<'_>, system: &[PathBuf]) -> Result<PreparedJob, IsolateError> {
    count("mounts", job.mounts.len(), MAX_MOUNTS)?;
    count("files", job.files.len(), MAX_FILES)?;
    count("collected files", job.collect.len(), MAX_FILES)?;
    let texts = job.args.iter().map(|arg| arg.len());
    let texts = texts.chain(job.env.iter().map(|(name, value)| name.len() + value.len()));
    count("bytes of arguments and variables", texts.sum(), MAX_TEXT_BYTES)?;
    absolute(job.program)?;
    let placed = job.files.iter().map(|file| file.bytes.len() as u64).sum::<u64>();
    if placed > job.limits.scratch {
        return Err(wrong(format!(
            "{placed} bytes of files do not fit into {} of scratch",
            job.limits.scratch
        )));
    }
    for name in job.files.iter().map(|file| file.name).chain(job.collect.iter().map(|file| file.name)) {
        plain(name)?;
    }
    let program = text(job.program.as_os_str())?;
    let args = job.args.iter().map(|arg| text(arg)).collect::<Result<Vec<_>, _>>()?;
    let env = job.env.iter().map(|(name, value)| {
        if name.is_empty() || name.as_bytes().contains(&b'=') {
            return Err(wrong(format!("{name:?} names no variable")));
        }
        text(OsStr::from_bytes(&[name.as_bytes(), b"=", value.as_bytes()].concat()))
    });
    let mut mounts = job.mounts.iter().map(|mount| bind(mount, system)).collect::<Result<Vec<_>, _>>()?;
    // A place within another one comes after it.
    mounts.sort_by(|one, other| one.target.cmp(&other.target));
    if mounts.windows(2).any(|pair| pair[1].target.starts_with(&pair[0].target)) {
        return Err(wrong("a mount lies within another".into()));
    }
    let files = job.files.iter().map(|file| File {
        name: PathBuf::from(file.name),
        executable: file.executable,
        bytes: file.bytes.to_vec(),
    });
    Ok(PreparedJob {
        args: std::iter::once(program.clone()).chain(args).collect(),
        program,
        env: env.collect::<Result<_, _>>()?,
        mounts,
        files: files.collect(),
        collects: !job.collect.is_empty(),
        limits: job.limits,
    })
}

fn bind(mount: &Mount<'_>, system: &[PathBuf]) -> Result<Bind, IsolateError> {
    let target = absolute(mount.target)?;
    let taken = RESERVED.iter().map(Path::new).chain(system.iter().map(PathBuf::as_path));
    for taken in taken {
        if target.starts_with(taken) || taken.starts_with(&target) {
            return Err(wrong(format!("mount {} collides with {}", target.display(), taken.display())));
        }
    }
    let (source, identity) = match mount.source {
        MountSource::Path(path) => {
            (std::path::absolute(path).map_err(|error| wrong(error.to_string()))?, (0, 0))
        }
        MountSource::Open(file) => {
            let found =
                |error| IsolateError::System { stage: "looking at what the job mounts", source: error };
            let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).map_err(found)?;
            let metadata = file.metadata().map_err(found)?;
            (path, (metadata.dev(), metadata.ino()))
        }
    };
    count("bytes of a mount's path", target.as_os_str().len().max(source.as_os_str().len()), MAX_TEXT_BYTES)?;
    Ok(Bind { source, identity, target })
}

/// An absolute path of plain names.
fn absolute(path: &Path) -> Result<PathBuf, IsolateError> {
    let plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    if !path.is_absolute() || path == Path::new("/") || !path.components().all(plain) {
        return Err(wrong(format!("{} is no absolute path of plain names", path.display())));
    }
    text(path.as_os_str())?;
    Ok(path.components().collect())
}

/// A relative path of plain names.
fn plain(name: &str) -> Result<(), IsolateError> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
    if name.is_empty()
        || name.len() > MAX_TEXT_BYTES
        || name.contains('\0')
        || !Path::new(name).components().all(plain)
    {
        return Err(wrong(format!("{name:?} is no relative path of plain names")));
    }
    Ok(())
}

fn text(text: &OsStr) -> Result<CString, IsolateError> {
    CString::new(text.as_bytes()).map_err(|_| wrong(format!("{text:?} has a NUL byte")))
}

fn count(what: &str, is: usize, most: usize) -> Result<(), IsolateError> {
    if is > most { Err(wrong(format!("{is} {what}, at most {most}"))) } else { Ok(()) }
}

fn wrong(reason: String) -> IsolateError {
    IsolateError::Job { reason }
}
