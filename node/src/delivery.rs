//! Finished groups on their way to the learner, and what it answered.
//!
//! A group is on disk before the worker goes on, and stays there until the learner has accepted or
//! refused it. A group that is sent twice is answered as a duplicate. May import `learner_link` for its
//! pauses, `state` and `status`.
//!
//! ```text
//! worker ── outbox (durable) ── sender (16 under way) ── learner
//!              ▲                   │
//!              └── settled ── answer: accepted ── receipts (signed, numbered)
//!                                     refused  ── receipts (counted by reason)
//! ```

pub mod outbox;
pub mod receipts;
pub mod sender;
