//! How likely elements are to change.
//!
//! An update of size δ changes a bf16 weight w with probability δ / ulp(w): small weights change
//! often, large ones hardly ever. Both sides know the old weights. So gaps between changes are not
//! counted in elements but on a clock that advances with every unchanged element by its own hazard,
//! -ln(1 - p). On that clock changes come evenly, with 1 between two of them on average.

use super::DeltaError;
use super::change_mask::BLOCK;
use super::elements::Element;
use super::encoding::DeltaReader;
use super::level::{code, level};

/// Ticks of the clock between two changes on average.
const UNIT: f64 = 32_768.0;
/// The code of the longest time that one element takes, 2^19 ticks.
const LONGEST: u8 = 1 + 8 * 16;
/// Of how many lines of 64 bytes one is looked at, to estimate how many elements there are of each key.
const SAMPLED: usize = 8;

/// How many ticks an element takes, by its key. None for elements that never change.
pub(super) struct Clock {
    ticks: [u32; 256],
}

impl Clock {
    /// Writes the clock of a chunk in which so many elements of each key changed: the first key
    /// with ticks, their number, their codes.
    pub(super) fn write<E: Element>(old: &[u8], changed: &[u32; 256], out: &mut Vec<u8>) {
        // Neighbours often have the same key, and a number that was just written is not ready to
        // be counted up again.
        let mut seen = [[0u32; 256]; 4];
        for line in old.chunks(64).step_by(SAMPLED) {
            for (nth, element) in E::all(line).enumerate() {
                seen[nth % 4][usize::from(element.key())] += 1;
            }
        }
        let seen: [u32; 256] = std::array::from_fn(|key| seen.iter().map(|seen| seen[key]).sum());
        let code_of = |(changed, seen): (&u32, &u32)| {
            let elements = (SAMPLED as u32 * seen).max(*changed);
            let hazard = -(1.0 - f64::from(*changed) / f64::from(elements + 1)).ln();
            if *changed > 0 { code(hazard * UNIT).min(LONGEST) } else { 0 }
        };
        let codes: Vec<u8> = changed.iter().zip(&seen).map(code_of).collect();
        let first = codes.iter().position(|code| *code > 0).unwrap_or(0);
        let last = codes.iter().rposition(|code| *code > 0).unwrap_or(0);
        out.extend([first as u8, (last - first) as u8]);
        out.extend_from_slice(&codes[first..=last]);
    }

    pub(super) fn read(reader: &mut DeltaReader<'_>) -> Result<Self, DeltaError> {
        let (first, more) = (usize::from(reader.byte()?), usize::from(reader.byte()?));
        let codes = reader.take(more + 1)?;
        if first + more > 255 || codes.iter().any(|code| *code > LONGEST) {
            return Err(DeltaError::Damaged("its rates of change"));
        }
        let mut ticks = [0; 256];
        for (ticks, code) in ticks[first..].iter_mut().zip(codes) {
            *ticks = level(*code) as u32;
        }
        Ok(Self { ticks })
    }

    pub(super) fn ticks<E: Element>(&self, old: E) -> u32 {
        self.ticks[usize::from(old.key())]
    }

    /// When each element of a block begins if the first one does at 0. Returns when the last one
    /// ends: of a block that is not whole at some later time, which nobody needs.
    pub(super) fn times<E: Element>(&self, block: &[u8], times: &mut [u32; BLOCK]) -> u32 {
        let mut keys = [0; BLOCK];
        for (key, element) in keys.iter_mut().zip(E::all(block)) {
            *key = element.key();
        }
        // Two at a time, so that only every other one has to wait for the sum.
        let mut now = 0;
        for (times, keys) in times.as_chunks_mut::<2>().0.iter_mut().zip(keys.as_chunks::<2>().0) {
            let [first, second] = [self.ticks[usize::from(keys[0])], self.ticks[usize::from(keys[1])]];
            *times = [now, now + first];
            now += first + second;
        }
        now
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_the_sums_of_the_ticks_before() {
        // Keys 2 and 4 take 8 and 9 ticks, the others none.
        let clock = Clock::read(&mut DeltaReader::new(&[2, 2, 1, 0, 2])).unwrap();
        let whole: Vec<u8> = (0..BLOCK as u8).map(|at| at % 3).collect();
        for block in [&whole[..], &whole[..7], &[]] {
            let mut times = [u32::MAX; BLOCK];
            let end = clock.times::<u8>(block, &mut times);
            let mut now = 0;
            for (element, time) in block.iter().zip(times) {
                assert_eq!(time, now);
                now += [0, 8, 9][usize::from(*element)];
            }
            assert_eq!(end, now);
        }
    }
}
