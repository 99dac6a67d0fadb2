//! Verdicts: the reward r and the metadata Ω of a trajectory τ = (x, y, r, v, Ω).

use echo_protocol::work::trajectory::{MAX_OMEGA_ENTRIES, MAX_OMEGA_TEXT, MetaValue, Omega};

/// What a response is worth.
#[derive(Debug, Clone, PartialEq)]
pub struct Verdict {
    /// The reward r, within [0, 1].
    pub reward: f32,
    /// Whether the response counts as right in accuracy figures.
    pub correct: bool,
    /// The task's part of Ω, within the protocol's limits when it was built with [`Verdict::with`].
    pub metadata: Omega,
}

impl Verdict {
    /// Reward 1, counted as right, without metadata.
    pub fn right() -> Self {
        Self { reward: 1.0, correct: true, metadata: Omega::new() }
    }

    /// No reward; the metadata entry `miss` says why.
    pub fn wrong(miss: Miss) -> Self {
        let code = MetaValue::Text(miss.code().to_owned());
        let metadata = Omega::from([("miss".to_owned(), code)]);
        Self { reward: 0.0, correct: false, metadata }
    }

    /// Sets an entry of the metadata. Metadata travel with the trajectory and are stored with it,
    /// so they are small.
    ///
    /// # Errors
    /// When the key, the text or the number of entries exceeds the protocol's limit for Ω.
    pub fn with(mut self, key: &str, value: MetaValue) -> Result<Self, MetadataError> {
        if key.len() > MAX_OMEGA_TEXT {
            return Err(MetadataError::LongKey { bytes: key.len() });
        }
        if let MetaValue::Text(text) = &value
            && text.len() > MAX_OMEGA_TEXT
        {
            return Err(MetadataError::LongText { key: key.to_owned(), bytes: text.len() });
        }
        if self.metadata.len() >= MAX_OMEGA_ENTRIES && !self.metadata.contains_key(key) {
            return Err(MetadataError::Full { key: key.to_owned() });
        }
        self.metadata.insert(key.to_owned(), value);
        Ok(self)
    }
}

/// Why a response got no reward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Miss {
    /// It was cut by length.
    Cut,
    /// It has not the form of an answer.
    Malformed,
    /// It uses something that the prompt did not give, or uses it too often.
    NotGiven,
    /// It is an answer, but not a right one.
    WrongAnswer,
}

impl Miss {
    /// The stable code used in metadata and metrics.
    pub fn code(self) -> &'static str {
        match self {
            Self::Cut => "cut",
            Self::Malformed => "malformed",
            Self::NotGiven => "not_given",
            Self::WrongAnswer => "wrong_answer",
        }
    }
}

/// An entry that does not fit into Ω.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// The key is too long.
    #[error("metadata key of {bytes} bytes: use at most {MAX_OMEGA_TEXT}")]
    LongKey {
        /// The key's length in bytes, above [`MAX_OMEGA_TEXT`].
        bytes: usize,
    },
    /// The text is too long.
    #[error("metadata text {key} of {bytes} bytes: use at most {MAX_OMEGA_TEXT}")]
    LongText {
        /// The key whose text does not fit.
        key: String,
        /// The text's length in bytes, above [`MAX_OMEGA_TEXT`].
        bytes: usize,
    },
    /// There is no room for another entry.
    #[error("no room for metadata entry {key}: a verdict carries at most {MAX_OMEGA_ENTRIES}")]
    Full {
        /// The key that was to be added.
        key: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted() {
        let mut verdict = Verdict::right();
        for i in 0..MAX_OMEGA_ENTRIES {
            verdict = verdict.with(&format!("key{i}"), MetaValue::Integer(i as i64)).unwrap();
        }
        let full = verdict.clone().with("another", MetaValue::Flag(true));
        assert_eq!(full, Err(MetadataError::Full { key: "another".into() }));
        let verdict = verdict.with("key3", MetaValue::Flag(true)).unwrap();
        assert_eq!(verdict.metadata["key3"], MetaValue::Flag(true));
    }

    #[test]
    fn long_keys_and_texts_are_refused() {
        let long = "x".repeat(MAX_OMEGA_TEXT + 1);
        let bytes = long.len();
        let refused = Verdict::right().with(&long, MetaValue::Flag(true));
        assert_eq!(refused, Err(MetadataError::LongKey { bytes }));
        let refused = Verdict::right().with("text", MetaValue::Text(long));
        assert_eq!(refused, Err(MetadataError::LongText { key: "text".into(), bytes }));
    }
}
