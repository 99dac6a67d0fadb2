//! A store whose file was cut short behind the learner's back.

use std::fs;

use super::worker::{self, Witness, large};
use super::*;

/// Groups of a batch; one more arrives with each.
const BATCH: usize = 3;
/// Updates before the file is cut.
const UPDATES: u64 = 12;
/// Places at which it is cut.
const CUTS: usize = 24;

/// A learner's work: arrivals, updates, a checkpoint every fourth update of which the last two are kept.
fn work(buffer: &mut ReplayBuffer, witness: &mut Witness, first: u64, upto: u64) -> Result<(), BufferError> {
    let mut next = first;
    for version in witness.checkpoint..upto {
        for _ in 0..=BATCH {
            buffer.stage(large(next, version))?;
            next += 1;
        }
        buffer.flush()?;
        witness.acknowledged.extend(first..next);
        if let Some(batch) = buffer.form_batch(PolicyVersion(version), &staleness(), BATCH)? {
            witness.trained.insert(version, counters(&batch));
        }
        if (version + 1).is_multiple_of(4) {
            witness.checkpoint = version + 1;
            buffer.settle(PolicyVersion(witness.checkpoint.saturating_sub(4)))?;
        }
    }
    Ok(())
}

/// The run goes on from its checkpoint on what is left, with new groups.
fn go_on(buffer: &mut ReplayBuffer, before: &Witness, after: &mut Witness) -> Result<(), BufferError> {
    let acknowledged = before.acknowledged.len() as u64;
    buffer.reconcile(PolicyVersion(before.checkpoint), acknowledged)?;
    assert!(buffer.totals().add_up());
    assert!(buffer.totals().acknowledged.groups >= acknowledged, "lost without record");
    work(buffer, after, acknowledged, before.checkpoint + 8)
}

#[test]
fn a_truncated_store_is_refused_or_books_what_it_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut before = Witness::default();
    work(&mut worker::open(dir.path()).unwrap(), &mut before, 0, UPDATES).unwrap();
    assert_eq!((before.trained.len() as u64, before.checkpoint), (UPDATES, UPDATES));
    let whole = fs::read(dir.path().join("db")).unwrap();
    for cut in 0..=CUTS {
        let copy = tempfile::tempdir().unwrap();
        fs::create_dir(copy.path().join("blobs")).unwrap();
        fs::copy(dir.path().join("conf"), copy.path().join("conf")).unwrap();
        fs::write(copy.path().join("db"), &whole[..whole.len() * cut / CUTS]).unwrap();
        let (trained, checkpoint) = (before.trained.clone(), before.checkpoint);
        let mut after = Witness { checkpoint, trained, ..Witness::default() };
        let went_on =
            worker::open(copy.path()).and_then(|mut buffer| go_on(&mut buffer, &before, &mut after));
        // Whatever came of it, nothing was trained on twice; and where it ended, the operator is
        // told about the store.
        after.check_trained_once();
        match went_on {
            Ok(()) => {}
            Err(error) => assert!(cut < CUTS && matches!(error, BufferError::Store(_)), "{cut}: {error}"),
        }
    }
}
