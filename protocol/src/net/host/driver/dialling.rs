//! Dials and those who wait for them.

use std::collections::BTreeSet;
use std::error::Error;

use libp2p::core::transport::TransportError;
use libp2p::swarm::dial_opts::{DialOpts, PeerCondition};
use libp2p::swarm::{ConnectionId, DialError};
use libp2p::{Multiaddr, PeerId};

use super::{HostDriver, ReplySender, answer};
use crate::net::addresses::is_relayed;
use crate::net::error::NetError;
use crate::net::limits::{MAX_DIAL_ADDRESSES, MAX_PENDING_DIALS};
use crate::net::swarm::NO_RESOLVER;

/// A dial for which somebody waits.
#[derive(Default)]
pub(super) struct Dial {
    /// Our own dial; `None` while we wait for one that a part of the swarm started by itself.
    under_way: Option<ConnectionId>,
    tried: Vec<Multiaddr>,
    /// In an order of their own, so that a peer that is away is described alike each time.
    causes: BTreeSet<String>,
    waiting: Vec<ReplySender<()>>,
}

impl HostDriver {
    pub(super) fn dial(&mut self, peer: PeerId, addrs: Vec<Multiaddr>, reply: ReplySender<()>) {
        for addr in addrs.into_iter().take(MAX_DIAL_ADDRESSES) {
            self.give_address(peer, addr);
        }
        if peer == *self.swarm.local_peer_id() {
            return answer(
                reply,
                Err(NetError::Dial { peer, causes: "that is our own identity".to_owned() }),
            );
        }
        if self.is_blocked(&peer) {
            return answer(reply, Err(NetError::Blocked { peer }));
        }
        if self.is_direct(&peer) {
            return answer(reply, Ok(()));
        }
        let waiting: usize = self.dials.values().map(|dial| dial.waiting.len()).sum();
        if waiting >= MAX_PENDING_DIALS {
            return answer(reply, Err(NetError::Busy { what: "dials", cap: MAX_PENDING_DIALS }));
        }
        let joins = self.dials.contains_key(&peer);
        self.dials.entry(peer).or_default().waiting.push(reply);
        if !joins {
            self.dial_untried(peer);
        }
    }

    pub(super) fn dial_succeeded(&mut self, peer: PeerId) {
        for caller in self.dials.remove(&peer).unwrap_or_default().waiting {
            answer(caller, Ok(()));
        }
    }

    /// A dial failed, ours or one that a part of the swarm started. Goes on if that was not all we know.
    pub(super) fn dial_failed(&mut self, peer: PeerId, id: ConnectionId, error: &DialError) {
        let Some(dial) = self.dials.get_mut(&peer) else { return };
        if dial.under_way.is_some_and(|own| own != id) {
            return;
        }
        dial.causes.extend(describe(error));
        if self.book.addresses(&peer).iter().any(|addr| !dial.tried.contains(addr)) {
            self.dial_untried(peer);
        } else {
            self.give_up(peer);
        }
    }

    fn dial_untried(&mut self, peer: PeerId) {
        let circuit = self.swarm.is_connected(&peer);
        let Some(dial) = self.dials.get_mut(&peer) else { return };
        let mut addrs = self.book.addresses(&peer);
        // Where there is a circuit already, only a direct connection would be news.
        addrs.retain(|addr| !(dial.tried.contains(addr) || circuit && is_relayed(addr)));
        if circuit && addrs.is_empty() {
            return self.give_up(peer);
        }
        let options = DialOpts::peer_id(peer)
            .condition(PeerCondition::NotDialing)
            .addresses(addrs.clone())
            .extend_addresses_through_behaviour()
            // From a port of its own: two that dial each other from their listening ports at
            // the same moment meet in one TCP connection that both believe to have opened,
            // and whose handshake fails.
            .allocate_new_port()
            .build();
        dial.under_way = Some(options.connection_id());
        match self.swarm.dial(options) {
            Ok(()) => dial.tried.extend(addrs),
            // A part of the swarm dials this peer just now: its outcome may be ours.
            Err(DialError::DialPeerConditionFalse(_)) => dial.under_way = None,
            Err(error) => {
                dial.causes.extend(describe(&error));
                self.give_up(peer);
            }
        }
    }

    /// Ends a dial that found no direct way. With a circuit we are connected all the same.
    fn give_up(&mut self, peer: PeerId) {
        if self.swarm.is_connected(&peer) {
            return self.dial_succeeded(peer);
        }
        let dial = self.dials.remove(&peer).unwrap_or_default();
        let causes = dial.causes.into_iter().collect::<Vec<_>>().join("; ");
        for caller in dial.waiting {
            answer(caller, Err(NetError::Dial { peer, causes: causes.clone() }));
        }
    }
}

/// The resolver's own words name no resolver; those of several attempts have lines of their own.
fn cause(text: &str) -> String {
    if text.contains(NO_RESOLVER) {
        return "this machine has no DNS resolver to ask for that name".to_owned();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Why a dial failed, address by address.
fn describe(error: &DialError) -> Vec<String> {
    vec![match error {
        DialError::NoAddresses => "no address of it is known; look it up or give one".to_owned(),
        DialError::LocalPeerId { .. } => "that is our own identity".to_owned(),
        DialError::Aborted => "the attempt was aborted".to_owned(),
        DialError::DialPeerConditionFalse(_) => "another attempt is under way".to_owned(),
        DialError::WrongPeerId { obtained, address } => {
            format!("{address}: somebody else answers there, {obtained}")
        }
        DialError::Denied { cause } => format!("denied here: {}", chain(cause)),
        DialError::Transport(failures) => {
            let failures = failures.iter().map(|(addr, failure)| match failure {
                TransportError::MultiaddrNotSupported(_) => format!("{addr}: no transport for it"),
                TransportError::Other(error) => format!("{addr}: {}", cause(&chain(error))),
            });
            return failures.collect();
        }
    }]
}

/// An error and its sources, each said once.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        source = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nobody_resolves_is_told_as_such() {
        let failed = |text: &str| TransportError::Other(std::io::Error::other(text.to_owned()));
        let address: Multiaddr = "/dns4/boot.example.org/tcp/1".parse().unwrap();
        let described =
            |text: &str| describe(&DialError::Transport(vec![(address.clone(), failed(text))])).concat();
        assert!(described(NO_RESOLVER).contains("no DNS resolver"), "{}", described(NO_RESOLVER));
        assert!(described("several:\n - timed out").ends_with("several: - timed out"));
    }
}
