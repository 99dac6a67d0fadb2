//! Buffers for blocks, used again and again: a new one would have to be filled with zeros before a
//! block is read into it, which takes as long as copying the block once more.

use bytes::Bytes;
use parking_lot::Mutex;

/// Shorter frames are not worth it.
const LEAST: usize = 16 << 10;
/// Buffers that wait to be used again: with blocks of 64 KiB, 4 MiB.
const MOST_FREE: usize = 64;

/// The one that was used last is the one that the processor's caches still hold.
static FREE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// A buffer that is free again when it is dropped. What it holds is left from whoever had it before.
#[derive(Debug)]
pub(crate) struct PooledBuffer {
    bytes: Vec<u8>,
    len: usize,
}

impl PooledBuffer {
    /// One of this length.
    pub(crate) fn of(len: usize) -> Self {
        let mut bytes = if len >= LEAST { FREE.lock().pop().unwrap_or_default() } else { Vec::new() };
        if bytes.len() < len {
            bytes.reserve_exact(len - bytes.len());
            bytes.resize(len, 0);
        }
        Self { bytes, len }
    }

    /// All of it, to be filled.
    pub(crate) fn as_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.len]
    }

    /// What it has been filled with, to be shared.
    pub(crate) fn share(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        if self.bytes.len() >= LEAST {
            let mut free = FREE.lock();
            if free.len() < MOST_FREE {
                free.push(std::mem::take(&mut self.bytes));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests take and give back buffers at the same time, so what can be told is what each holder sees.
    #[test]
    fn a_shared_buffer_is_nobody_elses_until_its_last_holder_lets_go() {
        let shared: Vec<Bytes> = (0..100u8)
            .map(|n| {
                let mut buffer = PooledBuffer::of(LEAST + usize::from(n));
                buffer.as_mut().fill(n);
                buffer.share().slice(1..)
            })
            .collect();
        for (n, bytes) in (0..100).zip(&shared) {
            assert_eq!(
                (bytes.len(), bytes.iter().all(|byte| *byte == n)),
                (LEAST + usize::from(n) - 1, true)
            );
        }
        drop(shared);
        assert!(FREE.lock().len() <= MOST_FREE);
    }

    #[test]
    fn a_buffer_has_the_length_that_was_asked_for_whatever_it_was_before() {
        for len in [0, 1, LEAST - 1, 5 * LEAST, LEAST, 3 * LEAST] {
            let mut buffer = PooledBuffer::of(len);
            assert_eq!((buffer.as_mut().len(), buffer.as_ref().len()), (len, len));
        }
    }
}
