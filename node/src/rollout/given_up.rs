//! Orders that this node could not do.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::time::Duration;

use echo_protocol::program::log_throttle::Paced;
use echo_protocol::work::lease::{HeldOrder, ReturnReason};
use echo_protocol::work::order::OrderCounter;

use crate::rollout::returns::Returns;

/// Most orders that are remembered, the newest.
const MAX_REMEMBERED: usize = 1024;
/// Orders that are given up have one line in the log in this time. A task may be unable to judge a good
/// part of its prompts.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Orders that were given up: one whose prompt has no tokens, or that the task could not judge. Each goes
/// back to the learner, with the reason. The owner reads of it once, however often it is leased again.
#[derive(Debug)]
pub(crate) struct GivenUp {
    known: BTreeSet<OrderCounter>,
    lines: Paced,
    returns: Returns,
}

impl GivenUp {
    pub(crate) fn new(returns: Returns) -> Self {
        Self { known: BTreeSet::new(), lines: Paced::new(LINE_EVERY), returns }
    }

    /// Gives an order back that came to nothing.
    pub(crate) fn note(&mut self, held: HeldOrder, reason: ReturnReason, why: &dyn Display) {
        let (order, why) = (held.counter, why.to_string());
        match self.is_news(order).then(|| self.lines.due("given up")).flatten() {
            Some(orders) => {
                tracing::error!(%order, orders, "gave one order back to the learner: {why}. The others go on");
            }
            None => tracing::debug!(%order, "gave an order back: {why}"),
        }
        self.returns.give_back(&[held], reason, &why);
    }

    fn is_news(&mut self, order: OrderCounter) -> bool {
        let news = self.known.insert(order);
        while self.known.len() > MAX_REMEMBERED {
            self.known.pop_first();
        }
        news
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_hears_of_an_order_once_and_the_newest_are_remembered() {
        let mut given_up = GivenUp::new(crate::rollout::returns::returns().0);
        let mut is_news = |order| given_up.is_news(OrderCounter(order));
        assert!(is_news(7) && !is_news(7) && is_news(8) && !is_news(7));
        assert!((100..100 + MAX_REMEMBERED as u64).all(&mut is_news));
        assert!(!is_news(100));
        assert_eq!(given_up.known.len(), MAX_REMEMBERED);
    }
}
