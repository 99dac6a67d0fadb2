//! Tasks of functions that are kept ready.

use std::fmt;
use std::sync::Arc;

use echo_protocol::wire::codec;
use echo_protocol::wire::content_id::ContentId;
use hashlink::LruCache;
use parking_lot::Mutex;

use super::exam::{Exam, ExamError};
use super::task::{FunctionTask, MAX_TASK_BYTES};
use crate::programs::judge::Judge;

/// Tasks that are kept ready at one time; preparing one takes three runs.
pub const MAX_EXAMS: usize = 256;

/// The tasks that were judged by last, prepared once.
pub struct Exams {
    judge: Arc<Judge>,
    ready: Mutex<LruCache<ContentId, Arc<Exam>>>,
}

impl Exams {
    /// Starts empty; `judge` runs what is prepared.
    pub fn new(judge: Arc<Judge>) -> Self {
        Self { judge, ready: Mutex::new(LruCache::new(MAX_EXAMS)) }
    }

    /// The task, ready to judge.
    ///
    /// # Errors
    /// As [`Exam::prepare`]. A task that failed is not kept, and is prepared again
    /// at the next call.
    pub fn get(&self, task: &FunctionTask) -> Result<Arc<Exam>, ExamError> {
        // Twice the texts leave room for what stands between them. What is larger is refused
        // when it is prepared.
        let Ok(bytes) = codec::encode(task, 2 * MAX_TASK_BYTES) else {
            return Exam::prepare(&self.judge, task.clone()).map(Arc::new);
        };
        let id = ContentId::of(&bytes);
        if let Some(exam) = self.ready.lock().get(&id) {
            return Ok(Arc::clone(exam));
        }
        // Not under the lock: others are judged meanwhile. Who asks for the same prepares it a second time.
        let exam = Arc::new(Exam::prepare(&self.judge, task.clone())?);
        self.ready.lock().insert(id, Arc::clone(&exam));
        Ok(exam)
    }
}

impl fmt::Debug for Exams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exams").finish_non_exhaustive()
    }
}
