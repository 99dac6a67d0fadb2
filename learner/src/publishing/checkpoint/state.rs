//! What a checkpoint says besides its tensors.

use crate::fleet::MemberView;
use crate::fleet::capacity::CapacityState;
use crate::intake::coordinator::CoordinatorState;
use crate::training::evaluation::EvaluationRow;
use echo_protocol::run::charter::RunId;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::work::lease::LeaseId;
use echo_protocol::work::order::OrderCounter;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The form of `state.json` that this program writes and reads.
pub(super) const FORM: u32 = 1;

/// What stands in the place of the file's own hash while that is computed.
const NO_HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// The content of `state.json`, which commits a checkpoint.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckpointState {
    /// The form of this file.
    pub form: u32,
    /// The run that the checkpoint belongs to; another run refuses it.
    pub run: RunId,
    /// The version: updates made.
    pub version: PolicyVersion,
    /// The newest evaluation; `None` before the first.
    pub evaluated: Option<EvaluationRow>,
    /// Where random streams stand.
    pub streams: Streams,
    /// Lease book, buffer and tally. The learner's database is ahead of this, and is believed before it.
    #[serde(rename = "desk")]
    pub coordinator: CoordinatorState,
    /// The fleet. It only warms a start: nodes tell of themselves again.
    pub fleet: Vec<MemberView>,
    /// What nodes bring, and what the run has cost. Checkpoints of earlier programs have none.
    #[serde(default)]
    pub capacity: CapacityState,
    /// The tensors, by name of the object.
    pub parts: BTreeMap<String, Part>,
}

/// Where the run's random streams stand. No generator has a state of its own: whatever is drawn in
/// training follows from the run's id, which is also its seed, and a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streams {
    /// The prompt cursor: the next order that was never leased. Its number decides its prompt,
    /// every sample of it, and what an audit has to find.
    pub orders: OrderCounter,
    /// The number of the next lease, which no lease had before.
    pub leases: LeaseId,
    /// The next place in the order of arrival.
    pub arrivals: u64,
    /// Steps of the optimizer, by which the learning rate goes.
    pub optimizer_steps: u64,
}

/// An object of tensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its length in bytes.
    pub bytes: u64,
    /// Its BLAKE3, in hexadecimal.
    pub blake3: String,
}

impl CheckpointState {
    /// The state at `version`, before its tensors are written.
    pub fn new(
        run: RunId,
        version: PolicyVersion,
        evaluated: Option<EvaluationRow>,
        optimizer_steps: u64,
        coordinator: CoordinatorState,
        fleet: Vec<MemberView>,
        capacity: CapacityState,
    ) -> Self {
        let streams = Streams {
            orders: coordinator.leases.cursor,
            leases: coordinator.leases.next_lease,
            arrivals: coordinator.buffer.next_arrival,
            optimizer_steps,
        };
        let parts = BTreeMap::new();
        Self { form: FORM, run, version, evaluated, streams, coordinator, fleet, capacity, parts }
    }

    /// The text of `state.json`, with the hash of itself.
    pub(super) fn to_text(&self) -> Vec<u8> {
        #[derive(Serialize)]
        struct Sealed<'a> {
            blake3: &'static str,
            #[serde(flatten)]
            state: &'a CheckpointState,
        }
        let sealed = Sealed { blake3: NO_HASH, state: self };
        let text = serde_json::to_string_pretty(&sealed).expect("keys are text, and numbers finite or null");
        let hash = ContentId::of(text.as_bytes()).to_string();
        text.replacen(NO_HASH, &hash, 1).into_bytes()
    }

    /// Reads `state.json`; an error says what is wrong with it.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Form {
            form: u32,
            /// Earlier learners wrote none.
            blake3: Option<String>,
        }
        let wrong = |error: serde_json::Error| format!("state.json: {error}");
        let Form { form, blake3 } = serde_json::from_slice(bytes).map_err(wrong)?;
        if form != FORM {
            return Err(format!("state.json has form {form}, this program reads form {FORM}"));
        }
        if blake3.is_some_and(|hash| !is_sealed_with(bytes, &hash)) {
            return Err("state.json does not match its recorded hash".to_owned());
        }
        serde_json::from_slice(bytes).map_err(wrong)
    }
}

/// Whether `hash` is that of `text` with [`NO_HASH`] in its place.
fn is_sealed_with(text: &[u8], hash: &str) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| {
        let unsealed = text.replacen(hash, NO_HASH, 1);
        hash.len() == NO_HASH.len() && ContentId::of(unsealed.as_bytes()).to_string() == hash
    })
}
