//! Questions to the DHT, and what we store for others.

use std::collections::BTreeSet;

use libp2p::kad::store::RecordStore as _;
use libp2p::kad::{Event, GetProvidersOk, InboundRequest, ProviderRecord, QueryId, QueryResult, RecordKey};
use libp2p::{Multiaddr, PeerId};

use super::{HostDriver, ReplySender, answer};
use crate::net::addresses::book::MAX_ADDRESSES_PER_SOURCE;
use crate::net::addresses::{believable, believable_from_any, dialable, without_peer};
use crate::net::error::NetError;
use crate::net::limits::{MAX_DHT_KEY, MAX_PENDING_QUERIES, MAX_PROVIDERS_FOUND};

/// A query for which somebody waits.
pub(super) enum Query {
    FindPeer { peer: PeerId, reply: ReplySender<Vec<Multiaddr>> },
    Provide { reply: ReplySender<()> },
    Providers { found: BTreeSet<PeerId>, reply: ReplySender<Vec<PeerId>> },
    Bootstrap { reply: ReplySender<()> },
}

impl HostDriver {
    pub(super) fn find_peer(&mut self, peer: PeerId, reply: ReplySender<Vec<Multiaddr>>) {
        if self.queries.len() >= MAX_PENDING_QUERIES {
            return answer(reply, Err(busy()));
        }
        let kad = &mut self.swarm.behaviour_mut().kad;
        kad.seek(peer);
        let id = kad.get_closest_peers(peer);
        self.queries.insert(id, Query::FindPeer { peer, reply });
    }

    /// What the DHT has told by now of a peer that is looked for, and that is news to us. A lookup may
    /// connect to the peer itself: then there is nothing left to look for.
    pub(super) fn found_so_far(&mut self, peer: PeerId) -> Vec<Multiaddr> {
        if self.swarm.is_connected(&peer) {
            return self.book.addresses(&peer);
        }
        let found = self.swarm.behaviour_mut().kad.addresses_so_far(&peer);
        self.news(&peer, found)
    }

    /// Those of a peer's addresses that are believed and not known.
    fn news(&self, peer: &PeerId, found: Vec<Multiaddr>) -> Vec<Multiaddr> {
        let (known, mut news) = (self.book.addresses(peer), Vec::new());
        let vias: Vec<&Multiaddr> = self.links.values().map(|link| &link.via).collect();
        for addr in believed(found, &vias) {
            if !known.contains(&addr) && !news.contains(&addr) {
                news.push(addr);
            }
        }
        news
    }

    pub(super) fn provide(&mut self, key: Vec<u8>, reply: ReplySender<()>) {
        if self.queries.len() >= MAX_PENDING_QUERIES {
            return answer(reply, Err(busy()));
        }
        match self.swarm.behaviour_mut().kad.start_providing(RecordKey::from(key)) {
            Ok(id) => {
                self.queries.insert(id, Query::Provide { reply });
            }
            Err(error) => answer(reply, Err(NetError::DhtFull { cause: error.to_string() })),
        }
    }

    pub(super) fn providers(&mut self, key: Vec<u8>, reply: ReplySender<Vec<PeerId>>) {
        if self.queries.len() >= MAX_PENDING_QUERIES {
            return answer(reply, Err(busy()));
        }
        let id = self.swarm.behaviour_mut().kad.get_providers(RecordKey::from(key));
        self.queries.insert(id, Query::Providers { found: BTreeSet::new(), reply });
    }

    pub(super) fn bootstrap_dht(&mut self, reply: ReplySender<()>) {
        if self.queries.len() >= MAX_PENDING_QUERIES {
            return answer(reply, Err(busy()));
        }
        match self.swarm.behaviour_mut().kad.bootstrap() {
            Ok(id) => {
                self.queries.insert(id, Query::Bootstrap { reply });
            }
            Err(_) => answer(reply, Err(NetError::NoDhtPeers)),
        }
    }

    pub(super) fn on_kad(&mut self, event: Event) {
        match event {
            Event::OutboundQueryProgressed { id, result, step, .. } => {
                self.on_progress(id, result, step.last)
            }
            Event::InboundRequest { request: InboundRequest::AddProvider { record: Some(record) } } => {
                self.store_provider(record);
            }
            Event::RoutingUpdated { .. } => {
                self.routable.send_replace(true);
            }
            _ => {}
        }
    }

    /// Keeps a provider that announced itself; libp2p has checked that it speaks for itself, and
    /// the store caps keys and providers.
    ///
    /// A provider is passed on only with an address. A DHT client announces none, as it has none
    /// confirmed, so it is listed with those that it told through identify, or else with the one
    /// that its connection comes from.
    fn store_provider(&mut self, mut record: ProviderRecord) {
        let provider = record.provider;
        let Some(via) = self.announcer.address_of(&provider) else { return };
        if record.key.as_ref().len() > MAX_DHT_KEY {
            return;
        }
        record.addresses.retain(|addr| believable(addr, via));
        if record.addresses.is_empty() {
            record.addresses = self.book.addresses(&provider);
        }
        if record.addresses.is_empty() && dialable(via) {
            record.addresses.push(via.clone());
        }
        record.addresses.truncate(MAX_ADDRESSES_PER_SOURCE);
        if let Err(error) = self.swarm.behaviour_mut().kad.store_mut().add_provider(record) {
            tracing::debug!(%error, "a provider was not stored");
        }
    }

    /// A query went on. Queries that the DHT runs for itself are not in our table.
    fn on_progress(&mut self, id: QueryId, result: QueryResult, last: bool) {
        let Some(query) = self.queries.remove(&id) else { return };
        match (query, result) {
            (Query::FindPeer { peer, reply }, QueryResult::GetClosestPeers(_)) => {
                let found = self.swarm.behaviour_mut().kad.take_addresses(&peer);
                let news = self.news(&peer, found);
                answer(reply, Ok([self.book.addresses(&peer), news].concat()));
            }
            (Query::Provide { reply }, QueryResult::StartProviding(result)) => {
                let timeout = NetError::DhtTimeout { what: "announce a provider" };
                answer(reply, result.map(|_| ()).map_err(|_| timeout));
            }
            (Query::Providers { mut found, reply }, QueryResult::GetProviders(result)) => {
                if let Ok(GetProvidersOk::FoundProviders { providers, .. }) = result {
                    let own = *self.swarm.local_peer_id();
                    found.extend(providers.into_iter().filter(|provider| *provider != own));
                }
                if found.len() >= MAX_PROVIDERS_FOUND
                    && let Some(mut query) = self.swarm.behaviour_mut().kad.query_mut(&id)
                {
                    query.finish();
                }
                if last || found.len() >= MAX_PROVIDERS_FOUND {
                    answer(reply, Ok(found.into_iter().take(MAX_PROVIDERS_FOUND).collect()));
                } else {
                    self.queries.insert(id, Query::Providers { found, reply });
                }
            }
            (Query::Bootstrap { reply }, QueryResult::Bootstrap(result)) => match result {
                Err(_) => answer(reply, Err(NetError::DhtTimeout { what: "fill the routing table" })),
                Ok(_) if last => answer(reply, Ok(())),
                Ok(_) => {
                    self.queries.insert(id, Query::Bootstrap { reply });
                }
            },
            // A query's progress is of the query's kind; anything else leaves it waiting for its own.
            (query, _) => {
                self.queries.insert(id, query);
            }
        }
    }
}

/// The addresses of a peer that the DHT told, as far as strangers are believed with whom
/// connections run through `vias`.
fn believed(addresses: Vec<Multiaddr>, vias: &[&Multiaddr]) -> impl Iterator<Item = Multiaddr> {
    addresses
        .into_iter()
        .filter(move |addr| believable_from_any(addr, vias.iter().copied()))
        .map(without_peer)
}

fn busy() -> NetError {
    NetError::Busy { what: "DHT queries", cap: MAX_PENDING_QUERIES }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_dht_has_no_names_resolved_and_from_afar_does_not_point_at_our_own_machine() {
        let addr = |text: &str| text.parse::<Multiaddr>().unwrap();
        let texts = [
            "/dns4/example.org/tcp/1",
            "/ip4/127.0.0.1/tcp/22",
            "/ip6/fe80::1/tcp/1",
            "/ip4/8.8.8.8/tcp/0",
            "/ip4/8.8.8.8/tcp/4001",
        ];
        let heard = |via: &[&Multiaddr]| believed(texts.map(addr).to_vec(), via).collect::<Vec<_>>();
        let (far, near) = (addr("/ip4/5.6.7.8/udp/9/quic-v1"), addr("/ip4/127.0.0.1/tcp/9"));
        assert_eq!(heard(&[]), [addr(texts[4])]);
        assert_eq!(heard(&[&far]), [addr(texts[4])]);
        assert_eq!(heard(&[&far, &near]), [addr(texts[1]), addr(texts[4])]);
    }
}
