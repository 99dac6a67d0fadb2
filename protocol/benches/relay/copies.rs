//! What a relay is compared with: the same bytes from a file over TCP through a forwarder to a
//! sink. Forwarder and sink write them to files.

use super::{CHUNK, Outcome, Stopwatch, noise, warm_memory};
use echo_protocol::snapshot::blocks::{BLOCK_BYTES, BlockTree};
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::error::Unspecified;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread::{self, ScopedJoinHandle};

/// What is read, written and sent at once.
const BUFFER: usize = 256 << 10;
/// What encryption adds to it.
const TAG_BYTES: usize = 16;

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

/// Does the least that strangers must do: what is sent is encrypted, and what arrives is verified,
/// block by block. There is no handshake, frame, choice of what to ask for, or other stream. Each
/// end has one thread, so it is the seconds of CPU that no relay gets below.
pub(super) fn guarded(dir: &Path, mib: usize) -> Outcome<(f64, f64)> {
    let bytes = noise(mib << 20);
    let trees: Vec<BlockTree> = bytes.chunks(CHUNK as usize).map(|chunk| BlockTree::of(chunk).1).collect();
    let key = || UnboundKey::new(&AES_128_GCM, &[7; 16]).map(LessSafeKey::new).map_err(cipher);
    copy(dir, &bytes, |mut end| {
        let (key, mut buffer) = (key()?, vec![0; BUFFER + TAG_BYTES]);
        for at in 0..bytes.len() / BUFFER {
            match &mut end.from {
                Input::File(file) => file.read_exact(&mut buffer[..BUFFER])?,
                Input::Peer(peer) => {
                    peer.read_exact(&mut buffer)?;
                    key.open_in_place(nonce(at), Aad::empty(), &mut buffer).map_err(cipher)?;
                    let (tree, first) = (&trees[at * BUFFER / CHUNK as usize], at * BUFFER % CHUNK as usize);
                    let mut blocks = buffer[..BUFFER].chunks(BLOCK_BYTES).zip((first / BLOCK_BYTES) as u32..);
                    if !blocks.all(|(bytes, block)| tree.verifies(block, bytes)) {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                }
            }
            end.keep(&buffer[..BUFFER])?;
            if let Some(onward) = &mut end.onward {
                let (bytes, tag) = buffer.split_at_mut(BUFFER);
                let sealed = key.seal_in_place_separate_tag(nonce(at), Aad::empty(), bytes);
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
    // Connected before there are threads: whoever fails then ends the others.
    let (onward, last) = (TcpStream::connect(relay)?, TcpStream::connect(sink)?);
    let (from, from_relay) = (to_relay.accept()?.0, to_sink.accept()?.0);
    let file = Input::File(File::open(at("source"))?);
    let watch = Stopwatch::start()?;
    let work = &work;
    let ended = |thread: ScopedJoinHandle<'_, io::Result<()>>| thread.join().expect("no end panics");
    let results = thread::scope(|scope| {
        let forwarder = End { from: Input::Peer(from), store: Some(relay_file), onward: Some(last) };
        let sink = End { from: Input::Peer(from_relay), store: Some(sink_file), onward: None };
        let (forwarding, sinking) = (scope.spawn(|| work(forwarder)), scope.spawn(|| work(sink)));
        [work(End { from: file, store: None, onward: Some(onward) }), ended(forwarding), ended(sinking)]
    });
    // Who is left alone by another only tells of that, so others are heard first.
    let alone = |error: &io::Error| error.kind() == io::ErrorKind::BrokenPipe;
    match results.into_iter().filter_map(Result::err).min_by_key(alone) {
        Some(error) => Err(error.into()),
        None => watch.stop(),
    }
}
