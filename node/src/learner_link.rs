//! The connection to the learner: how it is found, asked, and found again after it was lost.
//!
//! The session sends a heartbeat every second and after every installation. Answers bring the newest
//! version and the neighbours for snapshots. May import `preflight`, `settings`, `state` and `status`.
//!
//! ```text
//! peer list, DHT, known peers ── discovery ── session ─┬─ heartbeat ── client ── learner
//!                                                      ├─ newest version ── snapshots
//!                                                      └─ neighbours ── snapshot service
//! first start: charter (asked once by a host of its own)
//! preflight: look (who of the list answers, and what the run needs)
//! backoff: the pauses of all parts that try again
//! ```

pub mod backoff;
pub mod charter;
pub mod client;
pub mod discovery;
pub mod look;
pub mod neighbours;
pub mod session;
