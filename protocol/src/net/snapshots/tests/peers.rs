//! Peers that speak the wire without a driver.

use super::*;
use crate::net::Stream;
use crate::net::snapshots::frames::{PullMessage, ServeMessage, put_head, read};
use crate::snapshot::blocks::{BlockMask, BlockTree};
use crate::snapshot::manifest::PieceIndex;
use futures::AsyncWriteExt as _;
use serde::Serialize;

/// How a stand-in serves.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stand {
    /// One bit of each block is wrong.
    Rotten,
    /// The leaves are those of another piece.
    WrongTree,
    /// A frame of a gigabyte.
    Oversized,
    /// Blocks with more leaves than any memory holds, as they say.
    Boasting,
    /// It goes away after so many blocks, and comes no more.
    Mortal(usize),
    /// It serves nothing, and tells the same again and again.
    Babbling,
}

pub(super) struct StandIn {
    pub(super) key: PublicKey,
    pub(super) host: Host,
    _events: HostEvents,
}

impl StandIn {
    pub(super) fn named(&self) -> (Peer, Part) {
        as_neighbour(self.key, &self.host, Part::Parent)
    }
}

/// A peer that tells of everything that `source` has of a snapshot, and serves it as `stand` says.
pub(super) async fn stand_in(seed: u8, source: &Party, manifest: &Arc<Manifest>, stand: Stand) -> StandIn {
    let (host, _events) = host(seed).await;
    let mut incoming = host.accept(protocol_names::CHUNKS).unwrap();
    let (store, manifest) = (source.store.clone(), manifest.clone());
    let mut left = if let Stand::Mortal(blocks) = stand { blocks } else { usize::MAX };
    tokio::spawn(async move {
        while let Some((_, stream)) = incoming.next().await {
            let _ = serve(stream, &store, &manifest, stand, &mut left).await;
            if left == 0 {
                return;
            }
        }
    });
    StandIn { key: key(seed), host, _events }
}

async fn serve(
    mut stream: Stream,
    store: &ChunkStore,
    manifest: &Manifest,
    stand: Stand,
    left: &mut usize,
) -> Option<()> {
    let (PullMessage::Hello { .. }, _) = read::<PullMessage>(&mut stream).await.ok()?? else { return None };
    let news = (0..manifest.pieces()).map(PieceIndex);
    let news = news.filter_map(|index| Some((index, store.held(&manifest.piece(index)?)))).collect();
    let have = ServeMessage::Have { news };
    say(&mut stream, &have, &[]).await?;
    if let Stand::Babbling = stand {
        while say(&mut stream, &have, &[]).await.is_some() {}
    }
    loop {
        let (piece, blocks) = match read::<PullMessage>(&mut stream).await.ok()?? {
            (PullMessage::Request { piece, blocks, .. }, _) => (piece, blocks),
            _ => continue,
        };
        let named = manifest.piece(piece)?;
        for block in blocks.iter() {
            if *left == 0 {
                return None;
            }
            *left -= 1;
            let tree = store.tree(&named).unwrap();
            let mut payload = tree.leaves().as_flattened().to_vec();
            payload.extend(store.read_block(&named, block).unwrap());
            match stand {
                Stand::Rotten => *payload.last_mut()? ^= 1,
                Stand::WrongTree => payload[0] ^= 1,
                Stand::Oversized => {
                    stream.write_all(&0x4000_0000u32.to_be_bytes()).await.ok()?;
                    stream.flush().await.ok()?;
                }
                Stand::Boasting | Stand::Mortal(_) | Stand::Babbling => {}
            }
            let leaves = if let Stand::Boasting = stand { u32::MAX } else { tree.leaves().len() as u32 };
            say(&mut stream, &ServeMessage::Block { piece, block, leaves }, &payload).await?;
        }
    }
}

/// Writes a frame, if the other side still listens.
pub(super) async fn say(stream: &mut Stream, header: &impl Serialize, payload: &[u8]) -> Option<()> {
    let mut frame = Vec::new();
    put_head(&mut frame, header, payload.len()).ok()?;
    frame.extend_from_slice(payload);
    stream.write_all(&frame).await.ok()?;
    stream.flush().await.ok()
}

/// A consumer of `party`, after its hello.
pub(super) async fn consumer(seed: u8, party: &Party, manifest: &Manifest) -> (Host, HostEvents, Stream) {
    let (host, events) = host(seed).await;
    host.dial(party.host.peer_id(), party.host.listen_addrs()).await.unwrap();
    let mut stream = host.open_stream(party.host.peer_id(), protocol_names::CHUNKS).await.unwrap();
    ask(&mut stream, &PullMessage::Hello { version: manifest.version, manifest: manifest.id() }).await;
    (host, events, stream)
}

pub(super) async fn ask(stream: &mut Stream, ask: &PullMessage) {
    say(stream, ask, &[]).await.unwrap();
}

/// Reads until the one who serves is done: the blocks that came whole and right, and whether it refused.
pub(super) async fn hear(stream: &mut Stream, manifest: &Manifest) -> (Vec<(PieceIndex, u32)>, bool) {
    let (mut came, mut trees) = (Vec::new(), std::collections::BTreeMap::new());
    while let Ok(Some((answer, payload))) = read::<ServeMessage>(stream).await {
        match answer {
            ServeMessage::Refused => return (came, true),
            ServeMessage::Have { .. } => {}
            ServeMessage::Block { piece, block, leaves } => {
                let named = manifest.piece(piece).unwrap();
                let (tree, bytes) = payload.split_at(leaves as usize * 32);
                if leaves > 0 {
                    let tree = BlockTree::checked(named.id, named.length, tree.as_chunks::<32>().0.to_vec());
                    assert!(trees.insert(piece, tree.unwrap()).is_none(), "the tree comes once");
                }
                assert!(trees[&piece].verifies(block, bytes));
                came.push((piece, block));
            }
        }
    }
    (came, false)
}

pub(super) fn blocks(mask: u64) -> BlockMask {
    BlockMask(mask)
}
