//! Who may cost the learner anything: decoding a group, and orders.

use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::trajectory::GroupHead;

use super::Coordinator;
use crate::intake::admission::{Admission, Rejection};

impl Coordinator {
    /// Whether a group may be decoded at all: its node is heard, and holds the order that it names.
    ///
    /// # Errors
    /// As for [`Coordinator::screen`].
    pub fn screen_head(
        &self,
        now: UnixMillis,
        admission: &Admission,
        head: &GroupHead,
    ) -> Result<(), Rejection> {
        self.check_open()?;
        self.hear(now, &head.node).map_err(|refusal| refusal.of(head.counter))?;
        admission.check_lease(&head.node, head.lease, head.counter, &self.book, &self.buffer)
    }

    pub(super) fn brought(&mut self, node: &PublicKey) {
        self.fruitless.brought(node);
        if self.record.is_known(node) {
            self.book.is_known_now(node);
        }
    }

    /// A node that lost its record no longer counts when an order is given up.
    pub(super) fn may_have_lost_its_record(&mut self, node: &PublicKey) {
        if !self.record.is_known(node) {
            self.book.is_unknown_now(node);
        }
    }

    /// Whether it is not by its own doing that what a node made for an order comes to nothing: the learner
    /// has leased that order a second time, or has its group. Only of nodes with a record: free keys would
    /// keep orders until they are leased again, and ask for more.
    pub fn excuses(&self, node: &PublicKey, counter: OrderCounter) -> bool {
        self.record.is_known(node) && self.book.is_excused(node, counter)
    }

    /// Notes that orders of a node came to nothing, by its own doing.
    pub fn brought_nothing(&mut self, now: UnixMillis, node: &PublicKey) {
        self.fruitless.note(now, *node);
    }

    /// Milliseconds until a node that has brought little may have orders again; 0 if it may now.
    pub fn pause_ms(&self, now: UnixMillis, node: &PublicKey) -> u64 {
        self.fruitless.pause_ms(now, node)
    }
}
