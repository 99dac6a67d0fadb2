//! What every message is made of: encoding, names, keys, signatures, numbers.
//!
//! All of it is pure. The same bytes come out on every platform, because they are hashed and signed.
//! This folder imports nothing else of the crate.
//!
//! ```text
//! value ── codec ──> bytes (CBOR, at most so long) ── signed ──> key, signature, bytes as sent
//!                                                                   │
//! value <── codec ── bytes <── limit, then signature are checked <──┘
//!
//! identity    ed25519 keys, which name peers       content_id  BLAKE3, which names bytes
//! rng         random numbers from a seed           time, rate  milliseconds, bytes per second
//! ```

pub mod codec;
pub mod content_id;
pub mod identity;
pub mod price;
pub mod rate;
pub mod rng;
pub mod signed;
pub mod time;
