//! What a checkpoint says besides its tensors.

use crate::desk::DeskState;
use crate::fleet::MemberView;
use crate::metrics::EvaluationRow;
use echo_protocol::charter::RunId;
use echo_protocol::lease::LeaseId;
use echo_protocol::order::OrderCounter;
use echo_protocol::version::PolicyVersion;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The form of `state.json` that this program writes and reads.
pub(super) const FORM: u32 = 1;

/// `state.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The form of this file.
    pub form: u32,
    /// The run.
    pub run: RunId,
    /// The version: updates made.
    pub version: PolicyVersion,
    /// The newest evaluation.
    pub evaluated: Option<EvaluationRow>,
    /// Where random streams stand.
    pub streams: Streams,
    /// Lease book, buffer and tally. The learner's database is ahead of this, and is believed before it.
    pub desk: DeskState,
    /// The fleet. It only warms a start: nodes tell of themselves again.
    pub fleet: Vec<MemberView>,
    /// The tensors, by name of the object.
    pub parts: BTreeMap<String, Part>,
}

/// Where the run's random streams stand. No generator has a state of its own: whatever is drawn in training follows from the run's id,
/// which is also its seed, and a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Streams {
    /// The prompt cursor: the next order that was never leased. Its number decides its prompt, every sample of it, and what an audit
    /// has to find.
    pub orders: OrderCounter,
    /// The next lease.
    pub leases: LeaseId,
    /// The next place in the order of arrival.
    pub arrivals: u64,
    /// Steps of the optimizer, by which the learning rate goes.
    pub optimizer_steps: u64,
}

/// An object of tensors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Its length.
    pub bytes: u64,
    /// Its BLAKE3, in hexadecimal.
    pub blake3: String,
}

impl State {
    /// The state at `version`, before its tensors are written.
    pub fn new(
        run: RunId,
        version: PolicyVersion,
        evaluated: Option<EvaluationRow>,
        optimizer_steps: u64,
        desk: DeskState,
        fleet: Vec<MemberView>,
    ) -> Self {
        let streams = Streams {
            orders: desk.leases.cursor,
            leases: desk.leases.next_lease,
            arrivals: desk.buffer.next_arrival,
            optimizer_steps,
        };
        Self { form: FORM, run, version, evaluated, streams, desk, fleet, parts: BTreeMap::new() }
    }

    /// Reads `state.json`; an error says what is wrong with it.
    pub(super) fn parse(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Form {
            form: u32,
        }
        let Form { form } = serde_json::from_slice(bytes).map_err(|e| format!("state.json: {e}"))?;
        if form != FORM {
            return Err(format!("state.json has form {form}, this program reads form {FORM}"));
        }
        serde_json::from_slice(bytes).map_err(|e| format!("state.json: {e}"))
    }
}
