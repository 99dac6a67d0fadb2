//! Shares a snapshot between two hosts on loopback: a learner publishes it, a node fetches and
//! verifies it.
//!
//! ```sh
//! cargo run -p echo-protocol --example share_a_snapshot
//! ```
//!
//! A snapshot is a manifest and chunks. The learner signs the manifest, which names each chunk by
//! its hash. So the node trusts one key, and may fetch chunks from anybody.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use echo_protocol::control::requests::{ControlRequest, ControlResponse, Peer};
use echo_protocol::dissemination::{DisseminationMode, NeighbourRole};
use echo_protocol::net::snapshots::{SnapshotEvent, SnapshotRole, Snapshots, SnapshotsConfig};
use echo_protocol::net::{Host, HostConfig, HostEvent, HostEvents};
use echo_protocol::run::charter::RunId;
use echo_protocol::run::{tensor_type::TensorType, version::PolicyVersion};
use echo_protocol::store::{ChunkStore, SnapshotItem, SnapshotReadError, SnapshotReader, write_snapshot};
use echo_protocol::wire::{codec, content_id::ContentId, identity::NodeKey, signed::Signed};

const CHUNK_BYTES: u32 = 64 << 10;
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let dir = tempfile::tempdir()?;
    let (learner_key, node_key) = (NodeKey::generate()?, NodeKey::generate()?);

    // The learner cuts its weights into chunks, and signs the manifest that names them.
    let weights: Vec<u8> = (0..65_536).flat_map(|i| (i as f32).sin().to_le_bytes()).collect();
    let (name, dtype, shape) = ("model.norm.weight".to_owned(), TensorType::F32, vec![65_536]);
    let tensor = SnapshotItem::Tensor { name, dtype, shape, bytes: weights.clone() };
    let store = Arc::new(ChunkStore::open(&dir.path().join("learner"))?);
    let manifest = write_snapshot(&store, run_id()?, PolicyVersion(1), CHUNK_BYTES, [tensor])?;
    let signed = Signed::sign(&manifest, &learner_key)?;
    println!("published  {} bytes in {} chunks", manifest.total_bytes, manifest.chunks.len());

    // It serves chunks over streams, and sends its manifest to whoever asks.
    let (learner, mut questions) = start_host(&learner_key).await?;
    let config = SnapshotsConfig::new(learner_key.public(), SnapshotRole::Source, DisseminationMode::Echo);
    let (source, _source_events) = Snapshots::start(learner.clone(), store, config)?;
    source.publish(Arc::new(manifest.clone())).await?;
    let answer = ControlResponse::Manifest(Some(signed)).to_bytes()?;
    tokio::spawn(async move {
        while let Some(event) = questions.recv().await {
            if let HostEvent::Request { reply, .. } = event {
                // Whoever asked may be gone by now, which is no concern of ours.
                let _ = reply.send(answer.clone());
            }
        }
    });

    // The node asks for the newest manifest, and takes it only from the learner's key. In a run it
    // compares it with the charter as well.
    let (node, _node_events) = start_host(&node_key).await?;
    node.dial(learner.peer_id(), learner.listen_addrs()).await?;
    let question = ControlRequest::Manifest(None).to_bytes()?;
    let answer = node.request(learner.peer_id(), question, PATIENCE).await?;
    let ControlResponse::Manifest(Some(received)) = ControlResponse::from_bytes(&answer)? else {
        return Err("the learner sent no manifest".into());
    };
    let received = received.open_from(&learner_key.public())?;
    received.validate()?;
    println!("manifest   of {}, signed by learner {}", received.version, learner_key.public().short());

    // It fetches the chunks in blocks of 64 KiB. Each is verified before it is stored.
    let store = Arc::new(ChunkStore::open(&dir.path().join("node"))?);
    let config = SnapshotsConfig::new(node_key.public(), SnapshotRole::Relay, DisseminationMode::Echo);
    let (relay, mut events) = Snapshots::start(node.clone(), Arc::clone(&store), config)?;
    let addresses = learner.listen_addrs().iter().map(ToString::to_string).collect();
    let parent = Peer { key: learner_key.public(), addresses };
    relay.neighbours(vec![(parent, NeighbourRole::Parent)]).await?;
    relay.announce(Arc::new(received)).await?;
    let complete = loop {
        match tokio::time::timeout(PATIENCE, events.recv()).await? {
            Some(SnapshotEvent::Install(manifest)) => break manifest,
            Some(_) => {}
            None => return Err("the snapshot service has stopped".into()),
        }
    };
    println!("received   {} bytes of blocks", relay.stats().await?.received_bytes);

    // What is read from the disk is verified once more.
    let mut reader = SnapshotReader::new(&store, &complete);
    for tensor in &complete.tensors {
        let mut bytes = Vec::new();
        reader.tensor::<SnapshotReadError>(tensor, |piece| {
            bytes.extend_from_slice(piece);
            Ok(())
        })?;
        println!("tensor     {} is as published: {}", tensor.name, bytes == weights);
    }

    // A manifest by another key, and a chunk with other bytes than its name says.
    let forged = Signed::sign(&manifest, &node_key)?.open_from(&learner_key.public());
    println!("refused    {}", forged.err().ok_or("a forged manifest was taken")?);
    let rotten = store.write(&manifest.chunks[0], b"other bytes");
    println!("refused    {}", rotten.err().ok_or("a rotten chunk was taken")?);

    node.shutdown().await;
    learner.shutdown().await;
    Ok(())
}

/// A host on a port of loopback that the system chooses.
async fn start_host(key: &NodeKey) -> Result<(Host, HostEvents), Box<dyn Error>> {
    let listen = vec!["/ip4/127.0.0.1/tcp/0".parse()?];
    Ok(Host::start(HostConfig { listen, ..HostConfig::client(key.secret(), "echo-example") }).await?)
}

/// A run is named by the hash of its signed charter. Here the name stands for one.
fn run_id() -> Result<RunId, Box<dyn Error>> {
    let hash = codec::encode(&ContentId::of(b"a charter"), 64)?;
    Ok(codec::decode(&hash, 64)?)
}
