//! Checks by volunteers: the learner sends a verifier the groups of others, and the verifier says
//! what it thinks of them.
//!
//! The verifier opens the stream ([`CHECKS`](crate::net::protocol_names::CHECKS)) and sends
//! [`VerifierMessage`]s: first an [`Offer`], another whenever what it can check changes, and
//! a signed [`Report`] on each group. What it receives are signed groups as they were
//! delivered, each a frame.

use crate::run::charter::RunId;
use crate::run::version::PolicyVersion;
use crate::wire::codec;
use crate::wire::codec::CodecError;
use crate::wire::content_id::ContentId;
use crate::wire::signed::{Signable, Signed};
use crate::work::submission::RefuseReason;
use serde::{Deserialize, Serialize};

/// Most groups that a verifier takes before it has reported on the first of them.
pub const MAX_CAPACITY: u32 = 16;
/// Most versions that a verifier says it holds.
pub const MAX_HELD: usize = 8;
/// Longest text of an opinion, in bytes.
pub const MAX_TEXT_BYTES: usize = 200;
/// Longest encoded [`VerifierMessage`], in bytes.
pub const MAX_WORD_BYTES: usize = 1024;

/// What a verifier offers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offer {
    /// How many groups it takes before it has reported on the first, 1 to [`MAX_CAPACITY`].
    pub capacity: u32,
    /// The policies that it holds, at most [`MAX_HELD`] of them.
    pub held: Vec<PolicyVersion>,
}

/// What a verifier thinks of a group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Opinion {
    /// It is what an honest node sends.
    Sound,
    /// No honest node sends it.
    Lie {
        /// The stage that it fails.
        reason: RefuseReason,
        /// What was found, at most [`MAX_TEXT_BYTES`]; longer text is cut.
        detail: String,
    },
    /// It cannot be checked here.
    Unable {
        /// The reason in words, at most [`MAX_TEXT_BYTES`].
        why: String,
    },
}

/// What a verifier says of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The run whose learner asked for the check.
    pub run: RunId,
    /// BLAKE3 of the group's body as its node signed it.
    pub group: ContentId,
    /// What it thinks of it.
    pub opinion: Opinion,
}

impl Signable for Report {
    const CONTEXT: &'static str = "echo check report 1";
    const MAX_BYTES: usize = 512;
}

/// What a verifier sends.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum VerifierMessage {
    /// What it can do, from now on.
    Offer(Offer),
    /// A signed opinion on one group that the learner sent.
    Report(Signed<Report>),
}

/// A word that makes no sense.
#[derive(Debug, thiserror::Error)]
pub enum WordError {
    /// Too long, or not one.
    #[error(transparent)]
    Codec(#[from] CodecError),
    /// An offer outside its limits.
    #[error(
        "an offer of {capacity} groups and {held} versions: 1 to {MAX_CAPACITY} and at most {MAX_HELD} are taken"
    )]
    Offer {
        /// Groups that it offers to take at once.
        capacity: u32,
        /// Versions that it names.
        held: usize,
    },
}

impl Opinion {
    /// A lie; a detail that is too long is cut.
    #[must_use]
    pub fn lie(reason: RefuseReason, detail: &str) -> Self {
        Self::Lie { reason, detail: short(detail) }
    }

    /// Nothing can be said; a text that is too long is cut.
    #[must_use]
    pub fn unable(why: &str) -> Self {
        Self::Unable { why: short(why) }
    }
}

impl VerifierMessage {
    /// Reads a word. Nothing in a report is verified yet.
    ///
    /// # Errors
    /// [`WordError`] when the bytes are no word, or an offer exceeds its limits.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, WordError> {
        let word = codec::decode(bytes, MAX_WORD_BYTES)?;
        match &word {
            Self::Offer(Offer { capacity, held })
                if !(1..=MAX_CAPACITY).contains(capacity) || held.len() > MAX_HELD =>
            {
                Err(WordError::Offer { capacity: *capacity, held: held.len() })
            }
            _ => Ok(word),
        }
    }

    /// The encoded word, as it goes into a frame.
    ///
    /// # Errors
    /// When it is longer than [`MAX_WORD_BYTES`], which no sound offer or report is.
    pub fn to_bytes(&self) -> Result<Vec<u8>, CodecError> {
        codec::encode(self, MAX_WORD_BYTES)
    }
}

fn short(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT_BYTES)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::charter;
    use crate::wire::identity::NodeKey;
    use proptest::prelude::*;

    fn report(opinion: Opinion) -> Signed<Report> {
        let key = NodeKey::from_secret([3; 32]);
        let run = RunId::of(&Signed::sign(&charter::tests::charter(&key), &key).unwrap());
        Signed::sign(&Report { run, group: ContentId::of(b"group"), opinion }, &key).unwrap()
    }

    #[test]
    fn the_longest_words_fit_and_come_back() {
        let held = vec![PolicyVersion(u64::MAX); MAX_HELD];
        let texts = "ü".repeat(MAX_TEXT_BYTES);
        for word in [
            VerifierMessage::Offer(Offer { capacity: MAX_CAPACITY, held }),
            VerifierMessage::Report(report(Opinion::Sound)),
            VerifierMessage::Report(report(Opinion::lie(RefuseReason::FrameTooLarge, &texts))),
            VerifierMessage::Report(report(Opinion::unable(&texts))),
        ] {
            assert_eq!(VerifierMessage::from_bytes(&word.to_bytes().unwrap()).unwrap(), word);
        }
    }

    #[test]
    fn offers_outside_their_limits_are_none() {
        let held = |n| vec![PolicyVersion(1); n];
        for (capacity, held) in [(0, held(1)), (MAX_CAPACITY + 1, held(1)), (1, held(MAX_HELD + 1))] {
            let bytes = VerifierMessage::Offer(Offer { capacity, held }).to_bytes().unwrap();
            assert!(matches!(VerifierMessage::from_bytes(&bytes), Err(WordError::Offer { .. })));
        }
        assert!(matches!(VerifierMessage::from_bytes(&[0; MAX_WORD_BYTES + 1]), Err(WordError::Codec(_))));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..MAX_WORD_BYTES + 2)) {
            let _ = VerifierMessage::from_bytes(&bytes);
        }

        #[test]
        fn no_damage_panics_or_passes_for_another_report(at in any::<prop::sample::Index>(), bit in 0u8..8) {
            let sound = report(Opinion::lie(RefuseReason::Sampling, "drawn otherwise"));
            let mut bytes = VerifierMessage::Report(sound.clone()).to_bytes().unwrap();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            if let Ok(VerifierMessage::Report(damaged)) = VerifierMessage::from_bytes(&bytes) {
                let opened = damaged.open_from(&sound.key());
                prop_assert!(opened.is_err() || opened.ok() == sound.open().ok());
            }
        }
    }
}
