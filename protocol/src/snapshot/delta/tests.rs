use super::*;
use proptest::prelude::*;

fn widths() -> impl Strategy<Value = Width> {
    prop_oneof![Just(Width::One), Just(Width::Two), Just(Width::Four)]
}

proptest! {
    #[test]
    fn any_bytes_round_trip_or_are_refused_as_a_whole(
        old in prop::collection::vec(any::<u8>(), 0..300),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..20),
        length in 0..300usize,
        width in widths(),
    ) {
        let mut new = old.clone();
        new.resize(length, 7);
        for (at, byte) in edits {
            if !new.is_empty() {
                let at = at.index(new.len());
                new[at] = byte;
            }
        }
        if let Some(delta) = encode(&old, &new, width) {
            prop_assert_eq!(apply(old, &delta, new.len()), Ok(new));
        }
    }

    #[test]
    fn damaged_deltas_and_other_bases_never_panic(
        old in prop::collection::vec(0..4u8, 1..600),
        step in 5..90usize,
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        shift in 0..4usize,
        out_len in 0..700usize,
        width in widths(),
    ) {
        let mut new = old.clone();
        new.iter_mut().step_by(step).for_each(|byte| *byte ^= 1);
        if let Some(mut delta) = encode(&old, &new, width) {
            for (at, byte) in damage {
                let at = at.index(delta.len());
                delta[at] = byte;
            }
            if let Ok(chunk) = apply(old[shift.min(old.len())..].to_vec(), &delta, out_len) {
                prop_assert_eq!(chunk.len(), out_len);
            }
        }
    }

    #[test]
    fn arbitrary_deltas_never_panic(
        header in 0x10..0x12u8,
        layout in prop::sample::select(vec![0x01u8, 0x02, 0x12, 0x04, 0x14, 0x34, 0x00, 0xff]),
        body in prop::collection::vec(any::<u8>(), 0..200),
        out_len in 0..5000usize,
    ) {
        let delta = [vec![header, layout], body].concat();
        if let Ok(chunk) = apply(vec![1, 2, 3], &delta, out_len) {
            prop_assert_eq!(chunk.len(), out_len);
        }
    }
}

/// Found by fuzzing: after an escape the clock stands where the last element ended, and the next
/// change was placed before that.
#[test]
fn a_change_in_the_past_is_refused() {
    let gaps = distributions::Density::read(18, &mut DeltaReader::new(&[0])).unwrap();
    let mut when = rans::RansEncoder::new();
    when.put(gaps.interval_of(0));
    when.put(gaps.escape());
    // One change; a clock of 2^19 ticks for elements of key 0, twice the window; nine flat distributions.
    let mut delta =
        vec![header(DeltaKind::Sparse), 0x01, 1, 0, 0, 129, 0, 0, 0, 0, 0, 0, 0, 0, 0, when.bytes() as u8];
    when.finish(&mut delta);
    rans::RansEncoder::new().finish(&mut delta);
    assert_eq!(apply(Vec::new(), &delta, 10), Err(DeltaError::Damaged("a change in the past")));
}

#[test]
fn each_kind_is_chosen_where_it_is_small() {
    let old: Vec<u8> =
        (0..20_000u32).flat_map(|at| (0x3c00 + (at * 7919 % 512) as u16).to_le_bytes()).collect();
    let shifted = |step: usize, by: u16| -> Vec<u8> {
        let elements = old.as_chunks::<2>().0.iter().enumerate();
        let moved = |(at, bytes): (usize, &[u8; 2])| {
            let value = u16::from_le_bytes(*bytes);
            if at % step == 0 { value + by } else { value }.to_le_bytes()
        };
        elements.flat_map(moved).collect()
    };
    let sparse = encode(&old, &shifted(50, 1), Width::Two).unwrap();
    assert_eq!(kind(&sparse), Ok(DeltaKind::Sparse));
    assert!(sparse.len() < 400, "{} bytes", sparse.len());
    let dense = encode(&old, &shifted(2, 3), Width::Two).unwrap();
    assert_eq!(kind(&dense), Ok(DeltaKind::Planes));
    assert!(dense.len() < old.len() / 10, "{} bytes", dense.len());
    assert_eq!(encode(&old, &noise(old.len()), Width::Two), None);
    assert_eq!(kind(&[]), Err(DeltaError::Truncated));
    assert_eq!(kind(&[0x23]), Err(DeltaError::Format(0x23)));
}

#[test]
fn elements_that_do_not_begin_with_the_chunk_are_found() {
    let old: Vec<u8> =
        [9].into_iter().chain((0..5000u16).flat_map(|at| (0x3c00 + at % 512).to_le_bytes())).collect();
    let mut new = old.clone();
    new[1..].chunks_exact_mut(2).step_by(40).for_each(|element| element[0] ^= 1);
    new[0] = 8;
    let delta = encode(&old, &new, Width::Two).unwrap();
    assert_eq!(delta[1], 0x12, "one loose byte, then elements of two");
    assert_eq!(apply(old, &delta, new.len()), Ok(new));
}

/// Bytes without any pattern.
fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes
}
