//! Episodes: a policy and an environment that speak in turn.
//!
//! The environment opens with the prompt, and answers what the policy says until it gives a
//! verdict. What it says follows from the seed and from what the policy said before, so
//! nobody sends it: a node plays the episode with its policy, the learner plays it again with
//! the policy's words alone, for the verdict and for the texts in between. Most tasks have
//! one turn, the response.
//!
//! All turns share one budget of tokens. A turn that it cuts is the last one; and so is one that
//! ends with the budget's last token, though the environment would have gone on. Then the
//! environment hears one turn more, empty and cut.

use crate::task::{JudgedPart, Response, TaskError, Verdict};

/// The environment's side of an episode, after its prompt. Pure: the same seed and the same
/// responses give the same replies on every platform. Responses come from strangers.
pub trait Episode: Send {
    /// Takes the policy's next turn. A turn that is not finished ends the episode; after its
    /// end there is none.
    ///
    /// # Errors
    /// [`TaskError::Internal`] when the environment itself failed; a bad turn has a consequence,
    /// and is no error.
    fn hear(&mut self, response: &Response<'_>) -> Result<Reply, TaskError>;

    /// What a good player would say now, for the supervised warm-up and for tests.
    fn suggestion(&self) -> String;
}

/// What the environment does with a turn.
#[derive(Debug, Clone, PartialEq)]
pub enum Reply {
    /// It says something, and the policy has another turn.
    Goes(String),
    /// The episode is over.
    Ends(Verdict),
}

/// How an episode has gone on.
#[derive(Debug, Clone, PartialEq)]
pub enum EpisodeStep {
    /// The policy hears this, and speaks again.
    Heard(String),
    /// The episode is over.
    Over {
        /// What it was worth.
        verdict: Verdict,
        /// Whether it came to its own end; otherwise the budget of tokens cut it.
        finished: bool,
    },
}

/// An episode that is played within its bounds.
pub struct Play<'a> {
    task: &'static str,
    episode: Box<dyn Episode + 'a>,
    turns_left: u32,
    judged: JudgedPart,
}

impl<'a> Play<'a> {
    /// Bounds `episode` by the most turns that `task` announces. `Play::new` beside the
    /// trait `Task` calls this.
    pub(crate) fn bounded(task: &'static str, episode: Box<dyn Episode + 'a>, max_turns: u32) -> Self {
        Self { task, episode, turns_left: max_turns, judged: JudgedPart::default() }
    }

    /// The same, where the environment hears only this part of each turn.
    #[must_use]
    pub fn judging(self, judged: JudgedPart) -> Self {
        Self { judged, ..self }
    }

    /// How many turns the policy has left at most, the next one included.
    pub fn turns_left(&self) -> u32 {
        self.turns_left
    }

    /// The policy's next turn, after which it has `left` tokens for others. The environment hears the
    /// judged part of it; a turn without one ends the episode, and the episode earns nothing.
    ///
    /// # Errors
    /// [`TaskError::Internal`] when the environment failed, or does not keep to its own bounds.
    pub fn turn(&mut self, response: &Response<'_>, left: usize) -> Result<EpisodeStep, TaskError> {
        let out_of_bounds = |what| Err(TaskError::internal(self.task, what));
        let Some(turns_left) = self.turns_left.checked_sub(1) else {
            return out_of_bounds("it is asked for more turns than it has");
        };
        self.turns_left = turns_left;
        let response = match self.judged.response(response) {
            Ok(judged) => judged,
            Err(verdict) => {
                self.turns_left = 0;
                return Ok(EpisodeStep::Over { verdict, finished: response.finished });
            }
        };
        match self.episode.hear(&response)? {
            Reply::Ends(verdict) => Ok(EpisodeStep::Over { verdict, finished: response.finished }),
            Reply::Goes(_) if !response.finished => {
                out_of_bounds("its episode goes on behind a turn that was cut")
            }
            Reply::Goes(_) if turns_left == 0 => out_of_bounds("its episode has more turns than it says"),
            Reply::Goes(text) if left > 0 => Ok(EpisodeStep::Heard(text)),
            Reply::Goes(_) => match self.episode.hear(&Response::NOTHING)? {
                Reply::Ends(verdict) => Ok(EpisodeStep::Over { verdict, finished: false }),
                Reply::Goes(_) => out_of_bounds("its episode goes on behind a turn that was cut"),
            },
        }
    }

    /// What a good player would say now.
    pub fn suggestion(&self) -> String {
        self.judged.around(self.episode.suggestion())
    }
}

#[cfg(test)]
mod tests;
