//! What is said to the interpreters, in the form that `harness/wire.py` describes. Only
//! the interpreters read values.

/// Encodes a string: `s`, its length in bytes, a colon, UTF-8.
pub(super) fn text(text: &str) -> Vec<u8> {
    counted(b's', text.len(), text.as_bytes())
}

/// Encodes bytes: `b`, their number, a colon, the bytes.
pub(super) fn bytes(bytes: &[u8]) -> Vec<u8> {
    counted(b'b', bytes.len(), bytes)
}

/// Encodes an integer: `i`, hexadecimal digits, a semicolon.
pub(super) fn number(number: u32) -> Vec<u8> {
    format!("i{number:x};").into_bytes()
}

/// Encodes Python's `None`, by the one letter `N`.
pub(super) fn none() -> Vec<u8> {
    b"N".into()
}

/// A list of encoded values.
pub(super) fn list<I: AsRef<[u8]>>(items: impl IntoIterator<Item = I>) -> Vec<u8> {
    let mut joined = Vec::new();
    let mut count = 0;
    for item in items {
        joined.extend_from_slice(item.as_ref());
        count += 1;
    }
    counted(b'l', count, &joined)
}

fn counted(tag: u8, count: usize, payload: &[u8]) -> Vec<u8> {
    let mut encoded = vec![tag];
    encoded.extend_from_slice(count.to_string().as_bytes());
    encoded.push(b':');
    encoded.extend_from_slice(payload);
    encoded
}
