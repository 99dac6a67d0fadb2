//! What goes wrong in a race, and when.

use super::options::RaceFaults;
use super::site::links::seed_of;
use echo_protocol::wire::rng::Draws;

/// Random kills fall between these shares of T*: within the transfer, even if it reaches the bound.
const KILLS_WITHIN: [f64; 2] = [0.1, 0.9];
/// `--slow` and `--gone` happen at this share of T*: rates have settled, and there is enough left
/// to see them recover.
const MIDWAY: f64 = 0.4;
/// How long one that comes back is away, in milliseconds.
const AWAY_MS: [i64; 2] = [500, 2000];

/// What happens to one node of a race.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RaceFault {
    /// SIGKILL to a node's host.
    Kill(usize),
    /// It is started again with the data directory that it had.
    Return(usize),
    /// The uplink of a forwarder (counted from 0 by what they have sent) is multiplied.
    Slow { forwarder: usize, factor: f64 },
    /// A forwarder is killed.
    Gone { forwarder: usize },
}

/// Faults and the seconds after publication at which they are due, in order.
pub(super) type FaultSchedule = Vec<(f64, RaceFault)>;

/// The faults of a race of `nodes` nodes (hosts 1 to `nodes`) that takes `t_star_s` seconds at best.
pub(super) fn schedule(faults: &RaceFaults, nodes: usize, t_star_s: f64, seed: u64) -> FaultSchedule {
    let mut draws = Draws::new(seed_of(seed, "churn"));
    let mut hosts: Vec<usize> = (1..=nodes).collect();
    draws.shuffle(&mut hosts);
    let killed = (faults.churn * nodes as f64).round() as usize;
    let mut schedule = FaultSchedule::new();
    for (count, host) in hosts.into_iter().take(killed).enumerate() {
        let [first, last] = KILLS_WITHIN;
        let share = first + (last - first) * draws.below(1 << 32) as f64 / (1u64 << 32) as f64;
        let at = share * t_star_s;
        schedule.push((at, RaceFault::Kill(host)));
        if count % 2 == 0 {
            let away = draws.between(AWAY_MS[0], AWAY_MS[1]) as f64 / 1000.0;
            schedule.push((at + away, RaceFault::Return(host)));
        }
    }
    if let Some(slow) = faults.slow {
        let fault = RaceFault::Slow { forwarder: slow.forwarder - 1, factor: slow.factor };
        schedule.push((MIDWAY * t_star_s, fault));
    }
    if let Some(forwarder) = faults.gone {
        schedule.push((MIDWAY * t_star_s, RaceFault::Gone { forwarder: forwarder - 1 }));
    }
    schedule.sort_by(|a, b| a.0.total_cmp(&b.0));
    schedule
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broadcast::Slow;

    #[test]
    fn churn_kills_its_share_and_half_of_them_return_later() {
        let faults = RaceFaults { churn: 0.3, ..RaceFaults::default() };
        let schedule = schedule(&faults, 20, 10.0, 7);
        let kills: Vec<_> =
            schedule.iter().filter(|(_, fault)| matches!(fault, RaceFault::Kill(_))).collect();
        assert_eq!((kills.len(), schedule.len()), (6, 9));
        assert!(kills.iter().all(|(at, _)| (1.0..=9.0).contains(at)));
        for (back, fault) in &schedule {
            if let RaceFault::Return(host) = fault {
                let (at, _) = kills.iter().find(|(_, kill)| *kill == RaceFault::Kill(*host)).unwrap();
                assert!((0.5..=2.0).contains(&(back - at)));
            }
        }
        assert_eq!(schedule, super::schedule(&faults, 20, 10.0, 7), "the seed decides");
        assert_ne!(schedule, super::schedule(&faults, 20, 10.0, 8));
    }

    #[test]
    fn slow_and_gone_happen_midway() {
        let faults = RaceFaults { slow: Some(Slow { forwarder: 1, factor: 0.5 }), gone: Some(2), churn: 0.0 };
        let due = schedule(&faults, 8, 10.0, 0);
        let expected =
            [(4.0, RaceFault::Slow { forwarder: 0, factor: 0.5 }), (4.0, RaceFault::Gone { forwarder: 1 })];
        assert_eq!(due, expected);
    }
}
