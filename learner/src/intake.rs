//! From delivered bytes to groups that may be trained on: leases, admission, filter, replay buffer.
//!
//! It imports `reputation`, `storage` and `common`, and knows neither the network nor the trainer.
//! All its state changes together under the one lock of the coordinator.
//!
//! ```text
//! work_ahead   how much a node may be leased, what is leased a second time
//! order ─ leases ─> node ─> bytes
//!                             └─ admission   size, signature, lease, versions, task rules, reward
//!                                  └─ filter   does the group teach anything?
//!                                       └─ buffer   durable, then acknowledged
//!                                            └─ stored_group   batch by batch, to the trainer
//! outcome: every acknowledged group is trained on, or dropped with a recorded reason
//! ```

pub mod admission;
pub mod buffer;
pub mod coordinator;
pub mod filter;
pub mod group;
pub mod leases;
pub mod outcome;
pub mod stale_tally;
pub mod stored_group;
pub mod work_ahead;
