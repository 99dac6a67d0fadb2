//! Peer lists from the keeper's side: [`draft`] reads what the keeper wrote, [`sign`] makes a list
//! of it, [`show`] says what a list holds and whether it would be believed.

pub mod draft;
mod error;
mod expiry;
pub mod show;
pub mod sign;

pub use error::ListError;

use echo_protocol::run::peer_list;
use std::io::ErrorKind;
use std::path::Path;

/// Reads a draft or a list, neither of which is ever longer than a list may be.
fn read_text(path: &Path) -> Result<String, ListError> {
    peer_list::read_file(path).map_err(|source| match source.kind() {
        ErrorKind::FileTooLarge => ListError::TooLong { path: path.to_owned() },
        _ => ListError::Read { path: path.to_owned(), source },
    })
}
