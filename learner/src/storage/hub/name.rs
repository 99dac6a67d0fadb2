//! `hf:OWNER/NAME@REVISION:PART`

use super::error::HubError;
use std::fmt;
use std::path::Path;
use std::str::FromStr;

/// How names of the Hub begin.
const PREFIX: &str = "hf:";
/// Longest part of a repository's name that the Hub takes, in bytes.
const MAX_SEGMENT_BYTES: usize = 96;

/// A model or data set on the Hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubName {
    /// `OWNER/NAME`, or `NAME` alone.
    pub repository: String,
    /// Branch, tag or commit; left out, the branch `main`.
    pub revision: Option<String>,
    /// What of a data set is meant: `CONFIG/SPLIT`, `SPLIT` or a file's path.
    pub part: Option<String>,
}

/// Whether a setting's path is a name of the Hub.
#[must_use]
pub fn is_hub_name(path: &Path) -> bool {
    path.to_str().is_some_and(|text| text.starts_with(PREFIX))
}

impl HubName {
    /// The name of a repository, without revision and part, if `text` can be one.
    #[must_use]
    pub fn of_repository(text: &str) -> Option<Self> {
        let segments: Vec<&str> = text.split('/').collect();
        let is_name = segments.len() <= 2 && segments.iter().all(|segment| is_segment(segment));
        is_name.then(|| Self { repository: text.to_owned(), revision: None, part: None })
    }

    /// The same at one commit.
    #[must_use]
    pub fn at(&self, commit: &str) -> Self {
        Self { revision: Some(commit.to_owned()), ..self.clone() }
    }
}

impl FromStr for HubName {
    type Err = HubError;

    fn from_str(text: &str) -> Result<Self, HubError> {
        let wrong = |why| HubError::Name { name: text.to_owned(), why };
        let rest = text.strip_prefix(PREFIX).ok_or_else(|| wrong("it begins with hf:"))?;
        let (repository, part) = match rest.split_once(':') {
            Some((repository, part)) => (repository, Some(part)),
            None => (rest, None),
        };
        let (repository, mut revision) = match repository.split_once('@') {
            Some((repository, revision)) => (repository, Some(revision)),
            None => (repository, None),
        };
        // A revision may also stand at the very end.
        let mut part = part;
        if let (None, Some((before, behind))) = (revision, part.and_then(|part| part.rsplit_once('@'))) {
            (part, revision) = (Some(before), Some(behind));
        }
        let named =
            Self::of_repository(repository).ok_or_else(|| wrong("a repository is called OWNER/NAME"))?;
        let is_path = |text: &str| {
            text.split('/').all(|segment| !matches!(segment, "" | "." | "..")) && !text.contains('\\')
        };
        if revision.is_some_and(|revision| !is_path(revision) || revision.contains(char::is_whitespace)) {
            return Err(wrong("a branch, a tag or a commit comes after @"));
        }
        if part.is_some_and(|part| !is_path(part)) {
            return Err(wrong("CONFIG/SPLIT, SPLIT or a file's path comes after the second colon"));
        }
        Ok(Self { revision: revision.map(str::to_owned), part: part.map(str::to_owned), ..named })
    }
}

impl fmt::Display for HubName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.repository)?;
        self.revision.iter().try_for_each(|revision| write!(f, "@{revision}"))?;
        self.part.iter().try_for_each(|part| write!(f, ":{part}"))
    }
}

fn is_segment(segment: &str) -> bool {
    let is_taken = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    !segment.is_empty()
        && segment.len() <= MAX_SEGMENT_BYTES
        && segment.chars().all(is_taken)
        && !segment.starts_with('.')
        && !segment.contains("..")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> HubName {
        text.parse().unwrap()
    }

    #[test]
    fn a_name_has_a_repository_a_revision_and_a_part() {
        let name = read("hf:Qwen/Qwen3-0.6B@refs/pr/1");
        assert_eq!(
            (name.repository.as_str(), name.revision.as_deref(), name.part.as_deref()),
            ("Qwen/Qwen3-0.6B", Some("refs/pr/1"), None)
        );
        let name = read("hf:openai/gsm8k:main/train");
        assert_eq!((name.revision.as_deref(), name.part.as_deref()), (None, Some("main/train")));
        assert_eq!(read("hf:openai/gsm8k@v1:main/train"), read("hf:openai/gsm8k:main/train@v1"));
        assert_eq!(read("hf:gpt2").repository, "gpt2");
        for text in ["hf:a/b", "hf:a/b@c", "hf:a/b@c:d/e.jsonl"] {
            assert_eq!(read(text).to_string(), text);
        }
        assert_eq!(read("hf:a/b:t").at("c0ffee").to_string(), "hf:a/b@c0ffee:t");
    }

    #[test]
    fn what_names_nothing_or_leaves_its_folder_is_refused() {
        for wrong in [
            "Qwen/Qwen3",
            "hf:",
            "hf:a/b/c",
            "hf:../b",
            "hf:a/b@",
            "hf:a/b@../c",
            "hf:a/b:",
            "hf:a/b:../c",
            "hf:a/b:/c",
        ] {
            assert!(wrong.parse::<HubName>().is_err(), "{wrong}");
        }
        assert!(is_hub_name(Path::new("hf:a/b")) && !is_hub_name(Path::new("a/hf:b")));
    }
}
