//! What is said to the interpreters, in the form that `harness/wire.py` describes. Only the interpreters read values.

/// Some text.
pub(super) fn text(text: &str) -> Vec<u8> {
    counted(b's', text.len(), text.as_bytes())
}

/// Some bytes.
pub(super) fn bytes(bytes: &[u8]) -> Vec<u8> {
    counted(b'b', bytes.len(), bytes)
}

/// A number.
pub(super) fn number(number: u32) -> Vec<u8> {
    format!("i{number:x};").into_bytes()
}

/// Nothing.
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
