use super::super::throughput::Throughput;
use super::*;
use std::collections::VecDeque;

const BLOCK: u64 = BLOCK_BYTES as u64;

/// Neighbours that hear a request after a latency, and send one block after another.
struct Fleet {
    now: u64,
    ahead: RequestWindow,
    neighbours: Vec<Neighbour>,
}

#[derive(Default)]
struct Neighbour {
    pace: Throughput,
    /// Oldest first: when it hears of it, when it was asked, and what it had delivered before.
    asked: VecDeque<(u64, UnixMillis, u64)>,
    /// When it has sent what it has sent last.
    free: u64,
}

impl Neighbour {
    /// Fills its window, and says how many bytes arrive in this millisecond.
    fn step(&mut self, now: u64, ahead_ms: u64, latency_ms: u64, block_ms: u64) -> u64 {
        let mut came = 0;
        loop {
            while self.asked.len() < self.pace.window(ahead_ms) as usize {
                self.asked.push_back((now + latency_ms, UnixMillis(now), self.pace.delivered()));
            }
            let (heard, at, before) = self.asked[0];
            let arrives = self.free.max(heard) + block_ms;
            if arrives > now {
                return came;
            }
            self.asked.pop_front();
            (self.free, came) = (arrives, came + BLOCK);
            self.pace.arrived(UnixMillis(now), BLOCK, at, before);
        }
    }
}

impl Fleet {
    fn new() -> Self {
        // Not all at the same time.
        let free = |n: u64| Neighbour { free: 1 + 13 * n, ..Neighbour::default() };
        Self { now: 1, ahead: RequestWindow::default(), neighbours: (0..4).map(free).collect() }
    }

    /// Gives back the part of what all can deliver that came in so many seconds.
    fn run(&mut self, seconds: u64, latency_ms: u64, block_ms: u64) -> f64 {
        let mut came = 0;
        for _ in 0..seconds * 1000 {
            self.now += 1;
            for neighbour in &mut self.neighbours {
                let bytes = neighbour.step(self.now, self.ahead.ms(), latency_ms, block_ms);
                self.ahead.came(bytes);
                came += bytes;
            }
            self.ahead.look(UnixMillis(self.now), || true);
        }
        (came * block_ms) as f64 / (seconds * 1000 * BLOCK * self.neighbours.len() as u64) as f64
    }
}

#[test]
fn answers_that_take_longer_for_good_are_made_up_for() {
    let mut fleet = Fleet::new();
    assert!(fleet.run(10, 20, 40) > 0.9);
    assert_eq!(fleet.ahead.ms(), QUEUE_MS);
    // Windows of 300 ms and the old latency fall to a tenth here, and stay there.
    fleet.run(6, 800, 40);
    let part = fleet.run(10, 800, 40);
    assert!(part > 0.85, "{part}");
}

#[test]
fn neighbours_that_deliver_as_before_are_asked_no_further_ahead() {
    for (latency_ms, block_ms) in [(20, 40), (20, 10), (400, 40), (20, 200)] {
        let mut fleet = Fleet::new();
        for _ in 0..30 {
            fleet.run(1, latency_ms, block_ms);
            assert_eq!(fleet.ahead.ms(), QUEUE_MS, "latency {latency_ms} ms, a block in {block_ms} ms");
        }
    }
}

#[test]
fn neighbours_that_have_become_slower_for_good_are_asked_as_before_in_the_end() {
    let mut fleet = Fleet::new();
    fleet.run(10, 20, 40);
    fleet.run(5, 20, 80);
    assert!(fleet.ahead.ms() > QUEUE_MS);
    let part = fleet.run(60, 20, 80);
    assert!(part > 0.95, "{part}");
    assert_eq!(fleet.ahead.ms(), QUEUE_MS);
}

/// What an [`RequestWindow`] comes to when so many blocks come in each of these half seconds.
fn after(blocks: &[u64], more: bool) -> u64 {
    let (mut ahead, mut now) = (RequestWindow::default(), 1_000_000);
    ahead.look(UnixMillis(now), || more);
    for blocks in blocks {
        now += LOOK_EVERY_MS;
        ahead.came(blocks * BLOCK);
        ahead.look(UnixMillis(now), || more);
    }
    ahead.ms()
}

#[test]
fn it_has_bounds() {
    assert_eq!(after(&[100; 20], true), QUEUE_MS);
    let fell = [&[100; 4][..], &[50; 20]].concat();
    assert_eq!(after(&fell, true), MAX_MS);
    let rose = [&fell[..], &[100; 40]].concat();
    assert_eq!(after(&rose, true), QUEUE_MS);
}

#[test]
fn less_counts_only_where_more_would_be_asked_for() {
    let fell = [&[100; 4][..], &[50; 8]].concat();
    assert_eq!(after(&fell, false), QUEUE_MS);
    assert!(after(&fell, true) > QUEUE_MS);
}

#[test]
fn rates_that_vary_are_not_taken_for_less() {
    // By 5 % to either side, at once and in turns of some seconds.
    for vary in [|n: u64| [95, 103, 100, 97, 105][n as usize % 5], |n: u64| 95 + n % 10] {
        let blocks: Vec<u64> = (0..400).map(vary).collect();
        let ms = after(&blocks, true);
        assert!(ms <= QUEUE_MS * 5 / 4, "{ms}");
    }
}

#[test]
fn a_burst_is_forgotten_within_half_a_minute() {
    let burst = [&[100; 10][..], &[400], &[100; 60]].concat();
    assert_eq!(after(&burst, true), QUEUE_MS);
}

/// One after some seconds at a steady rate, and when that was.
fn steady() -> (RequestWindow, u64) {
    let (mut ahead, mut now) = (RequestWindow::default(), 1_000_000);
    for _ in 0..100 {
        now += 100;
        ahead.came(20 * BLOCK);
        ahead.look(UnixMillis(now), || true);
    }
    (ahead, now)
}

#[test]
fn a_pause_is_not_taken_for_slowness() {
    let (mut ahead, now) = steady();
    ahead.came(BLOCK);
    ahead.look(UnixMillis(now + 10_000), || true);
    assert_eq!(ahead.ms(), QUEUE_MS);
}

#[test]
fn a_clock_that_is_set_back_raises_no_rate() {
    let (mut ahead, now) = steady();
    let best = ahead.best;
    for passed in (0..10_000).step_by(100) {
        ahead.came(20 * BLOCK);
        ahead.look(UnixMillis(now - 5_000 + passed), || true);
    }
    assert!(ahead.best <= best * 11 / 10, "{} after {best}", ahead.best);
    assert_eq!(ahead.ms(), QUEUE_MS);
}
