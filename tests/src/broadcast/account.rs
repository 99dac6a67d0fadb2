//! What a system says of its own work.

/// What a system knows of its own work. What it does not know stays `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SystemAccount {
    /// Payload that nodes received a second time, as a share of what they needed.
    pub(super) duplicate_share: Option<f64>,
    /// Blocks that were taken from another neighbour than the one that was asked first.
    pub(super) repairs: Option<u64>,
    /// Payload bytes that the source sent, where interfaces do not count them.
    pub(super) source_bytes: Option<u64>,
    /// Peers that were cut off for serving rotten bytes.
    pub(super) cut_off: Vec<String>,
}
