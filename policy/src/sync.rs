//! Waiting between threads: a lock in the order of asking, and an event that spins before it sleeps.
//!
//! Imports nothing of this crate. Backends take their turns with these.
//!
//! ```text
//! ticket_lock::TicketLock::take -> TicketGuard; dropping it admits the next in line
//! spin_event::SpinEvent::wait_until <- SpinEvent::notify
//! ```

pub(crate) mod spin_event;
pub(crate) mod ticket_lock;
