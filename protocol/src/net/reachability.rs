//! Whether others can connect to this host, and its help to others who want to know the same.
//!
//! `findings` decides. The other modules are libp2p behaviours that limit what a stranger can make them
//! do. May import `net::addresses`, `net::peer_id`, and `control` for the answer.
//!
//! ```text
//! identify: the IP at which peers see us
//!       └──> findings: guesses ── autonat_client ──> a peer's autonat_server dials the guess
//!                 ^                                            │
//!                 └────────── reached, or failed ──────────────┘
//!                 │
//!                 ├──> public:  others dial us
//!                 └──> private: a place at a circuit relay, then hole_punching
//! ```

pub(crate) mod autonat_client;
pub(crate) mod autonat_server;
pub(crate) mod findings;
pub(crate) mod fixed_window;
pub(crate) mod hole_punching;
