//! Peer lists from the keeper's side: [`draft`] reads what the keeper wrote, [`sign`] makes a list of it, [`show`]
//! says what a list holds and whether it would be believed.

pub mod draft;
mod error;
mod expiry;
pub mod show;
pub mod sign;

pub use error::ListError;

use echo_protocol::peer_list::MAX_LIST_BYTES;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads a draft or a list, neither of which is ever longer than [`MAX_LIST_BYTES`].
fn read_text(path: &Path) -> Result<String, ListError> {
    let failed = |source| ListError::Read { path: path.to_owned(), source };
    let mut text = String::new();
    let limit = MAX_LIST_BYTES as u64 + 1;
    File::open(path).and_then(|file| file.take(limit).read_to_string(&mut text)).map_err(failed)?;
    if text.len() > MAX_LIST_BYTES {
        return Err(ListError::TooLong { path: path.to_owned() });
    }
    Ok(text)
}
