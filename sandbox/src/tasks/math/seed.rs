//! Numbers that look drawn and depend on a text alone, the same on every platform and with every compiler.

/// FNV-1a over the bytes, finished as in SplitMix64, so that every bit depends on every byte.
pub(super) fn seed(text: &str) -> u64 {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mixed = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_fixed_and_differ() {
        assert_eq!(seed("x0"), seed("x0"));
        let seeds: std::collections::BTreeSet<u64> =
            (0..1_000).map(|i| seed(&format!("x{i}")) % 1_000_003).collect();
        assert!(seeds.len() > 990);
    }
}
