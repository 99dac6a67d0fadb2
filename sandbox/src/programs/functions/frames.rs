//! The channel from an interpreter: frames of a decimal length, a colon and that many bytes.

/// Digits of a frame's length; a channel holds fewer bytes than they can say.
const MAX_DIGITS: usize = 9;

/// The whole frames that `channel` begins with. A judged program may have written anything there:
/// reading ends where it is no frame.
pub(crate) fn read(channel: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = channel;
    std::iter::from_fn(move || {
        let colon = rest.iter().take(MAX_DIGITS + 1).position(|byte| *byte == b':')?;
        let digits = &rest[..colon];
        if !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let length: usize = std::str::from_utf8(digits).ok()?.parse().ok()?;
        let frame = rest.get(colon + 1..colon + 1 + length)?;
        rest = &rest[colon + 1 + length..];
        Some(frame)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn reading_ends_where_a_frame_does_not() {
        let frames = |channel: &'static [u8]| read(channel).collect::<Vec<_>>();
        assert_eq!(frames(b"2:ab0:1:c"), [b"ab".as_slice(), b"", b"c"]);
        for broken in
            [b"2:ab3:de".as_slice(), b"2:ab:", b"2:ab-1:x", b"2:ab+1:x", b"2:ab9999999999:", b"2:ab 1:x"]
        {
            assert_eq!(frames(broken), [b"ab"]);
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_within_them(channel in proptest::collection::vec(prop_oneof![Just(b':'), Just(b'1'), any::<u8>()], 0..64)) {
            prop_assert!(read(&channel).map(|frame| frame.len() + 2).sum::<usize>() <= channel.len());
        }
    }
}
