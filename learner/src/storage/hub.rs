//! Models and data by their names on the Hugging Face Hub, and policies that are uploaded to it.
//!
//! A name such as `hf:Qwen/Qwen3-0.6B@REVISION` or `hf:openai/gsm8k:main/train` becomes files on
//! this machine. They lie in the cache that `huggingface_hub` has too, in its layout, so that either
//! uses what the other has got. What was got is pinned by its commit and the SHA-256 of each file.
//!
//! ```text
//! HubName ─> Repository::listing     one commit: its files, and the splits of its card
//!     └─> model::wanted, dataset::chosen      which of them are needed
//!          └─> download::file         blobs/NAME.incomplete, checked, then blobs/NAME
//!               └─> Pin               commit, files, and where they lie
//! push ─> upload: create, preupload, LFS objects that are not there, one commit
//! ```
//!
//! All functions block, also within a thread of tokio's: the client works on a thread of its own.
//! Nothing here is downloaded that could run: weights are safetensors, never pickles.

mod client;
mod dataset;
mod download;
mod environment;
mod error;
mod kind;
mod listing;
mod model;
mod name;
mod pin;
mod upload;

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

pub use environment::HubEnvironment;
pub use error::HubError;
pub use model::is_part_of_a_model;
pub use name::{HubName, is_hub_name};
pub use pin::{Pin, PinnedFile};
pub use upload::{PushedFile, PushedPolicy};

use client::Client;
use kind::Kind;
use listing::Repository;

/// Gets the files of a model that Echo reads, and says where they lie.
///
/// # Errors
/// [`HubError`]: the name, the Hub's refusal, what is missing, or the disk.
pub fn model(environment: &HubEnvironment, name: &HubName) -> Result<Pin, HubError> {
    if name.part.is_some() {
        return Err(HubError::Name { name: name.to_string(), why: "a model has no part after a colon" });
    }
    apart(|| {
        let client = Client::new(environment)?;
        let repository = Repository::new(environment, Kind::Model, name);
        let listing = repository.listing(&client)?;
        let files = model::wanted(&client, &repository, &listing)?;
        pin::of(&client, &repository, name, &listing, &files)
    })
}

/// Gets the files of one split of a data set, or the one file that `name` names, as one local file. Where
/// there are several, `lines` makes JSON lines of each, and the local file has those of all in their order.
///
/// # Errors
/// [`HubError`]: the name, the Hub's refusal, what is missing, or the disk.
pub fn data(
    environment: &HubEnvironment,
    name: &HubName,
    lines: impl Fn(Vec<u8>) -> Result<Vec<u8>, String> + Send,
) -> Result<Pin, HubError> {
    apart(|| {
        let client = Client::new(environment)?;
        let repository = Repository::new(environment, Kind::Dataset, name);
        let listing = repository.listing(&client)?;
        let files = dataset::chosen(name, &listing)?;
        let pin = pin::of(&client, &repository, name, &listing, &files)?;
        dataset::joined(&repository, pin, lines)
    })
}

/// Uploads a policy as one commit to the branch `main` of `name`, a model, which is made if it is not there.
/// Objects that the Hub has are not sent again. Returns the commit's address.
///
/// # Errors
/// [`HubError`]: no token, the Hub's refusal, or a file that cannot be read.
pub fn push(environment: &HubEnvironment, name: &HubName, policy: &PushedPolicy) -> Result<String, HubError> {
    if name.part.is_some() || name.revision.is_some() {
        let why = "a policy is pushed to the branch main of OWNER/NAME: leave out what follows";
        return Err(HubError::Name { name: name.to_string(), why });
    }
    apart(|| upload::push(&Client::new(environment)?, name, policy))
}

/// Runs `work` on a thread of its own: the client blocks, which a thread of tokio's must not.
fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| match scope.spawn(work).join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    })
}
