//! One sample of an order: the episode that it plays, turn by turn.

use echo_policy::generation::{Completion, EndedTurn};
use echo_policy::text::tokenizer::Tokenizer;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::trajectory::{Trajectory, spans, turns};
use echo_sandbox::task::episode::{EpisodeStep, Play};
use echo_sandbox::task::{Response, Verdict};

use crate::workload::NodeWorkloadError;

/// A sample on its way.
pub(crate) struct RunningSample<'w> {
    play: Play<'w>,
    end: Result<End, NodeWorkloadError>,
}

struct End {
    verdict: Verdict,
    finished: bool,
}

impl<'w> RunningSample<'w> {
    pub(crate) fn new(play: Play<'w>) -> Self {
        Self { play, end: Err(NodeWorkloadError::NotOver) }
    }

    /// Takes a turn of the policy, and returns what it hears, if its episode goes on. An episode that
    /// cannot be judged is over, and [`RunningSample::trajectory`] returns what failed.
    pub(crate) fn hear(&mut self, turn: EndedTurn<'_>, tokenizer: &Tokenizer) -> Option<Vec<u32>> {
        self.reply(turn, tokenizer).unwrap_or_else(|error| {
            self.end = Err(error);
            None
        })
    }

    fn reply(
        &mut self,
        turn: EndedTurn<'_>,
        tokenizer: &Tokenizer,
    ) -> Result<Option<Vec<u32>>, NodeWorkloadError> {
        // The token that ended the turn is no part of its text. Other special tokens stay, as they
        // do when the learner plays it again.
        let ended = turn.tokens.split_last().filter(|_| turn.stopped);
        let said = ended.map_or(turn.tokens, |(_, said)| said);
        let text = tokenizer.decode(said, false)?;
        match self.play.turn(&Response { text: &text, finished: turn.stopped }, turn.left)? {
            EpisodeStep::Heard(text) => Ok(Some(tokenizer.heard(&text)?)),
            EpisodeStep::Over { verdict, finished } => {
                self.end = Ok(End { verdict, finished });
                Ok(None)
            }
        }
    }

    /// What travels, when the generation is over.
    ///
    /// # Errors
    /// When the episode is not over, or could not be judged.
    pub(crate) fn trajectory(self, completion: Completion) -> Result<Trajectory, NodeWorkloadError> {
        let End { verdict, finished } = self.end?;
        Ok(Trajectory {
            response: completion.tokens,
            turns: turns(completion.turns),
            logprobs: completion.logprobs,
            raw_logprobs: completion.raw_logprobs,
            versions: spans(completion.versions.into_iter().map(PolicyVersion)),
            reward: verdict.reward,
            stopped: finished,
            omega: verdict.metadata,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use echo_policy::generation::Ticket;
    use echo_policy::text::tokenizer::{CharTokenizer, HfTokenizer};
    use echo_protocol::run::charter::TaskSpec;
    use echo_protocol::work::order::OrderCounter;

    const COUNTER: OrderCounter = OrderCounter(3);

    fn turn(tokens: &[u32], stopped: bool, left: usize) -> EndedTurn<'_> {
        EndedTurn { ticket: Ticket(0), sample: 0, tokens, stopped, left }
    }

    #[test]
    fn only_a_whole_answer_that_ended_itself_is_right() {
        let workload = testing::workload();
        let tokenizer = workload.tokenizer(&[]).unwrap();
        let answer = tokenizer.encode(&workload.play(COUNTER).unwrap().suggestion()).unwrap();
        let eos = tokenizer.eos_id().unwrap();
        let ended: Vec<u32> = answer.iter().copied().chain([eos]).collect();
        let judged = |tokens: &[u32], stopped| {
            let mut sample = RunningSample::new(workload.play(COUNTER).unwrap());
            assert_eq!(sample.hear(turn(tokens, stopped, 1), &tokenizer), None);
            let trajectory = sample.trajectory(Completion::default()).unwrap();
            assert_eq!(trajectory.stopped, stopped);
            trajectory.reward
        };
        assert_eq!(judged(&ended, true), 1.0);
        assert_eq!(judged(&answer, false), 0.0, "cut by length");
        assert_eq!(judged(&[eos], true), 0.0);
    }

    #[test]
    fn a_turn_is_answered_until_the_episode_is_over() {
        let workload = testing::workload_of(TaskSpec::new("guess_number"));
        let tokenizer = workload.tokenizer(&[]).unwrap();
        let eos = tokenizer.eos_id().unwrap();
        let zero = [tokenizer.encode("0").unwrap(), vec![eos]].concat();
        let mut sample = RunningSample::new(workload.play(COUNTER).unwrap());
        let heard = sample.hear(turn(&zero, true, 9), &tokenizer).unwrap();
        assert_eq!(tokenizer.decode(&heard, false).unwrap(), "higher:");
        let (tokens, turns) = ([zero.clone(), zero.clone()].concat(), vec![2, 2]);
        // The budget's last token ends the second turn, and there is no third.
        assert_eq!(sample.hear(turn(&zero, true, 0), &tokenizer), None);
        let trajectory = sample.trajectory(Completion { tokens, turns, ..Completion::default() }).unwrap();
        assert_eq!((trajectory.turns, trajectory.stopped, trajectory.reward), (vec![2, 2], false, 0.0));

        // A policy that chats hears a message.
        let characters = CharTokenizer::default();
        let config = characters.to_huggingface_config();
        let chats =
            HfTokenizer::from_bytes(characters.to_huggingface_json().as_bytes(), Some(config.as_bytes()));
        let template = b"{% for m in messages %}<bos>{{ m.content }}<eos>{% endfor %}>";
        let chats = Tokenizer::from(chats.unwrap().with_template(template)).in_chat().unwrap();
        let heard =
            RunningSample::new(workload.play(COUNTER).unwrap()).hear(turn(&zero, true, 9), &chats).unwrap();
        assert_eq!(tokenizer.decode(&heard, false).unwrap(), "<bos>higher:<eos>>");

        let open = RunningSample::new(workload.play(COUNTER).unwrap());
        assert!(matches!(open.trajectory(Completion::default()), Err(NodeWorkloadError::NotOver)));
        let mut beyond = RunningSample::new(workload.play(COUNTER).unwrap());
        assert_eq!(beyond.hear(turn(&[99, eos], true, 9), &tokenizer), None);
        assert!(
            beyond.trajectory(Completion::default()).is_err(),
            "what is no text earns nothing, not even 0"
        );
    }
}
