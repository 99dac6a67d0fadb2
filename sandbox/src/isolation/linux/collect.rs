//! Reads what a program left in its directory. Everything there was made by a stranger.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::isolation::{Collect, Collected};

/// Opens and reads a file below `work`, when the run is over and nobody can change it any more.
pub(super) fn collect(work: &OwnedFd, wanted: &Collect<'_>) -> io::Result<Collected> {
    // Not to wait for a writer of a FIFO, and to make nothing the terminal of this process.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    let resolve = ResolveFlags::BENEATH
        | ResolveFlags::NO_SYMLINKS
        | ResolveFlags::NO_MAGICLINKS
        | ResolveFlags::NO_XDEV;
    let file = match openat2(work, wanted.name, flags, Mode::empty(), resolve) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV | Errno::NAMETOOLONG) => {
            return Ok(Collected::Absent);
        }
        // A socket, or a file that the program forbade everybody to read.
        Err(Errno::NXIO | Errno::ACCESS | Errno::NODEV) => return Ok(Collected::NotRegular),
        Err(error) => return Err(error.into()),
    };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Ok(Collected::NotRegular);
    }
    if metadata.len() > wanted.limit {
        return Ok(Collected::TooLarge { bytes: metadata.len() });
    }
    let mut bytes = Vec::with_capacity(metadata.len() as usize);
    file.take(wanted.limit).read_to_end(&mut bytes)?;
    Ok(Collected::Bytes(bytes))
}
