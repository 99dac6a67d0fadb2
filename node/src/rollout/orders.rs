//! Leased orders between the learner that hands them out and the worker that takes them.

use std::collections::BTreeSet;
use std::sync::Arc;

use echo_protocol::run::charter::RunId;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::signed::{Signed, SignedError};
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::lease::{HeldOrder, Lease, LeaseId};
use echo_protocol::work::order::OrderCounter;
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

/// An order that this node may work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeasedOrder {
    /// The lease that it came with; the same order may come again with another.
    pub lease: LeaseId,
    /// The order, numbered through the whole run.
    pub counter: OrderCounter,
    /// When it may be leased to somebody else, by this process's clock.
    pub deadline: UnixMillis,
}

impl LeasedOrder {
    /// As the learner knows it.
    pub fn held(&self) -> HeldOrder {
        HeldOrder { lease: self.lease, counter: self.counter }
    }
}

/// A lease that does not permit this node anything.
#[derive(Debug, thiserror::Error)]
pub enum LeaseError {
    /// Not signed by the learner, or not readable.
    #[error(transparent)]
    Signed(#[from] SignedError),
    /// For another run or another node.
    #[error("lease {} is for {whose}", lease.0)]
    NotOurs {
        /// The lease that was sent.
        lease: LeaseId,
        /// Whom it is for.
        whose: String,
    },
}

/// Opens a lease that came at `now`, and lists its orders.
///
/// # Errors
/// [`LeaseError`] when it is not the learner's, of another run, or for another node.
pub fn open_lease(
    signed: &Signed<Lease>,
    learner: &PublicKey,
    run: &RunId,
    me: &PublicKey,
    now: UnixMillis,
) -> Result<impl Iterator<Item = LeasedOrder> + use<>, LeaseError> {
    let lease = signed.open_from(learner)?;
    if lease.run != *run {
        return Err(LeaseError::NotOurs { lease: lease.id, whose: format!("run {}", lease.run.short()) });
    }
    if lease.node != *me {
        return Err(LeaseError::NotOurs { lease: lease.id, whose: format!("node {}", lease.node.short()) });
    }
    let deadline = now.plus(lease.lifetime_ms);
    Ok(lease.orders().map(move |counter| LeasedOrder { lease: lease.id, counter, deadline }))
}

/// The filling side of the queue.
#[derive(Debug)]
pub struct OrderStock {
    queue: mpsc::Sender<LeasedOrder>,
    taken: Arc<Notify>,
    waiting: Waiting,
    last: Option<HeldOrder>,
}

/// The working side of the queue.
#[derive(Debug)]
pub struct OrderSource {
    queue: mpsc::Receiver<LeasedOrder>,
    taken: Arc<Notify>,
    waiting: Waiting,
}

/// The orders in the queue, for both sides.
type Waiting = Arc<Mutex<BTreeSet<HeldOrder>>>;

/// A queue of at most `capacity` orders.
pub fn order_queue(capacity: usize) -> (OrderStock, OrderSource) {
    let (sender, receiver) = mpsc::channel(capacity.max(1));
    let (taken, waiting) = (Arc::new(Notify::new()), Waiting::default());
    let stock = OrderStock { queue: sender, taken: taken.clone(), waiting: waiting.clone(), last: None };
    (stock, OrderSource { queue: receiver, taken, waiting })
}

impl OrderStock {
    /// How many orders to ask for: what is free, once less than half is left, else 0. Asking for
    /// every single one would keep the learner busy with answers.
    pub fn wanted(&self) -> u32 {
        let (free, most) = (self.queue.capacity(), self.queue.max_capacity());
        let left = most - free;
        if left * 2 < most || left == 0 { free as u32 } else { 0 }
    }

    /// Adds an order, unless it waits already; false when there is no place, upon which
    /// the learner leases it again.
    pub fn add(&mut self, order: LeasedOrder) -> bool {
        let held = order.held();
        let mut waiting = self.waiting.lock();
        let added = waiting.contains(&held) || self.queue.try_send(order).is_ok();
        if added {
            waiting.insert(held);
            self.last = Some(held);
        }
        added
    }

    /// Has the learner lease again whatever it counts as this node's: it may have forgotten
    /// what came back to it.
    pub fn forget_last(&mut self) {
        self.last = None;
    }

    /// The order that was added last.
    pub fn last(&self) -> Option<HeldOrder> {
        self.last
    }

    /// Waits until the worker has taken something.
    pub async fn taken(&self) {
        self.taken.notified().await;
    }
}

impl OrderSource {
    /// Waits for an order, then takes what else is there, at most `most` in all. `None` when
    /// nothing will come any more.
    pub async fn batch(&mut self, most: usize) -> Option<Vec<LeasedOrder>> {
        let mut orders = vec![self.queue.recv().await?];
        orders.extend(self.at_hand(most - 1));
        self.took(&orders);
        Some(orders)
    }

    /// Takes what is there, at most `most`.
    pub fn ready(&mut self, most: usize) -> Vec<LeasedOrder> {
        let orders: Vec<_> = self.at_hand(most).collect();
        if !orders.is_empty() {
            self.took(&orders);
        }
        orders
    }

    fn at_hand(&mut self, most: usize) -> impl Iterator<Item = LeasedOrder> {
        std::iter::from_fn(|| self.queue.try_recv().ok()).take(most)
    }

    fn took(&self, orders: &[LeasedOrder]) {
        let mut waiting = self.waiting.lock();
        orders.iter().for_each(|order| _ = waiting.remove(&order.held()));
        self.taken.notify_one();
    }

    /// Whether no order waits.
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_protocol::wire::identity::NodeKey;

    fn order(counter: u64) -> LeasedOrder {
        LeasedOrder { lease: LeaseId(1), counter: OrderCounter(counter), deadline: UnixMillis(9) }
    }

    #[tokio::test]
    async fn the_stock_is_refilled_once_less_than_half_is_left() {
        let (mut stock, mut source) = order_queue(8);
        assert_eq!((stock.wanted(), stock.last()), (8, None));
        assert!((0..8).all(|n| stock.add(order(n))) && !stock.add(order(8)));
        let last = HeldOrder { lease: LeaseId(1), counter: OrderCounter(7) };
        assert_eq!(stock.last(), Some(last), "there was no place for the other one");
        assert_eq!(stock.wanted(), 0);
        assert_eq!(source.batch(4).await.unwrap().len(), 4);
        stock.taken().await;
        assert_eq!(stock.wanted(), 0);
        assert_eq!(source.batch(1).await.unwrap(), [order(4)]);
        assert_eq!(stock.wanted(), 5);
        drop(stock);
        assert_eq!(source.batch(9).await.unwrap().len(), 3);
        assert!(source.batch(9).await.is_none());
    }

    #[tokio::test]
    async fn what_is_leased_again_waits_once() {
        let (mut stock, mut source) = order_queue(4);
        assert!((0..3).all(|n| stock.add(order(n))));
        stock.forget_last();
        assert_eq!(stock.last(), None);
        // Whoever takes an order from the queue knows whether it is at work on it; until then the queue does.
        assert_eq!(source.ready(1), [order(0)]);
        assert!((0..4).all(|n| stock.add(order(n))));
        assert_eq!(stock.last(), Some(order(3).held()));
        assert_eq!(source.batch(9).await.unwrap(), [1, 2, 0, 3].map(order));
        assert!(stock.add(order(0)));
        assert_eq!(source.ready(9), [order(0)]);
    }

    #[tokio::test]
    async fn a_stock_of_one_is_refilled_too() {
        let (mut stock, mut source) = order_queue(1);
        assert_eq!(stock.wanted(), 1);
        stock.add(order(0));
        assert_eq!(stock.wanted(), 0);
        source.batch(8).await.unwrap();
        assert_eq!(stock.wanted(), 1);
    }

    #[test]
    fn only_the_learners_leases_for_this_node_and_run_are_worked_on() {
        let (learner, me) = (NodeKey::from_secret([1; 32]), NodeKey::from_secret([2; 32]));
        let run = |byte: u8| -> RunId {
            echo_protocol::wire::codec::decode(&[[0x58, 32].as_slice(), &[byte; 32]].concat(), 64).unwrap()
        };
        let lease = Lease {
            run: run(1),
            id: LeaseId(3),
            node: me.public(),
            first: OrderCounter(10),
            count: 2,
            lifetime_ms: 50,
        };
        let open = |lease: &Lease, signer: &NodeKey| {
            let signed = Signed::sign(lease, signer).unwrap();
            open_lease(&signed, &learner.public(), &run(1), &me.public(), UnixMillis(7))
                .map(|orders| orders.collect::<Vec<_>>())
        };
        let orders = open(&lease, &learner).unwrap();
        assert_eq!(
            orders.iter().map(|o| (o.counter.0, o.deadline.0)).collect::<Vec<_>>(),
            [(10, 57), (11, 57)]
        );
        assert!(matches!(open(&lease, &me), Err(LeaseError::Signed(_))));
        let other_run = Lease { run: run(2), ..lease.clone() };
        let other_node = Lease { node: learner.public(), ..lease };
        for foreign in [other_run, other_node] {
            assert!(matches!(open(&foreign, &learner), Err(LeaseError::NotOurs { .. })));
        }
    }
}
