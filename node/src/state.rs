//! What a node keeps on disk from start to start, but for its work: identity, charter, known peers.
//!
//! Files are small and are replaced as a whole. A damaged charter is asked for again, and damaged known
//! peers are forgotten. A damaged trusted list keeps the node from starting, because a new one would
//! trust whoever comes first. Imports no other folder of this crate.
//!
//! ```text
//! settings ── data_dir (paths, lock)
//!                │
//!             state_file (read, replace) ─┬─ trusted_list  the keeper of peer lists
//!                                         ├─ known_peers   peers that worked last
//!                                         └─ charter_file  the run's signed charter
//! ```

pub mod charter_file;
pub mod data_dir;
pub mod known_peers;
pub(crate) mod shown_path;
pub mod state_file;
pub mod trusted_list;
