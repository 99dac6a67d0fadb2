//! The read-only roots that runs start from.
//!
//! A root is a mount namespace of its own: a small tmpfs with the system's directories bound into
//! it. It is built once for every layout of job mounts; a run gets a copy of the namespace, in
//! which only its own mounts are new.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{CWD, FileType, Mode, OFlags, mkdirat, mknodat, openat, symlinkat};
use rustix::mount::{MountAttrFlags, UnmountFlags, unmount};
use rustix::process::{WaitId, WaitIdOptions, fchdir, pivot_root, waitid};

use super::super::failure_stage::{At, Stage, StageFailure};
use super::{fork_into, mounts, unshare};
use crate::isolation::WORK;

/// The most layouts kept ready.
const MAX_ROOTS: usize = 8;

/// The devices that programs expect.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

/// Links that programs expect.
const LINKS: [(&str, &str); 5] = [
    ("/tmp", "work"),
    ("/dev/fd", "/proc/self/fd"),
    ("/dev/stdin", "/proc/self/fd/0"),
    ("/dev/stdout", "/proc/self/fd/1"),
    ("/dev/stderr", "/proc/self/fd/2"),
];

/// Where a job mounts something, and whether that is a directory.
pub(super) type MountLayout = [(PathBuf, bool)];

/// The roots that were built, last used first.
pub(super) struct Roots {
    system: Vec<PathBuf>,
    ready: Vec<(Box<MountLayout>, Rc<OwnedFd>)>,
}

impl Roots {
    pub(super) fn new(system: Vec<PathBuf>) -> Self {
        Self { system, ready: Vec::new() }
    }

    /// The root with places for these mounts, built when there is none yet.
    pub(super) fn get(&mut self, layout: &MountLayout) -> Result<Rc<OwnedFd>, StageFailure> {
        let known = self.ready.iter().position(|(built, _)| **built == *layout);
        let (layout, root) = match known {
            Some(known) => self.ready.remove(known),
            None => (layout.into(), Rc::new(build(&self.system, layout)?)),
        };
        self.ready.insert(0, (layout, Rc::clone(&root)));
        self.ready.truncate(MAX_ROOTS);
        Ok(root)
    }
}

/// Builds a root in a child, whose mount namespace outlives it through the handle returned.
fn build(system: &[PathBuf], layout: &MountLayout) -> Result<OwnedFd, StageFailure> {
    let (ours, theirs) = rustix::net::socketpair(
        rustix::net::AddressFamily::UNIX,
        rustix::net::SocketType::STREAM,
        rustix::net::SocketFlags::CLOEXEC,
        None,
    )
    .at(Stage::Channel)?;
    let (child, pid) = fork_into(0, None).at(Stage::MountNamespace)?;
    let Some(child) = child else {
        drop(ours);
        let failure = raise(system, layout).err();
        let code = failure.map_or([0; 8], |StageFailure { stage, errno }| {
            (((stage as u64 + 1) << 32) | errno as u64).to_le_bytes()
        });
        rustix::io::write(&theirs, &code).ok();
        // The namespace lives as long as this process: until the parent has opened it.
        rustix::io::read(&theirs, &mut [0; 1]).ok();
        // SAFETY: the child of a fork ends without running its parent's destructors.
        unsafe { libc::_exit(0) }
    };
    drop(theirs);
    let mut code = [0; 8];
    let read = rustix::io::read(&ours, &mut code).at(Stage::RootTree)?;
    let root = match u64::from_le_bytes(code) {
        _ if read != code.len() => Err(StageFailure { stage: Stage::RootTree, errno: libc::EIO }),
        0 => fs::File::open(format!("/proc/{pid}/ns/mnt")).at(Stage::MountNamespace),
        code => {
            let stage = Stage::from_code((code >> 32) - 1).unwrap_or(Stage::RootTree);
            Err(StageFailure { stage, errno: code as u32 as i32 })
        }
    };
    drop(ours);
    waitid(WaitId::PidFd(child.as_fd()), WaitIdOptions::EXITED).at(Stage::Wait)?;
    root.map(OwnedFd::from)
}

/// Makes this process's root the read-only one, and detaches all else.
fn raise(system: &[PathBuf], layout: &MountLayout) -> Result<(), StageFailure> {
    unshare(libc::CLONE_NEWNS).at(Stage::MountNamespace)?;
    let host = openat(CWD, "/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).at(Stage::RootTree)?;
    mounts::set_attributes(host.as_fd(), 0).at(Stage::RootTree)?;
    // Copies are taken first: the new root hides the directory that it is mounted on.
    let mut binds = Vec::new();
    let mut links = Vec::new();
    for path in system {
        let Ok(found) = fs::symlink_metadata(path) else { continue };
        if found.is_symlink() {
            links.push((path.as_path(), fs::read_link(path).at(Stage::RootTree)?));
        } else {
            binds.push((path.as_path(), found.is_dir(), mounts::copy(path).at(Stage::RootTree)?));
        }
    }
    for path in DEVICES.map(Path::new) {
        if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_char_device()) {
            let device = mounts::clone_tree(path).at(Stage::RootTree)?;
            let attributes = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NOEXEC;
            mounts::set_attributes(device.as_fd(), attributes).at(Stage::RootTree)?;
            binds.push((path, false, device));
        }
    }
    let options = [("size", "1m".to_owned()), ("mode", "0755".to_owned())];
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let root = mounts::filesystem(c"tmpfs", &options, attributes).at(Stage::RootTree)?;
    // The devices are here, so the directory is.
    mounts::attach(root.as_fd(), CWD, Path::new("/dev")).at(Stage::RootTree)?;
    fchdir(&root).at(Stage::RootTree)?;

    // All places are made before anything is bound, so that none can be made in the host's directories.
    let places = binds.iter().map(|(path, directory, _)| (*path, *directory));
    let places = places.chain(layout.iter().map(|(path, directory)| (path.as_path(), *directory)));
    for (path, directory) in places.chain([(Path::new(WORK), true), (Path::new("/proc"), true)]) {
        make_place(path, directory).at(Stage::RootTree)?;
    }
    links.extend(LINKS.map(|(path, leads_to)| (Path::new(path), PathBuf::from(leads_to))));
    for (path, leads_to) in links {
        make_parents(path).at(Stage::RootTree)?;
        symlinkat(&leads_to, CWD, inside(path)).at(Stage::RootTree)?;
    }
    for (path, _, tree) in &binds {
        mounts::attach(tree.as_fd(), CWD, &inside(path)).at(Stage::RootTree)?;
    }
    // The old root comes to lie over the new one, and is taken off.
    pivot_root(".", ".").at(Stage::RootPivot)?;
    unmount(".", UnmountFlags::DETACH).at(Stage::RootPivot)?;
    fchdir(&root).at(Stage::RootPivot)?;
    let attributes = libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV;
    // The tmpfs alone: what is bound into it has its own attributes.
    mounts::set_own_attributes(root.as_fd(), attributes).at(Stage::RootPivot)
}

/// Makes an empty directory or file for a mount, and the directories above it.
fn make_place(path: &Path, directory: bool) -> rustix::io::Result<()> {
    make_parents(path)?;
    let made = match directory {
        true => mkdirat(CWD, inside(path), Mode::from_raw_mode(0o755)),
        false => mknodat(CWD, inside(path), FileType::RegularFile, Mode::from_raw_mode(0o644), 0),
    };
    made.or_else(unless_there)
}

fn make_parents(path: &Path) -> rustix::io::Result<()> {
    let Some(parent) = inside(path).parent().map(Path::to_path_buf) else { return Ok(()) };
    let mut made = PathBuf::new();
    for part in parent.components() {
        made.push(part);
        mkdirat(CWD, &made, Mode::from_raw_mode(0o755)).or_else(unless_there)?;
    }
    Ok(())
}

fn unless_there(error: rustix::io::Errno) -> rustix::io::Result<()> {
    if error == rustix::io::Errno::EXIST { Ok(()) } else { Err(error) }
}

/// An absolute path, from the new root, which is the working directory.
fn inside(path: &Path) -> PathBuf {
    path.components().filter(|part| matches!(part, Component::Normal(_))).collect()
}
