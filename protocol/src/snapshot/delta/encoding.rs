//! Reading and writing the parts of a delta.

use super::DeltaError;

/// Bytes of a delta that are still to be read.
pub(super) struct DeltaReader<'a> {
    rest: &'a [u8],
}

impl<'a> DeltaReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], DeltaError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(DeltaError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Everything that is left.
    pub(super) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    pub(super) fn byte(&mut self) -> Result<u8, DeltaError> {
        Ok(self.take(1)?[0])
    }

    /// A number below 2^32 in seven bits a byte, the lowest first.
    pub(super) fn number(&mut self) -> Result<u32, DeltaError> {
        let mut number = 0u64;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return u32::try_from(number).map_err(|_| DeltaError::Damaged("a number of 2^32 or more"));
            }
        }
        Err(DeltaError::Damaged("a number of too many bytes"))
    }
}

/// The inverse of [`DeltaReader::number`].
pub(super) fn push_number(mut number: u32, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}
