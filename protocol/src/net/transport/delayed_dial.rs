//! A transport whose dials give another one a head start.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use libp2p::Multiaddr;
use libp2p::core::Endpoint;
use libp2p::core::transport::{Boxed, DialOpts, ListenerId, Transport, TransportError, TransportEvent};
use tokio::time::sleep;

/// Dials later than it is asked to. Everything else is as it was, also dials that punch a
/// hole: those are timed.
pub(in crate::net) struct Delayed<O> {
    pub(in crate::net) inner: Boxed<O>,
    pub(in crate::net) by: Duration,
}

impl<O: 'static> Transport for Delayed<O> {
    type Output = O;
    type Error = <Boxed<O> as Transport>::Error;
    type ListenerUpgrade = <Boxed<O> as Transport>::ListenerUpgrade;
    type Dial = BoxFuture<'static, Result<O, Self::Error>>;

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
        let by = if options.role == Endpoint::Listener { Duration::ZERO } else { self.by };
        let dial = self.inner.dial(address, options)?;
        // Nothing is sent before the dial is polled.
        Ok(async move {
            sleep(by).await;
            dial.await
        }
        .boxed())
    }

    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, Self::Error>> {
        Pin::new(&mut self.inner).poll(cx)
    }
}
