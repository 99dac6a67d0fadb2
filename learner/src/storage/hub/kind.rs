//! The two kinds of repositories that Echo reads.

/// What a repository holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Model,
    Dataset,
}

impl Kind {
    /// Its word in addresses of the Hub's interface, and in the cache.
    pub(super) fn api(self) -> &'static str {
        match self {
            Self::Model => "models",
            Self::Dataset => "datasets",
        }
    }

    /// What comes before the name in the address of its page.
    pub(super) fn page(self) -> Option<&'static str> {
        match self {
            Self::Model => None,
            Self::Dataset => Some("datasets"),
        }
    }

    pub(super) fn in_words(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Dataset => "data set",
        }
    }
}
