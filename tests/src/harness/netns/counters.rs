//! What has passed an interface. A packet that the kernel passes on whole, of up to 64 KiB, is
//! counted with one header.

use super::NetnsError;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};

/// Longest text of counters that is read: a host has two interfaces.
const MAX_TEXT: u64 = 16 << 10;

/// Bytes that have passed a host's interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Sent by the host.
    pub sent: u64,
    /// Received by the host.
    pub received: u64,
}

impl Counters {
    /// What has passed since `earlier`.
    #[must_use]
    pub fn since(self, earlier: Self) -> Self {
        Self {
            sent: self.sent.saturating_sub(earlier.sent),
            received: self.received.saturating_sub(earlier.received),
        }
    }
}

/// The counters of a namespace, open: whoever holds it reads them from anywhere.
#[derive(Debug)]
pub(super) struct CounterFile(File);

impl CounterFile {
    /// Opens the counters of the namespace in which this thread is.
    pub(super) fn open() -> Result<Self, NetnsError> {
        // `/proc/net` is the main thread's.
        File::open("/proc/thread-self/net/dev").map(Self).map_err(NetnsError::Counters)
    }

    /// The counters of `e0` now.
    pub(super) fn read(&self) -> Result<Counters, NetnsError> {
        let read = || -> io::Result<String> {
            let mut file = &self.0;
            file.rewind()?;
            let mut text = String::new();
            file.take(MAX_TEXT).read_to_string(&mut text)?;
            Ok(text)
        };
        let text = read().map_err(NetnsError::Counters)?;
        parse(&text).ok_or_else(|| NetnsError::Counters(io::Error::other("there is no interface e0")))
    }
}

/// The form: `  e0: received-bytes 7 more of the receiver sent-bytes …`.
fn parse(text: &str) -> Option<Counters> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix("e0:"))?;
    let mut fields = line.split_whitespace();
    let received = fields.next()?.parse().ok()?;
    let sent = fields.nth(7)?.parse().ok()?;
    Some(Counters { sent, received })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_table_is_read() {
        let text = "Inter-|   Receive  |  Transmit\n face |bytes packets errs\n    lo: 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16\n  \
                    e0:100 2 0 0 0 0 0 0 900 9 0 0 0 0 0 0\n";
        assert_eq!(parse(text), Some(Counters { sent: 900, received: 100 }));
        assert_eq!(parse("lo: 1"), None);
    }
}
