//! The task that owns the relay machine.

use super::{Reporter, SnapshotEvent, downstream, present, upstream};
use crate::chunk_set::ChunkSet;
use crate::clock;
use crate::content::ChunkIndex;
use crate::control::Peer;
use crate::identity::PublicKey;
use crate::manifest::Manifest;
use crate::net::host::Host;
use crate::net::peer::{addresses_of, key_of_peer, peer_of_key};
use crate::net::{IncomingStreams, Stream};
use crate::relay::{CREDIT, Input, Output, Relay};
use crate::store::ChunkStore;
use crate::version::PolicyVersion;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;

/// What the owner or a stream task tells the driver.
#[derive(Debug)]
pub(super) enum Command {
    Announce(Arc<Manifest>),
    /// An announcement, with what the store already has of it.
    Known(Arc<Manifest>, ChunkSet),
    Publish(Arc<Manifest>),
    Parent(Option<Peer>),
    Damaged {
        version: PolicyVersion,
        index: ChunkIndex,
    },
    Report {
        peer: PublicKey,
        serial: u64,
        report: Report,
    },
}

/// What happened on one stream.
#[derive(Debug)]
pub(super) enum Report {
    Stored { version: PolicyVersion, index: ChunkIndex },
    Rotten { reason: String },
    Declined { version: PolicyVersion },
    Lost { reason: String },
    Subscribed { version: PolicyVersion, have: ChunkSet },
    Sent,
    Damaged { version: PolicyVersion, index: ChunkIndex },
    Left,
}

/// A running stream task.
struct Running {
    serial: u64,
    task: AbortHandle,
    /// Chunks to send; only towards children.
    feed: Option<mpsc::Sender<downstream::Feed>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) struct Driver {
    host: Host,
    store: Arc<ChunkStore>,
    relay: Relay,
    inbox: mpsc::WeakSender<Command>,
    events: mpsc::Sender<SnapshotEvent>,
    parent: Option<(PublicKey, Running)>,
    /// Bounded by the machine, which declines children beyond its limit, and by the host's connection limits before that.
    children: BTreeMap<PublicKey, Running>,
    next_serial: u64,
}

impl Driver {
    pub(super) fn new(
        host: Host,
        store: Arc<ChunkStore>,
        relay: Relay,
        inbox: mpsc::WeakSender<Command>,
        events: mpsc::Sender<SnapshotEvent>,
    ) -> Self {
        Self { host, store, relay, inbox, events, parent: None, children: BTreeMap::new(), next_serial: 0 }
    }

    pub(super) async fn run(mut self, mut commands: mpsc::Receiver<Command>, mut incoming: IncomingStreams) {
        loop {
            let wake =
                self.relay.poll_timeout().map(|at| Duration::from_millis(at.since(clock::now()).max(1)));
            tokio::select! {
                command = commands.recv() => match command {
                    Some(command) => self.command(command).await,
                    None => return,
                },
                stream = incoming.next() => match stream {
                    Some((peer, stream)) => if let Some(child) = key_of_peer(&peer) {
                        self.child(child, stream);
                    },
                    None => return,
                },
                () = tokio::time::sleep(wake.unwrap_or(Duration::from_secs(3600))) => {
                    self.relay.handle_timeout(clock::now());
                }
            }
            if self.obey().await.is_err() {
                return;
            }
        }
    }

    async fn command(&mut self, command: Command) {
        let input = match command {
            Command::Announce(manifest) => return self.look_up(manifest),
            Command::Known(manifest, have) => Input::Announced(manifest, have),
            Command::Publish(manifest) => Input::Published(manifest),
            Command::Parent(parent) => Input::Parent(match parent {
                Some(peer) => self.remember(&peer).await,
                None => None,
            }),
            Command::Damaged { version, index } => Input::Damaged { version, index },
            Command::Report { peer, serial, report } => match self.judge(peer, serial, report) {
                Some(input) => input,
                None => return,
            },
        };
        self.relay.handle(clock::now(), input);
    }

    /// Asks the disk what is already here of a snapshot; the answer comes back as a command.
    fn look_up(&self, manifest: Arc<Manifest>) {
        let (store, inbox) = (self.store.clone(), self.inbox.clone());
        tokio::spawn(async move {
            let have = present(store, manifest.clone()).await;
            if let Some(inbox) = inbox.upgrade() {
                let _ = inbox.send(Command::Known(manifest, have)).await;
            }
        });
    }

    /// Gives the host a parent's addresses, so that subscribing can dial it.
    async fn remember(&self, peer: &Peer) -> Option<PublicKey> {
        let id = peer_of_key(&peer.key)?;
        for address in addresses_of(peer) {
            if let Err(error) = self.host.add_address(id, address).await {
                tracing::debug!(%error, parent = %peer.key.short(), "an address of the parent is of no use");
            }
        }
        Some(peer.key)
    }

    /// Turns a report into an input, unless its stream has been replaced in the meantime.
    fn judge(&mut self, peer: PublicKey, serial: u64, report: Report) -> Option<Input> {
        let from_parent = self.parent.as_ref().is_some_and(|(key, r)| *key == peer && r.serial == serial);
        let from_child = self.children.get(&peer).is_some_and(|r| r.serial == serial);
        match report {
            // A chunk that was verified and stored is welcome, whatever became of its stream.
            Report::Stored { version, index } => {
                self.progress();
                Some(Input::Stored { from: peer, version, index })
            }
            Report::Damaged { version, index } => Some(Input::Damaged { version, index }),
            Report::Rotten { reason } => {
                tracing::warn!(peer = %peer.short(), reason, "cut off: this peer broke the chunk protocol");
                Some(Input::Rotten(peer))
            }
            Report::Declined { version } if from_parent => Some(Input::Declined { from: peer, version }),
            Report::Lost { reason } if from_parent => {
                tracing::info!(parent = %peer.short(), reason, "lost the parent");
                self.parent = None;
                Some(Input::Lost(peer))
            }
            Report::Subscribed { version, have } if from_child => {
                Some(Input::Subscribed { child: peer, version, have })
            }
            Report::Sent if from_child => Some(Input::Sent(peer)),
            Report::Left if from_child => {
                self.children.remove(&peer);
                Some(Input::Left(peer))
            }
            _ => None,
        }
    }

    fn progress(&self) {
        if let Some((version, have, total)) = self.relay.progress() {
            // Progress is news only while somebody has time for it.
            let _ = self.events.try_send(SnapshotEvent::Progress { version, have, total });
        }
    }

    /// Carries out what the machine says, until it has nothing more to say.
    async fn obey(&mut self) -> Result<(), super::Stopped> {
        while let Some(output) = self.relay.poll_output() {
            match output {
                Output::Subscribe { parent, version, have } => self.subscribe(parent, version, have),
                Output::Unsubscribe(_) => self.parent = None,
                Output::Forward { child, version, index } => self.forward(child, version, index),
                Output::Decline { child, .. } => self.feed(child, downstream::Feed::Decline),
                // The machine asks again by itself, so a full queue loses nothing.
                Output::AskParent { lost } => drop(self.events.try_send(SnapshotEvent::AskParent { lost })),
                Output::Install(version) => {
                    if let Some(manifest) = self.relay.manifest(version).cloned() {
                        self.events
                            .send(SnapshotEvent::Install(manifest))
                            .await
                            .map_err(|_| super::Stopped)?;
                    }
                    self.parent = None;
                }
                Output::Discard(version) => self.collect(version),
                Output::CutOff(peer) => {
                    self.children.remove(&peer);
                    if self.parent.as_ref().is_some_and(|(key, _)| *key == peer) {
                        self.parent = None;
                    }
                    if let Some(id) = peer_of_key(&peer) {
                        self.host.block(id).await.map_err(|_| super::Stopped)?;
                    }
                    let _ = self.events.try_send(SnapshotEvent::CutOff(peer));
                }
            }
        }
        Ok(())
    }

    fn subscribe(&mut self, parent: PublicKey, version: PolicyVersion, have: ChunkSet) {
        let (Some(id), Some(manifest)) = (peer_of_key(&parent), self.relay.manifest(version).cloned()) else {
            return;
        };
        let reporter = self.reporter(parent);
        let serial = reporter.serial;
        let task = upstream::receive(self.host.clone(), self.store.clone(), id, manifest, have, reporter);
        let task = tokio::spawn(task).abort_handle();
        self.parent = Some((parent, Running { serial, task, feed: None }));
    }

    fn child(&mut self, child: PublicKey, stream: Stream) {
        // What a replaced stream subscribed to must not be sent over the new one.
        if self.children.contains_key(&child) {
            self.relay.handle(clock::now(), Input::Left(child));
        }
        let reporter = self.reporter(child);
        let serial = reporter.serial;
        // One place more than the credit: a decline may follow a full window.
        let (feed, feeding) = mpsc::channel(CREDIT as usize + 1);
        let task =
            tokio::spawn(downstream::serve(stream, self.store.clone(), feeding, reporter)).abort_handle();
        self.children.insert(child, Running { serial, task, feed: Some(feed) });
    }

    fn forward(&mut self, child: PublicKey, version: PolicyVersion, index: ChunkIndex) {
        if let Some(id) = self.relay.manifest(version).and_then(|m| m.chunk_id(index)) {
            self.feed(child, downstream::Feed::Chunk { version, index, id });
        }
    }

    fn feed(&mut self, child: PublicKey, feed: downstream::Feed) {
        let sender = self.children.get(&child).and_then(|running| running.feed.as_ref());
        // The credit keeps the window below the channel's size; a full or closed channel means that the child is going.
        if let Some(sender) = sender
            && sender.try_send(feed).is_err()
        {
            self.children.remove(&child);
            self.relay.handle(clock::now(), Input::Left(child));
        }
    }

    /// Deletes chunks that no kept version names.
    fn collect(&self, version: PolicyVersion) {
        let (store, kept): (_, Vec<_>) = (self.store.clone(), self.relay.kept().cloned().collect());
        tokio::task::spawn_blocking(move || match store.retain(kept.iter().map(|m| m.as_ref())) {
            Ok(chunks) => tracing::debug!(%version, chunks, "deleted the chunks of an old version"),
            Err(error) => tracing::warn!(%error, "could not delete old chunks"),
        });
    }

    fn reporter(&mut self, peer: PublicKey) -> Reporter {
        self.next_serial += 1;
        Reporter { peer, serial: self.next_serial, inbox: self.inbox.clone() }
    }
}
