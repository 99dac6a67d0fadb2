//! How long groups of honest volunteers take to be accepted, during floods and between them.

/// Looks after a flood has begun that are left out: the first falls up to one pause after that,
/// what is read then may be a pause old, and so may what the second is compared with.
const UNSETTLED: u32 = 2;
/// Looks after one has ended that are left out: so much longer may groups have waited that were
/// sent during the flood.
const UNSETTLED_CALM: u32 = 4;
/// Calm that had fewer groups says nothing about the floods beside it.
const MIN_GROUPS: u64 = 20;
/// As many floods have to be compared before something is said: half of those of the whole attack.
const MIN_FLOODS: usize = 5;
/// A flood during which fewer groups are accepted than this share of what is around
/// it starves the volunteers.
const STARVED: f64 = 0.5;

/// How many groups were accepted, and how long they waited.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Accepted {
    pub(super) groups: u64,
    /// From when each was first sent, together.
    pub(super) waited_s: f64,
}

/// Time in which a flood was on, or none was.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Spell {
    flooded: bool,
    /// Also those that are left out.
    looks: u32,
    accepted: Accepted,
}

/// All spells, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Waits {
    spells: Vec<Spell>,
    /// What the last look saw, since the start.
    seen: Accepted,
}

/// What floods make of the time that a group takes.
#[derive(Clone, Debug, PartialEq)]
pub struct FloodDelay {
    /// How many times as long it is in each flood as in the calm before and after it.
    pub ratios: Vec<f64>,
    /// Floods that starved the volunteers.
    pub starved: usize,
}

impl Accepted {
    fn mean_s(self) -> Option<f64> {
        (self.groups > 0).then(|| self.waited_s / self.groups as f64)
    }
}

impl Spell {
    /// Looks that are not left out.
    fn settled(&self) -> u32 {
        self.looks.saturating_sub(if self.flooded { UNSETTLED } else { UNSETTLED_CALM })
    }

    fn groups_per_look(&self) -> f64 {
        self.accepted.groups as f64 / f64::from(self.settled().max(1))
    }
}

impl Waits {
    /// Enters what was seen of all volunteers, and whether a flood is on.
    pub(super) fn look(&mut self, flooded: bool, seen: Accepted) {
        let before = std::mem::replace(&mut self.seen, seen);
        if self.spells.last().is_none_or(|spell| spell.flooded != flooded) {
            self.spells.push(Spell { flooded, ..Spell::default() });
        }
        let Some(spell) = self.spells.last_mut() else { return };
        spell.looks += 1;
        if spell.settled() > 0 {
            spell.accepted.groups += seen.groups.saturating_sub(before.groups);
            spell.accepted.waited_s += seen.waited_s - before.waited_s;
        }
    }

    /// The mean over all groups that were accepted while floods were on, or between them, in milliseconds.
    #[must_use]
    pub fn mean_ms(&self, flooded: bool) -> Option<f64> {
        let mut all = Accepted::default();
        for spell in self.spells.iter().filter(|spell| spell.flooded == flooded) {
            all.groups += spell.accepted.groups;
            all.waited_s += spell.accepted.waited_s;
        }
        all.mean_s().map(|mean| mean * 1e3)
    }

    /// Each flood beside the calm before and after it, as verifiers are asked about fewer and fewer
    /// groups while a run goes on. `None` where fewer than [`MIN_FLOODS`] can be compared.
    #[must_use]
    pub fn delay(&self) -> Option<FloodDelay> {
        let mut delay = FloodDelay { ratios: Vec::new(), starved: 0 };
        for spells in self.spells.windows(3).filter(|spells| spells[1].flooded) {
            let [before, during, after] = [spells[0], spells[1], spells[2]];
            if before.accepted.groups.min(after.accepted.groups) < MIN_GROUPS {
                continue;
            }
            let calm = (before.groups_per_look() + after.groups_per_look()) / 2.0;
            delay.starved += usize::from(during.groups_per_look() < calm * STARVED);
            let means = [before, during, after].map(|spell| spell.accepted.mean_s());
            if let [Some(before), Some(during), Some(after)] = means {
                delay.ratios.push(during / (before * after).sqrt());
            }
        }
        (delay.ratios.len().max(delay.starved) >= MIN_FLOODS).then_some(delay)
    }

    /// One flood for each of these means, in milliseconds, with calm of 100 ms around them, and as
    /// many groups in each flood as in a calm.
    #[cfg(test)]
    pub(super) fn of_floods(flooded_ms: &[u64], groups: u64) -> Self {
        let mut waits = Self::default();
        waits.pass(false, 100, MIN_GROUPS);
        for ms in flooded_ms {
            waits.pass(true, *ms, groups);
            waits.pass(false, 100, MIN_GROUPS);
        }
        waits
    }

    /// A spell in which so many groups are seen by a single look.
    #[cfg(test)]
    fn pass(&mut self, flooded: bool, ms: u64, groups: u64) {
        let mut seen = self.seen;
        for _ in 0..if flooded { UNSETTLED } else { UNSETTLED_CALM } {
            // Of the spell before.
            seen.groups += 5;
            seen.waited_s += 1000.0;
            self.look(flooded, seen);
        }
        seen.groups += groups;
        seen.waited_s += groups as f64 * ms as f64 / 1e3;
        self.look(flooded, seen);
    }
}

impl FloodDelay {
    /// The geometric mean over floods.
    #[must_use]
    pub fn ratio(&self) -> f64 {
        (self.ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / self.ratios.len() as f64).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn floods_are_compared_with_what_is_around_them() {
        let waits = Waits::of_floods(&[200, 50, 100, 400, 25], MIN_GROUPS);
        let delay = waits.delay().unwrap();
        assert!(close(delay.ratio(), 1.0) && close(delay.ratios[3], 4.0) && delay.starved == 0, "{delay:?}");
        assert!(close(waits.mean_ms(true).unwrap(), 155.0) && close(waits.mean_ms(false).unwrap(), 100.0));
        assert_eq!(Waits::of_floods(&[200; MIN_FLOODS - 1], MIN_GROUPS).delay(), None, "that may be chance");
        assert_eq!(Waits::default().mean_ms(false), None);
    }

    #[test]
    fn groups_that_become_faster_all_the_time_are_not_taken_for_faster_in_floods() {
        let mut waits = Waits::default();
        for spell in 0..=2 * MIN_FLOODS {
            waits.pass(spell % 2 == 1, 1 << (2 * MIN_FLOODS - spell), MIN_GROUPS);
        }
        let delay = waits.delay().unwrap();
        assert!(close(delay.ratio(), 1.0), "{delay:?}");
    }

    #[test]
    fn a_flood_that_nobody_comes_through_is_not_overlooked() {
        for groups in [0, MIN_GROUPS / 2 - 1] {
            let delay = Waits::of_floods(&[100; MIN_FLOODS], groups).delay().unwrap();
            assert_eq!(delay.starved, MIN_FLOODS, "{groups} groups");
        }
        assert_eq!(Waits::of_floods(&[100; MIN_FLOODS], MIN_GROUPS / 2).delay().unwrap().starved, 0);
    }

    #[test]
    fn a_calm_of_few_groups_is_compared_with_nothing() {
        let mut waits = Waits::of_floods(&[100; MIN_FLOODS], MIN_GROUPS);
        waits.pass(true, 1_000, MIN_GROUPS);
        waits.pass(false, 100, MIN_GROUPS - 1);
        assert_eq!(waits.delay().map(|delay| delay.ratios.len()), Some(MIN_FLOODS));
    }
}
