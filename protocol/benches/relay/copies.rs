//! What a relay is compared with: the same bytes from a file over TCP through a forwarder to a sink, both of which write them to files.

use super::{CHUNK, Outcome, Stopwatch, noise, warm_memory};
use echo_protocol::groups::{GROUP_BYTES, GroupTree};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::error::Unspecified;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread::{self, ScopedJoinHandle};

/// Writes and reads of the plain copy.
const BUFFER: usize = 256 << 10;
/// A group as it travels encrypted.
const SEALED_BYTES: usize = GROUP_BYTES + 16;

/// One of the three, and where its bytes come from and go to.
struct End {
    from: Input,
    store: Option<File>,
    onward: Option<TcpStream>,
}

enum Input {
    File(File),
    Peer(TcpStream),
}

/// Copies the bytes as they are. Gives the seconds that it took, on the wall and of CPU.
pub(super) fn plain(dir: &Path, mib: usize) -> Outcome<(f64, f64)> {
    copy(dir, &noise(mib << 20), |mut end| {
        let mut buffer = vec![0; BUFFER];
        loop {
            let read = match &mut end.from {
                Input::File(file) => file.read(&mut buffer)?,
                Input::Peer(peer) => peer.read(&mut buffer)?,
            };
            if read == 0 {
                return Ok(());
            }
            end.keep(&buffer[..read])?;
            if let Some(onward) = &mut end.onward {
                onward.write_all(&buffer[..read])?;
            }
        }
    })
}

/// Copies them as little as can be done among strangers: each group is encrypted for its way and verified when it comes, in place. No
/// frame, no choice of what to ask for, no other stream. What a relay takes beyond this is its own.
pub(super) fn guarded(dir: &Path, mib: usize) -> Outcome<(f64, f64)> {
    let bytes = noise(mib << 20);
    let trees: Vec<GroupTree> = bytes.chunks(CHUNK as usize).map(|chunk| GroupTree::of(chunk).1).collect();
    let groups = || trees.iter().flat_map(|tree| (0..CHUNK / GROUP_BYTES as u32).map(move |at| (tree, at)));
    let key = || UnboundKey::new(&AES_128_GCM, &[7; 16]).map(LessSafeKey::new).map_err(cipher);
    copy(dir, &bytes, |mut end| {
        let (reading, writing, mut buffer) = (key()?, key()?, vec![0; SEALED_BYTES]);
        for (at, (tree, group)) in groups().enumerate() {
            match &mut end.from {
                Input::File(file) => file.read_exact(&mut buffer[..GROUP_BYTES])?,
                Input::Peer(peer) => {
                    peer.read_exact(&mut buffer)?;
                    reading.open_in_place(nonce(at), Aad::empty(), &mut buffer).map_err(cipher)?;
                    if !tree.verifies(group, &buffer[..GROUP_BYTES]) {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                }
            }
            end.keep(&buffer[..GROUP_BYTES])?;
            if let Some(onward) = &mut end.onward {
                let (group, tag) = buffer.split_at_mut(GROUP_BYTES);
                let sealed = writing.seal_in_place_separate_tag(nonce(at), Aad::empty(), group);
                tag.copy_from_slice(sealed.map_err(cipher)?.as_ref());
                onward.write_all(&buffer)?;
            }
        }
        Ok(())
    })
}

fn cipher(error: Unspecified) -> io::Error {
    io::Error::other(error.to_string())
}

fn nonce(at: usize) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..8].copy_from_slice(&(at as u64).to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

impl End {
    fn keep(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.store.as_mut().map_or(Ok(()), |store| store.write_all(bytes))
    }
}

/// Has `work` done by a source, a forwarder and a sink, each on a thread of its own.
fn copy(dir: &Path, bytes: &[u8], work: impl Fn(End) -> io::Result<()> + Sync) -> Outcome<(f64, f64)> {
    std::fs::create_dir_all(dir)?;
    let at = |name: &str| dir.join(name);
    std::fs::write(at("source"), bytes)?;
    let (to_relay, to_sink) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    let (relay, sink) = (to_relay.local_addr()?, to_sink.local_addr()?);
    let (relay_file, sink_file) = (File::create(at("relay"))?, File::create(at("sink"))?);
    warm_memory(dir, bytes.len() >> 20)?;
    let watch = Stopwatch::start()?;
    let source = || {
        let from = Input::File(File::open(at("source"))?);
        work(End { from, store: None, onward: Some(TcpStream::connect(relay)?) })
    };
    let forwarder = || {
        let (from, onward) = (Input::Peer(to_relay.accept()?.0), Some(TcpStream::connect(sink)?));
        work(End { from, store: Some(relay_file), onward })
    };
    let last = || work(End { from: Input::Peer(to_sink.accept()?.0), store: Some(sink_file), onward: None });
    let ended = |thread: ScopedJoinHandle<'_, io::Result<()>>| thread.join().expect("no end panics");
    thread::scope(|scope| {
        let (forwarding, sinking) = (scope.spawn(forwarder), scope.spawn(last));
        source().and(ended(forwarding)).and(ended(sinking))
    })?;
    watch.stop()
}
