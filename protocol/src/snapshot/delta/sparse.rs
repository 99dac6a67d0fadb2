//! The sparse form: which elements changed, and by how much.
//!
//! Header: the number of changes; the [`Clock`]; the distribution of the gaps on it; the
//! distributions of the differences, one for each speed of change. Then, entropy-coded, the gaps (a
//! number, their length in bytes, comes first) and the differences: two codes, so that a processor
//! can work on both at once.

use super::DeltaError;
use super::change_mask::{BLOCK, Changed, blocks};
use super::change_rates::Clock;
use super::distributions::{Counts, Density, RansInterval, TOTAL_BITS};
use super::elements::Element;
use super::encoding::{DeltaReader, push_number};
use super::rans::{RansDecoder, RansEncoder};

/// Above one change in so many elements the dense form is faster, and hardly larger.
const SPARSE: usize = 4;
/// Gaps below 2^18 ticks are written as they are; a longer one is an escape for every so many ticks,
/// and the rest.
const GAP_BITS: u32 = 18;
const WINDOW: u32 = 1 << GAP_BITS;
/// Differences below 2^16 are written as they are; a larger one is an escape and its 32 bits.
const DIFFERENCE_BITS: u32 = 16;
/// Distributions of differences: what changes often, changes by more.
const SPEEDS: usize = 8;

const BEHIND_THE_END: DeltaError = DeltaError::Damaged("a change behind the end");

/// One element that changed.
struct Change {
    /// Ticks of the unchanged elements before it, back to the change before.
    gap: u64,
    /// Ticks of the element itself.
    ticks: u32,
    difference: u32,
}

/// Appends how the elements of `old` become those of `new`; `false`, with nothing appended, when
/// too many changed.
pub(super) fn encode<E: Element>(old: &[u8], new: &[u8], out: &mut Vec<u8>) -> bool {
    let Some(changed) = Changed::find::<E>(old, new, old.len() / E::BYTES / SPARSE) else { return false };
    push_number(changed.count() as u32, out);
    if changed.count() == 0 {
        return true;
    }
    let mut keys = [0; 256];
    for (old, places) in blocks::<E>(old).zip(changed.places()) {
        places.for_each(|at| keys[usize::from(element::<E>(old, at).key())] += 1);
    }
    let clock = written(out, |out| Clock::write::<E>(old, &keys, out), Clock::read);
    let mut changes = Vec::with_capacity(changed.count());
    // When the block begins, and when the last change ended.
    let (mut now, mut last) = (0, 0);
    let mut times = [0; BLOCK];
    for ((old, new), places) in blocks::<E>(old).zip(blocks::<E>(new)).zip(changed.places()) {
        let block_ticks = clock.times::<E>(old, &mut times);
        for at in places {
            let [old, new] = [old, new].map(|block| element::<E>(block, at));
            let (begins, ticks) = (now + u64::from(times[at]), clock.ticks(old));
            changes.push(Change { gap: begins - last, ticks, difference: old.difference(new) });
            last = begins + u64::from(ticks);
        }
        now += u64::from(block_ticks);
    }
    write_changes(&changes, out);
    true
}

fn write_changes(changes: &[Change], out: &mut Vec<u8>) {
    let (mut gaps, mut differences) = (Counts::new(GAP_BITS), vec![Counts::new(DIFFERENCE_BITS); SPEEDS]);
    for change in changes {
        (0..change.gap / u64::from(WINDOW)).for_each(|_| gaps.add_escape());
        let middle = (change.gap % u64::from(WINDOW)) as u32 + change.ticks / 2;
        gaps.add(middle.min(WINDOW - 1));
        let differences = &mut differences[speed(change.ticks)];
        if change.difference >> DIFFERENCE_BITS == 0 {
            differences.add(change.difference);
        } else {
            differences.add_escape();
        }
    }
    let gaps = written(out, |out| gaps.write(out), |reader| Density::read(GAP_BITS, reader));
    let differences: Vec<Density> = differences
        .iter()
        .map(|counts| written(out, |out| counts.write(out), |reader| Density::read(DIFFERENCE_BITS, reader)))
        .collect();
    let (mut when, mut what) = (RansEncoder::new(), RansEncoder::new());
    for change in changes.iter().rev() {
        let Change { gap, ticks, difference } = *change;
        if difference >> DIFFERENCE_BITS != 0 {
            what.put(half(difference));
            what.put(half(difference >> 16));
        }
        what.put(differences[speed(ticks)].interval_of(difference));
        when.put(element_interval(&gaps, (gap % u64::from(WINDOW)) as u32, ticks));
        (0..gap / u64::from(WINDOW)).for_each(|_| when.put(gaps.escape()));
    }
    push_number(when.bytes() as u32, out);
    when.finish(out);
    what.finish(out);
}

/// Makes the new elements of the old ones, in place.
pub(super) fn apply<E: Element>(elements: &mut [u8], reader: &mut DeltaReader<'_>) -> Result<(), DeltaError> {
    let count = reader.number()?;
    if count == 0 {
        return Ok(());
    }
    let clock = Clock::read(reader)?;
    let gaps = Density::read(GAP_BITS, reader)?;
    let differences = (0..SPEEDS).map(|_| Density::read(DIFFERENCE_BITS, reader));
    let differences = differences.collect::<Result<Vec<_>, _>>()?;
    let when = reader.number()? as usize;
    let (mut when, mut what) = (RansDecoder::new(reader.take(when)?)?, RansDecoder::new(reader.rest())?);
    let mut rest = elements;
    for _ in 0..count {
        let (at, before) = next_change::<E>(rest, &clock, &gaps, &mut when)?;
        rest = &mut rest[at * E::BYTES..];
        let (changed, behind) = rest.split_at_mut(E::BYTES);
        let old = E::read(changed);
        let ticks = clock.ticks(old);
        when.take(element_interval(&gaps, before, ticks));
        let difference = next_difference(&differences[speed(ticks)], &mut what);
        old.moved(difference).write(changed);
        rest = behind;
    }
    if when.is_finished() && what.is_finished() { Ok(()) } else { Err(DeltaError::Damaged("its changes")) }
}

/// How many unchanged elements come first, and the time on the clock, within the window, when
/// the changed one begins.
fn next_change<E: Element>(
    rest: &[u8],
    clock: &Clock,
    gaps: &Density,
    decoder: &mut RansDecoder<'_>,
) -> Result<(usize, u32), DeltaError> {
    let ticks = |element: &[u8]| clock.ticks(E::read(element));
    let (mut at, mut now) = (0, 0);
    loop {
        let Some((time, _)) = gaps.number_at(decoder.point()) else {
            decoder.take(gaps.escape());
            while now < WINDOW {
                now += rest.get(at * E::BYTES..(at + 1) * E::BYTES).map(ticks).ok_or(BEHIND_THE_END)?;
                at += 1;
            }
            now -= WINDOW;
            continue;
        };
        if time < now {
            return Err(DeltaError::Damaged("a change in the past"));
        }
        // Four at a time; where among the last four it lies is hard to predict, so there is no branch.
        while let Some(four) = rest.get(at * E::BYTES..(at + 4) * E::BYTES) {
            let mut ends = [now; 5];
            for (nth, element) in E::all(four).enumerate() {
                ends[nth + 1] = ends[nth] + clock.ticks(element);
            }
            if ends[4] > time {
                let nth = ends[1..4].iter().fold(0, |nth, end| nth + usize::from(*end <= time));
                return Ok((at + nth, ends[nth]));
            }
            (now, at) = (ends[4], at + 4);
        }
        for element in E::all(&rest[at * E::BYTES..]) {
            let later = now + clock.ticks(element);
            if later > time {
                return Ok((at, now));
            }
            (now, at) = (later, at + 1);
        }
        return Err(BEHIND_THE_END);
    }
}

fn next_difference(density: &Density, decoder: &mut RansDecoder<'_>) -> u32 {
    if let Some((difference, interval)) = density.number_at(decoder.point()) {
        decoder.take(interval);
        return difference;
    }
    decoder.take(density.escape());
    let mut next_half = || {
        let half = decoder.point() >> (TOTAL_BITS - 16);
        decoder.take(self::half(half));
        half
    };
    next_half() << 16 | next_half()
}

/// The interval of an element that changed: of all ticks that it takes, as far as they lie in the window.
fn element_interval(gaps: &Density, begins: u32, ticks: u32) -> RansInterval {
    gaps.interval(begins, (begins + ticks).min(WINDOW))
}

/// The interval of 16 bits that are all equally likely.
fn half(bits: u32) -> RansInterval {
    RansInterval { start: (bits & 0xffff) << (TOTAL_BITS - 16), width: 1 << (TOTAL_BITS - 16) }
}

/// 0 for elements that change less often than one in 16, then one for each doubling.
fn speed(ticks: u32) -> usize {
    (ticks.max(1).ilog2() as usize).saturating_sub(10).min(SPEEDS - 1)
}

fn element<E: Element>(bytes: &[u8], at: usize) -> E {
    E::read(&bytes[at * E::BYTES..(at + 1) * E::BYTES])
}

/// Writes a part of the header and reads it again: the encoder must use exactly what the decoder will know.
fn written<T>(
    out: &mut Vec<u8>,
    write: impl FnOnce(&mut Vec<u8>),
    read: impl FnOnce(&mut DeltaReader<'_>) -> Result<T, DeltaError>,
) -> T {
    let start = out.len();
    write(out);
    read(&mut DeltaReader::new(&out[start..])).expect("what was written can be read")
}
