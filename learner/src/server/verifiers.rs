//! Verifiers on their streams, and the groups that wait for their word.
//!
//! What follows from what they say is decided by the [`Panel`]; here it is sent, received and
//! waited for. Nothing here waits for a verifier but the group that it was asked about, and that
//! only until its deadline.

use super::SharedState;
use crate::intake::admission::MAX_FRAME_BYTES;
use crate::reputation::{NetworkPrefix, Owner};
use crate::verification::panel::{MAX_VERIFIERS, Panel, PanelConfig, Question, ReportOutcome, Ruling, Said};
use echo_protocol::net::peer_id::key_of_peer;
use echo_protocol::net::{IncomingStreams, Stream, read_frame_within, write_frame};
use echo_protocol::program::clock;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::verification::{MAX_CAPACITY, MAX_WORD_BYTES, Offer, Report, VerifierMessage};
use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::{Arc, Once};
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, spawn_blocking};

/// A word whose first byte is here has this time to be whole, and so has the first offer on a
/// stream from its beginning.
const WORD_WITHIN: Duration = Duration::from_secs(30);
/// A verifier that takes a frame no faster than this is let go.
const SEND_WITHIN: Duration = Duration::from_secs(60);
/// How often it is looked whose time is over: groups of a fast run wait for less than a second.
const EXPIRE_EVERY: Duration = Duration::from_millis(50);
/// The pause after an offer: policies change no faster.
const OFFER_PAUSE: Duration = Duration::from_millis(100);

/// All verifiers of a run.
pub(super) struct Verifiers(Mutex<State>);

struct State {
    panel: Panel,
    lines: BTreeMap<PublicKey, Line>,
    /// Numbers streams, so that the end of an old one is not taken for that of a newer one.
    streams: u64,
    /// Groups without a ruling yet.
    waiting: BTreeMap<ContentId, oneshot::Sender<Ruling>>,
}

/// What goes out on a verifier's stream. Dropped, it ends the stream.
struct Line {
    stream: u64,
    network: Option<NetworkPrefix>,
    /// Whether it has offered to look at something.
    offered: bool,
    frames: mpsc::Sender<Arc<Vec<u8>>>,
}

/// A verifier's place, until it is dropped.
pub(super) struct Seat {
    shared: Arc<SharedState>,
    key: PublicKey,
    stream: u64,
}

impl Verifiers {
    pub(super) fn new(config: PanelConfig, secret: [u8; 32]) -> Self {
        let (lines, waiting) = (BTreeMap::new(), BTreeMap::new());
        Self(Mutex::new(State { panel: Panel::new(config, secret), lines, streams: 0, waiting }))
    }

    /// Sends a group to a panel, whose ruling comes later; `None` where none can be formed.
    pub(super) fn ask(
        &self,
        now: UnixMillis,
        question: &Question,
        frame: &Arc<Vec<u8>>,
    ) -> Option<oneshot::Receiver<Ruling>> {
        let mut state = self.0.lock();
        let Some(chosen) = state.panel.ask(now, question) else {
            state.tell(question);
            return None;
        };
        let (ruling, ruled) = oneshot::channel();
        state.waiting.insert(question.group, ruling);
        for key in chosen {
            // There is room for all that it was asked and has not reported.
            let line = state.lines.get(&key);
            if line.is_none_or(|line| line.frames.try_send(frame.clone()).is_err()) {
                state.gone(&key);
            }
        }
        Some(ruled)
    }

    /// Notes where a verifier is, if it is one.
    fn moved(&self, key: &PublicKey, network: Option<NetworkPrefix>) {
        self.0.lock().moved(key, network);
    }

    /// Whether anybody offers to look.
    pub(super) fn are_there(&self) -> bool {
        self.0.lock().panel.verifiers() > 0
    }

    /// Those that have offered to look at something. Owners share the places, however many keys they have.
    pub(super) fn that_offered(&self) -> Vec<PublicKey> {
        let state = self.0.lock();
        state.lines.iter().filter(|(_, line)| line.offered).map(|(key, _)| *key).collect()
    }

    /// Notes time and version: [`Panel::at`].
    pub(super) fn at(&self, now: UnixMillis, version: PolicyVersion) {
        self.0.lock().panel.at(now, version);
    }

    /// Notes what the learner found: [`Panel::settle`].
    pub(super) fn settle(&self, group: &ContentId, sound: bool) -> Vec<(PublicKey, bool)> {
        self.0.lock().panel.settle(group, sound)
    }

    /// Drops a group that nobody need look at any more: [`Panel::dismiss`].
    pub(super) fn dismiss(&self, group: &ContentId) {
        self.0.lock().panel.dismiss(group);
    }

    /// Lets a verifier go, whatever it has still to say.
    pub(super) fn gone(&self, key: &PublicKey) {
        self.0.lock().gone(key);
    }

    fn expire(&self, now: UnixMillis) {
        let mut state = self.0.lock();
        let ruled = state.panel.expired(now);
        state.rule(ruled);
    }
}

impl State {
    /// Says once why verifiers that are here are not asked, where it is not for want of time.
    fn tell(&self, question: &Question) {
        static WARNED: Once = Once::new();
        if let Some((owners, k)) = self.panel.shortage(question) {
            WARNED.call_once(|| {
                tracing::warn!(
                    "no panel can be formed for now: [verify] k = {k} asks for as many owners beside a group's own, and {owners} are here \
                     (verifiers: {}); until more come the learner looks itself. Lower k and n to what there is. On one machine, or where \
                     you know everybody, [verify] owners = \"key\" counts each key as an owner",
                    self.panel.verifiers()
                );
            });
        }
    }

    fn gone(&mut self, key: &PublicKey) {
        self.lines.remove(key);
        let ruled = self.panel.gone(key);
        self.rule(ruled);
    }

    fn moved(&mut self, key: &PublicKey, network: Option<NetworkPrefix>) {
        if let Some(line) = self.lines.get_mut(key) {
            line.network = network;
        }
        self.panel.moved(key, network);
    }

    /// Gives a verifier a place, if there is one, and says the number of its stream. Its older
    /// stream loses its own.
    fn seat(
        &mut self,
        key: PublicKey,
        network: Option<NetworkPrefix>,
        frames: mpsc::Sender<Arc<Vec<u8>>>,
    ) -> Option<u64> {
        self.gone(&key);
        if !self.make_room(self.panel.owner(key, network)) {
            return None;
        }
        self.streams += 1;
        self.lines.insert(key, Line { stream: self.streams, network, offered: false, frames });
        Some(self.streams)
    }

    /// Whether there is a place for one more of this owner. Where all are taken, one that
    /// has offered nothing yet loses its own, the oldest first; or else the newest of the
    /// owner with most, if that is more than the other would then have. So many keys of few
    /// owners keep nobody out.
    fn make_room(&mut self, owner: Owner) -> bool {
        if self.lines.len() < MAX_VERIFIERS {
            return true;
        }
        let Some(key) = self.idlest().or_else(|| self.one_too_many(owner)) else { return false };
        self.gone(&key);
        true
    }

    /// Who has been here longest without an offer.
    fn idlest(&self) -> Option<PublicKey> {
        let silent = self.lines.iter().filter(|(_, line)| !line.offered);
        silent.min_by_key(|(_, line)| line.stream).map(|(key, _)| *key)
    }

    /// The newest verifier of the owner with most, if that one has more even without it than
    /// `owner` has with one more.
    fn one_too_many(&self, owner: Owner) -> Option<PublicKey> {
        let mut places: BTreeMap<Owner, (usize, u64, PublicKey)> = BTreeMap::new();
        for (key, line) in &self.lines {
            let of_owner = places.entry(self.panel.owner(*key, line.network)).or_insert((0, 0, *key));
            let (stream, newest) = (of_owner.1, of_owner.2).max((line.stream, *key));
            *of_owner = (of_owner.0 + 1, stream, newest);
        }
        let theirs = places.get(&owner).map_or(0, |(count, ..)| *count);
        let (most, _, newest) = places.into_values().max()?;
        (most > theirs + 1).then_some(newest)
    }

    fn rule(&mut self, ruled: Vec<(ContentId, Ruling)>) {
        for (group, ruling) in ruled {
            let heard = self.waiting.remove(&group).is_some_and(|waiting| waiting.send(ruling).is_ok());
            if !heard {
                // Nobody waits for it any more: the service is ending.
                self.panel.dismiss(&group);
            }
        }
    }
}

impl Seat {
    /// A place for a verifier that is connected from `network`; its older stream loses its own.
    /// `None` where there are too many.
    pub(super) fn take(
        shared: &Arc<SharedState>,
        key: PublicKey,
        network: Option<NetworkPrefix>,
        frames: mpsc::Sender<Arc<Vec<u8>>>,
    ) -> Option<Self> {
        let stream = shared.verifiers.0.lock().seat(key, network, frames)?;
        Some(Self { shared: shared.clone(), key, stream })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut state = self.shared.verifiers.0.lock();
        if state.lines.get(&self.key).is_some_and(|line| line.stream == self.stream) {
            state.gone(&self.key);
        }
    }
}

impl SharedState {
    /// Tells the panel where a verifier is, if it is one, as the record has it. The coordinator is
    /// locked meanwhile, so what is told last is true.
    pub(super) fn locate(&self, key: &PublicKey) {
        let coordinator = self.coordinator();
        self.verifiers.moved(key, coordinator.record().network(key));
    }
}

/// Accepts verifiers until the host stops.
pub(super) async fn accept(shared: Arc<SharedState>, mut incoming: IncomingStreams) {
    let mut streams: BTreeMap<PublicKey, AbortHandle> = BTreeMap::new();
    while let Some((peer, stream)) = incoming.next().await {
        let Some(key) = key_of_peer(&peer) else { continue };
        streams.retain(|_, task| !task.is_finished());
        let shared = shared.clone();
        let task = tokio::spawn(async move {
            if let Err(error) = converse(&shared, key, stream).await {
                tracing::debug!(verifier = %key.short(), error, "a verifier's stream ended");
            }
        });
        if let Some(old) = streams.insert(key, task.abort_handle()) {
            old.abort();
        }
    }
}

/// Decides groups whose time is over, for ever.
pub(super) async fn expire(shared: Arc<SharedState>) {
    loop {
        tokio::time::sleep(EXPIRE_EVERY).await;
        shared.verifiers.expire(clock::now());
    }
}

async fn converse(shared: &Arc<SharedState>, key: PublicKey, stream: Stream) -> Result<(), String> {
    // The coordinator may be waiting for the disk.
    let asking = shared.clone();
    let network = spawn_blocking(move || {
        let coordinator = asking.coordinator();
        coordinator.hear(clock::now(), &key).map(|()| coordinator.record().network(&key))
    });
    let network = network.await.map_err(|e| e.to_string())?.map_err(|unheard| unheard.detail)?;
    let (frames, queue) = mpsc::channel(MAX_CAPACITY as usize);
    let Some(seat) = Seat::take(shared, key, network, frames) else {
        return Err("too many verifiers".into());
    };
    // Streams and connections come by different ways, so where it is may have become known in
    // between; or will, and is told then.
    let located = shared.clone();
    spawn_blocking(move || located.locate(&key)).await.map_err(|e| e.to_string())?;
    let (reader, writer) = stream.split();
    tokio::select! {
        ended = listen(&seat, reader) => ended,
        ended = send(writer, queue) => ended,
    }
}

/// Sends what the panel asks, until its line is dropped.
async fn send(
    mut stream: impl AsyncWrite + Unpin,
    mut queue: mpsc::Receiver<Arc<Vec<u8>>>,
) -> Result<(), String> {
    while let Some(frame) = queue.recv().await {
        let sent = tokio::time::timeout(SEND_WITHIN, write_frame(&mut stream, &frame, MAX_FRAME_BYTES)).await;
        sent.map_err(|_| "it takes no frame".to_owned())?.map_err(|e| e.to_string())?;
    }
    Ok(())
}

async fn listen(seat: &Seat, mut stream: impl AsyncRead + Unpin) -> Result<(), String> {
    let mut has_offered = false;
    loop {
        let word = read_frame_within(&mut stream, MAX_WORD_BYTES, WORD_WITHIN);
        let frame = if has_offered {
            word.await
        } else {
            tokio::time::timeout(WORD_WITHIN, word).await.map_err(|_| "it offers nothing".to_owned())?
        };
        let Some(frame) = frame.map_err(|e| e.to_string())? else { return Ok(()) };
        match VerifierMessage::from_bytes(&frame).map_err(|e| e.to_string())? {
            VerifierMessage::Offer(offer) => {
                seat.offer(&offer);
                has_offered = true;
                tokio::time::sleep(OFFER_PAUSE).await;
            }
            VerifierMessage::Report(report) => {
                let (shared, key) = (seat.shared.clone(), seat.key);
                let heard = spawn_blocking(move || hear(&shared, key, &report));
                heard.await.map_err(|e| e.to_string())??;
            }
        }
    }
}

impl Seat {
    pub(super) fn offer(&self, offer: &Offer) {
        let mut state = self.shared.verifiers.0.lock();
        let State { panel, lines, .. } = &mut *state;
        // Not after a newer stream of the same verifier.
        if let Some(line) = lines.get_mut(&self.key).filter(|line| line.stream == self.stream) {
            line.offered = true;
            panel.offer(self.key, line.network, offer);
        }
    }
}

/// Takes a verifier's signed report, if it is this run's and its own. The error says why the
/// verifier is not listened to any longer.
pub(super) fn hear(shared: &SharedState, key: PublicKey, signed: &Signed<Report>) -> Result<(), String> {
    shared.coordinator().hear(clock::now(), &key).map_err(|unheard| unheard.detail)?;
    let report = signed.open_from(&key).map_err(|e| e.to_string())?;
    if report.run != shared.workload.run {
        return Err(format!("a report on run {}", report.run.short()));
    }
    let heard = {
        let mut state = shared.verifiers.0.lock();
        match state.panel.report(&key, &report.group, Said::from(&report.opinion)) {
            ReportOutcome::Ruled(ruling) => {
                state.rule(vec![(report.group, ruling)]);
                ReportOutcome::Noted
            }
            heard => heard,
        }
    };
    match heard {
        ReportOutcome::Judged(right) => {
            shared.note_verdicts(vec![(key, right)]);
            Ok(())
        }
        ReportOutcome::Unasked => Err("a report that nobody has asked for".into()),
        ReportOutcome::Noted | ReportOutcome::Ruled(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests;
