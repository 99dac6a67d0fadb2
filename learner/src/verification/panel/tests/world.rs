//! A panel among verifiers of all natures.

use super::*;
use proptest::prelude::*;

/// How a verifier behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Nature {
    Honest,
    /// Says the opposite of what is true.
    Liar,
    /// Vouches for everything without a look.
    Lazy,
    /// Says that it cannot tell.
    Shy,
    Mute,
}

const NATURES: [Nature; 5] = [Nature::Honest, Nature::Liar, Nature::Lazy, Nature::Shy, Nature::Mute];

fn opinion(nature: Nature, sound: bool) -> Option<Said> {
    let truth = if sound { Said::Sound } else { Said::Lie };
    match (nature, truth) {
        (Nature::Honest, truth) => Some(truth),
        (Nature::Liar, Said::Sound) => Some(Said::Lie),
        (Nature::Liar, _) | (Nature::Lazy, _) => Some(Said::Sound),
        (Nature::Shy, _) => Some(Said::Unable),
        (Nature::Mute, _) => None,
    }
}

/// Verifiers of all natures, groups that are true or not, and a learner that looks where the
/// panel does not vouch.
struct World {
    panel: Panel,
    natures: Vec<(Nature, Option<NetworkPrefix>)>,
    now: u64,
    groups: u64,
    /// Groups under way, and words about them that have not arrived.
    words: Vec<(PublicKey, ContentId, Said)>,
    truth: BTreeMap<ContentId, bool>,
    open: BTreeSet<ContentId>,
    charged: BTreeSet<PublicKey>,
}

impl World {
    fn nature(&self, key: &PublicKey) -> (Nature, Option<NetworkPrefix>) {
        let number = (0..self.natures.len() as u64).find(|n| self::key(*n) == *key).unwrap();
        self.natures[number as usize]
    }

    fn ask(&mut self, sound: bool) {
        self.groups += 1;
        let question = question(self.groups);
        self.truth.insert(question.group, sound);
        let Some(chosen) = self.panel.ask(at(self.now), &question) else { return };
        let owners: BTreeSet<_> = chosen.iter().map(|key| self.nature(key).1).collect();
        assert_eq!(owners.len(), chosen.len(), "two of one owner");
        assert!(!owners.contains(&question.network));
        self.open.insert(question.group);
        for key in chosen {
            let said = opinion(self.nature(&key).0, sound);
            self.words.extend(said.map(|said| (key, question.group, said)));
        }
    }

    fn ruled(&mut self, group: ContentId, ruling: Ruling) {
        assert!(self.open.remove(&group), "decided twice");
        let sound = self.truth[&group];
        if let Ruling::Vouched(vouchers) = ruling {
            assert!(vouchers.len() >= 2);
            if !sound {
                // Only where all who came in time lied, of k owners at least.
                assert!(vouchers.iter().all(|key| self.nature(key).0 != Nature::Honest));
            }
            // Every other one is drawn for a spot check.
            if !self.groups.is_multiple_of(2) {
                return self.panel.dismiss(&group);
            }
        }
        for (key, right) in self.panel.settle(&group, sound) {
            self.judged(key, sound, right);
        }
    }

    fn judged(&mut self, key: PublicKey, sound: bool, right: bool) {
        let nature = self.nature(&key).0;
        assert_eq!(right, nature == Nature::Honest || (nature == Nature::Lazy && sound), "{nature:?}");
        if !right {
            self.charged.insert(key);
        }
    }

    fn deliver(&mut self, which: usize) {
        if self.words.is_empty() {
            return;
        }
        let (key, group, said) = self.words.swap_remove(which % self.words.len());
        let heard = self.panel.report(&key, &group, said);
        if said == Said::Unable && self.open.contains(&group) {
            assert_eq!(heard, ReportOutcome::Ruled(Ruling::Open), "whoever else vouches");
        }
        match heard {
            ReportOutcome::Ruled(ruling) => self.ruled(group, ruling),
            ReportOutcome::Judged(right) => self.judged(key, self.truth[&group], right),
            ReportOutcome::Noted => {}
            ReportOutcome::Unasked => panic!("every word was asked for"),
        }
    }

    fn pass(&mut self, millis: u64) {
        self.now += millis;
        for (group, ruling) in self.panel.expired(at(self.now)) {
            self.ruled(group, ruling);
        }
    }

    fn come_or_go(&mut self, which: usize) {
        let number = which % self.natures.len();
        let key = key(number as u64);
        if self.panel.verifiers.contains_key(&key) {
            self.words.retain(|(of, ..)| *of != key);
            for (group, ruling) in self.panel.gone(&key) {
                self.ruled(group, ruling);
            }
        } else {
            assert!(self.panel.offer(key, self.natures[number].1, &offer(4)));
        }
    }
}

proptest! {
    #[test]
    fn every_group_is_decided_and_no_lie_passes_before_an_honest_verifier(
        natures in prop::collection::vec((0..NATURES.len(), 0u8..6), 1..12),
        acts in prop::collection::vec((0u8..6, any::<u16>()), 0..400),
    ) {
        let natures: Vec<_> = natures.into_iter().map(|(n, net)| (NATURES[n], network(net))).collect();
        let panel = Panel::new(PanelConfig::default(), [7; 32]);
        let (words, truth, open, charged) = Default::default();
        let mut world = World { panel, natures, now: 0, groups: 0, words, truth, open, charged };
        for (act, which) in acts {
            let which = usize::from(which);
            match act {
                0 => world.ask(which % 3 > 0),
                1 | 2 => world.deliver(which),
                3 => world.pass(which as u64 % 3_000),
                4 => world.come_or_go(which),
                _ => (0..4).for_each(|more| world.deliver(which + more)),
            }
        }
        world.pass(WITHIN);
        prop_assert!(world.open.is_empty(), "left undecided");
        prop_assert_eq!((world.panel.cases.len(), world.panel.bytes), (0, 0));
        for _ in 0..world.words.len() {
            world.deliver(0);
        }
        let honest = world.charged.iter().filter(|key| world.nature(key).0 == Nature::Honest);
        prop_assert_eq!(honest.count(), 0, "an honest verifier was charged");
    }
}
