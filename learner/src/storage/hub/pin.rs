//! What was got, so that it can be got again to the byte.

use super::client::Client;
use super::download;
use super::error::HubError;
use super::listing::{ListedFile, Listing, Repository};
use super::name::HubName;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// What a name of the Hub came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// The name at the commit that was got: whoever asks for it gets the same files.
    pub name: String,
    /// The commit.
    pub commit: String,
    /// A model's directory, or a data set's file, on this machine.
    pub local: PathBuf,
    /// The licence that its card names.
    pub license: Option<String>,
    /// What was got, in the order of the files.
    pub files: Vec<PinnedFile>,
}

impl Pin {
    /// Whether a setting's path means this: at its commit, or without one.
    #[must_use]
    pub fn is_meant_by(&self, path: &Path) -> bool {
        let unpinned = |name: HubName| HubName { revision: None, ..name }.to_string();
        let without = self.name.parse().ok().map(unpinned);
        path.to_str().is_some_and(|text| text == self.name || without.as_deref() == Some(text))
    }
}

/// A file as it was got.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinnedFile {
    /// Its path in the repository.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// SHA-256 of its content, in hexadecimal.
    pub sha256: String,
}

/// Gets `files` of a commit. The pin's place is their directory.
pub(super) fn of(
    client: &Client,
    repository: &Repository,
    name: &HubName,
    listing: &Listing,
    files: &[ListedFile],
) -> Result<Pin, HubError> {
    let mut pinned = Vec::with_capacity(files.len());
    for file in files {
        let path = download::file(client, repository, &listing.commit, file)?;
        // The Hub's own was checked when the file came.
        let sha256 = file.sha256.clone().map_or_else(|| download::sha256_of(&path), Ok)?;
        pinned.push(PinnedFile { path: file.path.clone(), bytes: file.size, sha256 });
    }
    Ok(Pin {
        name: name.at(&listing.commit).to_string(),
        commit: listing.commit.clone(),
        local: repository.snapshot(&listing.commit),
        license: listing.license.clone(),
        files: pinned,
    })
}
