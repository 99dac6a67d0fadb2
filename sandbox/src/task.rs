//! The contract of tasks: a prompt from a seed, a verdict on a response.
//!
//! The trait [`Task`] is here; the modules have what it speaks of and what tasks are built of:
//! seeds, responses, episodes, files, data sets, and specifications with their errors.
//!
//! May import `isolation` (what a machine lacks), and nothing else of this crate.
//!
//! ```text
//! TaskSpec + TaskFiles -> tasks::registry -> a Task, or spec::SpecError
//! TaskSeed -> Task::prompt -> Prompt -> (the policy) -> Response
//! Response -> JudgedPart -> Task::reward -> Verdict    one turn
//! Response -> episode::Play::turn -> EpisodeStep       several turns:
//!   EpisodeStep::Heard(text) -> the policy's next turn
//!   EpisodeStep::Over -> Verdict
//! ```

pub mod data_set;
pub mod episode;
mod error;
pub mod files;
mod judged_part;
mod response;
mod seed;
pub mod spec;
mod verdict;

use std::collections::BTreeSet;
use std::fmt::Debug;

use crate::task::data_set::NamedRows;
use crate::task::episode::{Episode, EpisodeStep, Play, Reply};
use crate::task::spec::SpecError;

pub use error::TaskError;
pub use judged_part::JudgedPart;
pub(crate) use judged_part::behind_thinking;
pub use response::{Prompt, Response};
pub use seed::TaskSeed;
pub use verdict::{MetadataError, Miss, Verdict};

/// A workload: prompts and the rewards of their responses.
///
/// All methods are pure: the same seed gives the same prompt and the same
/// verdict on every platform. Only a task that judges by running programs may
/// differ, and says so ([`Task::runs_programs`]).
///
/// Implementations read responses from strangers, so [`Task::reward`] must not panic or allocate
/// beyond the size of the response.
pub trait Task: Debug + Send + Sync {
    /// The name under which run configurations ask for the task.
    fn name(&self) -> &'static str;

    /// The prompt of `seed`.
    fn prompt(&self, seed: TaskSeed) -> Prompt;

    /// Judges `response` to the prompt of `seed`, of which [`JudgedPart`] has left what is judged.
    /// Where there are several turns, it is the first, and all others are cut.
    ///
    /// # Errors
    /// [`TaskError::Internal`] when the judging itself failed; a bad response is a verdict, not an error.
    fn reward(&self, seed: TaskSeed, response: &Response<'_>) -> Result<Verdict, TaskError>;

    /// Whether judging runs what the policy wrote. A program need not do the same twice, or on
    /// another machine: then no claim is a lie, and the learner's own figure counts.
    fn runs_programs(&self) -> bool {
        false
    }

    /// A right answer to the prompt of `seed`, for the supervised warm-up and for tests. Where
    /// there are several turns, it is a good first one.
    fn solution(&self, seed: TaskSeed) -> String;

    /// Whether it knows them: without, there is no supervised warm-up.
    fn knows_solutions(&self) -> bool {
        true
    }

    /// What is read as the answer of a judged response, for people; `None` where nothing is.
    /// [`Task::reward`] compares it.
    fn answer_read(&self, _seed: TaskSeed, response: &Response<'_>) -> Option<String> {
        response.answer().map(str::to_owned)
    }

    /// What the answer to the prompt of `seed` is compared with, for people; `None` where it is compared with
    /// nothing that could be shown.
    fn reference(&self, seed: TaskSeed) -> Option<String> {
        self.knows_solutions().then(|| self.solution(seed))
    }

    /// Judges every solution that an author has shown, where that could fail: a problem
    /// whose own solution is wrong is never judged. May take minutes; whoever founds a run
    /// on the task asks once.
    ///
    /// # Errors
    /// All problems that cannot be judged.
    fn try_solutions(&self) -> Result<(), SpecError> {
        Ok(())
    }

    /// Begins the episode of `seed`, which the prompt opens. Tasks with several turns say here
    /// what happens in them.
    fn episode(&self, seed: TaskSeed) -> Box<dyn Episode + '_> {
        Box::new(OneTurn { task: self, seed })
    }

    /// The most turns of the policy in one episode, 1 to
    /// [`MAX_TURNS`](echo_protocol::work::trajectory::MAX_TURNS).
    fn max_turns(&self) -> u32 {
        1
    }

    /// The most bytes that the policy hears between its turns, all of them together.
    fn longest_heard(&self) -> usize {
        0
    }

    /// The same task over what is kept for evaluation, where its prompts come from a stock that
    /// training would exhaust. Procedural tasks have none: their prompts do not repeat.
    fn held_out(&self) -> Option<&dyn Task> {
        None
    }

    /// How many rows of its file are trained on. Procedural tasks have no rows.
    fn rows(&self) -> Option<usize> {
        None
    }

    /// How many rows of its file are kept for evaluation; 0: evaluation asks what training asks.
    /// Procedural tasks have no rows.
    fn held_out_rows(&self) -> Option<usize> {
        None
    }

    /// The same task over one of these rows alone, which every seed then draws; `None` past the
    /// last, and where there are no rows.
    fn row(&self, _index: usize) -> Option<Box<dyn Task>> {
        None
    }

    /// What whoever founds a run on the task should know of its file: rows that are left out, as no
    /// answer could earn on them, or answers that are all the same. One text each; may be several lines.
    fn remarks(&self) -> &[String] {
        &[]
    }

    /// The rows of its file that are left out, as no answer could earn on them; `None` where there is no file
    /// of rows. [`Task::remarks`] says it in words.
    fn left_out(&self) -> Option<&NamedRows> {
        None
    }

    /// The characters of all prompts and solutions, where a file brings them: a character tokenizer
    /// is made for them. Procedural tasks stay within what every one of them has.
    fn alphabet(&self) -> BTreeSet<char> {
        BTreeSet::new()
    }

    /// The prompts of all rows, those to train on first, where a file brings them: whoever has a tokenizer
    /// counts their tokens. Procedural tasks have no rows.
    fn prompts(&self) -> Vec<String> {
        Vec::new()
    }

    /// The most bytes that a prompt can have.
    fn longest_prompt(&self) -> usize;

    /// The most bytes that an answer needs, in all turns together, their end tokens not counted.
    fn longest_response(&self) -> usize;
}

impl<'a> Play<'a> {
    /// Begins the episode of `seed` in `task`, which gives its name and the most turns.
    pub fn new(task: &'a dyn Task, seed: TaskSeed) -> Self {
        Self::bounded(task.name(), task.episode(seed), task.max_turns())
    }
}

/// The episode of a task with one turn: any response is the end.
struct OneTurn<'a, T: ?Sized> {
    task: &'a T,
    seed: TaskSeed,
}

impl<T: Task + ?Sized> Episode for OneTurn<'_, T> {
    fn hear(&mut self, response: &Response<'_>) -> Result<Reply, TaskError> {
        self.task.reward(self.seed, response).map(Reply::Ends)
    }

    fn suggestion(&self) -> String {
        self.task.solution(self.seed)
    }
}

/// What a first turn is worth when no other follows: [`Task::reward`] of a task with several turns.
pub(crate) fn first_turn_alone(
    task: &dyn Task,
    seed: TaskSeed,
    response: &Response<'_>,
) -> Result<Verdict, TaskError> {
    match Play::new(task, seed).turn(response, 0)? {
        EpisodeStep::Over { verdict, .. } => Ok(verdict),
        EpisodeStep::Heard(_) => Err(TaskError::internal(task.name(), "its episode goes on without tokens")),
    }
}
