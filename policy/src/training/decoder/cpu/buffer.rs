//! Buffers that grow to what the largest pass needed.

/// Gives a buffer `length` elements of unspecified value.
pub(super) fn fit(buffer: &mut Vec<f32>, length: usize) {
    if buffer.capacity() < length {
        // Not `resize`, which would copy what nobody wants, and reserve more than is needed.
        *buffer = vec![0.0; length];
    } else {
        buffer.resize(length, 0.0);
    }
}
