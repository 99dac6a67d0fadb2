//! From a work order to its prompt: the same derivation on the node that works and on
//! the learner that checks.

use echo_protocol::work::order::WorkOrder;

use crate::rollout::mix::TaskMix;
use crate::task::episode::Play;
use crate::task::{JudgedPart, Prompt, Response, Task, TaskError, TaskSeed, Verdict};

/// What a work order asks for under a run's task mix.
#[derive(Clone, Copy, Debug)]
pub struct Assignment<'a> {
    task: &'a dyn Task,
    seed: TaskSeed,
    judged: JudgedPart,
}

impl<'a> Assignment<'a> {
    /// Derives the task and the prompt's seed of `order`.
    pub fn of(mix: &'a TaskMix, order: &WorkOrder) -> Self {
        let index = mix.choose(&mut order.task_draws());
        let task = mix.get(index, order.purpose).expect("a mix chooses among its own tasks");
        Self { judged: mix.judged_part(), ..Self::new(task, TaskSeed(order.prompt_seed())) }
    }

    /// The prompt of `seed` in `task`, and all that follows the thinking is judged.
    pub fn new(task: &'a dyn Task, seed: TaskSeed) -> Self {
        Self { task, seed, judged: JudgedPart::default() }
    }

    /// The same, where only this part of the response is judged.
    #[must_use]
    pub fn judging(self, judged: JudgedPart) -> Self {
        Self { judged, ..self }
    }

    /// The task that makes the prompt and judges the response.
    pub fn task(&self) -> &'a dyn Task {
        self.task
    }

    /// What the policy is asked.
    pub fn prompt(&self) -> Prompt {
        self.task.prompt(self.seed)
    }

    /// The most bytes that the policy hears after the prompt, with `around` more for each turn but the first.
    pub fn longest_heard(&self, around: usize) -> usize {
        let times = self.task.max_turns().saturating_sub(1) as usize;
        self.task.longest_heard().saturating_add(around.saturating_mul(times))
    }

    /// Begins the episode that the prompt opens.
    pub fn play(&self) -> Play<'a> {
        Play::new(self.task, self.seed).judging(self.judged)
    }

    /// Judges a response that is all the policy says.
    ///
    /// # Errors
    /// [`TaskError::Internal`] when the judging itself failed.
    pub fn reward(&self, response: &Response<'_>) -> Result<Verdict, TaskError> {
        match self.judged.response(response) {
            Ok(judged) => self.task.reward(self.seed, &judged),
            Err(verdict) => Ok(verdict),
        }
    }

    /// The part of a response that is judged; `None` where nothing is.
    pub fn judged<'r>(&self, text: &'r str) -> Option<&'r str> {
        self.judged.of(text)
    }

    /// What the task reads as the answer of a response; `None` where it reads none.
    pub fn answer_read(&self, response: &Response<'_>) -> Option<String> {
        let judged = self.judged.response(response).ok()?;
        self.task.answer_read(self.seed, &judged)
    }

    /// What an answer is compared with, for people; `None` where the task knows nothing of the kind.
    pub fn reference(&self) -> Option<String> {
        self.task.reference(self.seed)
    }

    /// A right answer, or a good first turn.
    pub fn solution(&self) -> String {
        self.judged.around(self.task.solution(self.seed))
    }
}
