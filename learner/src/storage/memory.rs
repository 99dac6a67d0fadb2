//! A store in memory that crashes, fails and rots on demand.

use std::collections::BTreeMap;
use std::path::PathBuf;

use parking_lot::Mutex;

use super::{ObjectStoreError, Store, Tree, WriteBatch};

type Entries = BTreeMap<(Tree, Vec<u8>), Vec<u8>>;

/// A [`Store`] for tests and fault injection. Nothing of it outlives the process.
#[derive(Debug, Default)]
pub struct MemoryStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    durable: Entries,
    visible: Entries,
    unflushed: Vec<WriteBatch>,
    /// Batches and flushes that still succeed; `None` is no limit.
    healthy: Option<u64>,
}

impl MemoryStore {
    /// Loses what was not flushed, but for the first `survivors` batches: a disk may have written
    /// some already. Also mends the store.
    pub fn crash(&self, survivors: usize) {
        let mut state = self.state.lock();
        let state = &mut *state;
        for batch in state.unflushed.drain(..).take(survivors) {
            write(&mut state.durable, &batch);
        }
        state.visible = state.durable.clone();
        state.healthy = None;
    }

    /// Lets `operations` more batches and flushes succeed and fails those after them as a full disk
    /// would; `None` mends the store.
    pub fn fail_after(&self, operations: Option<u64>) {
        self.state.lock().healthy = operations;
    }

    /// Changes the stored bytes of an entry, as a failing disk would; false when there is no such entry.
    pub fn damage(&self, tree: Tree, key: &[u8], how: impl Fn(&mut Vec<u8>)) -> bool {
        let mut state = self.state.lock();
        let at = (tree, key.to_vec());
        if let Some(bytes) = state.durable.get_mut(&at) {
            how(bytes);
        }
        state.visible.get_mut(&at).map(how).is_some()
    }
}

impl State {
    fn spend(&mut self) -> Result<(), ObjectStoreError> {
        match &mut self.healthy {
            Some(0) => Err(ObjectStoreError::Full { path: PathBuf::from("(memory)") }),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

fn write(entries: &mut Entries, batch: &WriteBatch) {
    for (tree, key, value) in batch.writes() {
        match value {
            Some(value) => entries.insert((tree, key.to_vec()), value.to_vec()),
            None => entries.remove(&(tree, key.to_vec())),
        };
    }
}

impl Store for MemoryStore {
    fn get(&self, tree: Tree, key: &[u8]) -> Result<Option<Vec<u8>>, ObjectStoreError> {
        Ok(self.state.lock().visible.get(&(tree, key.to_vec())).cloned())
    }

    fn visit_from(
        &self,
        tree: Tree,
        from: &[u8],
        each: &mut dyn FnMut(&[u8], Vec<u8>) -> bool,
    ) -> Result<(), ObjectStoreError> {
        // Copied first, so that `each` may use the store.
        let entries: Vec<_> = {
            let state = self.state.lock();
            let from_tree = state.visible.range((tree, from.to_vec())..);
            let of_tree = from_tree.take_while(|((found, _), _)| *found == tree);
            of_tree.map(|((_, key), value)| (key.clone(), value.clone())).collect()
        };
        entries.into_iter().all(|(key, value)| each(&key, value));
        Ok(())
    }

    fn apply(&self, batch: &WriteBatch) -> Result<(), ObjectStoreError> {
        batch.check_limits()?;
        let mut state = self.state.lock();
        state.spend()?;
        write(&mut state.visible, batch);
        state.unflushed.push(batch.clone());
        Ok(())
    }

    fn flush(&self) -> Result<(), ObjectStoreError> {
        let mut state = self.state.lock();
        state.spend()?;
        let state = &mut *state;
        for batch in state.unflushed.drain(..) {
            write(&mut state.durable, &batch);
        }
        Ok(())
    }
}
