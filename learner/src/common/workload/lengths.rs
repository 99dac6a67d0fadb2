//! How long prompts are in tokens.
//!
//! Where a task has rows, each of their prompts is counted with the run's own tokenizer and its chat
//! template. Prompts of procedural tasks are bounded by their bytes: no tokenizer has more tokens.

use echo_policy::text::tokenizer::Tokenizer;
use echo_sandbox::rollout::mix::TaskMix;
use echo_sandbox::task::Task;
use rayon::prelude::*;

/// What the task gives to read that gives most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LongestRead {
    /// The task's name.
    pub task: &'static str,
    /// Tokens of its longest prompt.
    pub prompt: usize,
    /// Most tokens that are heard after it.
    pub heard: usize,
    /// Prompts that were counted, of all tasks; 0 where all are procedural.
    pub counted: usize,
    /// The largest id of any token in them.
    pub largest_id: u32,
}

impl LongestRead {
    /// Most tokens that a policy reads in an episode.
    #[must_use]
    pub fn read(&self) -> usize {
        self.prompt.saturating_add(self.heard)
    }
}

/// Counts the prompts of all tasks. One that cannot be made says nothing: others of its task may be.
#[must_use]
pub fn of(mix: &TaskMix, tokenizer: &Tokenizer) -> LongestRead {
    let (mut longest, mut counted, mut largest_id) = (LongestRead::default(), 0, 0);
    for task in mix.tasks() {
        let prompts = task.prompts();
        let tokens =
            |text: &String| tokenizer.prompt(text).ok().map(|ids| (ids.len(), ids.into_iter().max()));
        let found = prompts.par_iter().filter_map(tokens).reduce_with(|a, b| (a.0.max(b.0), a.1.max(b.1)));
        let (prompt, id) = found.unwrap_or_else(|| (bound(task, tokenizer), None));
        counted += prompts.len();
        largest_id = largest_id.max(id.unwrap_or_default());
        let turns = task.max_turns().saturating_sub(1) as usize;
        let heard = task.longest_heard().saturating_add(tokenizer.around().saturating_mul(turns));
        let read = LongestRead { task: task.name(), prompt, heard, ..LongestRead::default() };
        if read.read() >= longest.read() {
            longest = read;
        }
    }
    LongestRead { counted, largest_id, ..longest }
}

fn bound(task: &dyn Task, tokenizer: &Tokenizer) -> usize {
    task.longest_prompt().saturating_add(tokenizer.around_prompt())
}

/// What to shorten where the longest prompt and response do not fit.
pub(super) fn shorter(read: usize, positions: usize) -> String {
    match positions.saturating_sub(read) {
        0 => "leave out the rows with the longest prompts".to_owned(),
        room => format!(
            "set [sampling] max_new_tokens to at most {room}, or leave out the rows with the longest prompts"
        ),
    }
}

/// What to do for a model that takes `needed` tokens. The sizes of a tiny one are the run file's.
pub(super) fn longer(is_tiny: bool, needed: usize) -> String {
    match is_tiny {
        true => format!("set [model.tiny] positions to at least {needed}"),
        false => "take a model that has more positions".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use crate::common::testing;

    #[test]
    fn prompts_of_rows_are_counted_and_others_are_bounded() {
        let rows = "{\"question\": \"1+1?\", \"answer\": \"2\"}\n{\"question\": \"é?\", \"answer\": \"2\"}";
        let (workload, _) = testing::problems(rows);
        let found = super::of(&workload.mix, &workload.tokenizer);
        // The second question has a character without a token.
        assert_eq!((found.task, found.read(), found.counted), ("math", "1+1?\n".len(), 2));
        let largest = workload.tokenizer.encode("1+?\n").unwrap().into_iter().max().unwrap();
        assert_eq!(found.largest_id, largest);

        let (workload, _) = testing::two_turns();
        let found = super::of(&workload.mix, &workload.tokenizer);
        assert_eq!((found.prompt, found.heard), ("guess 10-20:".len(), "higher:".len()));
        assert_eq!(found.counted, 0);
    }

    #[test]
    fn a_mend_says_how_long_a_response_may_be() {
        assert!(super::shorter(40, 64).contains("at most 24"));
        assert!(!super::shorter(64, 64).contains("max_new_tokens"));
    }
}
