//! Threads in a namespace: their sockets, and what `/proc` shows of the network, are that namespace's.

use super::NetnsError;
use std::fs::File;
use std::io;

/// Where `ip netns add` keeps the namespaces.
const NAMES: &str = "/run/netns";

/// Runs `work` on a thread of its own in the namespace `name`, and waits for it.
pub(super) fn enter<T: Send>(name: &str, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
    let failed = |source| NetnsError::Enter { name: name.to_owned(), source };
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().name(name.to_owned());
        let entered = thread.spawn_scoped(scope, || {
            join(&File::open(format!("{NAMES}/{name}"))?)?;
            Ok(work())
        });
        match entered.map_err(failed)?.join() {
            Ok(done) => done.map_err(failed),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

#[cfg(target_os = "linux")]
fn join(namespace: &File) -> io::Result<()> {
    use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
    use std::os::fd::AsFd as _;
    Ok(move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?)
}

#[cfg(not(target_os = "linux"))]
fn join(_namespace: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
