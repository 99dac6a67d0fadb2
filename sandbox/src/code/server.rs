//! The service over a local socket, for other processes of this machine.
//!
//! A client that connects is asked by the kernel who it is; users that are not allowed are told so and cut off. Then
//! frames go both ways: four bytes of length, big-endian, and so much CBOR. The client opens with [`Call::Hello`];
//! each further [`Call`] is answered before the next is read. Judging is answered by any number of [`Reply::Report`]
//! as they are made, and [`Reply::Done`]. For more than one request at a time a client connects more than once; its
//! connections share one place in the turns of the [service](super::service).

mod client;
mod connection;
pub(crate) mod frame;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use super::service::{ClientId, Service};
pub use client::{Client, ClientError, ClientReports};
pub use connection::{Call, Reply};
pub use frame::{FrameError, MAX_FRAME_BYTES, MAX_PUT_BYTES};

/// What a client opens with. Another version of the protocol has another name.
pub const PROTOCOL: &str = "echo-verify/1";

/// Connections of all clients at one time.
pub const MAX_CONNECTIONS: usize = 64;

/// Connections of one process at one time.
pub const MAX_CONNECTIONS_PER_CLIENT: usize = 16;

/// A connection without a call for this long is closed.
pub const IDLE: Duration = Duration::from_secs(600);

/// How long the other side may take for a part of a frame.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// Why the socket cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Another server answers there.
    #[error("another server is listening at {path}; stop it, or choose another path")]
    InUse {
        /// The socket.
        path: PathBuf,
    },
    /// The system refuses.
    #[error(
        "cannot listen at {path}: {source}; choose a path of at most 107 bytes in a directory that can be written"
    )]
    Listen {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// A socket that is being served, until this is dropped.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    service: Arc<Service>,
    users: BTreeSet<u32>,
    stopping: AtomicBool,
    /// Whose connections are open, to count them and to close them.
    open: Mutex<BTreeMap<u64, (ClientId, UnixStream)>>,
}

impl Server {
    /// Listens at `path`, and lets in processes of this user and of `users`. A socket left behind by a server that
    /// died is replaced.
    ///
    /// # Errors
    /// When another server is there, or the system refuses.
    pub fn start(path: &Path, service: Arc<Service>, users: &[u32]) -> Result<Self, ServerError> {
        let listen = |source| ServerError::Listen { path: path.into(), source };
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
        let accepting = thread::spawn(move || accepting.accept(&listener));
        Ok(Self { path: path.into(), shared, accepting: Some(accepting) })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::Release);
        // The one who waits for connections wakes up by one. Where that fails, so does accepting.
        let _ = UnixStream::connect(&self.path);
        for (_, stream) in self.shared.open().values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        let _ = self.accepting.take().map(JoinHandle::join);
        let _ = fs::remove_file(&self.path);
    }
}

impl Shared {
    fn open(&self) -> MutexGuard<'_, BTreeMap<u64, (ClientId, UnixStream)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

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
                thread::spawn(move || {
                    connection::serve(&shared.service, client, &mut stream);
                    shared.open().remove(&number);
                });
            }
            // A client that is gone already need not be told.
            Err(reason) => drop(frame::write(&mut stream, &Reply::Refused { reason })),
        }
    }

    fn register(&self, number: u64, stream: &UnixStream) -> Result<ClientId, String> {
        let peer = socket_peercred(stream).map_err(|error| format!("who connects is not known: {error}"))?;
        let user = peer.uid.as_raw();
        if !self.users.contains(&user) {
            return Err(format!("user {user} may not use this server; add it to the server's users"));
        }
        let client = ClientId(u64::from(peer.pid.as_raw_nonzero().get().unsigned_abs()));
        let closing = stream.try_clone().map_err(|error| format!("the server cannot take more: {error}"))?;
        let mut open = self.open();
        let own = open.values().filter(|(other, _)| *other == client).count();
        if open.len() >= MAX_CONNECTIONS || own >= MAX_CONNECTIONS_PER_CLIENT {
            return Err(format!(
                "{} connections are open, {own} of them of this process (limits: {MAX_CONNECTIONS} and \
                 {MAX_CONNECTIONS_PER_CLIENT}); close some first",
                open.len()
            ));
        }
        open.insert(number, (client, closing));
        Ok(client)
    }
}

#[cfg(test)]
mod tests;
