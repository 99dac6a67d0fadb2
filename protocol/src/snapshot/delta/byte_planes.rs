//! The dense form: the differences of all elements, byte plane by byte plane.
//!
//! Elements go in blocks of [`BLOCK`], so that memory stays constant. Of each block first the
//! lowest bytes of all its differences, then the next ones, up to the width. Each plane is a
//! number, its length, and as many bytes: a zstd frame; or the plane itself when that is no longer;
//! length 0 stands for a plane of zeros.

use super::DeltaError;
use super::elements::Element;
use super::encoding::{DeltaReader, push_number};
use zstd::bulk::{Compressor, Decompressor};

/// Elements of a block.
const BLOCK: usize = 64 << 10;
/// zstd's level: the planes are Huffman-coded noise or runs, on which higher levels gain nothing.
const LEVEL: i32 = 1;

/// Appends how the elements of `old` become those of `new`.
pub(super) fn encode<E: Element>(old: &[u8], new: &[u8], out: &mut Vec<u8>) {
    let mut zstd = Compressor::new(LEVEL).ok();
    let block = BLOCK * E::BYTES;
    let (mut differences, mut plane) = (vec![0u32; BLOCK], vec![0; BLOCK]);
    for (old, new) in old.chunks(block).zip(new.chunks(block)) {
        let count = old.len() / E::BYTES;
        let (differences, plane) = (&mut differences[..count], &mut plane[..count]);
        for (difference, (old, new)) in differences.iter_mut().zip(E::all(old).zip(E::all(new))) {
            *difference = old.difference(new);
        }
        for byte in 0..E::BYTES {
            for (byte_of, difference) in plane.iter_mut().zip(differences.iter()) {
                *byte_of = (difference >> (8 * byte)) as u8;
            }
            push_plane(plane, zstd.as_mut(), out);
        }
    }
}

fn push_plane(plane: &[u8], zstd: Option<&mut Compressor<'_>>, out: &mut Vec<u8>) {
    if plane.iter().all(|byte| *byte == 0) {
        return push_number(0, out);
    }
    let frame = zstd.and_then(|zstd| zstd.compress(plane).ok());
    let stored = frame.as_deref().filter(|frame| frame.len() < plane.len()).unwrap_or(plane);
    push_number(stored.len() as u32, out);
    out.extend_from_slice(stored);
}

/// Makes the new elements of the old ones, in place.
pub(super) fn apply<E: Element>(elements: &mut [u8], reader: &mut DeltaReader<'_>) -> Result<(), DeltaError> {
    let mut zstd = Decompressor::new().map_err(|_| DeltaError::Damaged("no memory for zstd"))?;
    let (mut differences, mut plane) = (vec![0u32; BLOCK], vec![0; BLOCK]);
    for block in elements.chunks_mut(BLOCK * E::BYTES) {
        let count = block.len() / E::BYTES;
        let (differences, plane) = (&mut differences[..count], &mut plane[..count]);
        differences.fill(0);
        for byte in 0..E::BYTES {
            if read_plane(plane, &mut zstd, reader)? {
                for (difference, byte_of) in differences.iter_mut().zip(plane.iter()) {
                    *difference |= u32::from(*byte_of) << (8 * byte);
                }
            }
        }
        E::move_all(block, differences);
    }
    Ok(())
}

/// Fills `plane`; `false` when it is all zeros and was not filled.
fn read_plane(
    plane: &mut [u8],
    zstd: &mut Decompressor<'_>,
    reader: &mut DeltaReader<'_>,
) -> Result<bool, DeltaError> {
    let length = reader.number()? as usize;
    let stored = reader.take(length)?;
    if length == plane.len() {
        plane.copy_from_slice(stored);
    } else if length > 0 {
        let filled = zstd.decompress_to_buffer(stored, plane).map_err(|_| DeltaError::Damaged("a plane"))?;
        if filled != plane.len() {
            return Err(DeltaError::Damaged("a short plane"));
        }
    }
    Ok(length > 0)
}
