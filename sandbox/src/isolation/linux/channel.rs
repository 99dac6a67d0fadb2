//! Frames over a stream socket: a kind, a body, and descriptors on the way.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// The most descriptors of one frame.
const MAX_FDS: usize = 4;

/// The longest body: a job with all its files.
const MAX_BODY: u64 = 1 << 30;

/// The kind and the length of the body.
const HEADER: usize = 1 + 8;

/// One message as it arrived, with its descriptors.
#[derive(Debug)]
pub(super) struct ChannelFrame {
    pub(super) kind: u8,
    pub(super) body: Vec<u8>,
    pub(super) fds: Vec<OwnedFd>,
}

/// Sends a frame. Small ones arrive as a whole even when several processes send over the same socket.
pub(super) fn send(channel: &UnixStream, kind: u8, body: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    if body.len() as u64 > MAX_BODY {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let header = header(kind, body);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() && !control.push(SendAncillaryMessage::ScmRights(fds)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let parts = [IoSlice::new(&header), IoSlice::new(body)];
    let sent = sendmsg(channel, &parts, &mut control, SendFlags::NOSIGNAL)?;
    let (mut header, mut body) = (&header[..], body);
    if sent < header.len() {
        header = &header[sent..];
        (&*channel).write_all(header)?;
    } else {
        body = &body[sent - header.len()..];
    }
    (&*channel).write_all(body)
}

/// Sends a small frame by `write` alone, which the program's filter of system calls lets through.
pub(super) fn send_plainly(channel: BorrowedFd<'_>, kind: u8, body: &[u8]) -> io::Result<()> {
    let frame = [&header(kind, body)[..], body].concat();
    Ok(rustix::io::write(channel, &frame).map(drop)?)
}

/// Waits for a frame; `None` when the other end is closed.
pub(super) fn receive(channel: &UnixStream) -> io::Result<Option<ChannelFrame>> {
    let mut header = [0; HEADER];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::WAITALL;
    let received = recvmsg(channel.as_fd(), &mut [IoSliceMut::new(&mut header)], &mut control, flags)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    let fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(fds) => Some(fds),
        _ => None,
    });
    let fds = fds.flatten().collect();
    (&*channel).read_exact(&mut header[received.bytes..])?;
    let (kind, length) = header.split_first_chunk::<1>().expect("a header is longer than a kind");
    let length = u64::from_le_bytes(length.try_into().expect("a header is a kind and eight bytes"));
    if length > MAX_BODY {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut body = vec![0; length as usize];
    (&*channel).read_exact(&mut body)?;
    Ok(Some(ChannelFrame { kind: kind[0], body, fds }))
}

fn header(kind: u8, body: &[u8]) -> [u8; HEADER] {
    let mut header = [kind; HEADER];
    header[1..].copy_from_slice(&(body.len() as u64).to_le_bytes());
    header
}
