//! The words every peer of Echo shares.
//!
//! A run of Echo is a conversation between strangers: volunteers, one learner, and the keepers of bootstrap peer
//! lists. This crate holds what they must agree on to the byte, and nothing else:
//!
//! - **bytes**: [`codec`] (size-capped CBOR), [`signed`] (signatures over bytes as received), [`identity`],
//!   [`content`] (BLAKE3 addresses), [`draw`] (draws that are the same on every platform);
//! - **a run**: [`charter`], [`version`], [`staleness`], [`peer_list`];
//! - **work**: [`lease`], [`order`], [`trajectory`], [`precision`], [`submission`], [`receipt`], [`check`];
//! - **snapshots**: [`manifest`], [`piece_set`], [`groups`] (parts that are verified alone), [`delta`], [`recipe`] (what to fetch), [`chunk_set`],
//!   [`relay`];
//! - **talk**: [`control`], [`heartbeat`], [`rate`];
//! - **drivers**: [`store`] (chunks on disk), [`keyfile`], [`clock`], [`told`] (errors for people), [`program`] (what processes
//!   print, how they end, the lock on a directory), and [`net`], the only libp2p code of the house.
//!
//! Everything but the drivers is free of sockets, clocks, files and threads, so that a simulator can drive it.

mod buffers;
pub mod charter;
pub mod check;
pub mod chunk_set;
pub mod clock;
pub mod codec;
pub mod content;
pub mod control;
pub mod delta;
pub mod draw;
pub mod epoch;
pub mod groups;
pub mod heartbeat;
pub mod identity;
pub mod keyfile;
pub mod lease;
pub mod manifest;
pub mod net;
pub mod order;
pub mod peer_list;
pub mod piece_set;
pub mod precision;
pub mod program;
pub mod rate;
pub mod receipt;
pub mod recipe;
pub mod relay;
pub mod signed;
pub mod staleness;
pub mod store;
pub mod submission;
pub mod tensor_type;
pub mod time;
pub mod told;
pub mod trajectory;
pub mod version;
