//! What all peers of Echo agree on, and the drivers that they share.
//!
//! A run of Echo is a conversation between strangers: volunteers, one learner, and the keepers of peer
//! lists. This crate specifies their messages to the byte. It also holds the state machines that every
//! peer runs, and the code that connects them to sockets and disks.
//!
//! ```
//! use echo_protocol::wire::{content_id::ContentId, identity::NodeKey};
//!
//! // Content is named by its hash, and messages are signed by the key that names a peer.
//! let (chunk, key) = (ContentId::of(b"some weights"), NodeKey::generate()?);
//! let signature = key.sign(chunk.as_bytes());
//! assert!(key.public().verifies(chunk.as_bytes(), &signature));
//! assert!(!chunk.matches(b"other weights"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - `wire`: encoding with a size limit, signatures over the bytes as sent, keys, content ids, derived
//!   random numbers. Everything else is built on it.
//! - `run`: the signed charter that names a run, versions and epochs, the staleness budget, peer lists.
//! - `work`: leases and work orders, groups of trajectories, the learner's answers and
//!   receipts, and verifiers' reports.
//! - `snapshot`: manifests, chunks and deltas, the blocks in which they travel, and the plan
//!   of what to fetch.
//! - `dissemination`: the state machine that spreads snapshots, and its simulator.
//! - `control`: what a node asks the learner, and its heartbeats.
//! - `store`: pieces of snapshots on disk, verified whenever they are read.
//! - `net`: the host and its protocols. No other code of the workspace knows libp2p.
//! - `program`: what a process needs: clock, key file, signals, output, the lock on a directory.
//!
//! Imports go one way: `wire` ← `run` ← `work`, `snapshot` ← `dissemination` ← `control` ← `net`, with
//! `store` on `snapshot`, and `program` on `wire`. Only `store`, `net` and `program` use sockets,
//! clocks, files or threads. A simulator can drive everything else.
//!
//! # A block of a snapshot
//!
//! ```text
//! learner: snapshot::manifest, signed ── gossip ──> node
//! node:    net::snapshots::downloads ── snapshot::fetch_plan ──> pieces that are wanted
//!          dissemination ── which block of which neighbour ──> net::snapshots::upstream
//! neighbour:                 net::snapshots::downstream <── request
//! node:    net::snapshots::block_writer <── block ── verified against its tree, kept in store
//!          dissemination ── announces the block ──> net::snapshots::downstream ──> its consumers
//! ```
//!
//! # A group of trajectories
//!
//! ```text
//! node    ── control::requests: lease? ──> learner ── work::lease, signed ──> node
//! node:      work::order from run id and counter; G responses; work::trajectory, signed
//! node    ── a stream of net ──> learner ── work::submission with a work::receipt ──> node
//! learner ── the same group ──> verifier ── work::verification, signed ──> learner
//! ```

pub mod control;
pub mod dissemination;
pub mod net;
pub mod program;
pub mod run;
pub mod snapshot;
pub mod store;
pub mod wire;
pub mod work;
