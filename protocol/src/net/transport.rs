//! The layers under a stream: bandwidth caps, multiplexing, encryption, and when to dial.
//!
//! `net::swarm` stacks them. QUIC brings encryption and multiplexing of its own, and circuits run over
//! connections that are capped already. May import `net::error`, and `snapshot` for a block's length.
//!
//! ```text
//! stream
//!   │   rate_limit        TCP, QUIC       token buckets, in bytes as they appear on the wire
//!   │   yamux             TCP, circuits   many streams, moved by a task of their own
//!   │   tls               TCP, circuits   TLS 1.3 with large buffers
//!   │   read_coalescing   TCP             bulk data is read at instants that all connections share
//!   │   pending_handshakes   all          the oldest unfinished one goes where there are too many
//!   v   delayed_dial      QUIC, circuits  dialled later than TCP
//! socket
//! ```

pub(crate) mod delayed_dial;
pub(crate) mod pending_handshakes;
pub(crate) mod rate_limit;
pub(crate) mod read_coalescing;
pub(crate) mod tls;
pub(crate) mod yamux;
