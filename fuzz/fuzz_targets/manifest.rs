//! Manifests from strangers: decoding and checking must not panic, and what is sound must have sound ranges.
#![no_main]

use echo_protocol::codec::decode;
use echo_protocol::content::ChunkIndex;
use echo_protocol::groups::MAX_PIECE_BYTES;
use echo_protocol::manifest::{MAX_MANIFEST_BYTES, Manifest, PieceIndex};
use echo_protocol::signed::Signed;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let _ = Signed::<Manifest>::from_bytes(bytes);
    let Ok(manifest) = decode::<Manifest>(bytes, MAX_MANIFEST_BYTES) else { return };
    if manifest.validate().is_ok() {
        let last = ChunkIndex(manifest.chunks.len() as u32 - 1);
        assert_eq!(manifest.chunk_range(last).end, manifest.total_bytes);
        for index in 0..manifest.pieces() {
            assert!(manifest.piece(PieceIndex(index)).is_none_or(|piece| piece.length <= MAX_PIECE_BYTES));
        }
    }
});
