//! The files that tasks are made of: data sets and modules, named by their content.

use std::collections::BTreeMap;
use std::sync::Arc;

use echo_protocol::run::charter::{TaskSpec, task_file_name};
use echo_protocol::wire::content_id::ContentId;

/// Longest file of a task, in bytes. It travels with the first snapshot that a node fetches,
/// and lies in memory.
pub const MAX_TASK_FILE_BYTES: u64 = 64 << 20;

/// Files at hand, by their content.
#[derive(Clone, Default)]
pub struct TaskFiles(BTreeMap<ContentId, Arc<[u8]>>);

impl TaskFiles {
    /// No files: what procedural tasks need.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// The files of `specs` among those of a snapshot. What is not there is found out when a task is built.
    #[must_use]
    pub fn of_snapshot(specs: &[TaskSpec], files: &[(String, Vec<u8>)]) -> Self {
        let mut found = Self::default();
        for id in specs.iter().filter_map(|spec| spec.data) {
            let name = task_file_name(&id);
            if let Some((_, bytes)) = files.iter().find(|(file, _)| *file == name) {
                found.add(bytes.as_slice());
            }
        }
        found
    }

    /// Takes a file in, and says how it is called.
    pub fn add(&mut self, bytes: impl Into<Arc<[u8]>>) -> ContentId {
        let bytes = bytes.into();
        let id = ContentId::of(&bytes);
        self.0.insert(id, bytes);
        id
    }

    /// The bytes of the file with this BLAKE3; `None` when it is not here.
    #[must_use]
    pub fn get(&self, id: &ContentId) -> Option<&Arc<[u8]>> {
        self.0.get(id)
    }
}

impl std::fmt::Debug for TaskFiles {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_what_its_content_says_whatever_it_was_called() {
        let mut files = TaskFiles::none();
        let id = files.add(b"rows".as_slice());
        assert_eq!(files.get(&id).unwrap().as_ref(), b"rows");

        let spec = TaskSpec { data: Some(id), ..TaskSpec::new("math") };
        let named = |name: String, bytes: &[u8]| {
            TaskFiles::of_snapshot(std::slice::from_ref(&spec), &[(name, bytes.to_vec())])
        };
        assert!(named(task_file_name(&id), b"rows").get(&id).is_some());
        assert!(named("tokenizer.json".into(), b"rows").get(&id).is_none());
        assert!(
            named(task_file_name(&id), b"other").get(&id).is_none(),
            "a snapshot's lie is not found under the name"
        );
    }
}
