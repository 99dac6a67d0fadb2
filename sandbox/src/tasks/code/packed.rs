//! The private tests of LiveCodeBench: base64 of zlib of a pickle that holds one text.
//!
//! A pickle is a program for Python's unpickler, and may do anything there. None is run here: the
//! instructions that put one text and end are read, and every other pickle is refused.

use std::io::Read as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::read::ZlibDecoder;

/// Bytes that all texts of a file may unpack to together. They lie in memory, on every node.
pub(super) const MAX_UNPACKED_BYTES: u64 = 256 << 20;

/// The text that is packed in `packed`; its length is taken from `left`, the bytes that the file's
/// other texts have left.
pub(super) fn unpack(packed: &str, left: &mut u64) -> Result<String, String> {
    let bytes = STANDARD.decode(packed.trim()).map_err(|_| "it is neither JSON nor base64")?;
    let mut pickle = Vec::new();
    let read = ZlibDecoder::new(bytes.as_slice()).take(*left + 1).read_to_end(&mut pickle);
    read.map_err(|error| format!("it is not packed by zlib ({error})"))?;
    *left = left.checked_sub(pickle.len() as u64).ok_or_else(|| {
        format!(
            "all tests of the file unpack to more than {MAX_UNPACKED_BYTES} bytes: give a part of the file"
        )
    })?;
    text(&pickle).map(str::to_owned).ok_or_else(|| "it holds another pickle than one of a text".to_owned())
}

/// The one text of a pickle.
fn text(pickle: &[u8]) -> Option<&str> {
    let mut rest = pickle;
    let mut take = |count: usize| {
        let all = rest;
        let (taken, after) = all.split_at_checked(count)?;
        rest = after;
        Some(taken)
    };
    let mut found = None;
    loop {
        // The operation's code, as `pickletools` names it.
        let length = match take(1)?[0] {
            // PROTO, BINPUT.
            0x80 | b'q' => take(1).map(|_| None)?,
            // FRAME.
            0x95 => take(8).map(|_| None)?,
            // LONG_BINPUT.
            b'r' => take(4).map(|_| None)?,
            // MEMOIZE.
            0x94 => None,
            // SHORT_BINUNICODE, BINUNICODE, BINUNICODE8.
            0x8c => Some(u64::from(take(1)?[0])),
            b'X' => Some(u64::from(u32::from_le_bytes(take(4)?.try_into().ok()?))),
            0x8d => Some(u64::from_le_bytes(take(8)?.try_into().ok()?)),
            // STOP.
            b'.' => return found,
            _ => return None,
        };
        if let Some(length) = length {
            if found.is_some() {
                return None;
            }
            found = Some(std::str::from_utf8(take(usize::try_from(length).ok()?)?).ok()?);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `base64.b64encode(zlib.compress(pickle.dumps('[{"input": "1 2", "output": "3"}]')))`.
    const PACKED: &str = "eJxrYJmqygABPYrR1UqZeQWlJUpWCkqGCkZKOgpK+aUlUAFjpdrYKXoACxsMBQ==";
    /// The same of `pickle.dumps(print)`.
    const CALLS: &str = "eJxrYJkqxgABPRxJpZk5JZl5xVN6WAuKMvNKpkyeogcAjFMKaQ==";

    #[test]
    fn one_text_is_unpacked_and_nothing_else() {
        let mut left = 1_000;
        assert_eq!(unpack(PACKED, &mut left).unwrap(), r#"[{"input": "1 2", "output": "3"}]"#);
        assert!(left < 1_000, "it is taken from what is left");
        assert!(unpack(CALLS, &mut left).unwrap_err().contains("another pickle"));
        assert!(unpack("no base64!", &mut left).unwrap_err().contains("base64"));
        assert!(unpack("bm8gemxpYg==", &mut left).unwrap_err().contains("zlib"));
        assert!(unpack(PACKED, &mut 10).unwrap_err().contains("more than"));
    }

    #[test]
    fn cut_pickles_end() {
        let cut: [&[u8]; 6] =
            [b"", b"X", b"X\xff\xff\xff\xff", b"\x8c\x02a", b"\x8c\x01a", b"\x8c\x01a\x8c\x01b."];
        for pickle in cut {
            assert_eq!(text(pickle), None, "{pickle:?}");
        }
        assert_eq!(text(b"\x80\x02X\x01\x00\x00\x00aq\x00."), Some("a"));
        assert_eq!(text(b"."), None);
    }
}
