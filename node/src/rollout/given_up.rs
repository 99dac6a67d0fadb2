//! Orders that this node could not do.

use std::collections::BTreeSet;
use std::fmt::Display;

use echo_protocol::order::OrderCounter;

/// Most orders that are remembered, the newest.
const MAX_REMEMBERED: usize = 1024;

/// Orders that were given up: one whose prompt has no tokens, or that the task could not judge. Nobody is told but the owner, each once,
/// however often it is leased again; the learner gets no group, sees the lease end, and in the end gives the order up itself.
#[derive(Debug, Default)]
pub(super) struct GivenUp(BTreeSet<OrderCounter>);

impl GivenUp {
    /// Notes that `order` came to nothing.
    pub(super) fn note(&mut self, order: OrderCounter, why: &dyn Display) {
        if self.is_news(order) {
            tracing::error!(%order, "gave one order up: {why}. The others go on; this one is leased to somebody else");
        } else {
            tracing::debug!(%order, "gave an order up again: {why}");
        }
    }

    fn is_news(&mut self, order: OrderCounter) -> bool {
        let news = self.0.insert(order);
        while self.0.len() > MAX_REMEMBERED {
            self.0.pop_first();
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_hears_of_an_order_once_and_the_newest_are_remembered() {
        let mut given_up = GivenUp::default();
        let mut is_news = |order| given_up.is_news(OrderCounter(order));
        assert!(is_news(7) && !is_news(7) && is_news(8) && !is_news(7));
        assert!((100..100 + MAX_REMEMBERED as u64).all(&mut is_news));
        assert!(!is_news(100));
        assert_eq!(given_up.0.len(), MAX_REMEMBERED);
    }
}
