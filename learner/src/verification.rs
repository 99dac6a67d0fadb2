//! Whether a group's tokens were drawn from the policy as its order says, by the learner's own
//! audit and by other volunteers.
//!
//! It imports `intake` (refusals), `reputation` (faults, owners), `training`
//! (sequences), `storage` and `common`.
//!
//! ```text
//! group with a right reward
//!     ├─ panel            which verifiers are asked, and what their reports decide
//!     └─ sampling_audit   in full, or one trajectory (a glance)
//!          ├─ policies that nodes may still work under
//!          └─ republished   versions that nodes may hold with other weights: they pass unaudited
//! ```

pub mod panel;
pub mod republished;
pub mod sampling_audit;
