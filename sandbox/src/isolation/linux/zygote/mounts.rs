//! Mounts of one run: what the job sees, the writable directory, and `/proc`.

use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, fstat};
use rustix::mount::{
    FsMountFlags, FsOpenFlags, MountAttrFlags, MoveMountFlags, OpenTreeFlags, fsconfig_create,
    fsconfig_set_flag, fsconfig_set_string, fsmount, fsopen, move_mount, open_tree,
};
use rustix::process::{chroot, fchdir};

use super::super::failure_stage::{At, Stage, StageFailure};
use super::super::message::Bind;
use crate::isolation::WORK;

/// The namespaces that every run has for itself, besides that of its processes.
pub(super) const PER_RUN: libc::c_int =
    libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::CLONE_NEWCGROUP;

/// The most files and directories of a run's `/work`; their inodes are memory.
const MAX_INODES: u32 = 4096;

/// A mount that is nowhere yet.
#[derive(Debug)]
pub(super) struct Detached {
    mount: OwnedFd,
    pub(super) target: PathBuf,
    pub(super) directory: bool,
}

/// Takes a copy of what a job sees out of the host's mounts.
pub(super) fn open(bind: &Bind) -> Result<Detached, StageFailure> {
    let mount = copy(&bind.source).at(Stage::JobMount)?;
    let found = fstat(&mount).at(Stage::JobMount)?;
    if bind.identity != (0, 0) && bind.identity != (found.st_dev, found.st_ino) {
        return Err(StageFailure { stage: Stage::JobMount, errno: libc::ESTALE });
    }
    let directory = found.st_mode & libc::S_IFMT == libc::S_IFDIR;
    Ok(Detached { mount, target: bind.target.clone(), directory })
}

impl Detached {
    /// Puts the mount into its place.
    pub(super) fn attach(&self) -> Result<(), StageFailure> {
        attach(self.mount.as_fd(), CWD, &self.target).at(Stage::JobMount)
    }
}

/// Moves into a prepared root, as its only view of the file system.
pub(super) fn enter(root: BorrowedFd<'_>) -> Result<(), StageFailure> {
    // SAFETY: the process has one thread; its root and working directory become those of the namespace.
    match unsafe { libc::setns(root.as_raw_fd(), libc::CLONE_NEWNS) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()).at(Stage::MountNamespace),
    }
}

/// Mounts the writable directory of a run, and returns it.
pub(super) fn scratch(bytes: u64, user: u32) -> Result<OwnedFd, StageFailure> {
    let options = [
        ("size", bytes.to_string()),
        ("nr_inodes", MAX_INODES.to_string()),
        ("mode", "0700".to_owned()),
        ("uid", user.to_string()),
        ("gid", user.to_string()),
    ];
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NODEV;
    let mount = filesystem(c"tmpfs", &options, attributes).at(Stage::Scratch)?;
    attach(mount.as_fd(), CWD, Path::new(WORK)).at(Stage::Scratch)?;
    Ok(mount)
}

/// A `/proc` that shows the run's own processes and nothing of the system.
///
/// It is made while the host's mounts are still in view: an ordinary user gets one only beside a
/// `/proc` that hides no more than the new one does.
pub(super) fn proc() -> Result<Detached, StageFailure> {
    let options = [("subset", "pid".to_owned()), ("hidepid", "invisible".to_owned())];
    let attributes = MountAttrFlags::MOUNT_ATTR_RDONLY
        | MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = filesystem(c"proc", &options, attributes).at(Stage::Proc)?;
    Ok(Detached { mount, target: PathBuf::from("/proc"), directory: true })
}

/// Moves into a copy of all mounts that is in no namespace's table. `/proc/self/mountinfo` and its
/// like show mounts of the table alone, so devices, options and paths of the host have no name in them.
///
/// The copy lasts as long as what is returned is open.
pub(super) fn leave_table() -> Result<OwnedFd, StageFailure> {
    let tree = clone_tree(Path::new("/")).at(Stage::RootTree)?;
    fchdir(&tree).at(Stage::RootTree)?;
    chroot(".").at(Stage::RootTree)?;
    Ok(tree)
}

/// A new file system that is nowhere yet.
pub(super) fn filesystem(
    name: &CStr,
    options: &[(&str, String)],
    attributes: MountAttrFlags,
) -> rustix::io::Result<OwnedFd> {
    let context = fsopen(name, FsOpenFlags::FSOPEN_CLOEXEC)?;
    for (key, value) in options {
        match value.is_empty() {
            true => fsconfig_set_flag(context.as_fd(), *key)?,
            false => fsconfig_set_string(context.as_fd(), *key, value.as_str())?,
        }
    }
    fsconfig_create(context.as_fd())?;
    fsmount(context.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
}

/// A copy of a mount and what is mounted below it, that is nowhere yet: read-only, without devices,
/// set-uid bits or news of later mounts.
pub(super) fn copy(source: &Path) -> io::Result<OwnedFd> {
    let tree = clone_tree(source)?;
    set_attributes(tree.as_fd(), libc::MOUNT_ATTR_RDONLY | libc::MOUNT_ATTR_NOSUID | libc::MOUNT_ATTR_NODEV)?;
    Ok(tree)
}

/// A copy of a mount and what is mounted below it, as it is.
pub(super) fn clone_tree(source: &Path) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    Ok(open_tree(CWD, source, flags)?)
}

/// Sets attributes of a mount and all below it, and parts them from the mounts they are copies of.
pub(super) fn set_attributes(mount: BorrowedFd<'_>, set: u64) -> io::Result<()> {
    setattr(mount, libc::AT_RECURSIVE, set, libc::MS_PRIVATE)
}

/// Sets attributes of one mount.
pub(super) fn set_own_attributes(mount: BorrowedFd<'_>, set: u64) -> io::Result<()> {
    setattr(mount, 0, set, 0)
}

fn setattr(mount: BorrowedFd<'_>, flags: libc::c_int, set: u64, propagation: u64) -> io::Result<()> {
    let attributes = libc::mount_attr { attr_set: set, attr_clr: 0, propagation, userns_fd: 0 };
    // SAFETY: the structure and the empty path outlive the call, and the size is that of the structure.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            libc::AT_EMPTY_PATH | flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Puts a mount that is nowhere yet into its place.
pub(super) fn attach(mount: BorrowedFd<'_>, at: BorrowedFd<'_>, target: &Path) -> rustix::io::Result<()> {
    move_mount(mount, c"", at, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)
}
