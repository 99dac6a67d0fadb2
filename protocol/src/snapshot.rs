//! What a snapshot consists of, and which part of it to fetch.
//!
//! A manifest names chunks and deltas by their content. Both are pieces, which travel in blocks of
//! 64 KiB that are verified one by one. Nothing here touches a disk. May import `wire` and `run`.
//!
//! ```text
//! manifest (signed) ──> chunks, and deltas against an older version
//!        │                        │
//!        └──── fetch_plan ────────┤ the cheapest way from what is on disk
//!                                 v
//!        piece_set: which pieces, and which of their blocks
//!                                 v
//!        blocks: a block and its tree ──> verified ──> delta: chunk of the new version
//! ```

pub mod blocks;
pub mod delta;
pub mod fetch_plan;
pub mod manifest;
pub mod piece_set;
