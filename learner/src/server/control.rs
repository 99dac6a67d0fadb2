//! Answers to nodes' questions.

use super::SharedState;
use super::lease_retry::SHORTEST_MS;
use super::lease_writer::Granting;
use super::pace::PeerAllowances;
use super::turns::RequestCounts;
use crate::fleet::capacity::{Beat, NodeRole};
use crate::intake::coordinator::LeaseRequest;
use crate::reputation::NetworkPrefix;
use echo_protocol::control::requests::{ControlRequest, ControlResponse, MAX_NEIGHBOURS};
use echo_protocol::net::peer_id::key_of_peer;
use echo_protocol::net::{Host, HostEvent, HostEvents, Responder, outer_ip};
use echo_protocol::program::clock;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::signed::Signed;
use echo_protocol::work::lease::HeldOrder;
use echo_protocol::work::submission::RefuseReason;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tokio::time::Instant;

/// Requests worked on at once. The host bounds those that wait.
const AT_ONCE: usize = 64;
/// Connections that came or went and are not noted yet; beyond, further events wait.
const MOVES: usize = 1024;
/// When a node on standby asks again, in milliseconds: it begins within seconds.
const STANDBY_RETRY_MS: u32 = 2_000;
/// What a node is told when none can be made.
const NO_LEASES: &str = "the learner cannot lease orders now; ask again later";

/// Answers requests until the host stops, or until no leases can be written any more: a learner
/// that leases nothing must not look alive.
pub(super) async fn answer(shared: Arc<SharedState>, host: &Host, mut events: HostEvents) {
    let mut pace = PeerAllowances::requests();
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let turns = RequestCounts::default();
    let granting = Arc::new(Granting::start(shared.clone()));
    // The coordinator may be waiting for the disk.
    let (moves, moved) = mpsc::channel(MOVES);
    let noting = shared.clone();
    tokio::task::spawn_blocking(move || note(&noting, moved));
    loop {
        let event = tokio::select! {
            event = events.recv() => event,
            () = granting.ended() => None,
        };
        let Some(event) = event else { return };
        match event {
            HostEvent::Request { peer, body, reply } => {
                let Some(node) = key_of_peer(&peer) else { continue };
                if pace.take(Instant::now(), node).is_err() {
                    // Dropping the reply tells the peer.
                    tracing::debug!(node = %node.short(), "asks too often");
                    continue;
                }
                let Some(turn) = turns.take(node) else {
                    tracing::debug!(node = %node.short(), "asks too much at once");
                    continue;
                };
                let Ok(place) = places.clone().acquire_owned().await else { return };
                let (shared, granting) = (shared.clone(), granting.clone());
                // Leases are flushed to disk before they leave, so this may block.
                tokio::task::spawn_blocking(move || {
                    respond(&shared, &granting, node, &body, reply);
                    drop((place, turn));
                });
            }
            // The learner is the only rightful publisher, and does not hear itself.
            HostEvent::Gossip { verdict, .. } => verdict.reject(),
            HostEvent::Disconnected { peer } => {
                shared.locations.disconnected(&peer);
                if let Some(node) = key_of_peer(&peer) {
                    // It is noted as long as this runs.
                    let _ = moves.send((node, Move::Gone)).await;
                    shared.fleet().disconnected(clock::now(), &node);
                }
            }
            // The owner of a node that was first reached by a name shows later.
            HostEvent::Connected { peer, addr } | HostEvent::Located { peer, addr } => {
                shared.locations.own(host.peer_id(), &host.own_addrs());
                shared.locations.connected(peer, addr.clone());
                if let Some(node) = key_of_peer(&peer) {
                    let network = outer_ip(&addr).map(NetworkPrefix::of);
                    let _ = moves.send((node, Move::Connected(network))).await;
                }
            }
        }
    }
}

/// That a peer is connected, from where, or not any more.
enum Move {
    Connected(Option<NetworkPrefix>),
    Gone,
}

/// Notes moves in their order, until nobody sends any.
fn note(shared: &SharedState, mut moves: mpsc::Receiver<(PublicKey, Move)>) {
    while let Some((node, moved)) = moves.blocking_recv() {
        match moved {
            Move::Connected(network) => {
                shared.coordinator().connected(node, network);
                shared.locate(&node);
            }
            Move::Gone => shared.coordinator().disconnected(&node),
        }
    }
}

fn respond(shared: &SharedState, granting: &Granting, node: PublicKey, body: &[u8], reply: Responder) {
    let response = match ControlRequest::from_bytes(body) {
        Ok(request) => response(shared, granting, node, request),
        Err(error) => ControlResponse::Refused(error.to_string()),
    };
    match response.to_bytes() {
        // The node has gone or waits no longer: it will ask again.
        Ok(bytes) => drop(reply.send(bytes)),
        Err(error) => tracing::error!(%error, "a response could not be encoded"),
    }
}

fn response(
    shared: &SharedState,
    granting: &Granting,
    node: PublicKey,
    request: ControlRequest,
) -> ControlResponse {
    match request {
        ControlRequest::Charter => ControlResponse::Charter(shared.charter.clone()),
        ControlRequest::Heartbeat(heartbeat) => {
            let mut heartbeat = shared.of_this_epoch(heartbeat).checked();
            heartbeat.addresses = shared.locations.believed(&node, heartbeat.addresses);
            let (now, known) = (clock::now(), heartbeat.neighbourhood);
            let coordinator = shared.coordinator();
            // A suspension ends by itself, and until then its node keeps its place. Who is banned has none.
            if let Err(unheard) = coordinator.hear(now, &node)
                && unheard.reason == RefuseReason::Banned
            {
                return ControlResponse::Refused(unheard.detail);
            }
            let (is_known, network) =
                (coordinator.record().is_known(&node), coordinator.record().network(&node));
            let beat = Beat {
                installed: heartbeat.installed,
                declared: f64::from(heartbeat.rollouts_per_s),
                has_work: coordinator.holds(&node),
                too_slow: coordinator.refuses(&node),
                is_known,
                offer: heartbeat.offer.clone(),
            };
            drop(coordinator);
            let mut fleet = shared.fleet();
            fleet.weigh(&node, is_known, network);
            fleet.has_worked(&node, is_known);
            match fleet.heartbeat(now, node, heartbeat) {
                Ok(()) => {
                    let neighbourhood = fleet.neighbourhood(now, &node);
                    drop(fleet);
                    shared.capacity().heard(now, node, beat);
                    ControlResponse::News {
                        epoch: shared.epoch,
                        wall: clock::wall(),
                        newest: shared.newest(),
                        neighbourhood: neighbourhood.filter(|neighbourhood| neighbourhood.digest() != known),
                        ended: *shared.ended.lock(),
                    }
                }
                Err(full) => ControlResponse::Refused(full.to_string()),
            }
        }
        ControlRequest::Manifest(version) => {
            let is_known = shared.coordinator().record().is_known(&node);
            if shared.manifest_pace.lock().take(Instant::now(), node, is_known).is_err() {
                return ControlResponse::Refused("manifests are asked for too often; ask again later".into());
            }
            let manifests = shared.manifests.lock();
            let found = match version {
                Some(version) => manifests.iter().find(|(v, _)| *v == version),
                None => manifests.back(),
            };
            ControlResponse::Manifest(found.map(|(_, signed)| signed.clone()))
        }
        ControlRequest::Lease { orders, last } => lease(shared, granting, node, orders, last),
        ControlRequest::Return(returned) => {
            let (now, mut coordinator) = (clock::now(), shared.coordinator());
            let mut orders = returned.orders.iter();
            let is_excused =
                !returned.orders.is_empty() && orders.all(|held| coordinator.excuses(&node, held.counter));
            coordinator.take_back(now, &node, returned);
            if !is_excused {
                coordinator.brought_nothing(now, &node);
            }
            ControlResponse::Returned
        }
        ControlRequest::Neighbours { mut lost } => {
            lost.truncate(MAX_NEIGHBOURS);
            let (now, mut fleet) = (clock::now(), shared.fleet());
            fleet.lost(now, &node, &lost);
            ControlResponse::Neighbours(fleet.neighbourhood(now, &node))
        }
    }
}

fn lease(
    shared: &SharedState,
    granting: &Granting,
    node: PublicKey,
    orders: u32,
    last: Option<HeldOrder>,
) -> ControlResponse {
    if let Err(wait) = granting.pace(node) {
        let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        return ControlResponse::Leases { leases: Vec::new(), retry_after_ms: wait_ms.max(SHORTEST_MS) };
    }
    if let Err(unheard) = shared.coordinator().hear(clock::now(), &node) {
        return ControlResponse::Refused(unheard.detail);
    }
    let pause_ms = shared.coordinator().pause_ms(clock::now(), &node);
    if pause_ms > 0 {
        let retry_after_ms = u32::try_from(pause_ms).unwrap_or(u32::MAX);
        return ControlResponse::Leases { leases: Vec::new(), retry_after_ms };
    }
    let role = shared.capacity().asks(clock::now(), &node);
    match role {
        NodeRole::Active => {}
        NodeRole::Standby => {
            return ControlResponse::Leases { leases: Vec::new(), retry_after_ms: STANDBY_RETRY_MS };
        }
        NodeRole::Resting => return ControlResponse::Refused(shared.capacity().rest().to_string()),
    }
    let installed = shared.fleet().members().get(&node).and_then(|member| member.heartbeat.installed);
    let Some(granted) = granting.ask(LeaseRequest { node, installed, orders, last }) else {
        return ControlResponse::Refused(NO_LEASES.into());
    };
    if let Some(refused) = granted.refused {
        return ControlResponse::Refused(refused);
    }
    let got: u32 = granted.leases.iter().map(|lease| lease.count).sum();
    // Who got all that it wanted goes by its stock.
    let retry_after_ms = if got < orders { granting.retry_ms(node) } else { SHORTEST_MS };
    let signed = granted.leases.iter().map(|lease| Signed::sign(lease, &shared.key));
    match signed.collect::<Result<Vec<_>, _>>() {
        Ok(leases) => ControlResponse::Leases { leases, retry_after_ms },
        Err(error) => {
            tracing::error!(%error, "a lease could not be signed");
            ControlResponse::Refused(NO_LEASES.into())
        }
    }
}
