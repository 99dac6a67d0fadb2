//! Things of which one is used at a time each, made when all are in use.

use parking_lot::{Condvar, Mutex};
use std::collections::VecDeque;

/// Idle items and a count of all, of which at most `most` exist.
#[derive(Debug)]
pub(super) struct Pool<T> {
    state: Mutex<State<T>>,
    returned: Condvar,
    most: usize,
}

#[derive(Debug)]
struct State<T> {
    /// The one that has been idle longest is in front.
    idle: VecDeque<T>,
    /// How many exist, idle or not.
    count: usize,
}

/// One that is in use. It is dropped for good unless it is given back.
#[derive(Debug)]
pub(super) struct Taken<'a, T> {
    pool: &'a Pool<T>,
    item: Option<T>,
}

impl<T> Pool<T> {
    /// A pool with these, and of no more than `most`.
    pub(super) fn new(items: Vec<T>, most: usize) -> Self {
        let state = State { count: items.len(), idle: items.into() };
        Self { state: Mutex::new(state), returned: Condvar::new(), most }
    }

    /// Takes the one that has been idle longest, if it is still `usable`, or makes one.
    pub(super) fn take<E>(
        &self,
        make: impl Fn() -> Result<T, E>,
        usable: impl Fn(&mut T) -> bool,
    ) -> Result<Taken<'_, T>, E> {
        loop {
            let mut state = self.state.lock();
            while state.idle.is_empty() && state.count >= self.most {
                self.returned.wait(&mut state);
            }
            let item = state.idle.pop_front();
            state.count += usize::from(item.is_none());
            drop(state);
            let mut taken = Taken { pool: self, item };
            match &mut taken.item {
                Some(item) => {
                    if usable(item) {
                        return Ok(taken);
                    }
                    // It is dropped, and another one looked for.
                }
                None => {
                    taken.item = Some(make()?);
                    return Ok(taken);
                }
            }
        }
    }
}

impl<T> Taken<'_, T> {
    /// Lets others use it.
    pub(super) fn give_back(mut self) {
        if let Some(item) = self.item.take() {
            self.pool.state.lock().idle.push_back(item);
            self.pool.returned.notify_one();
        }
        std::mem::forget(self);
    }
}

impl<T> Drop for Taken<'_, T> {
    fn drop(&mut self) {
        drop(self.item.take());
        self.pool.state.lock().count -= 1;
        self.pool.returned.notify_one();
    }
}

impl<T> std::ops::Deref for Taken<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.item.as_ref().expect("it is there until it is given back or dropped")
    }
}

impl<T> std::ops::DerefMut for Taken<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.item.as_mut().expect("it is there until it is given back or dropped")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn no_more_exist_than_allowed_and_none_is_used_twice() {
        let pool = Pool::new(Vec::new(), 3);
        let (made, used) = (AtomicU32::new(0), AtomicU32::new(0));
        let make = || Ok::<_, ()>(made.fetch_add(1, Ordering::SeqCst));
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let taken = pool.take(make, |_| true).unwrap();
                        assert!(used.fetch_add(1, Ordering::SeqCst) < 3);
                        std::thread::yield_now();
                        used.fetch_sub(1, Ordering::SeqCst);
                        taken.give_back();
                    }
                });
            }
        });
        assert!(made.into_inner() <= 3);
    }

    #[test]
    fn what_is_not_given_back_or_not_usable_makes_room() {
        let pool = Pool::new(vec![1, 2], 2);
        drop(pool.take(|| Ok::<_, ()>(3), |_| true).unwrap());
        assert_eq!(*pool.take(|| Ok::<_, ()>(3), |item| *item != 2).unwrap(), 3);
        assert!(pool.take(|| Err(()), |_| true).is_err());
        let taken = pool.take(|| Ok::<_, ()>(4), |_| true).unwrap();
        assert_eq!(*taken, 4);
        taken.give_back();
        assert_eq!(*pool.take(|| Err(()), |_| true).unwrap(), 4);
    }
}
