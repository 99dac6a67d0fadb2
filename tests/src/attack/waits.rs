//! How long groups of honest volunteers take to be decided, during floods and between them.

use super::scene::Scene;
use crate::network::Layout;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::block_in_place;
use tokio::time::{MissedTickBehavior, interval};

/// The pause between two looks at what volunteers say of themselves, which they renew as often.
const EVERY: Duration = Duration::from_millis(500);
/// Looks from the beginning of a spell on that see groups of the one before.
const UNSETTLED: u32 = 3;
/// Fewer groups say nothing about a spell.
const MIN_GROUPS: u64 = 20;

/// Time in which a flood was on, or none was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Spell {
    flooded: bool,
    /// Groups that were accepted in it.
    groups: u64,
    /// How long they were under way until they were, together.
    waited_ms: u64,
}

/// All spells, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits(Vec<Spell>);

/// What floods make of the time that a group takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Delay {
    /// The mean during a flood over that right before and right after it: a geometric mean over floods.
    pub ratio: f64,
    /// The standard error of its logarithm.
    pub error: f64,
    /// Floods that were compared.
    pub floods: usize,
}

/// Looks at the volunteers with these names for as long as it lives.
pub(super) async fn live(scene: Arc<Scene>, layout: Layout, names: Vec<String>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let (mut flooded, mut looks) = (scene.is_flooded(), 0);
    let mut before = block_in_place(|| accepted(&layout, &names));
    scene.ledger().waits.begin(flooded);
    loop {
        ticks.tick().await;
        let now = block_in_place(|| accepted(&layout, &names));
        if flooded != scene.is_flooded() {
            (flooded, looks) = (!flooded, 0);
            scene.ledger().waits.begin(flooded);
        }
        looks += 1;
        if looks > UNSETTLED {
            scene.ledger().waits.add(now.0.saturating_sub(before.0), now.1.saturating_sub(before.1));
        }
        before = now;
    }
}

/// Groups of all volunteers that were accepted since their start, and how long these were under way in milliseconds.
fn accepted(layout: &Layout, names: &[String]) -> (u64, u64) {
    let count = |status: &serde_json::Value, key: &str| status[key].as_u64().unwrap_or(0);
    let statuses = names.iter().filter_map(|name| layout.node_status(name));
    statuses.fold((0, 0), |(groups, ms), status| {
        (groups + count(&status, "accepted"), ms + count(&status, "waited_ms"))
    })
}

impl Spell {
    fn mean_ms(&self) -> Option<f64> {
        (self.groups >= MIN_GROUPS).then(|| self.waited_ms as f64 / self.groups as f64)
    }
}

impl Waits {
    fn begin(&mut self, flooded: bool) {
        self.0.push(Spell { flooded, ..Spell::default() });
    }

    fn add(&mut self, groups: u64, waited_ms: u64) {
        if let Some(spell) = self.0.last_mut() {
            spell.groups += groups;
            spell.waited_ms += waited_ms;
        }
    }

    /// The mean over all groups that were accepted while floods were on, or between them, in milliseconds.
    #[must_use]
    pub fn mean_ms(&self, flooded: bool) -> Option<f64> {
        let mut all = Spell::default();
        for spell in self.0.iter().filter(|spell| spell.flooded == flooded) {
            all.groups += spell.groups;
            all.waited_ms += spell.waited_ms;
        }
        all.mean_ms()
    }

    /// Each flood beside the calm before and after it, as verifiers are asked about fewer and fewer groups while a run goes on. `None` when
    /// there are not two floods.
    #[must_use]
    pub fn delay(&self) -> Option<Delay> {
        let logs: Vec<f64> = self
            .0
            .windows(3)
            .filter(|spells| spells[1].flooded)
            .filter_map(|spells| {
                let [before, during, after] = [0, 1, 2].map(|at| spells[at].mean_ms().map(f64::ln));
                Some(during? - (before? + after?) / 2.0)
            })
            .collect();
        let floods = logs.len() as f64;
        if floods < 2.0 {
            return None;
        }
        let mean = logs.iter().sum::<f64>() / floods;
        let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (floods - 1.0);
        Some(Delay { ratio: mean.exp(), error: (variance / floods).sqrt(), floods: logs.len() })
    }

    /// Floods that make groups take so long instead of 100 ms, as often as that.
    #[cfg(test)]
    pub(super) fn of_floods(flooded_ms: &[u64]) -> Self {
        let mut waits = Self::default();
        let mut spell = |flooded, ms| {
            waits.begin(flooded);
            waits.add(MIN_GROUPS, MIN_GROUPS * ms);
        };
        for ms in flooded_ms {
            spell(false, 100);
            spell(true, *ms);
        }
        spell(false, 100);
        waits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floods_are_compared_with_what_is_around_them() {
        let waits = Waits::of_floods(&[200, 50]);
        let delay = waits.delay().unwrap();
        assert!((delay.ratio - 1.0).abs() < 1e-9 && delay.floods == 2, "{delay:?}");
        assert!((delay.error - 2f64.ln()).abs() < 1e-9, "{delay:?}");
        assert_eq!((waits.mean_ms(true), waits.mean_ms(false)), (Some(125.0), Some(100.0)));
        assert_eq!(Waits::of_floods(&[200]).delay(), None, "one flood may be chance");
        assert_eq!(Waits::default().mean_ms(false), None);
    }

    #[test]
    fn groups_that_become_faster_all_the_time_are_not_taken_for_faster_in_floods() {
        let mut waits = Waits::default();
        for (at, flooded) in [false, true, false, true, false].into_iter().enumerate() {
            waits.begin(flooded);
            waits.add(MIN_GROUPS, MIN_GROUPS * (800 >> at));
        }
        let delay = waits.delay().unwrap();
        assert!((delay.ratio - 1.0).abs() < 1e-9 && delay.error < 1e-9, "{delay:?}");
    }

    #[test]
    fn a_spell_of_few_groups_is_compared_with_nothing() {
        let mut waits = Waits::of_floods(&[100, 100]);
        waits.begin(true);
        waits.add(MIN_GROUPS - 1, 1_000_000);
        waits.begin(false);
        waits.add(MIN_GROUPS, MIN_GROUPS * 100);
        assert_eq!(waits.delay().map(|delay| delay.floods), Some(2));
    }
}
