//! Near misses of races, counted: a single one says nothing, and too many say that somebody chooses.
//!
//! On another machine, logits are a little different. So where two tokens ring at almost the same
//! moment, an honest node may draw the second. A node that knows the rule sees these positions
//! before it draws, and can pick the token that it likes there. It then draws the second token
//! more often than rounding does.
//!
//! Each position has a largest chance with which an honest node draws otherwise, which follows
//! from how close the race is ([`RaceLimits::chance`]). Three bets are made on every draw: that the
//! odds of drawing otherwise are so many times what honest nodes' are ([`ODDS`]). Each bet
//! multiplies a stake by a factor whose mean is at most 1 for an honest node, whatever it draws. So a
//! stake becomes very large by chance only very seldom (Ville's inequality), and one that has is
//! an [alarm](NearMisses::is_alarm).
//!
//! Over a node's record, a stake below 1 is raised to 1 before each look
//! ([`NearMisses::then`]), so that honest work gives no credit for cheating later. After n looks,
//! the chance of a false alarm is at most n times that of one look.

use serde::{Deserialize, Serialize};

/// What is bet on: how many times the odds of honest nodes. The small one finds many choices among
/// the closest races, the large one few among those that are less close.
const ODDS: [f64; 3] = [3.0, 30.0, 300.0];
/// The chance of a false alarm, at most, over so many looks at one node's work.
const FALSE_ALARM: f64 = 1e-6;
/// Looks that share this chance: a newcomer's and those of some months.
const LOOKS: f64 = 4096.0;
/// The least chance that is given to honest nodes anywhere within the limits. So no single draw
/// there is an alarm, and nor are two.
const LEAST_CHANCE: f64 = 1e-4;

/// How far apart honest machines are where tokens race, in nats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RaceLimits {
    /// By how much a token that was drawn may come after the first. One beyond is a plain lie.
    pub most: f64,
    /// The difference at which the chance of drawing otherwise has fallen by a factor of e.
    pub spread: f64,
}

/// The stakes of the three bets, as logarithms.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct NearMisses {
    stakes: [f64; 3],
}

impl RaceLimits {
    /// The largest chance with which an honest node draws the second token of a race that is
    /// decided by `gap` nats; 0 beyond the limit.
    #[must_use]
    pub fn chance(&self, gap: f64) -> f64 {
        if gap > self.most { 0.0 } else { (0.5 * (-gap / self.spread).exp()).max(LEAST_CHANCE) }
    }

    /// The same for machines that are `factor` times as far apart.
    #[must_use]
    pub fn times(self, factor: f64) -> Self {
        Self { most: self.most * factor, spread: self.spread * factor }
    }
}

impl NearMisses {
    /// What the leads of drawn tokens come to: positive where the drawn token was first.
    #[must_use]
    pub fn of(leads: &[f64], limits: &RaceLimits) -> Self {
        let mut stakes = [0.0; 3];
        for lead in leads {
            let chance = limits.chance(lead.abs());
            if chance == 0.0 {
                continue;
            }
            for (stake, odds) in stakes.iter_mut().zip(ODDS) {
                let other = if *lead < 0.0 { odds.ln() } else { 0.0 };
                *stake += other - (chance * (odds - 1.0)).ln_1p();
            }
        }
        Self { stakes }
    }

    /// The stakes after another look. They do not grow beyond an alarm, so a node that stops
    /// choosing gets out of it.
    #[must_use]
    pub fn then(self, next: Self) -> Self {
        let mut stakes = self.stakes;
        for (stake, next) in stakes.iter_mut().zip(next.stakes) {
            *stake = (stake.max(0.0) + next).min(alarm());
        }
        Self { stakes }
    }

    /// Whether so many near misses are no chance.
    #[must_use]
    pub fn is_alarm(&self) -> bool {
        self.stakes.iter().any(|stake| *stake >= alarm())
    }

    /// The largest stake as a share of an alarm's, both as logarithms: 1 and more is one.
    #[must_use]
    pub fn suspicion(&self) -> f64 {
        self.stakes.iter().copied().fold(0.0, f64::max) / alarm()
    }
}

/// The logarithm of a stake that is an alarm. Three bets share the chance of a false one.
fn alarm() -> f64 {
    (ODDS.len() as f64 * LOOKS / FALSE_ALARM).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sampling::uniform;

    const LIMITS: RaceLimits = RaceLimits { most: 0.1, spread: 4e-3 };

    /// Races of a response in which a token's lead is below x with chance x, and the second token
    /// is drawn where `choose` says so, of the gap and a number in [0, 1).
    fn response(number: u32, tokens: u32, choose: impl Fn(f64, f64) -> bool) -> Vec<f64> {
        (0..tokens)
            .map(|at| {
                let gap = uniform(&[1; 32], number, 2 * at);
                if choose(gap, uniform(&[1; 32], number, 2 * at + 1)) { -gap } else { gap }
            })
            .collect()
    }

    #[test]
    fn no_single_draw_within_the_limits_is_an_alarm_and_many_are() {
        let one = NearMisses::of(&[-LIMITS.most], &LIMITS);
        assert!(!one.is_alarm() && one.suspicion() > 0.2, "{one:?}");
        assert!(!NearMisses::of(&[-LIMITS.most; 2], &LIMITS).is_alarm());
        assert!(NearMisses::of(&[-0.02; 8], &LIMITS).is_alarm());
        assert_eq!(NearMisses::of(&[0.2, 3.0, f64::INFINITY], &LIMITS), NearMisses::default());
        assert_eq!(LIMITS.chance(0.11), 0.0);
        assert_eq!(LIMITS.chance(0.0), 0.5);
    }

    #[test]
    fn a_bet_is_fair_at_the_largest_chance_of_an_honest_node() {
        for gap in [1e-9, 1e-3, 0.02, 0.09] {
            let chance = LIMITS.chance(gap);
            let (first, second) = (NearMisses::of(&[gap], &LIMITS), NearMisses::of(&[-gap], &LIMITS));
            for (stay, change) in first.stakes.iter().zip(second.stakes) {
                let mean = (1.0 - chance) * stay.exp() + chance * change.exp();
                assert!((mean - 1.0).abs() < 1e-12, "{gap}: {mean}");
            }
        }
    }

    #[test]
    fn honest_nodes_at_the_limit_raise_no_alarm_and_those_who_choose_do() {
        let mut honest = NearMisses::default();
        for number in 0..1000 {
            let drawn = response(number, 200, |gap, by_chance| by_chance < LIMITS.chance(gap));
            honest = honest.then(NearMisses::of(&drawn, &LIMITS));
            assert!(!honest.is_alarm(), "{number}");
        }
        // From here on it takes the second token wherever a race is decided by less than 0.01.
        let mut looks = 0;
        while !honest.is_alarm() && looks < 200 {
            let drawn = response(2000 + looks, 200, |gap, _| gap < 0.01);
            honest = honest.then(NearMisses::of(&drawn, &LIMITS));
            looks += 1;
        }
        assert!(looks < 40, "{looks}");
        // Honest again, it gets out of the alarm.
        let still = honest.then(NearMisses::of(&response(9, 2000, |_, _| false), &LIMITS));
        assert!(!still.is_alarm());
    }
}
