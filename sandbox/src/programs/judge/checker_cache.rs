//! Checkers of authors that are kept built.

use std::fmt;
use std::sync::Arc;

use echo_protocol::wire::content_id::ContentId;
use hashlink::LruCache;
use parking_lot::Mutex;

use super::super::program::{Program, Submission};
use super::super::verdict::TestReport;

/// Checkers that are kept at one time, each of at most
/// [`MAX_PROGRAM_BYTES`](super::super::program::MAX_PROGRAM_BYTES).
pub(super) const MAX_BUILT: usize = 16;

/// The checkers that were used last, by language and source: every submission to a problem is
/// checked by the same one.
pub(super) struct Built {
    programs: Mutex<LruCache<ContentId, Arc<Program>>>,
}

impl Built {
    /// Starts empty, with room for [`MAX_BUILT`] checkers.
    pub(super) fn new() -> Self {
        Self { programs: Mutex::new(LruCache::new(MAX_BUILT)) }
    }

    /// The program of `source`, by `build` if it is not kept.
    ///
    /// # Errors
    /// Those of `build`. They are not kept: some are the machine's.
    pub(super) fn get(
        &self,
        source: &Submission,
        build: impl FnOnce() -> Result<Program, TestReport>,
    ) -> Result<Arc<Program>, TestReport> {
        // No language has a line end in its name.
        let id = ContentId::of([source.language.name(), "\n", source.source.as_str()].concat().as_bytes());
        if let Some(program) = self.programs.lock().get(&id) {
            return Ok(Arc::clone(program));
        }
        // Not under the lock: others are judged meanwhile. Who asks for the same builds it a second time.
        let program = Arc::new(build()?);
        self.programs.lock().insert(id, Arc::clone(&program));
        Ok(program)
    }
}

impl fmt::Debug for Built {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Built").finish_non_exhaustive()
    }
}
