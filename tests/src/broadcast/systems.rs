//! The systems that race: each starts its processes on a site and says when a node is complete.
//!
//! Imports `race`, whose trait they implement, and `site`.
//!
//! ```text
//! race ── System ──► echo ──► echo-learner publish, echo-node     (modes echo, chain and star)
//!            │         └─────► corrupt_node: a node that serves bytes that match no content id
//!            ├─────► http: one server, curl on every node
//!            └─────► torrent: libtorrent, driven by tests/peers/torrent.py
//! json_lines reads what these processes print.
//! ```

pub(crate) mod corrupt_node;
pub(crate) mod echo;
pub(crate) mod http;
mod json_lines;
pub(crate) mod torrent;
