//! The service over a local socket, for other processes of this machine.
//!
//! A client that connects is asked by the kernel who it is; users that are not allowed get a
//! refusal and are cut off. Then frames go both ways: four bytes of length, big-endian, and that
//! many bytes of CBOR. The client opens with [`ClientCall::Hello`]; each further [`ClientCall`] is
//! answered before the next is read. Judging is answered by any number of [`ServerReply::Report`]
//! as they are made, and [`ServerReply::Done`]. For more than one request at a time a client
//! connects more than once; its connections share one place in the turns of the
//! [service](super::service). Of the server's own user, each process is a client; every other user
//! is one, however many processes it starts.

mod client;
mod connection;
pub(crate) mod frame;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::geteuid;

use super::service::{ClientId, Service};
pub use client::{Client, ClientError, ClientReports};
pub use connection::{ClientCall, ServerReply};
pub use frame::{MAX_FRAME_BYTES, MAX_PUT_BYTES, ServerFrameError};

/// What a client opens with. Another version of the protocol has another name.
pub const PROTOCOL: &str = "echo-verify/1";

/// Connections of all clients at one time.
pub const MAX_CONNECTIONS: usize = 64;

/// Connections of one process at one time.
pub const MAX_CONNECTIONS_PER_CLIENT: usize = 16;

/// Connections of one user at one time, all processes together; the server's own user may have
/// all that are left.
pub const MAX_CONNECTIONS_PER_USER: usize = MAX_CONNECTIONS / 2;

/// A connection without a call for this long is closed.
pub const IDLE: Duration = Duration::from_secs(600);

/// How long the other side may take for a part of a frame.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Why the socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// There is something else.
    #[error("{path} is there already and is no socket; choose another path")]
    NoSocket {
        /// The path that was to become the socket.
        path: PathBuf,
    },
    /// Another server answers there.
    #[error("another server is listening at {path}; stop it, or choose another path")]
    InUse {
        /// The socket that the other server answers at.
        path: PathBuf,
    },
    /// The system refuses to make the socket, or to serve it.
    #[error("cannot listen at {path}: {source}; {}", mend(.source))]
    Listen {
        /// The socket that was to be made.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// What helps where the system refuses so.
fn mend(refused: &io::Error) -> &'static str {
    match refused.kind() {
        io::ErrorKind::InvalidInput => "choose a path of at most 107 bytes",
        io::ErrorKind::NotFound => "make its directory, or choose another path",
        _ => "choose a path in a directory that can be written",
    }
}

/// A socket that is being served, until this is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    listener: UnixListener,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    service: Arc<Service>,
    users: BTreeSet<u32>,
    stopping: AtomicBool,
    /// Whose connections are open, to count them and to close them.
    open: Mutex<BTreeMap<u64, (Peer, UnixStream)>>,
}

/// A process at the other end, and whose it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Peer {
    user: u32,
    /// 0 is who cannot be seen from here: processes of the host, for a server in a container.
    process: u32,
}

impl Server {
    /// Listens at `path`, and lets in processes of this user and of `users`. A socket left behind
    /// by a server that died is replaced.
    ///
    /// # Errors
    /// When another server is there, or the system refuses.
    pub fn start(path: &Path, service: Arc<Service>, users: &[u32]) -> Result<Self, ServerError> {
        let listen = |source| ServerError::Listen { path: path.into(), source };
        // To connect to a file that is no socket is refused like a socket that nobody listens at.
        if fs::symlink_metadata(path).is_ok_and(|found| !found.file_type().is_socket()) {
            return Err(ServerError::NoSocket { path: path.into() });
        }
        match UnixStream::connect(path) {
            Ok(_) => return Err(ServerError::InUse { path: path.into() }),
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                fs::remove_file(path).map_err(listen)?;
            }
            Err(_) => {}
        }
        let listener = UnixListener::bind(path).map_err(listen)?;
        // The credentials of each connection decide; the mode only keeps others from trying.
        let mode = if users.is_empty() { 0o600 } else { 0o666 };
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(listen)?;
        let users = users.iter().copied().chain([geteuid().as_raw()]).collect();
        let shared =
            Arc::new(Shared { service, users, stopping: AtomicBool::new(false), open: Mutex::default() });
        let accepting = Arc::clone(&shared);
        let listening = listener.try_clone().map_err(listen)?;
        let accepting = thread::Builder::new().spawn(move || accepting.accept(&listening)).map_err(listen)?;
        Ok(Self { path: path.into(), listener, shared, accepting: Some(accepting) })
    }

    /// The path of the socket, deleted when the server is dropped.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        // Wakes up the one who waits for connections, whatever has become of the socket's name.
        // SAFETY: a call without memory, on a descriptor that is open.
        unsafe { libc::shutdown(self.listener.as_raw_fd(), libc::SHUT_RDWR) };
        for (_, stream) in self.shared.open.lock().values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let _ = self.accepting.take().map(JoinHandle::join);
        let _ = fs::remove_file(&self.path);
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &UnixListener) {
        for (number, stream) in (0..).zip(listener.incoming()) {
            if self.stopping.load(Ordering::Acquire) {
                return;
            }
            match stream {
                Ok(stream) => self.admit(number, stream),
                // Out of descriptors, most likely: those that are open have to end first.
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    /// Serves a connection, or says why not.
    fn admit(self: &Arc<Self>, number: u64, mut stream: UnixStream) {
        match self.register(number, &stream) {
            Ok(client) => {
                let shared = Arc::clone(self);
                let serve = move || {
                    connection::serve(&shared.service, client, &mut stream);
                    shared.open.lock().remove(&number);
                };
                // Without a thread, all that is left of the connection is its entry.
                if thread::Builder::new().spawn(serve).is_err() {
                    self.open.lock().remove(&number);
                }
            }
            // A client that is gone already need not be told.
            Err(reason) => drop(frame::write(&mut stream, &ServerReply::Refused { reason })),
        }
    }

    fn register(&self, number: u64, stream: &UnixStream) -> Result<ClientId, String> {
        let peer = peer(stream).map_err(|error| format!("who connects is not known: {error}"))?;
        let Peer { user, .. } = peer;
        if !self.users.contains(&user) {
            return Err(format!("user {user} may not use this server; add it to the server's users"));
        }
        let closing = stream.try_clone().map_err(|error| format!("the server cannot take more: {error}"))?;
        let owner = geteuid().as_raw();
        let mut open = self.open.lock();
        let others: Vec<Peer> = open.values().map(|(other, _)| *other).collect();
        peer.room(&others, owner)?;
        open.insert(number, (peer, closing));
        Ok(peer.client(owner))
    }
}

impl Peer {
    /// Whether it may have one more connection beside those that are `open`, on a server of `owner`.
    fn room(self, open: &[Self], owner: u32) -> Result<(), String> {
        let of_user = open.iter().filter(|other| other.user == self.user).count();
        let of_process = open.iter().filter(|other| **other == self).count();
        let crowd = self.user != owner && of_user >= MAX_CONNECTIONS_PER_USER;
        if open.len() < MAX_CONNECTIONS && of_process < MAX_CONNECTIONS_PER_CLIENT && !crowd {
            return Ok(());
        }
        Err(format!(
            "{} connections are open, {of_user} of them of this user, {of_process} of this process (limits: \
             {MAX_CONNECTIONS}, {MAX_CONNECTIONS_PER_USER} and {MAX_CONNECTIONS_PER_CLIENT}); close some first",
            open.len()
        ))
    }

    /// Who takes turns with others on a server of `owner`.
    fn client(self, owner: u32) -> ClientId {
        let (user, process) = (u64::from(self.user), u64::from(self.process));
        // Numbers of processes end below.
        ClientId(if self.user == owner { process } else { (1 << 32) + user })
    }
}

/// Who is at the other end, as the kernel has seen it when it connected.
fn peer(stream: &UnixStream) -> io::Result<Peer> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let (socket, at) = (stream.as_raw_fd(), (&raw mut peer).cast());
    // SAFETY: the kernel writes at most `length` bytes to `peer`, in which any bytes are numbers.
    match unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, at, &raw mut length) } {
        0 if length as usize == size_of::<libc::ucred>() => {
            Ok(Peer { user: peer.uid, process: peer.pid.unsigned_abs() })
        }
        0 => Err(io::Error::from(io::ErrorKind::InvalidData)),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests;
