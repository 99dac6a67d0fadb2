//! Who is next: clients take turns, and each has its own requests done in order.

use std::collections::{BTreeMap, VecDeque};

use super::ClientId;

/// What may wait or be worked on at one time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueLimits {
    /// Requests of all clients.
    pub requests: usize,
    /// Requests of one client.
    pub per_client: usize,
}

impl Default for QueueLimits {
    /// A request holds a source and perhaps a compiled program: thousands fit into memory.
    fn default() -> Self {
        Self { requests: 1024, per_client: 256 }
    }
}

/// There is too much to do already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Full {
    /// Of all clients together.
    #[error("{limit} requests are waiting already; try again when some are done, or on another server")]
    Service {
        /// [`QueueLimits::requests`], which has been reached.
        limit: usize,
    },
    /// Too much of this one client, whatever others have.
    #[error("{limit} requests of this client are waiting already; read their reports before asking for more")]
    Client {
        /// [`QueueLimits::per_client`], which has been reached.
        limit: usize,
    },
}

/// Waiting requests, which clients take turns with.
#[derive(Debug)]
pub(super) struct Queue<T> {
    limits: QueueLimits,
    clients: BTreeMap<ClientId, Client<T>>,
    /// Clients that have something waiting, each once.
    turns: VecDeque<ClientId>,
    /// Requests that wait or are worked on.
    admitted: usize,
}

#[derive(Debug)]
struct Client<T> {
    waiting: VecDeque<T>,
    admitted: usize,
}

impl<T> Queue<T> {
    pub(super) fn new(limits: QueueLimits) -> Self {
        Self { limits, clients: BTreeMap::new(), turns: VecDeque::new(), admitted: 0 }
    }

    /// Requests that wait or are worked on.
    pub(super) fn admitted(&self) -> usize {
        self.admitted
    }

    /// Takes a request. It counts until it is [finished](Self::finish).
    pub(super) fn admit(&mut self, id: ClientId, request: T) -> Result<(), Full> {
        let QueueLimits { requests, per_client } = self.limits;
        if self.admitted >= requests {
            return Err(Full::Service { limit: requests });
        }
        if self.clients.get(&id).map_or(0, |client| client.admitted) >= per_client {
            return Err(Full::Client { limit: per_client });
        }
        let new = || Client { waiting: VecDeque::new(), admitted: 0 };
        let client = self.clients.entry(id).or_insert_with(new);
        client.admitted += 1;
        client.waiting.push_back(request);
        self.admitted += 1;
        self.line_up(id);
        Ok(())
    }

    /// The first request of the client whose turn it is.
    pub(super) fn next(&mut self) -> Option<(ClientId, T)> {
        let id = self.turns.pop_front()?;
        let client = self.clients.get_mut(&id)?;
        let request = client.waiting.pop_front()?;
        if !client.waiting.is_empty() {
            self.turns.push_back(id);
        }
        Some((id, request))
    }

    /// Takes back a request that needs more turns, in front of the client's others.
    pub(super) fn put_back(&mut self, id: ClientId, request: T) {
        if let Some(client) = self.clients.get_mut(&id) {
            client.waiting.push_front(request);
            self.line_up(id);
        }
    }

    /// A request that [`Self::next`] gave is done.
    pub(super) fn finish(&mut self, id: ClientId) {
        let Some(client) = self.clients.get_mut(&id) else { return };
        client.admitted -= 1;
        self.admitted -= 1;
        if client.admitted == 0 {
            self.clients.remove(&id);
        }
    }

    /// Puts a client at the end of the line whose first waiting request just came;
    /// others stand there already.
    fn line_up(&mut self, id: ClientId) {
        if self.clients.get(&id).is_some_and(|client| client.waiting.len() == 1) {
            self.turns.push_back(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: QueueLimits = QueueLimits { requests: 4, per_client: 3 };

    #[test]
    fn clients_take_turns_and_keep_their_order() {
        let mut queue = Queue::new(LIMITS);
        for request in ["a1", "a2", "a3"] {
            queue.admit(ClientId(1), request).unwrap();
        }
        queue.admit(ClientId(2), "b1").unwrap();
        let (client, request) = queue.next().unwrap();
        assert_eq!(request, "a1");
        // It needs more turns, but not before the other client has had one.
        queue.put_back(client, request);
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).map(|(_, request)| request).collect();
        assert_eq!(order, ["b1", "a1", "a2", "a3"]);
    }

    #[test]
    fn what_is_worked_on_counts_until_it_is_finished() {
        let mut queue = Queue::new(LIMITS);
        for _ in 0..3 {
            queue.admit(ClientId(1), ()).unwrap();
        }
        assert_eq!(queue.admit(ClientId(1), ()), Err(Full::Client { limit: 3 }));
        queue.admit(ClientId(2), ()).unwrap();
        assert_eq!(queue.admit(ClientId(3), ()), Err(Full::Service { limit: 4 }));
        let (client, ()) = queue.next().unwrap();
        assert_eq!(queue.admit(ClientId(3), ()), Err(Full::Service { limit: 4 }));
        queue.finish(client);
        queue.admit(ClientId(3), ()).unwrap();
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_nobody_waits_longer_than_a_round(steps in proptest::collection::vec((0u64..4, 0u8..4), 1..200)) {
            let mut queue = Queue::new(QueueLimits { requests: 16, per_client: 8 });
            let mut running = Vec::new();
            let mut admitted = 0;
            for (at, (client, step)) in steps.into_iter().enumerate() {
                match step {
                    0 | 1 => admitted += usize::from(queue.admit(ClientId(client), at).is_ok()),
                    2 => running.extend(queue.next()),
                    _ => if let Some((client, request)) = running.pop() {
                        if request % 2 == 0 {
                            queue.put_back(client, request);
                        } else {
                            queue.finish(client);
                            admitted -= 1;
                        }
                    }
                }
                let waiting: usize = queue.clients.values().map(|client| client.waiting.len()).sum();
                prop_assert_eq!(waiting + running.len(), admitted);
                let lined_up: std::collections::BTreeSet<_> = queue.turns.iter().copied().collect();
                let with_work: std::collections::BTreeSet<_> =
                    queue.clients.iter().filter(|(_, client)| !client.waiting.is_empty()).map(|(id, _)| *id).collect();
                prop_assert_eq!(lined_up.len(), queue.turns.len());
                prop_assert_eq!(lined_up, with_work);
            }
        }
    }
}
