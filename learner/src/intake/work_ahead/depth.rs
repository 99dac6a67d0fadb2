//! The controller of work-ahead: as few orders ahead as keep the learner from waiting.
//!
//! The learner waits when too little runs ahead, and groups lie about when too much does. Both are seen
//! whenever a batch is formed, so both move the depth: up at once, down slowly. What lies about rises and
//! falls with publications, as nodes that receive a policy bring less. So only what was too much in each of
//! κ batches is taken off.

/// The share of a period that counts as waiting; less is the time that forming a batch takes.
const WAITED: f64 = 0.01;
/// The depth grows by one batch divided by this, at least, after a wait.
const STEP_UP: u64 = 4;
/// Of the groups that lie about beyond half a batch, one in so many is taken off the depth.
const STEP_DOWN: u64 = 4;

/// How many orders may run ahead of the update at hand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Depth {
    orders: u64,
    batch: u64,
    most: u64,
    /// κ: updates from one publication to the next.
    period: u64,
    /// Batches since the depth was last moved or looked at, and the fewest groups that one left behind.
    formed: u64,
    least: u64,
}

impl Depth {
    /// All that S allows, until a batch has shown that less will do.
    pub(super) fn new(budget: u64, period: u64, batch: u64) -> Self {
        let most = budget.max(1).saturating_mul(batch);
        Self { orders: most, batch, most, period, formed: 0, least: u64::MAX }
    }

    /// Orders.
    pub(super) fn orders(&self) -> u64 {
        self.orders
    }

    /// Notes that a batch was formed which the learner waited for this share of a period, and that left
    /// `spare` groups behind.
    pub(super) fn formed(&mut self, waited: f64, spare: u64) {
        let enough = self.batch / 2;
        if waited > WAITED {
            let missing = (waited.min(1.0) * self.batch as f64) as u64;
            let step = missing.max(self.batch / STEP_UP).max(1);
            self.orders = self.orders.saturating_add(step).min(self.most);
            (self.formed, self.least) = (0, u64::MAX);
            return;
        }
        (self.formed, self.least) = (self.formed + 1, self.least.min(spare));
        if self.formed < self.period {
            return;
        }
        if self.least > enough {
            let step = ((self.least - enough) / STEP_DOWN).max(1);
            // With half a batch ahead, the learner waits for half an order time at each update.
            self.orders = self.orders.saturating_sub(step).max(self.batch.div_ceil(2)).min(self.most);
        }
        (self.formed, self.least) = (0, u64::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_grows_when_the_learner_waits_and_shrinks_when_groups_lie_about() {
        let mut depth = Depth::new(4, 1, 16);
        assert_eq!(depth.orders(), 64);
        for _ in 0..100 {
            depth.formed(0.0, 24);
        }
        assert_eq!(depth.orders(), 8, "half a batch at least");
        depth.formed(0.005, 8);
        assert_eq!(depth.orders(), 8, "neither a wait nor too many");
        depth.formed(0.02, 0);
        assert_eq!(depth.orders(), 12);
        depth.formed(0.5, 0);
        assert_eq!(depth.orders(), 20);
        for _ in 0..10 {
            depth.formed(3.0, 0);
        }
        assert_eq!(depth.orders(), 64, "never more than S batches");
    }

    #[test]
    fn what_lies_about_only_between_publications_is_kept() {
        let mut depth = Depth::new(4, 3, 16);
        for _ in 0..10 {
            [40, 20, 8].into_iter().for_each(|spare| depth.formed(0.0, spare));
        }
        assert_eq!(depth.orders(), 64, "the last of three batches needed it all");
        [40, 20].into_iter().for_each(|spare| depth.formed(0.0, spare));
        assert_eq!(depth.orders(), 64, "three batches are not over");
        depth.formed(0.0, 28);
        assert_eq!(depth.orders(), 61, "a quarter of what each left beyond half a batch");
        [40, 20].into_iter().for_each(|spare| depth.formed(0.0, spare));
        depth.formed(0.1, 0);
        [40, 20].into_iter().for_each(|spare| depth.formed(0.0, spare));
        assert_eq!(depth.orders(), 64, "batches are counted anew after a wait");
    }

    #[test]
    fn a_batch_of_one_moves_by_one() {
        let mut depth = Depth::new(2, 1, 1);
        depth.formed(0.0, 1);
        assert_eq!(depth.orders(), 1);
        depth.formed(0.1, 0);
        assert_eq!(depth.orders(), 2);
    }
}
