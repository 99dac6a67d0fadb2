//! The state of one response.

use super::bounds::within;
use super::{Completion, EndedTurn, SampleRequest, Ticket};
use crate::generation::EngineError;
use crate::sampling::Sampled;

/// One response on its way.
pub(super) struct SampledSequence {
    pub(super) sample: u32,
    /// The prompt's last token, then the response so far, with what was heard between its turns:
    /// what is fed after the group's shared prefix.
    pub(super) said: Vec<u32>,
    /// How many of `said` were heard.
    heard: usize,
    /// How many of `said` were ever in a cache.
    known: usize,
    /// Its next token, until those of the group's other responses are drawn.
    pub(super) drawn: Option<Sampled>,
    pub(super) completion: Completion,
    /// Whether its turn has ended.
    pub(super) finished: bool,
    /// Whether the environment knows that.
    pub(super) reported: bool,
}

impl SampledSequence {
    /// A response without tokens, after a prompt that ends with `last`.
    pub(super) fn new(sample: u32, last: u32) -> Self {
        Self {
            sample,
            said: vec![last],
            heard: 0,
            known: 0,
            drawn: None,
            completion: Completion { turns: vec![0], ..Completion::default() },
            finished: false,
            reported: false,
        }
    }

    /// Notes that `fed` of `said` are in a cache; how many of them never were before.
    pub(super) fn learn(&mut self, fed: usize) -> usize {
        let known = self.known;
        self.known = known.max(fed);
        self.known - known
    }

    /// Its next token is drawn.
    pub(super) fn draw(&mut self, drawn: Sampled) {
        // What was fed for the draw.
        self.known = self.said.len();
        self.drawn = Some(drawn);
    }

    /// Takes its next token over.
    pub(super) fn push(&mut self, request: &SampleRequest, drawn: Sampled, version: u64) {
        self.said.push(drawn.token);
        let completion = &mut self.completion;
        completion.tokens.push(drawn.token);
        completion.logprobs.push(drawn.logprob);
        completion.raw_logprobs.push(drawn.raw_logprob);
        completion.versions.push(version);
        if let Some(turn) = completion.turns.last_mut() {
            *turn += 1;
        }
        let by_string = request.stop_strings.as_ref().is_some_and(|stops| stops.end(self.spoken()));
        self.completion.stopped = request.stop_ids.contains(&drawn.token) || by_string;
        self.finished = self.completion.stopped || self.left(request) == 0;
    }

    fn left(&self, request: &SampleRequest) -> usize {
        request.limit(self.sample).saturating_sub(self.completion.tokens.len())
    }

    /// Tokens of the last turn.
    fn spoken(&self) -> &[u32] {
        let Completion { tokens, turns, .. } = &self.completion;
        &tokens[tokens.len() - turns.last().map_or(0, |&length| length as usize)..]
    }

    /// The turn that has ended.
    pub(super) fn turn(&self, ticket: Ticket, request: &SampleRequest) -> EndedTurn<'_> {
        EndedTurn {
            ticket,
            sample: self.sample as usize,
            tokens: self.spoken(),
            stopped: self.completion.stopped,
            left: self.left(request),
        }
    }

    /// Begins another turn, after what was heard.
    pub(super) fn hear(&mut self, request: &SampleRequest, heard: &[u32]) -> Result<(), EngineError> {
        within("response tokens", self.completion.tokens.len() + 1, request.limit(self.sample))?;
        within("tokens heard", self.heard.saturating_add(heard.len()), request.max_heard as usize)?;
        self.said.extend(heard);
        self.heard += heard.len();
        self.completion.turns.push(0);
        self.completion.stopped = false;
        (self.finished, self.reported) = (false, false);
        Ok(())
    }
}
