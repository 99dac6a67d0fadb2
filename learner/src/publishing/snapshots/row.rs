//! What a publication took and what it costs nodes, as the metrics have it.

use serde::{Deserialize, Serialize};

/// One publication, as its line of `metrics.jsonl` has it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PublicationRow {
    /// The version published: updates that its weights have seen.
    pub published: u64,
    /// Length of the snapshot in bytes: what a node without an older version fetches.
    pub full_bytes: u64,
    /// What a node fetches that holds the version before: deltas, and the chunks that have none, in bytes.
    pub delta_bytes: u64,
    /// Length of the signed manifest in bytes.
    pub manifest_bytes: u64,
    /// Chunks that the version before has at the same place.
    pub unchanged: u64,
    /// Chunks whose delta lists what changed.
    pub sparse: u64,
    /// Chunks whose delta covers all elements (xor, byte planes, zstd).
    pub xor: u64,
    /// Chunks without a delta.
    pub full: u64,
    /// Seconds of encoding, summed over threads: reading older chunks, deltas, writing them.
    pub encode_s: f64,
    /// Seconds from the first tensor to the signed manifest.
    pub publish_s: f64,
    /// Seconds from the end of the update to the announcement: waiting for the version before, the
    /// checkpoint and its copy to the store, and the publication. 0 in rows of older learners.
    #[serde(default)]
    pub release_s: f64,
}
