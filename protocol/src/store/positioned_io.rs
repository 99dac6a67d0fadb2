//! Reading and writing at a place in a file that several threads share.

use std::fs::File;
use std::io;

/// What systems say when a disk has lost what was written: EIO, ENODATA, EBADMSG and EUCLEAN of
/// Linux, EIO of other Unixes, and `ERROR_CRC`, `ERROR_IO_DEVICE`, `ERROR_DISK_CORRUPT`.
const LOST: &[i32] = if cfg!(windows) { &[23, 1117, 1393] } else { &[5, 61, 74, 117] };

/// Whether reading failed because the bytes are gone for good, or were never there.
pub(super) fn is_lost(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::UnexpectedEof
        || error.raw_os_error().is_some_and(|code| LOST.contains(&code))
}

#[cfg(unix)]
pub(super) fn read_exact_at(file: &File, bytes: &mut [u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(unix)]
pub(super) fn write_all_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

/// Fills `bytes` with what the system holds of the file in memory; false when it would have to wait
/// for the disk, or cannot tell.
#[cfg(target_os = "linux")]
pub(super) fn read_cached_at(file: &File, bytes: &mut [u8], offset: u64) -> bool {
    let wanted = bytes.len();
    let read = rustix::io::preadv2(
        file,
        &mut [io::IoSliceMut::new(bytes)],
        offset,
        rustix::io::ReadWriteFlags::NOWAIT,
    );
    match read {
        Ok(read) => read == wanted,
        // A file system in memory does not know the flag, and has no disk to wait for.
        Err(rustix::io::Errno::OPNOTSUPP) => is_in_memory(file) && read_exact_at(file, bytes, offset).is_ok(),
        Err(_) => false,
    }
}

#[cfg(target_os = "linux")]
fn is_in_memory(file: &File) -> bool {
    /// `TMPFS_MAGIC` of linux/magic.h.
    const TMPFS: rustix::fs::FsWord = 0x0102_1994;
    rustix::fs::fstatfs(file).is_ok_and(|about| about.f_type == TMPFS)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn read_cached_at(_: &File, _: &mut [u8], _: u64) -> bool {
    false
}

#[cfg(windows)]
pub(super) fn read_exact_at(file: &File, mut bytes: &mut [u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_read(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            read => (bytes, offset) = (&mut bytes[read..], offset + read as u64),
        }
    }
    Ok(())
}

#[cfg(windows)]
pub(super) fn write_all_at(file: &File, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match std::os::windows::fs::FileExt::seek_write(file, bytes, offset)? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => (bytes, offset) = (&bytes[written..], offset + written as u64),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[cfg(target_os = "linux")]
    #[test]
    fn what_was_just_written_is_held_in_memory_on_disks_and_in_memory_alike() {
        use std::io::Write as _;
        for dir in [std::env::temp_dir(), "/dev/shm".into()] {
            let Ok(mut file) = tempfile::tempfile_in(&dir) else {
                eprintln!("skipped: cannot write to {}", dir.display());
                continue;
            };
            file.write_all(b"echoes").unwrap();
            let mut bytes = [0; 4];
            assert!(super::read_cached_at(&file, &mut bytes, 1), "{}", dir.display());
            assert_eq!(&bytes, b"choe");
            assert!(!super::read_cached_at(&file, &mut bytes, 4), "{}: beyond its end", dir.display());
        }
    }
}
