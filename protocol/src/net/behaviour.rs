//! What the swarm of every binary does, and the settings of each part.
//!
//! The parts are libp2p's behaviours, some of them wrapped. `identify_filter` drops its guesses of our own
//! addresses, and `dht` also reports what it heard of peers that did not answer. `control_codec` frames
//! control messages, `crowding` makes room where too many are connected, and `instance` tells two processes
//! of one identity apart. May import
//! `net::reachability`, `net::streams`, and the settings and limits.
//!
//! ```text
//! connection ──> limits ──> block list ──> crowding ──> identify, ping, DHT, gossip, control, streams
//!                  │                    └─> AutoNAT, circuit relay, hole punching
//!                  └── refused: no other part hears of it
//! ```

pub(crate) mod control_codec;
pub(crate) mod crowding;
mod dht;
mod identify_filter;
pub(crate) mod instance;

use std::collections::HashSet;
use std::time::Duration;

use libp2p::gossipsub::{
    self, IdentTopic, IdentityTransform, MaxCountSubscriptionFilter, MessageAuthenticity, MessageId,
    ValidationMode, WhitelistSubscriptionFilter,
};
use libp2p::identity::Keypair;
use libp2p::kad::{self, StoreInserts, store::MemoryStore, store::MemoryStoreConfig};
use libp2p::request_response::{self, ProtocolSupport};
use libp2p::swarm::NetworkBehaviour;
use libp2p::swarm::behaviour::toggle::Toggle;
use libp2p::{PeerId, StreamProtocol, allow_block_list, connection_limits, identify, ping, relay};

use super::behaviour::control_codec::ControlCodec;
use super::behaviour::crowding::Crowding;
use super::behaviour::dht::Dht;
use super::behaviour::identify_filter::Identify;
use super::behaviour::instance::Instance;
use super::config::{DhtMode, HostConfig};
use super::error::NetError;
use super::limits::{MAX_GOSSIP_MESSAGE, MAX_REQUEST_TIMEOUT, MAX_TOPICS, VERDICT_TIMEOUT};
use super::protocol_names;
use super::reachability::autonat_client::Probe;
use super::reachability::autonat_server::DialBack;
use super::reachability::hole_punching::Punch;
use super::streams::Lines;

/// Control streams that one connection may have open, in both directions together.
const MAX_CONTROL_STREAMS: usize = 64;

/// Room for the topic and the envelope around a gossip message.
const GOSSIP_ENVELOPE: usize = 1024;
/// Gossip messages that may wait for one slow peer. Each has at most [`MAX_GOSSIP_MESSAGE`] bytes.
const GOSSIP_QUEUE: usize = 32;
/// The beat at which the gossip mesh is mended.
const GOSSIP_HEARTBEAT: Duration = Duration::from_millis(500);
/// A message that was seen this recently is not delivered again.
const GOSSIP_MEMORY: Duration = Duration::from_secs(120);

/// Keys for which a DHT server keeps providers.
const MAX_PROVIDER_KEYS: usize = 1024;
/// Providers kept for a key.
const MAX_PROVIDERS_PER_KEY: usize = 64;
/// A provider that did not announce itself again for this long is forgotten.
const PROVIDER_TTL: Duration = Duration::from_secs(30 * 60);
/// Between two announcements of what we provide; well under [`PROVIDER_TTL`], so that one may be lost.
const PROVIDER_REFRESH: Duration = Duration::from_secs(8 * 60);
/// The longest that a DHT query runs.
const DHT_QUERY_TIMEOUT: Duration = Duration::from_secs(20);
/// Between two refreshes of the routing table. A new entry triggers one, too.
const DHT_REFRESH: Duration = Duration::from_secs(2 * 60);

/// Between two pings, which keep NAT bindings open and find dead TCP connections.
const PING_INTERVAL: Duration = Duration::from_secs(15);
/// A ping that takes longer has failed. On a TCP connection it may stand behind seconds of bulk data.
const PING_TIMEOUT: Duration = Duration::from_secs(60);

/// Peers that may have a place at a relay.
const MAX_PLACES: usize = 4096;
/// Circuits that a relay carries at once. Each ends after two minutes or 128 KiB, which is
/// room for signals only.
const MAX_CIRCUITS: usize = 256;

/// Gossip that admits only the topics named at start.
pub(super) type Gossip =
    gossipsub::Behaviour<IdentityTransform, MaxCountSubscriptionFilter<WhitelistSubscriptionFilter>>;

/// What the swarm does. The limits stand first: who is refused there leaves no trace in the others.
#[derive(NetworkBehaviour)]
pub(super) struct EchoBehaviour {
    pub(super) limits: connection_limits::Behaviour,
    pub(super) blocked: allow_block_list::Behaviour<allow_block_list::BlockedPeers>,
    /// Last of those that refuse: nobody makes room for one who is refused all the same.
    pub(super) crowding: Crowding,
    pub(super) identify: Identify,
    pub(super) ping: ping::Behaviour,
    pub(super) kad: Dht,
    pub(super) gossip: Gossip,
    pub(super) control: request_response::Behaviour<ControlCodec>,
    pub(super) streams: Lines,
    /// Asks peers to dial us.
    pub(super) probe: Toggle<Probe>,
    /// Dials peers that ask.
    pub(super) dial_back: Toggle<DialBack>,
    /// Carries signals between peers that cannot reach each other.
    pub(super) relay: Toggle<relay::Behaviour>,
    /// Reaches and is reached through the relays of others.
    pub(super) circuits: relay::client::Behaviour,
    /// Turns circuits into direct connections, by dials from both sides at the same moment.
    pub(super) punch: Toggle<Punch>,
}

impl EchoBehaviour {
    /// Builds every part from the host's configuration. `circuits` belongs to a transport.
    pub(super) fn new(
        key: &Keypair,
        config: &HostConfig,
        circuits: relay::client::Behaviour,
    ) -> Result<Self, NetError> {
        let me = key.public().to_peer_id();
        let (hub, volunteer) = (config.mode == DhtMode::Server, config.mode == DhtMode::Auto);
        Ok(Self {
            limits: connection_limits::Behaviour::new(config.limits.to_libp2p()),
            crowding: Crowding::new(config.limits),
            blocked: allow_block_list::Behaviour::default(),
            identify: Identify(identify(key, Instance::draw()?.of(&config.agent))),
            ping: ping::Behaviour::new(
                ping::Config::new().with_interval(PING_INTERVAL).with_timeout(PING_TIMEOUT),
            ),
            kad: Dht::new(kad(me, config.answers_dht())),
            gossip: gossip(config)?,
            control: request_response::Behaviour::new(
                [
                    (StreamProtocol::new(protocol_names::CONTROL), ProtocolSupport::Full),
                    (StreamProtocol::new(protocol_names::CONTROL_4), ProtocolSupport::Inbound),
                ],
                request_response::Config::default()
                    .with_request_timeout(MAX_REQUEST_TIMEOUT)
                    .with_max_concurrent_streams(MAX_CONTROL_STREAMS),
            ),
            streams: Lines::default(),
            probe: volunteer.then(Probe::new).into(),
            // Half of what may be pending is left for dials of our own.
            dial_back: (hub || volunteer)
                .then(|| DialBack::new(config.limits.pending_outgoing as usize / 2))
                .into(),
            relay: hub.then(|| relay(me)).into(),
            circuits,
            punch: volunteer.then(|| Punch::new(me)).into(),
        })
    }
}

fn relay(me: PeerId) -> relay::Behaviour {
    let limits =
        relay::Config { max_reservations: MAX_PLACES, max_circuits: MAX_CIRCUITS, ..Default::default() };
    relay::Behaviour::new(me, limits)
}

fn identify(key: &Keypair, agent: String) -> identify::Behaviour {
    identify::Behaviour::new(
        identify::Config::new(protocol_names::IDENTIFY.to_owned(), key.public())
            .with_agent_version(agent)
            .with_push_listen_addr_updates(true)
            // The host has its own address book, which believes less.
            .with_cache_size(0),
    )
}

fn kad(peer: PeerId, answers: bool) -> kad::Behaviour<MemoryStore> {
    let mut config = kad::Config::new(StreamProtocol::new(protocol_names::KAD));
    config
        // Nothing is stored before the host has looked at it; value records are never stored.
        .set_record_filtering(StoreInserts::FilterBoth)
        .set_query_timeout(DHT_QUERY_TIMEOUT)
        .set_provider_record_ttl(Some(PROVIDER_TTL))
        .set_provider_publication_interval(Some(PROVIDER_REFRESH))
        .set_replication_interval(None)
        .set_publication_interval(None)
        .set_periodic_bootstrap_interval(Some(DHT_REFRESH));
    let store = MemoryStoreConfig {
        max_records: 0,
        max_value_bytes: 0,
        max_providers_per_key: MAX_PROVIDERS_PER_KEY,
        max_provided_keys: MAX_PROVIDER_KEYS,
    };
    let mut kad = kad::Behaviour::with_config(peer, MemoryStore::with_config(peer, store), config);
    kad.set_mode(Some(if answers { kad::Mode::Server } else { kad::Mode::Client }));
    kad
}

/// Gossip is anonymous: what is announced carries the run's own signature, which says more than the
/// signature of whoever happened to publish it, and without author and sequence number the same
/// content is the same message wherever it enters. Blame falls on the peer that handed a bad
/// message to us, which the transport authenticates.
fn gossip(config: &HostConfig) -> Result<Gossip, NetError> {
    if config.topics.len() > MAX_TOPICS {
        return Err(NetError::TooManyTopics { topics: config.topics.len(), cap: MAX_TOPICS });
    }
    // A message stays in the cache until its verdict is in, or it could not be forwarded.
    let history = 2 + VERDICT_TIMEOUT.as_millis().div_ceil(GOSSIP_HEARTBEAT.as_millis()) as usize;
    let settings = gossipsub::ConfigBuilder::default()
        .protocol_id(protocol_names::GOSSIP, gossipsub::Version::V1_1)
        .validation_mode(ValidationMode::Anonymous)
        .validate_messages()
        .message_id_fn(message_id)
        .max_transmit_size(MAX_GOSSIP_MESSAGE + GOSSIP_ENVELOPE)
        .duplicate_cache_time(GOSSIP_MEMORY)
        .heartbeat_initial_delay(GOSSIP_HEARTBEAT)
        .heartbeat_interval(GOSSIP_HEARTBEAT)
        .history_length(history)
        .history_gossip(3)
        // With a handful of peers everybody is in everybody's mesh; with thousands a publisher
        // sends `mesh_n` copies and not, as flooding would, one to each of them.
        .mesh_outbound_min(2)
        .mesh_n_low(4)
        .mesh_n(6)
        .mesh_n_high(12)
        .flood_publish(false)
        .connection_handler_queue_len(GOSSIP_QUEUE)
        .build()
        .map_err(|error| NetError::Build { what: "gossip", cause: error.to_string() })?;
    let topics: Vec<IdentTopic> = config.topics.iter().map(IdentTopic::new).collect();
    let known: HashSet<_> = topics.iter().map(IdentTopic::hash).collect();
    let filter = MaxCountSubscriptionFilter {
        filter: WhitelistSubscriptionFilter(known),
        max_subscribed_topics: MAX_TOPICS,
        max_subscriptions_per_request: MAX_TOPICS,
    };
    let mut gossip = Gossip::new_with_subscription_filter(MessageAuthenticity::Anonymous, settings, filter)
        .map_err(|cause| NetError::Build { what: "gossip", cause: cause.to_owned() })?;
    for topic in &topics {
        gossip
            .subscribe(topic)
            .map_err(|error| NetError::Build { what: "gossip", cause: error.to_string() })?;
    }
    Ok(gossip)
}

/// The same bytes on the same topic are the same message. The topic's length keeps the two apart.
fn message_id(message: &gossipsub::Message) -> MessageId {
    let topic = message.topic.as_str().as_bytes();
    let mut hasher = blake3::Hasher::new();
    hasher.update(&(topic.len() as u64).to_be_bytes());
    hasher.update(topic);
    hasher.update(&message.data);
    MessageId::new(hasher.finalize().as_bytes())
}
