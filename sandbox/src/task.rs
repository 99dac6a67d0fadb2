//! The `Task` trait: a prompt from a seed, a verdict on a response.

mod verdict;

use std::collections::BTreeSet;
use std::fmt::{Debug, Display};

use echo_protocol::draw::Draws;

use crate::episode::{Episode, OneTurn};
use crate::spec::SpecError;

pub use verdict::{MetadataError, Miss, Verdict};

/// The 32 bytes that a work order gives to its task. Everything random about a prompt comes from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskSeed(pub [u8; 32]);

impl TaskSeed {
    /// Starts the seed's stream of draws from its beginning.
    pub fn draws(self) -> Draws {
        Draws::new(self.0)
    }
}

/// What the policy is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prompt {
    /// The text that the response continues.
    pub text: String,
}

/// What the policy said in one turn, which is all of it in most tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Response<'a> {
    /// The generated text, without what was said before and without the end token.
    pub text: &'a str,
    /// Whether the policy ended the response itself; false when it was cut by length.
    pub finished: bool,
}

impl<'a> Response<'a> {
    /// A turn for which there were no tokens left.
    pub const NOTHING: Response<'static> = Response { text: "", finished: false };

    /// The text without trailing ASCII whitespace; `None` when it was cut, because a beginning is not an answer.
    pub fn answer(&self) -> Option<&'a str> {
        self.finished.then(|| self.text.trim_ascii_end())
    }
}

/// A failure to judge. It is never a reward: the work order is done again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaskError {
    /// The infrastructure failed, whatever the response was worth.
    #[error(
        "task {task} could not judge a response: {reason}; discard the trajectory and lease its order again"
    )]
    Internal {
        /// The task's name.
        task: &'static str,
        /// What failed.
        reason: String,
    },
}

impl TaskError {
    /// An infrastructure failure of `task`.
    pub fn internal(task: &'static str, reason: impl Display) -> Self {
        Self::Internal { task, reason: reason.to_string() }
    }
}

/// A workload: prompts and the rewards of their responses.
///
/// All methods are pure: the same seed gives the same prompt and the same verdict on every platform. Only a task that judges by running
/// programs may differ, and says so ([`Task::runs_programs`]).
///
/// Implementations read responses from strangers, so [`Task::reward`] must not panic or allocate beyond the size of the response.
pub trait Task: Debug + Send + Sync {
    /// The name under which run configurations ask for the task.
    fn name(&self) -> &'static str;

    /// The prompt of `seed`.
    fn prompt(&self, seed: TaskSeed) -> Prompt;

    /// Judges `response` to the prompt of `seed`. Where there are several turns, it is the first, and all others are cut.
    ///
    /// # Errors
    /// [`TaskError::Internal`] when the judging itself failed; a bad response is a verdict, not an error.
    fn reward(&self, seed: TaskSeed, response: &Response<'_>) -> Result<Verdict, TaskError>;

    /// Whether judging runs what the policy wrote. A program need not do the same twice, or on another machine: then no claim is a lie, and
    /// the learner's own figure counts.
    fn runs_programs(&self) -> bool {
        false
    }

    /// A right answer to the prompt of `seed`, for the supervised warm-up and for tests. Where there are several turns, it is a good first
    /// one.
    fn solution(&self, seed: TaskSeed) -> String;

    /// Whether it knows them: without, there is no supervised warm-up.
    fn knows_solutions(&self) -> bool {
        true
    }

    /// Judges every solution that an author has shown, where that could fail: a problem whose own solution is wrong is never judged. May
    /// take minutes; whoever founds a run on the task asks once.
    ///
    /// # Errors
    /// The first problem that cannot be judged.
    fn try_solutions(&self) -> Result<(), SpecError> {
        Ok(())
    }

    /// Begins the episode of `seed`, which the prompt opens. Tasks with several turns say here what happens in them.
    fn episode(&self, seed: TaskSeed) -> Box<dyn Episode + '_> {
        Box::new(OneTurn { task: self, seed })
    }

    /// The most turns of the policy in one episode, 1 to [`MAX_TURNS`](echo_protocol::trajectory::MAX_TURNS).
    fn max_turns(&self) -> u32 {
        1
    }

    /// The most bytes that the policy hears between its turns, all of them together.
    fn longest_heard(&self) -> usize {
        0
    }

    /// The same task over what is kept for evaluation, where its prompts come from a stock that training would exhaust. Procedural tasks
    /// have none: their prompts do not repeat.
    fn held_out(&self) -> Option<&dyn Task> {
        None
    }

    /// How many rows of its file are kept for evaluation; 0: evaluation asks what training asks. Procedural tasks have no rows.
    fn held_out_rows(&self) -> Option<usize> {
        None
    }

    /// The characters of all prompts and solutions, where a file brings them: a character tokenizer is made for them. Procedural tasks
    /// stay within what every one of them has.
    fn alphabet(&self) -> BTreeSet<char> {
        BTreeSet::new()
    }

    /// The most bytes that a prompt can have.
    fn longest_prompt(&self) -> usize;

    /// The most bytes that an answer needs, in all turns together, their end tokens not counted.
    fn longest_response(&self) -> usize;
}
