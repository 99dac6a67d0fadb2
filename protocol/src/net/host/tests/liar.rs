//! A peer that speaks raw bytes under any protocol name.

use futures::StreamExt as _;
use libp2p::swarm::SwarmEvent;
use libp2p::{Stream, StreamProtocol, SwarmBuilder, tcp, tls, yamux};

use super::*;

/// Connects to `victim` as a stranger and opens a stream under `protocol`, without waiting for any greeting.
pub(super) async fn open_raw(victim: &Host, protocol: &'static str) -> Stream {
    let mut swarm = SwarmBuilder::with_new_identity()
        .with_tokio()
        .with_tcp(tcp::Config::default(), tls::Config::new, yamux::Config::default)
        .unwrap()
        .with_quic()
        .with_behaviour(|_| libp2p_stream::Behaviour::new())
        .unwrap()
        .with_swarm_config(|swarm| swarm.with_idle_connection_timeout(PATIENCE))
        .build();
    let mut control = swarm.behaviour().new_control();
    let address = victim.listen_addrs()[0].clone().with_p2p(victim.peer_id()).unwrap();
    swarm.dial(address).unwrap();
    loop {
        if let SwarmEvent::ConnectionEstablished { .. } = swarm.select_next_some().await {
            break;
        }
    }
    tokio::spawn(async move {
        loop {
            swarm.select_next_some().await;
        }
    });
    control.open_stream(victim.peer_id(), StreamProtocol::new(protocol)).await.unwrap()
}
