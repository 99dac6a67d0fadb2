//! The number behind each draw.

/// The number in [0, 1) that decides position `position` of sample `sample`.
pub fn uniform(seed: &[u8; 32], sample: u32, position: u32) -> f64 {
    let mut input = [0u8; 8];
    input[..4].copy_from_slice(&sample.to_le_bytes());
    input[4..].copy_from_slice(&position.to_le_bytes());
    let hash = blake3::keyed_hash(seed, &input);
    let (words, _) = hash.as_bytes().as_chunks::<8>();
    (u64::from_le_bytes(words[0]) >> 11) as f64 / (1u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uniform_is_fixed_and_spread() {
        // Frozen: a change here breaks every verifier.
        let word = blake3::keyed_hash(&[7; 32], &[3, 0, 0, 0, 9, 0, 0, 0]);
        let word = u64::from_le_bytes(word.as_bytes()[..8].try_into().unwrap());
        assert_eq!(uniform(&[7; 32], 3, 9), (word >> 11) as f64 * 2f64.powi(-53));
        let mean = (0..4096).map(|t| uniform(&[1; 32], 0, t)).sum::<f64>() / 4096.0;
        assert!((mean - 0.5).abs() < 0.02, "{mean}");
        assert_ne!(uniform(&[1; 32], 0, 1), uniform(&[1; 32], 1, 0));
    }
}
