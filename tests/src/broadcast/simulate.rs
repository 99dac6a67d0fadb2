//! Many simulated networks of dissemination machines, each drawn from a seed: loss, delay,
//! reordering, crashes, liars.

use crate::output::console::{CommandReport, Console};
use echo_protocol::dissemination::simulation;
use serde_json::json;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Progress is shown this often.
const SAY_EVERY: Duration = Duration::from_secs(10);
/// Broken seeds that are named.
const NAMED: usize = 20;

/// Which networks are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Simulate {
    /// The first seed; the others follow it.
    pub first: u64,
    /// How many seeds; each draws another network.
    pub seeds: u64,
    /// Simulates each twice, and compares everything that any machine said.
    pub replay: bool,
}

/// What came of one seed, if it is not as it should be.
type Broken = (u64, String);

/// Simulates on every core. Passes when no rule was broken, every network became complete, and
/// every replay was the same.
#[must_use]
pub fn run(simulate: Simulate, console: &Console) -> CommandReport {
    let begun = Instant::now();
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let (mut broken, mut events) = (Vec::new(), 0);
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(|| work(simulate, &next, &done))).collect();
        while workers.iter().any(|worker| !worker.is_finished()) {
            wait(&workers, SAY_EVERY);
            console.say(format!("{} of {} seeds", done.load(Ordering::Relaxed), simulate.seeds));
        }
        for worker in workers {
            let (found, handled) = worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            broken.extend(found);
            events += handled;
        }
    });
    broken.sort();
    for (seed, what) in broken.iter().take(NAMED) {
        console.say(format!("seed {seed}: {what}"));
    }
    let failed = broken.len() as u64;
    let seconds = begun.elapsed().as_secs_f64();
    console.say(format!("{} networks, {failed} broken, {events} events, {seconds:.0} s", simulate.seeds));
    let named: Vec<u64> = broken.iter().take(NAMED).map(|(seed, _)| *seed).collect();
    let json = json!({
        "cases": simulate.seeds, "passed": simulate.seeds - failed, "failed": failed, "skipped": 0,
        "first": simulate.first, "replayed": simulate.replay, "broken_seeds": named, "events": events, "seconds": seconds,
    });
    CommandReport { passed: failed == 0, json }
}

/// Waits for all workers, at most for `longest`.
fn wait<T>(workers: &[std::thread::ScopedJoinHandle<'_, T>], longest: Duration) {
    let until = Instant::now() + longest;
    while Instant::now() < until && workers.iter().any(|worker| !worker.is_finished()) {
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Takes seeds until none is left; says which were broken, and how many events there were.
fn work(simulate: Simulate, next: &AtomicU64, done: &AtomicU64) -> (Vec<Broken>, u64) {
    let (mut broken, mut events) = (Vec::new(), 0);
    loop {
        let at = next.fetch_add(1, Ordering::Relaxed);
        if at >= simulate.seeds {
            return (broken, events);
        }
        let seed = simulate.first + at;
        let report = simulation::run(seed);
        events += report.events;
        if let Some(rule) = &report.broken {
            broken.push((seed, rule.clone()));
        } else if simulate.replay && simulation::run(seed) != report {
            broken.push((seed, "a second run of this seed went another way".into()));
        }
        done.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_counted_once_each() {
        let report = run(Simulate { first: 5, seeds: 7, replay: true }, &Console::new(true));
        assert!(report.passed, "{}", report.json);
        assert_eq!((&report.json["cases"], &report.json["passed"]), (&json!(7), &json!(7)));
    }
}
