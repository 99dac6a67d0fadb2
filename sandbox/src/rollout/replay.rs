//! A trajectory played again: its episode hears the policy's turns, and says what it said then.
//!
//! Learner and verifiers do it in the same way, for the verdict ([`judge`](crate::rollout::judge))
//! and for what the policy heard ([`heard`]).

use std::ops::Range;

use echo_protocol::work::trajectory::Trajectory;

use crate::task::episode::{EpisodeStep, Play};
use crate::task::{Response, TaskError, Verdict};

/// Token ids to text: the part of a tokenizer that judging needs.
pub trait TextDecoder: Send + Sync {
    /// The text of a turn's `ids`, which hold no token that ends one. Pure: every node gets the same.
    ///
    /// # Errors
    /// Why the ids are no text. It is the response's fault, not the learner's.
    fn decode(&self, ids: &[u32]) -> Result<String, String>;

    /// Whether this is a token with which the policy ends a turn.
    fn is_end(&self, id: u32) -> bool;

    /// How many token ids the policy can produce; ids at or above this stand for nothing.
    fn vocabulary(&self) -> u32;
}

/// What a trajectory comes to.
#[derive(Clone, Debug, PartialEq)]
pub struct Replayed {
    /// What it is worth.
    pub verdict: Verdict,
    /// What the policy heard after each of its turns but the last.
    pub heard: Vec<String>,
}

/// What the policy heard between two of its turns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// How many tokens of the response come before it: at least one, not all, more than before the
    /// one that was heard earlier.
    pub after: usize,
    /// What the environment said, as the ids that `encode` made of it.
    pub tokens: Vec<u32>,
}

/// Why a trajectory does not come to an end.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// Its turns are not those of an episode of its order: whoever made it broke the rules of sampling.
    #[error("{0}")]
    Rules(String),
    /// The task failed to judge, whatever the trajectory is worth.
    #[error(transparent)]
    Task(#[from] TaskError),
}

/// Plays the episode with the turns of `trajectory`, whose form was checked; `limit` is the
/// longest response in tokens.
///
/// Every turn ends with its one end token, except for a last one that is cut at the limit; and the
/// last turn is where the episode ends, or where the limit leaves no token for another.
///
/// # Errors
/// [`ReplayError::Rules`] when the turns are not the episode's; [`ReplayError::Task`]
/// when the task failed.
pub fn replay(
    mut play: Play<'_>,
    trajectory: &Trajectory,
    limit: usize,
    decoder: &dyn TextDecoder,
) -> Result<Replayed, ReplayError> {
    let broken = |what: String| Err(ReplayError::Rules(what));
    let mut heard = Vec::new();
    let mut turns = trajectory.turn_ranges().peekable();
    while let Some(turn) = turns.next() {
        let (said, is_last) = (turn.end, turns.peek().is_none());
        let tokens = &trajectory.response[turn];
        let (tokens, finished) = match tokens.split_last() {
            Some((last, before)) if decoder.is_end(*last) => (before, true),
            _ => (tokens, false),
        };
        if !finished && said != limit {
            return broken(format!("cut at {said} tokens instead of {limit}"));
        }
        if tokens.iter().any(|id| decoder.is_end(*id)) {
            return broken("goes on behind an end token".into());
        }
        let text =
            decoder.decode(tokens).map_err(|reason| ReplayError::Rules(format!("is no text: {reason}")))?;
        let step = play.turn(&Response { text: &text, finished }, limit.saturating_sub(said))?;
        match (step, is_last) {
            (EpisodeStep::Heard(text), false) => heard.push(text),
            (EpisodeStep::Heard(_), true) => return broken("ends before its episode does".into()),
            (EpisodeStep::Over { .. }, false) => {
                return broken("goes on behind the end of its episode".into());
            }
            (EpisodeStep::Over { finished, .. }, true) if finished != trajectory.stopped => {
                let claims = if finished { "was cut, but ended itself" } else { "ended itself, but was cut" };
                return broken(format!("says that it {claims}"));
            }
            (EpisodeStep::Over { verdict, .. }, true) => return Ok(Replayed { verdict, heard }),
        }
    }
    broken("has no turn".into())
}

/// What the policy heard between the turns of a trajectory, whose form was checked: its environment
/// says it again, and `encode` makes tokens of it.
///
/// # Errors
/// [`ReplayError`], and those of `encode`.
pub fn heard<E: From<ReplayError>>(
    play: Play<'_>,
    trajectory: &Trajectory,
    limit: usize,
    decoder: &dyn TextDecoder,
    encode: impl Fn(&str) -> Result<Vec<u32>, E>,
) -> Result<Vec<Heard>, E> {
    if trajectory.turns.is_empty() {
        return Ok(Vec::new());
    }
    let replayed = replay(play, trajectory, limit, decoder)?;
    let between = trajectory.turn_ranges().zip(&replayed.heard);
    between.map(|(turn, text)| Ok(Heard { after: turn.end, tokens: encode(text)? })).collect()
}

/// All tokens that followed a prompt, in order, each with whether it is the policy's own; `heard`
/// must be that of this response.
pub fn interleave<'a>(response: &'a [u32], heard: &'a [Heard]) -> impl Iterator<Item = (u32, bool)> + 'a {
    let own = move |range: Range<usize>| response[range].iter().map(|&token| (token, true));
    let mut begin = 0;
    let before = heard.iter().flat_map(move |heard| {
        let turn = own(std::mem::replace(&mut begin, heard.after)..heard.after);
        turn.chain(heard.tokens.iter().map(|&token| (token, false)))
    });
    let last = heard.last().map_or(0, |heard| heard.after);
    before.chain(own(last..response.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::files::TaskFiles;
    use crate::task::{Task, TaskSeed};
    use crate::tasks::registry;
    use echo_protocol::run::charter::TaskSpec;

    const END: u32 = 10;
    const OTHER_END: u32 = 12;
    const LIMIT: usize = 8;

    /// Digits are their own ids.
    struct Digits;

    impl TextDecoder for Digits {
        fn decode(&self, ids: &[u32]) -> Result<String, String> {
            ids.iter().map(|id| char::from_digit(*id, 10).ok_or_else(|| format!("id {id}"))).collect()
        }
        fn is_end(&self, id: u32) -> bool {
            id == END || id == OTHER_END
        }
        fn vocabulary(&self) -> u32 {
            13
        }
    }

    fn task() -> Box<dyn Task> {
        let spec = TaskSpec::new("guess_number").with("largest", 9).with("numbers", 9);
        registry::build(&spec, &TaskFiles::none()).unwrap()
    }

    fn trajectory(turns: &[&[u32]], stopped: bool) -> Trajectory {
        let response = turns.concat();
        Trajectory {
            turns: echo_protocol::work::trajectory::turns(
                turns.iter().map(|turn| turn.len() as u32).collect(),
            ),
            logprobs: vec![-1.0; response.len()],
            versions: Vec::new(),
            reward: 0.0,
            stopped,
            omega: Default::default(),
            response,
            raw_logprobs: Vec::new(),
        }
    }

    fn played(turns: &[&[u32]], stopped: bool) -> Result<Replayed, ReplayError> {
        let task = task();
        replay(Play::new(task.as_ref(), SEED), &trajectory(turns, stopped), LIMIT, &Digits)
    }

    const SEED: TaskSeed = TaskSeed([5; 32]);

    /// The number of [`SEED`], found by asking for all.
    fn number() -> u32 {
        let right =
            |guess: &u32| played(&[&[*guess, END]], true).is_ok_and(|replayed| replayed.verdict.correct);
        (1..=9).find(right).unwrap()
    }

    #[test]
    fn an_episode_comes_to_the_end_that_it_had() {
        let number = number();
        let replayed = played(&[&[0, END], &[number, END]], true).unwrap();
        assert!(replayed.verdict.correct);
        assert_eq!(replayed.heard, ["higher:"]);
        // Cut in the third turn.
        let cut = played(&[&[0, END], &[0, END], &[0, 0, 0, 0]], false).unwrap();
        assert_eq!((cut.verdict.correct, cut.heard.len()), (false, 2));
        // The third turn ends with the last token there is. Leading zeros make no number, which
        // ends the episode; else a fourth would follow.
        let full = played(&[&[0, END], &[0, END], &[0, 0, 0, END]], true).unwrap();
        assert_eq!((full.verdict.correct, full.heard.len()), (false, 2));
        let full = played(&[&[9, 9, END], &[9, 9, END], &[0, END]], false).unwrap();
        assert_eq!((full.verdict.correct, full.heard.len()), (false, 2));
        // Four wrong guesses are all there are.
        assert!(!played(&[&[0, END], &[0, END], &[0, END], &[0, END]], true).unwrap().verdict.correct);
    }

    #[test]
    fn what_was_heard_stands_between_the_turns() {
        let number = number();
        let (first, second) = ([0, END], [number, END]);
        let encode = |text: &str| Ok::<_, ReplayError>(vec![100 + text.len() as u32]);
        let heard = |trajectory: &Trajectory| {
            heard(Play::new(task().as_ref(), SEED), trajectory, LIMIT, &Digits, encode).unwrap()
        };
        let two = trajectory(&[&first, &second], true);
        let between = heard(&two);
        assert_eq!(between, [Heard { after: 2, tokens: vec![107] }]);
        let read: Vec<_> = interleave(&two.response, &between).collect();
        assert_eq!(read, [(0, true), (END, true), (107, false), (number, true), (END, true)]);
        let one = trajectory(&[&second], true);
        assert_eq!(heard(&one), []);
        assert_eq!(interleave(&one.response, &[]).collect::<Vec<_>>(), [(number, true), (END, true)]);
    }

    #[test]
    fn any_end_token_ends_a_turn() {
        let number = number();
        let replayed = played(&[&[0, OTHER_END], &[number, END]], true).unwrap();
        assert!(replayed.verdict.correct);
        for beyond in [[number, OTHER_END, END], [number, END, OTHER_END]] {
            assert!(matches!(played(&[&beyond], true), Err(ReplayError::Rules(_))), "{beyond:?}");
        }
    }

    #[test]
    fn turns_that_no_sampling_gives_break_the_rules() {
        let number = number();
        let cases: [(&[&[u32]], bool); 12] = [
            // One turn, as ever: not ended, ended within, cut early, wrongly said to be cut.
            (&[&[number]], true),
            (&[&[1, END, 1, END]], true),
            (&[&[1, 1]], false),
            (&[&[number, END]], false),
            (&[&[11, END]], true),
            // Left while the episode goes on.
            (&[&[0, END]], true),
            (&[&[0, END]], false),
            // Gone on after its end.
            (&[&[number, END], &[0, END]], true),
            (&[&[0, END], &[11, END]], true),
            // A turn that is not ended, and two turns in one.
            (&[&[0], &[number, END]], true),
            (&[&[0, END, number, END]], true),
            // Full, and said to have ended itself.
            (&[&[9, 9, END], &[9, 9, END], &[0, END]], true),
        ];
        for (turns, stopped) in cases {
            let replayed = played(turns, stopped);
            assert!(matches!(replayed, Err(ReplayError::Rules(_))), "{turns:?}: {replayed:?}");
        }
    }
}
