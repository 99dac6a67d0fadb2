//! How a pass divides its memory, and what it is told about its tokens.

use bytemuck::Pod;

use super::driver::Address;

/// Parts of memory begin at multiples of so many bytes.
const ALIGNMENT: usize = 256;

/// Places within a stretch of memory that is yet to be found.
#[derive(Default)]
pub(super) struct MemoryPlan {
    bytes: usize,
}

impl MemoryPlan {
    /// Where so many numbers of that type go.
    pub(super) fn part<T>(&mut self, count: usize) -> usize {
        let start = self.bytes;
        self.bytes = (start + count * size_of::<T>()).next_multiple_of(ALIGNMENT);
        start
    }

    /// Bytes of all parts.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// What goes to the device in one copy, at the beginning of a pass's memory.
#[derive(Default)]
pub(super) struct Letter {
    bytes: Vec<u8>,
}

impl Letter {
    /// Adds numbers, and says where they lie from the beginning on.
    pub(super) fn add<T: Pod>(&mut self, values: &[T]) -> usize {
        self.bytes.resize(self.bytes.len().next_multiple_of(16), 0);
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytemuck::cast_slice(values));
        start
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// The address of a part.
pub(super) fn at(base: Address, part: usize) -> Address {
    base + part as u64
}
