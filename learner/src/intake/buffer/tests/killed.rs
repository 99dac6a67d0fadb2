//! SIGKILL at random instants of a process that works on a real store.

use std::process::Stdio;
use std::time::Duration;

use super::worker::{self, Witness, large, lines, number, say};
use super::*;

/// How often the process is killed.
const KILLS: u64 = 12;
/// Groups of a batch.
const BATCH: usize = 3;
/// What the process is told.
const DIR: &str = "ECHO_BUFFER_DIR";
const CHECKPOINT: &str = "ECHO_BUFFER_CHECKPOINT";
const NEXT: &str = "ECHO_BUFFER_NEXT";

/// Goes on from its checkpoint as a learner does, and tells of each thing when it counts.
fn work() -> ! {
    let dir = std::path::PathBuf::from(std::env::var_os(DIR).unwrap());
    let mut buffer = worker::open(&dir).unwrap();
    let (mut version, mut next) = (number(CHECKPOINT), number(NEXT));
    let report = |update: u64, batch: &[StoredGroup]| {
        let counters: Vec<String> = counters(batch).iter().map(u64::to_string).collect();
        say(&format!("batch {update} {}", counters.join(" ")));
    };
    buffer.settle(PolicyVersion(version)).unwrap();
    while let Some(batch) = buffer.batch(PolicyVersion(version)).unwrap() {
        report(version, &batch);
        version += 1;
    }
    say(&format!("replayed {version}"));
    loop {
        for _ in 0..1 + next % 4 {
            // What came before the kill, and was not acknowledged, comes again.
            match buffer.stage(large(next, version)) {
                Ok(()) | Err(BufferError::Duplicate(_)) => next += 1,
                Err(error) => panic!("{error}"),
            }
        }
        buffer.flush().unwrap();
        say(&format!("ack {}", next.saturating_sub(1)));
        if let Some(batch) = buffer.form_batch(PolicyVersion(version), &staleness(), BATCH).unwrap() {
            report(version, &batch);
            version += 1;
            if version.is_multiple_of(4) {
                say(&format!("checkpoint {version}"));
                buffer.settle(PolicyVersion(version)).unwrap();
            }
        }
    }
}

#[test]
fn nothing_acknowledged_is_lost_or_trained_on_twice_when_the_process_is_killed() {
    if worker::part().is_some() {
        work();
    }
    let dir = tempfile::tempdir().unwrap();
    let mut witness = Witness::default();
    let mut moment = 0x9e37_79b9_7f4a_7c15u64;
    for kill in 0..KILLS {
        let name = "killed::nothing_acknowledged_is_lost_or_trained_on_twice_when_the_process_is_killed";
        let next = witness.acknowledged.last().map_or(0, |newest| newest + 1);
        let mut process = worker::command(name, "work")
            .env(DIR, dir.path())
            .env(CHECKPOINT, witness.checkpoint.to_string())
            .env(NEXT, next.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = lines(process.stdout.take().unwrap());
        // Its memory of batches is replayed first: every one that it ever told of is there.
        let replayed =
            said.by_ref().inspect(|line| witness.hear(line)).find(|line| line.starts_with("replayed"));
        let replayed: u64 = replayed.unwrap()["replayed ".len()..].parse().unwrap();
        assert!(witness.trained.range(replayed..).next().is_none(), "kill {kill}: a batch vanished");
        // It is killed at a random instant after a random line; what it still said before that
        // is heard as well.
        moment = moment.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        said.by_ref().take((moment >> 40) as usize % 24).for_each(|line| witness.hear(&line));
        std::thread::sleep(Duration::from_micros((moment >> 20) % 10_000));
        process.kill().unwrap();
        process.wait().unwrap();
        said.for_each(|line| witness.hear(&line));
        // Acknowledged in a row.
        let newest = witness.acknowledged.last().copied().unwrap_or(0);
        witness.acknowledged.extend(0..newest);
        let buffer = worker::open(dir.path()).unwrap();
        witness.check(&buffer);
    }
    assert!(witness.trained.len() > KILLS as usize, "it did little: {}", witness.trained.len());
}
