//! Standard output and standard error, whatever has become of them.
//!
//! The macros of the standard library panic where a line cannot be written: the reader of a pipe has left,
//! the disk of a log is full, the terminal has closed. None of this is a reason to stop working, so the
//! programs print with these functions alone.

use std::io::{self, Write};

/// Prints the answer of a command. A reader that has seen enough, as `head` has, is no error.
///
/// # Errors
/// When the answer cannot be written: whoever asked does not have it.
pub fn print(text: &str) -> io::Result<()> {
    write(io::stdout().lock(), text)
}

/// Prints a line of a program that works on, whether or not anybody reads it.
pub fn line(text: &str) {
    let _ = write(io::stdout().lock(), &format!("{text}\n"));
}

/// Prints a line to standard error, if that can be written.
pub fn note(text: &str) {
    let _ = write(io::stderr().lock(), &format!("{text}\n"));
}

fn write(mut to: impl Write, text: &str) -> io::Result<()> {
    match to.write_all(text.as_bytes()).and_then(|()| to.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Failing(io::ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_left_is_no_error_and_a_full_disk_is_one() {
        write(Failing(io::ErrorKind::BrokenPipe), "text").unwrap();
        let full = write(Failing(io::ErrorKind::StorageFull), "text").unwrap_err();
        assert_eq!(full.kind(), io::ErrorKind::StorageFull);
        let mut whole = Vec::new();
        write(&mut whole, "text").unwrap();
        assert_eq!(whole, b"text");
    }
}
