//! What commands print.

use std::io::{self, Write as _};

/// Prints `text` as it is. That nobody reads on, as behind `| head`, is no error.
///
/// # Errors
/// When the standard output cannot be written.
pub fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        said => said,
    }
}
