//! Jobs shared among the machine's cores, each computing on one of them.

use anyhow::Context;
use parking_lot::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Does `work` for every job; results in the order of the jobs. One thread a core takes the
/// next job when it is done with one, and computes in a pool of its own with one thread, so
/// that jobs do not wait for each other. Fails with the first error; jobs that have not begun
/// are not begun then.
pub(super) fn share<J: Sync, R: Send>(
    jobs: &[J],
    work: impl Fn(&J) -> anyhow::Result<R> + Sync,
) -> anyhow::Result<Vec<R>> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, R)>> = Mutex::new(Vec::new());
    let take = || -> anyhow::Result<()> {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = jobs.get(index) else { return Ok(()) };
            let result = work(job).inspect_err(|_| next.store(jobs.len(), Ordering::Relaxed))?;
            done.lock().push((index, result));
        }
    };
    std::thread::scope(|scope| {
        let alone = || {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().context("no thread pool")?;
            pool.install(take)
        };
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(alone)).collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })?;
    let mut done = done.into_inner();
    done.sort_by_key(|(index, _)| *index);
    Ok(done.into_iter().map(|(_, result)| result).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let jobs: Vec<u64> = (0..50).collect();
        assert_eq!(
            share(&jobs, |job| Ok(job * job)).unwrap(),
            jobs.iter().map(|j| j * j).collect::<Vec<_>>()
        );
        assert!(share(&[0u8; 0], |_| Ok(())).unwrap().is_empty());
    }

    #[test]
    fn the_first_error_ends_it() {
        let begun = AtomicUsize::new(0);
        let outcome = share(&[0; 1000], |_: &i32| -> anyhow::Result<()> {
            begun.fetch_add(1, Ordering::Relaxed);
            anyhow::bail!("no")
        });
        assert!(outcome.is_err() && begun.into_inner() < 100);
    }
}
