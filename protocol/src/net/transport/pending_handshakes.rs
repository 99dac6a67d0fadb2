//! Unfinished handshakes of others: who is silent loses its place to who comes later.
//!
//! A socket that says nothing costs a stranger nothing, and there are few places. Were they refused when all
//! are taken, a few hundred silent sockets would lock everybody out. An honest handshake is over within a few
//! round trips, so the one that began longest ago goes.

use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::{AbortHandle, AbortRegistration, Abortable};
use libp2p::Multiaddr;
use libp2p::core::transport::{Boxed, DialOpts, ListenerId, Transport, TransportError, TransportEvent};
use parking_lot::Mutex;

use crate::net::addresses::{outer_ip, prefix_of};

/// Unfinished handshakes from one address of the internet.
const PER_ADDRESS: usize = 8;
/// The same from one network.
const PER_NETWORK: usize = 32;

/// A transport that bounds the handshakes that others have begun with us.
pub(in crate::net) struct Gated<O> {
    inner: Boxed<O>,
    pending: Pending,
}

impl<O> Gated<O> {
    /// At most `most` at once.
    pub(in crate::net) fn new(inner: Boxed<O>, most: u32) -> Self {
        Self { inner, pending: Pending::new(most.max(1) as usize) }
    }
}

impl<O: Send + 'static> Transport for Gated<O> {
    type Output = O;
    type Error = <Boxed<O> as Transport>::Error;
    type ListenerUpgrade = <Boxed<O> as Transport>::ListenerUpgrade;
    type Dial = <Boxed<O> as Transport>::Dial;

    fn listen_on(&mut self, id: ListenerId, address: Multiaddr) -> Result<(), TransportError<Self::Error>> {
        self.inner.listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.inner.remove_listener(id)
    }

    fn dial(
        &mut self,
        address: Multiaddr,
        options: DialOpts,
    ) -> Result<Self::Dial, TransportError<Self::Error>> {
        self.inner.dial(address, options)
    }

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, Self::Error>> {
        match Pin::new(&mut self.inner).poll(cx) {
            Poll::Ready(TransportEvent::Incoming { listener_id, upgrade, local_addr, send_back_addr }) => {
                let (place, registration) = self.pending.enter(outer_ip(&send_back_addr));
                let upgrade = async move {
                    let made = Abortable::new(upgrade, registration).await;
                    drop(place);
                    made.unwrap_or_else(|_| Err(made_room()))
                }
                .boxed();
                Poll::Ready(TransportEvent::Incoming { listener_id, upgrade, local_addr, send_back_addr })
            }
            other => other,
        }
    }
}

fn made_room() -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionAborted, "the handshake took long, and others came")
}

/// The handshakes that are under way.
#[derive(Clone)]
struct Pending(Arc<Mutex<Places>>);

struct Places {
    most: usize,
    next: u64,
    /// By age: the oldest first.
    taken: BTreeMap<u64, Taken>,
}

struct Taken {
    /// `None` within a computer or a network, and through a relay: such addresses say nothing of an owner.
    address: Option<IpAddr>,
    abort: AbortHandle,
}

impl Taken {
    fn network(&self) -> Option<IpAddr> {
        self.address.map(prefix_of)
    }
}

/// A handshake's place, until it is dropped.
struct Place {
    pending: Pending,
    number: u64,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.pending.0.lock().taken.remove(&self.number);
    }
}

impl Pending {
    fn new(most: usize) -> Self {
        Self(Arc::new(Mutex::new(Places { most, next: 0, taken: BTreeMap::new() })))
    }

    /// A place for a handshake, for which others may have to go.
    fn enter(&self, address: Option<IpAddr>) -> (Place, AbortRegistration) {
        let (abort, registration) = AbortHandle::new_pair();
        let mut places = self.0.lock();
        places.make_room(address);
        let number = places.next;
        places.next += 1;
        places.taken.insert(number, Taken { address, abort });
        (Place { pending: self.clone(), number }, registration)
    }
}

impl Places {
    fn make_room(&mut self, address: Option<IpAddr>) {
        if address.is_some() {
            self.thin(PER_ADDRESS, |taken| taken.address == address);
            let network = address.map(prefix_of);
            self.thin(PER_NETWORK, |taken| taken.network() == network);
        }
        if self.taken.len() >= self.most {
            let crowded = self.most_crowded();
            self.thin(1, |taken| taken.network() == crowded);
        }
    }

    /// Ends the oldest of those that `of` names, if there are `most` or more.
    fn thin(&mut self, most: usize, of: impl Fn(&Taken) -> bool) {
        let named: Vec<u64> =
            self.taken.iter().filter(|(_, taken)| of(taken)).map(|(number, _)| *number).collect();
        if named.len() >= most
            && let Some(oldest) = named.first().and_then(|number| self.taken.remove(number))
        {
            oldest.abort.abort();
        }
    }

    /// The network with most handshakes under way; of several the one with the oldest.
    fn most_crowded(&self) -> Option<IpAddr> {
        let mut crowds: BTreeMap<Option<IpAddr>, usize> = BTreeMap::new();
        for taken in self.taken.values() {
            *crowds.entry(taken.network()).or_default() += 1;
        }
        let most = crowds.values().max();
        self.taken.values().map(Taken::network).find(|network| crowds.get(network) == most).flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> Option<IpAddr> {
        Some(text.parse().unwrap())
    }

    fn is_over(registration: AbortRegistration) -> bool {
        Abortable::new(std::future::pending::<()>(), registration).now_or_never().is_some()
    }

    #[test]
    fn silent_sockets_lose_their_places_to_who_comes_later() {
        let pending = Pending::new(16);
        let silent: Vec<_> = (0..16).map(|_| pending.enter(None)).collect();
        let (_place, newcomer) = pending.enter(None);
        let over: Vec<bool> = silent.into_iter().map(|(_, silent)| is_over(silent)).collect();
        assert!(over[0] && !over[1..].contains(&true), "the oldest alone: {over:?}");
        assert!(!is_over(newcomer));
    }

    #[test]
    fn an_address_and_a_network_take_their_share_and_the_crowd_makes_room() {
        let pending = Pending::new(64);
        let (_honest, alone) = pending.enter(ip("8.8.4.4"));
        let of_one: Vec<_> = (0..=PER_ADDRESS).map(|_| pending.enter(ip("203.0.113.1"))).collect();
        assert_eq!(pending.0.lock().taken.len(), PER_ADDRESS + 1, "its own oldest went");
        let of_network: Vec<_> =
            (2..60).map(|last| pending.enter(ip(&format!("203.0.113.{last}")))).collect();
        assert_eq!(pending.0.lock().taken.len(), PER_NETWORK + 1);
        // All places are taken by many networks: the one with most gives.
        let others: Vec<_> = (0..60).map(|n| pending.enter(ip(&format!("198.51.{n}.1")))).collect();
        assert_eq!(pending.0.lock().taken.len(), 64);
        assert!(!is_over(alone), "who stands alone stays");
        drop((of_one, of_network, others));
        assert_eq!(pending.0.lock().taken.len(), 1, "places end with their handshakes");
    }
}
