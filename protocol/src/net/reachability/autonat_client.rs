//! Asking others whether they reach us, less often the less they answer.

use std::task::{Context, Poll};
use std::time::Duration;

use either::Either;
use libp2p::autonat::v2::client;
use libp2p::core::Endpoint;
use libp2p::core::transport::PortUse;
use libp2p::swarm::handler::{ConnectionEvent, DialUpgradeError};
use libp2p::swarm::{
    ConnectionDenied, ConnectionHandler as _, ConnectionHandlerEvent, ConnectionId, FromSwarm,
    NetworkBehaviour, NotifyHandler, StreamUpgradeError, THandler, THandlerInEvent, THandlerOutEvent,
    ToSwarm,
};
use libp2p::{Multiaddr, PeerId};
use tokio::time::Instant;

/// Between two rounds in which peers are asked to dial us at addresses that nobody has tried yet.
/// Each question costs up to 100 kB.
const INTERVAL: Duration = Duration::from_secs(2);
/// The longest pause between two rounds. Each round doubles it, until somebody has tried an address.
const LONGEST_PAUSE: Duration = Duration::from_secs(5 * 60);

/// The client of AutoNAT v2, made patient. By itself it asks a server that has no time for it
/// again every [`INTERVAL`], as everybody else does, so that a server with too much to do
/// would have ever more.
pub(in crate::net) struct Probe {
    client: client::Behaviour,
    rounds: Rounds,
}

/// When questions may be asked. All that are due are asked in one round.
#[derive(Debug)]
struct Rounds {
    /// Before this instant no round begins.
    next: Option<Instant>,
    /// Between the round that comes and the one after it.
    pause: Duration,
    /// A round is under way.
    open: bool,
}

impl Default for Rounds {
    fn default() -> Self {
        Self { next: None, pause: INTERVAL, open: false }
    }
}

impl Rounds {
    /// Whether a question may be asked now. The first one opens a round.
    fn may_ask(&mut self, now: Instant) -> bool {
        self.open |= self.next.is_none_or(|next| now >= next);
        self.open
    }

    /// All that could be asked now has been.
    fn close(&mut self, now: Instant) {
        if std::mem::take(&mut self.open) {
            self.next = Some(now + self.pause);
            self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        }
    }

    /// Somebody has tried an address.
    fn answered(&mut self) {
        *self = Self { open: self.open, ..Self::default() };
    }
}

impl Probe {
    pub(in crate::net) fn new() -> Self {
        Self::with_interval(INTERVAL)
    }

    fn with_interval(interval: Duration) -> Self {
        let config = client::Config::default().with_probe_interval(interval);
        // Its numbers only tell the trials of a moment apart.
        let client = client::Behaviour::new(rand::make_rng::<rand::rngs::StdRng>(), config);
        Self { client, rounds: Rounds::default() }
    }

    /// Lets a question come to nothing, as if its stream could not be opened: the client asks it again.
    fn defer(
        &mut self,
        peer: PeerId,
        id: ConnectionId,
        question: THandlerInEvent<Self>,
        cx: &mut Context<'_>,
    ) {
        let (nowhere, role, port) = (Multiaddr::empty(), Endpoint::Dialer, PortUse::New);
        let handler = self.client.handle_established_outbound_connection(id, peer, &nowhere, role, port);
        let (Ok(Either::Left(mut handler)), Either::Left(question)) = (handler, question) else { return };
        handler.on_behaviour_event(question);
        let error = StreamUpgradeError::Timeout;
        handler.on_connection_event(ConnectionEvent::DialUpgradeError(DialUpgradeError { info: (), error }));
        while let Poll::Ready(event) = handler.poll(cx) {
            if let ConnectionHandlerEvent::NotifyBehaviour(outcome) = event {
                self.client.on_connection_handler_event(peer, id, Either::Left(outcome));
            }
        }
    }
}

impl NetworkBehaviour for Probe {
    type ConnectionHandler = THandler<client::Behaviour>;
    type ToSwarm = client::Event;

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.client.handle_established_inbound_connection(id, peer, local, remote)
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        remote: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.client.handle_established_outbound_connection(id, peer, remote, role, port)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        self.client.on_swarm_event(event);
    }

    fn on_connection_handler_event(&mut self, peer: PeerId, id: ConnectionId, event: THandlerOutEvent<Self>) {
        self.client.on_connection_handler_event(peer, id, event);
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<ToSwarm<client::Event, THandlerInEvent<Self>>> {
        loop {
            let polled = self.client.poll(cx);
            let now = Instant::now();
            match polled {
                Poll::Ready(ToSwarm::NotifyHandler {
                    peer_id,
                    handler: NotifyHandler::One(id),
                    event: question,
                }) if !self.rounds.may_ask(now) => self.defer(peer_id, id, question, cx),
                Poll::Ready(action) => {
                    if matches!(action, ToSwarm::GenerateEvent(_)) {
                        self.rounds.answered();
                    }
                    return Poll::Ready(action);
                }
                Poll::Pending => {
                    self.rounds.close(now);
                    return Poll::Pending;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use libp2p::core::ConnectedPoint;
    use libp2p::swarm::NewExternalAddrCandidate;
    use libp2p::swarm::behaviour::ConnectionEstablished;
    use std::task::Waker;

    /// The left one of two: what the handlers of questions say has no name outside of AutoNAT.
    trait Sides {
        type Left;
    }

    impl<L, R> Sides for Either<L, R> {
        type Left = L;
    }

    type Said = <THandlerOutEvent<Probe> as Sides>::Left;

    /// One that is connected to a server, and has two addresses to be tried.
    fn two_questions() -> Probe {
        // AutoNAT has a clock of its own, which the tests cannot stop.
        let mut probe = Probe::with_interval(Duration::from_millis(1));
        let (peer_id, connection_id) = (PeerId::random(), ConnectionId::new_unchecked(1));
        let address: Multiaddr = "/ip4/203.0.113.7/tcp/4160".parse().unwrap();
        let endpoint =
            ConnectedPoint::Dialer { address, role_override: Endpoint::Dialer, port_use: PortUse::New };
        probe.on_swarm_event(FromSwarm::ConnectionEstablished(ConnectionEstablished {
            peer_id,
            connection_id,
            endpoint: &endpoint,
            failed_addresses: &[],
            other_established: 0,
        }));
        let serves = Either::Left(Said::PeerHasServerSupport);
        probe.on_connection_handler_event(peer_id, connection_id, serves);
        for guess in ["/ip4/198.51.100.1/tcp/1", "/ip4/198.51.100.1/udp/1/quic-v1"] {
            let addr = &guess.parse().unwrap();
            probe.on_swarm_event(FromSwarm::NewExternalAddrCandidate(NewExternalAddrCandidate { addr }));
        }
        probe
    }

    /// How many questions are asked within a moment. The server has no time for any.
    fn asked(probe: &mut Probe) -> usize {
        std::thread::sleep(Duration::from_millis(20));
        let mut cx = Context::from_waker(Waker::noop());
        let mut questions = Vec::new();
        while let Poll::Ready(action) = probe.poll(&mut cx) {
            if let ToSwarm::NotifyHandler { peer_id, handler: NotifyHandler::One(id), event } = action {
                questions.push((peer_id, id, event));
            }
        }
        let asked = questions.len();
        questions.into_iter().for_each(|(peer, id, question)| probe.defer(peer, id, question, &mut cx));
        asked
    }

    fn round(probe: &mut Probe) -> usize {
        std::iter::repeat_with(|| asked(probe)).find(|asked| *asked > 0).unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_has_no_time_is_asked_again_after_a_pause() {
        let mut probe = two_questions();
        assert_eq!((round(&mut probe), asked(&mut probe)), (2, 0));
        tokio::time::advance(INTERVAL).await;
        assert_eq!((round(&mut probe), asked(&mut probe)), (2, 0));
        tokio::time::advance(INTERVAL).await;
        assert_eq!(asked(&mut probe), 0, "the pause is longer now");
        tokio::time::advance(INTERVAL).await;
        assert_eq!(round(&mut probe), 2);
    }

    #[test]
    fn pauses_double_up_to_a_limit_and_are_short_again_after_an_answer() {
        let (mut rounds, mut now) = (Rounds::default(), Instant::now());
        let mut pauses = Vec::new();
        for _ in 0..10 {
            assert!(rounds.may_ask(now) && rounds.may_ask(now));
            rounds.close(now);
            let begun = now;
            while !rounds.may_ask(now) {
                rounds.close(now);
                now += Duration::from_secs(1);
            }
            pauses.push((now - begun).as_secs());
        }
        assert_eq!(pauses, [2, 4, 8, 16, 32, 64, 128, 256, 300, 300]);
        rounds.close(now);
        assert!(!rounds.may_ask(now + LONGEST_PAUSE / 2));
        rounds.answered();
        assert!(rounds.may_ask(now));
        rounds.close(now);
        assert!(rounds.may_ask(now + INTERVAL));
    }
}
