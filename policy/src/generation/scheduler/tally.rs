//! What a generation has done.

/// Counts since the generation began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GenerationStats {
    /// Tokens that were drawn, of all requests.
    pub drawn: u64,
    /// Tokens of prompts, and heard ones, that were computed for the first time. A prompt's last
    /// token belongs to the draw after it.
    pub prefilled: u64,
    /// Tokens that were computed once more: for another policy, or as the caches that held them
    /// were given up for want of memory.
    pub recomputed: u64,
    /// Requests whose caches were computed anew by a newer policy beside their draws, and that
    /// went on from these.
    pub succeeded: u64,
    /// Groups that were put back for want of memory.
    pub preempted: u64,
    /// Calls that the device had no memory for.
    pub out_of_memory: u64,
    /// Policies that took over while requests were in flight.
    pub interrupts: u64,
    /// Requests whose responses are complete.
    pub finished: u64,
    /// Requests that were abandoned before.
    pub abandoned: u64,
}
