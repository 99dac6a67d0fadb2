//! The task that owns the machine of dissemination.

mod actions;
mod streams;

use super::block_writer::{BlockWriter, Stored};
use super::downloads::{DownloadEvent, Downloads};
use super::messages::{DriverCommand, StreamReport};
use super::stats::Times;
use super::{SnapshotEvent, SnapshotStats, SnapshotsConfig, Stopped};
use crate::control::requests::Peer;
use crate::dissemination::{Dissemination, Input, NeighbourRole, Output};
use crate::net::IncomingStreams;
use crate::net::host::Host;
use crate::net::peer_id::{key_of_peer, peer_of_key};
use crate::program::clock;
use crate::program::log_throttle::PacedKeys;
use crate::run::epoch::Epoch;
use crate::run::version::PolicyVersion;
use crate::snapshot::manifest::{Manifest, PieceIndex};
use crate::store::ChunkStore;
use crate::wire::identity::PublicKey;
use crate::wire::time::UnixMillis;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use streams::Edges;
use tokio::sync::mpsc;

/// Commands and reports taken in before the machine is asked what to do.
const BATCH: usize = 64;
/// Least pause between two reports of progress, in milliseconds.
const PROGRESS_EVERY_MS: u64 = 100;

/// What goes wrong with a peer has one line a minute: keys cost nothing.
static TROUBLE: PacedKeys<PublicKey> = PacedKeys::new(Duration::from_secs(60));

pub(super) struct SnapshotDriver {
    host: Host,
    machine: Dissemination,
    /// Whether snapshots come from here.
    source: bool,
    /// The one whose blocking would end our part in the run.
    learner: Option<PublicKey>,
    store: Arc<ChunkStore>,
    inbox: mpsc::WeakSender<DriverCommand>,
    events: mpsc::Sender<SnapshotEvent>,
    edges: Edges,
    downloads: Downloads,
    /// The learner's epoch, by the last manifest that was announced.
    epoch: Option<Epoch>,
    /// What streams up to this number report is of versions of an earlier epoch.
    stale_serial: u64,
    /// The newest complete snapshot that the owner has not been told of.
    install: Option<Arc<Manifest>>,
    neighbours: Vec<(Peer, NeighbourRole)>,
    /// Neighbours of another version, of which the log says so.
    foreign: BTreeSet<PublicKey>,
    progress_at: UnixMillis,
    times: Times,
    cut_off: Vec<PublicKey>,
}

impl SnapshotDriver {
    pub(super) fn new(
        host: Host,
        store: Arc<ChunkStore>,
        block_writer: BlockWriter,
        config: SnapshotsConfig,
        inbox: mpsc::WeakSender<DriverCommand>,
        events: mpsc::Sender<SnapshotEvent>,
    ) -> Self {
        let source = config.role == super::SnapshotRole::Source;
        Self {
            source,
            machine: Dissemination::new(config.dissemination()),
            learner: config.learner,
            events,
            edges: Edges::new(host.clone(), source, store.clone(), block_writer, inbox.clone()),
            downloads: Downloads::new(config.keep_versions),
            store,
            inbox,
            host,
            epoch: None,
            stale_serial: 0,
            install: None,
            neighbours: Vec::new(),
            foreign: BTreeSet::new(),
            progress_at: UnixMillis(0),
            times: Times::default(),
            cut_off: Vec::new(),
        }
    }

    pub(super) async fn run(
        mut self,
        mut commands: mpsc::Receiver<DriverCommand>,
        mut incoming: IncomingStreams,
    ) {
        let events = self.events.clone();
        let mut batch = Vec::with_capacity(BATCH);
        loop {
            let wake = [self.machine.poll_timeout(), self.downloads.timeout()].into_iter().flatten().min();
            let wake = wake.map_or(3_600_000, |at| at.since(clock::now()).max(1));
            tokio::select! {
                taken = commands.recv_many(&mut batch, BATCH) => {
                    if taken == 0 {
                        return;
                    }
                    for command in batch.drain(..) {
                        self.command(command).await;
                    }
                }
                stream = incoming.next() => match stream {
                    Some((peer, stream)) => if let Some(consumer) = key_of_peer(&peer) {
                        // What a replaced stream asked for must not be sent over the new one.
                        if self.edges.consumer(consumer, stream) {
                            self.machine.handle(clock::now(), Input::Left(consumer));
                        }
                    },
                    None => return,
                },
                // The owner may be busy: everything else goes on meanwhile.
                Ok(place) = events.reserve(), if self.install.is_some() => {
                    if let Some(manifest) = self.install.take() {
                        place.send(SnapshotEvent::Install(manifest));
                    }
                }
                () = tokio::time::sleep(Duration::from_millis(wake)) => {
                    self.machine.handle_timeout(clock::now());
                    let machine = &self.machine;
                    self.downloads.lose_patience(clock::now(), |version, piece| machine.supply(version, piece));
                }
            }
            if self.obey().await.is_err() {
                return;
            }
        }
    }

    async fn command(&mut self, command: DriverCommand) {
        let now = clock::now();
        match command {
            DriverCommand::Downloads(event) => {
                match event {
                    DownloadEvent::Damaged { version, piece } => return self.damaged(now, version, piece),
                    DownloadEvent::Announced(ref manifest) => {
                        self.enter(now, manifest.epoch);
                        self.times.announced(manifest.version, now);
                    }
                    _ => {}
                }
                self.downloads.handle(now, event);
            }
            DriverCommand::Neighbours(named) => self.named(now, named).await,
            DriverCommand::Friends(friends) => self.machine.handle(now, Input::Friends(friends)),
            DriverCommand::Leaves(leaves) => self.machine.handle(now, Input::Leaves(leaves)),
            DriverCommand::Mode(mode) => self.machine.set_mode(mode),
            DriverCommand::Damaged { version, index } => {
                self.delete_damaged(version, PieceIndex(index.0));
            }
            DriverCommand::Stats(answer) => drop(answer.send(self.stats())),
            DriverCommand::Report { peer, serial, report } => self.report(now, peer, serial, report),
        }
    }

    /// Turns a report into inputs. One of a stream that has been replaced since counts only as far
    /// as it is about the peer or the disk.
    fn report(&mut self, now: UnixMillis, peer: PublicKey, serial: u64, report: StreamReport) {
        let pulled = self.edges.pulls(&peer, serial);
        let served = self.edges.serves(&peer, serial);
        let input = match report {
            // Versions of the epoch before had the same numbers.
            StreamReport::Stored { .. } | StreamReport::Damaged { .. } if serial <= self.stale_serial => {
                return;
            }
            // What was verified and stored is welcome, whatever became of its stream.
            StreamReport::Stored { version, stored } => return self.stored(now, peer, version, stored),
            StreamReport::Damaged { version, piece } => return self.damaged(now, version, piece),
            StreamReport::Rotten { reason } => {
                if TROUBLE.due(peer).is_some() {
                    tracing::warn!(peer = %peer.short(), reason, "cut off: this peer broke the chunk protocol");
                }
                Input::Rotten(peer)
            }
            StreamReport::Opened if pulled => {
                self.foreign.remove(&peer);
                Input::Opened(peer)
            }
            StreamReport::Has { version, news } if pulled => Input::Has { peer, version, news },
            StreamReport::Refused { version } if pulled => {
                self.edges.close(&peer);
                Input::Refused { peer, version }
            }
            StreamReport::Lost { reason } if pulled => {
                tracing::debug!(neighbour = %peer.short(), reason, "lost a neighbour");
                self.edges.close(&peer);
                Input::Lost(peer)
            }
            StreamReport::Foreign { reason } if pulled => {
                // It is tried again and again, as its owner may install another version.
                if self.foreign.insert(peer) {
                    tracing::warn!(neighbour = %peer.short(), "snapshots cannot come from a neighbour: {reason}");
                }
                self.edges.close(&peer);
                Input::Lost(peer)
            }
            StreamReport::GaveUp { reason } if pulled => {
                if TROUBLE.due(peer).is_some() {
                    tracing::warn!(neighbour = %peer.short(), reason, "what a neighbour sent cannot be kept here");
                }
                self.edges.close(&peer);
                Input::GaveUp(peer)
            }
            StreamReport::Joined { version, manifest } if served => Input::Joined { peer, version, manifest },
            StreamReport::Asked { version, piece, blocks } if served => {
                Input::Asked { peer, version, piece, blocks }
            }
            StreamReport::Cancelled { piece, blocks } if served => Input::Cancelled { peer, piece, blocks },
            StreamReport::Sent { piece, block } if served => Input::Sent { peer, piece, block },
            StreamReport::Left if served => {
                self.edges.forget_consumer(&peer);
                Input::Left(peer)
            }
            _ => return,
        };
        self.machine.handle(now, input);
    }

    fn stored(&mut self, now: UnixMillis, peer: PublicKey, version: PolicyVersion, stored: Vec<Stored>) {
        self.times.first_byte(version, now);
        for Stored { piece, block, whole } in stored {
            self.machine.handle(now, Input::Stored { peer, version, piece, block });
            self.downloads.handle(now, DownloadEvent::Stored { version, piece, whole });
        }
        if now.since(self.progress_at) >= PROGRESS_EVERY_MS
            && let Some((version, have_bytes, total_bytes)) = self.machine.progress()
        {
            self.progress_at = now;
            // Progress is news only while somebody has time for it.
            let _ = self.events.try_send(SnapshotEvent::Progress { version, have_bytes, total_bytes });
        }
    }

    /// Forgets what it knows of versions when the learner has begun a new epoch. Pieces go by their content,
    /// so those on disk serve the new one.
    fn enter(&mut self, now: UnixMillis, epoch: Epoch) {
        let before = self.epoch.replace(epoch);
        if before.is_none_or(|before| before == epoch) {
            return;
        }
        self.machine.handle(now, Input::NewEpoch);
        self.downloads.forget();
        self.install = None;
        self.stale_serial = self.edges.last_serial();
    }

    /// A piece turned out to be damaged on disk, and has been deleted. The source cannot
    /// fetch it from anybody.
    fn damaged(&mut self, now: UnixMillis, version: PolicyVersion, piece: PieceIndex) {
        self.machine.handle(now, Input::Damaged { version, piece });
        if !self.source {
            self.downloads.handle(now, DownloadEvent::Damaged { version, piece });
        }
    }

    /// Gives the host the addresses of the neighbours, so that opening a stream can dial them.
    async fn named(&mut self, now: UnixMillis, named: Vec<(Peer, NeighbourRole)>) {
        if named != self.neighbours {
            for (peer, _) in &named {
                self.edges.remember(peer, self.learner.is_some()).await;
            }
            self.neighbours = named;
            self.foreign.retain(|key| self.neighbours.iter().any(|(peer, _)| peer.key == *key));
        }
        let named = self.neighbours.iter().map(|(peer, role)| (peer.key, *role)).collect();
        self.machine.handle(now, Input::Neighbours(named));
    }

    /// Carries out what the machine and the downloads say, until they have nothing more to say.
    async fn obey(&mut self) -> Result<(), Stopped> {
        loop {
            if let Some(output) = self.machine.poll_output() {
                self.follow(output).await?;
            } else if let Some(action) = self.downloads.poll_action() {
                self.act(clock::now(), action);
            } else {
                return Ok(());
            }
        }
    }

    async fn follow(&mut self, output: Output) -> Result<(), Stopped> {
        match output {
            Output::Open { peer, version } => {
                if let (Some(manifest), Some(id)) =
                    (self.machine.manifest(version).cloned(), self.machine.manifest_id(version))
                {
                    self.edges.open(peer, manifest, id);
                }
            }
            Output::Close(peer) => self.edges.close(&peer),
            Output::Request { peer, piece, blocks, .. } => {
                self.edges.wish(&peer, super::upstream::UpstreamCommand::Request { piece, blocks });
            }
            Output::Cancel { peer, piece, blocks, .. } => {
                self.edges.wish(&peer, super::upstream::UpstreamCommand::Cancel { piece, blocks });
            }
            Output::Tell { peer, news, .. } => self.edges.tell(&peer, news),
            Output::Serve { peer, version, piece, block } => {
                let named = self.machine.manifest(version).and_then(|m| m.piece(piece));
                if !named.is_some_and(|named| self.edges.serve(&peer, piece, named, block)) {
                    self.edges.forget_consumer(&peer);
                    self.machine.handle(clock::now(), Input::Left(peer));
                }
            }
            Output::Refuse { peer, .. } => self.edges.refuse(&peer),
            // More may be wanted since it was said.
            Output::Complete(version) if !self.machine.is_complete(version) => {}
            Output::Complete(version) => {
                self.downloads.handle(clock::now(), DownloadEvent::Complete(version))
            }
            Output::Refused(version) => self.downloads.handle(clock::now(), DownloadEvent::Refused(version)),
            Output::Discard(version) => {
                self.downloads.handle(clock::now(), DownloadEvent::Forgotten(version))
            }
            Output::CutOff(peer) => self.cut_off(peer).await?,
            // The machine asks again by itself, so a full queue loses nothing.
            Output::AskNeighbours { lost } => {
                drop(self.events.try_send(SnapshotEvent::AskNeighbours { lost }));
            }
        }
        Ok(())
    }

    /// Ends everything with a peer that broke the protocol. The learner alone may still be
    /// talked to: without its control protocol the node would have no part in the run, and
    /// whatever it serves is verified.
    async fn cut_off(&mut self, peer: PublicKey) -> Result<(), Stopped> {
        self.edges.close(&peer);
        self.edges.forget_consumer(&peer);
        if let Some(id) = peer_of_key(&peer).filter(|_| Some(peer) != self.learner) {
            self.host.block(id).await.map_err(|_| Stopped)?;
        }
        if self.cut_off.len() < super::stats::MAX_CUT_OFF && !self.cut_off.contains(&peer) {
            self.cut_off.push(peer);
        }
        let _ = self.events.try_send(SnapshotEvent::CutOff(peer));
        Ok(())
    }

    fn stats(&self) -> SnapshotStats {
        SnapshotStats {
            dissemination: self.machine.stats(),
            sent_bytes: self.edges.traffic().sent_bytes(),
            received_bytes: self.edges.traffic().received_bytes(),
            cut_off: self.cut_off.clone(),
            versions: self.times.versions(),
        }
    }
}
