//! Why something cannot be had from the Hub, or put there.

use crate::storage::atomic_file::FileError;
use std::io;
use std::path::{Path, PathBuf};

/// Why something cannot be had from the Hub, or put there.
#[derive(Debug, thiserror::Error)]
pub enum HubError {
    /// A text that is no name.
    #[error(
        "{name:?} is no name on the Hub: {why}, as in hf:Qwen/Qwen3-0.6B@main or hf:openai/gsm8k:main/train"
    )]
    Name {
        /// The text.
        name: String,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// There is no place for the cache.
    #[error("this user has no home directory for files of the Hub: name a directory in HF_HOME")]
    NoCache,
    /// The address of the Hub is none.
    #[error("HF_ENDPOINT is {0:?}, which is no address such as https://huggingface.co")]
    Endpoint(String),
    /// The Hub has no such repository, or shows it to others only.
    #[error(
        "the Hub at {endpoint} shows no {kind} {repository}: look at the spelling; if it is private, set HF_TOKEN to a token that may read it"
    )]
    Missing {
        /// The Hub's address.
        endpoint: String,
        /// `model` or `data set`.
        kind: &'static str,
        /// `OWNER/NAME`.
        repository: String,
    },
    /// The repository's terms have to be accepted first.
    #[error(
        "{repository} is gated: accept its terms at {page}, and set HF_TOKEN to a token of the account that did"
    )]
    Gated {
        /// `OWNER/NAME`.
        repository: String,
        /// Its page on the Hub.
        page: String,
    },
    /// The Hub does not know the token.
    #[error(
        "the Hub at {endpoint} does not take the token in HF_TOKEN or in HF_HOME/token: make a new one in the account's settings, or remove it for what is public"
    )]
    Token {
        /// The Hub's address.
        endpoint: String,
    },
    /// The token may not do this.
    #[error("the Hub does not allow it for {repository} ({said}): the token needs the right to do it")]
    Denied {
        /// `OWNER/NAME`.
        repository: String,
        /// What the Hub said.
        said: String,
    },
    /// Nobody says who uploads.
    #[error(
        "a policy is pushed in somebody's name: set HF_TOKEN to a token that may write to {0}, or run `hf auth login`"
    )]
    NoToken(String),
    /// No such branch, tag or commit.
    #[error("{repository} has no revision {revision}: name a branch, a tag or a whole commit after @")]
    Revision {
        /// `OWNER/NAME`.
        repository: String,
        /// What was asked for.
        revision: String,
    },
    /// The network may not be used, and the cache has not got it.
    #[error(
        "{name} is not in {cache}, and HF_HUB_OFFLINE is set: unset it once, or copy the cache of a machine that has it"
    )]
    Offline {
        /// Repository, or repository and file.
        name: String,
        /// The cache's directory.
        cache: PathBuf,
    },
    /// The Hub is asked too often.
    #[error(
        "the Hub at {endpoint} was asked too often and refuses more for now ({said}): try again later, or set HF_TOKEN, which allows more"
    )]
    Busy {
        /// The Hub's address.
        endpoint: String,
        /// What the Hub said.
        said: String,
    },
    /// An answer that nothing is known about.
    #[error("{address} answered {status}: {said}")]
    Status {
        /// The address without its query, which may hold secrets.
        address: String,
        /// The status, such as 500.
        status: u16,
        /// What the Hub said.
        said: String,
    },
    /// The network failed.
    #[error(
        "{address} cannot be reached or the connection broke ({cause}); what was got is kept, and the same command goes on. Without the Hub, name a directory or file of this machine"
    )]
    Network {
        /// The address without its query, which may hold secrets.
        address: String,
        /// What failed.
        cause: String,
    },
    /// An answer of another form.
    #[error("{address} answered what the Hub does not say ({cause}): look at HF_ENDPOINT")]
    Form {
        /// The address without its query, which may hold secrets.
        address: String,
        /// What is wrong with it.
        cause: String,
    },
    /// What came is not what the Hub has listed.
    #[error("{file} of {repository} came damaged ({why}) and was thrown away: run the same command again")]
    Damaged {
        /// `OWNER/NAME`.
        repository: String,
        /// The file's path in it.
        file: String,
        /// What differs.
        why: String,
    },
    /// Weights in a form that can run programs.
    #[error(
        "{repository} has its weights as pickles only ({file}), which run what is in them when they are read: take a repository or revision with safetensors, or convert it with `transformers` where that is safe"
    )]
    Pickle {
        /// `OWNER/NAME`.
        repository: String,
        /// One of the files.
        file: String,
    },
    /// A repository that is no model of a kind that Echo reads.
    #[error("{repository} is no model directory: {why}")]
    NoModel {
        /// `OWNER/NAME`.
        repository: String,
        /// What it lacks or is instead.
        why: String,
    },
    /// No such part of a data set, or none was named.
    #[error("{name}: {why}; there are {there}")]
    Part {
        /// The name in the run file.
        name: String,
        /// What is wrong with it.
        why: String,
        /// Names that are right.
        there: String,
    },
    /// A file of a split that has no rows.
    #[error("{name}: the rows of {file} cannot be read: {why}")]
    Rows {
        /// The name at its commit.
        name: String,
        /// The file's path in the data set.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file of this machine.
    #[error("{path}: {source}")]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl From<FileError> for HubError {
    fn from(FileError { path, source }: FileError) -> Self {
        Self::Io { path, source }
    }
}

/// What went wrong at this path.
pub(super) fn io_error(path: &Path) -> impl FnOnce(io::Error) -> HubError + use<> {
    let path = path.to_owned();
    move |source| HubError::Io { path, source }
}
