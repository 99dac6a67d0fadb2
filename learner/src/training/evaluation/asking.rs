//! Answers the rows of an evaluation that are still to be answered.
//!
//! Rows are taken up in order, as many at once as the device has room for, and each is written as soon
//! as its last sample is judged. A row's responses do not depend on the others: a response is the same
//! whoever is generated beside it, on the same device.

use crate::common::workload::{Workload, WorkloadError};
use crate::training::evaluation::journal::{AnsweredRow, Journal, JournalError, SampleRow};
use crate::training::evaluation::questions::Questions;
use crate::training::local_rollouts::{AnswerError, Episode, texts};
use echo_policy::generation::{
    Backend, Completion, EndedTurn, EngineError, Generation, GenerationLimits, Policy, PolicyTakeover,
    SampleRequest, Ticket,
};
use echo_policy::sampling::SamplingParams;
use echo_protocol::wire::content_id::ContentId;
use echo_sandbox::rollout::assignment::Assignment;
use echo_sandbox::task::JudgedPart;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread;
use tokio_util::sync::CancellationToken;

/// Why an evaluation cannot go on. What is written stays.
#[derive(Debug, thiserror::Error)]
pub enum AskError {
    /// The device is lost, or has no room for a single row.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// Something failed that is no row's own fault.
    #[error(transparent)]
    Answer(#[from] AnswerError),
    /// A row cannot be written.
    #[error(transparent)]
    Journal(#[from] JournalError),
}

/// What is asked, and how.
#[derive(Clone, Copy, Debug)]
pub struct Asking<'a> {
    /// Text to tokens and back.
    pub workload: &'a Workload,
    /// The rows.
    pub questions: &'a Questions,
    /// Responses to each, 1 to 1024.
    pub samples: u32,
    /// How tokens are drawn.
    pub params: SamplingParams,
    /// Whether rows hold what was written.
    pub keep_texts: bool,
}

/// A row that has no result: it does not fit the model, or its judging failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unanswered {
    /// Its number.
    pub row: usize,
    /// Why.
    pub why: String,
}

/// How asking ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Whether it came to the last row; otherwise it was stopped.
    pub finished: bool,
    /// Rows without a result. They are in no file, and asked again the next time.
    pub unanswered: Vec<Unanswered>,
}

/// A row on its way.
struct UnderWay<'a> {
    row: usize,
    episodes: Vec<Episode<'a>>,
    /// Why it will have no result.
    failed: Option<AnswerError>,
}

impl<'a> Asking<'a> {
    /// What a row asks. Of a response, that part is judged which the run judges.
    fn assignment(&self, row: usize) -> Assignment<'a> {
        self.questions.assignment(row).judging(self.workload.mix.judged_part())
    }

    /// BLAKE3 of the tokens of the first prompt that fits the model, which tokenizer, template and task make,
    /// of the part of a response that is judged, where that is not the usual one, and of further end tokens.
    #[must_use]
    pub fn prompt_id(&self) -> ContentId {
        let fitting = (0..self.questions.count()).find_map(|row| self.request(row).ok());
        let tokens = fitting.map(|request| request.prompt).unwrap_or_default();
        let mut bytes: Vec<u8> = tokens.iter().flat_map(|token| token.to_le_bytes()).collect();
        let JudgedPart { answer_tags, thinking_is_open } = self.workload.mix.judged_part();
        if answer_tags || thinking_is_open {
            // Tokens have four bytes each: these can be none.
            bytes.extend([u8::from(answer_tags), u8::from(thinking_is_open)]);
        }
        let end_tokens = &self.workload.charter.prompt.end_tokens;
        if !end_tokens.is_empty() {
            bytes.extend(b"end");
            bytes.extend(end_tokens.iter().flat_map(|token| token.to_le_bytes()));
        }
        ContentId::of(&bytes)
    }

    /// Answers every row that `journal` does not have. `each` is called after every row.
    ///
    /// # Errors
    /// [`AskError`]; rows up to there are written.
    pub fn ask<B: Backend>(
        &self,
        policy: Arc<Policy<B>>,
        journal: &mut Journal,
        stop: &CancellationToken,
        mut each: impl FnMut(&Journal, &AnsweredRow),
    ) -> Result<Asked, AskError> {
        let missing: Vec<usize> =
            (0..self.questions.count()).filter(|row| !journal.rows().contains_key(row)).collect();
        let mut missing = missing.into_iter();
        let mut generation = Generation::new(policy, GenerationLimits::default(), PolicyTakeover::default());
        let (mut under_way, mut unanswered) = (BTreeMap::new(), Vec::new());
        loop {
            if stop.is_cancelled() {
                return Ok(Asked { finished: false, unanswered });
            }
            while generation.has_room()
                && let Some(row) = missing.next()
            {
                match self.begin(row, &mut generation) {
                    Ok(begun) => drop(under_way.insert(row as u64, begun)),
                    Err(error) if error.is_of_order() => {
                        unanswered.push(Unanswered { row, why: error.to_string() });
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            if under_way.is_empty() {
                journal.finish()?;
                return Ok(Asked { finished: true, unanswered });
            }
            generation.step()?;
            if self.several_turns() {
                generation.converse(|turn| hear(&mut under_way, turn))?;
            }
            for (ticket, completions) in generation.finished() {
                let Some(ended) = under_way.remove(&ticket.0) else { continue };
                let row = ended.row;
                match self.judge(ended, completions) {
                    Ok(answered) => {
                        journal.write(answered)?;
                        let journal = &*journal;
                        if let Some(answered) = journal.rows().get(&row) {
                            each(journal, answered);
                        }
                    }
                    Err(error) if error.is_of_order() => {
                        unanswered.push(Unanswered { row, why: error.to_string() });
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
    }

    fn several_turns(&self) -> bool {
        self.questions.task().max_turns() > 1
    }

    fn request(&self, row: usize) -> Result<SampleRequest, WorkloadError> {
        let request = self.workload.request_for(&self.assignment(row), self.samples)?;
        Ok(SampleRequest { seed: self.questions.sampler_seed(row), params: self.params, ..request })
    }

    fn begin<B: Backend>(
        &self,
        row: usize,
        generation: &mut Generation<B>,
    ) -> Result<UnderWay<'a>, AnswerError> {
        generation.submit(Ticket(row as u64), self.request(row)?)?;
        let assignment = self.assignment(row);
        let episodes = (0..self.samples).map(|_| Episode::begin(self.workload, assignment)).collect();
        Ok(UnderWay { row, episodes, failed: None })
    }

    /// What a row's responses are worth.
    fn judge(&self, ended: UnderWay<'a>, completions: Vec<Completion>) -> Result<AnsweredRow, AnswerError> {
        let UnderWay { row, episodes, failed } = ended;
        if let Some(error) = failed {
            return Err(error);
        }
        let mut waiting: Vec<_> = episodes.into_iter().zip(completions).enumerate().collect();
        // Programs are waited for; all else is judged faster than a thread starts.
        let threads = match self.questions.task().runs_programs() {
            true => thread::available_parallelism().map_or(1, usize::from),
            false => 1,
        };
        let part = waiting.len().div_ceil(threads).max(1);
        let mut parts = Vec::new();
        while !waiting.is_empty() {
            parts.push(waiting.drain(..part.min(waiting.len())).collect::<Vec<_>>());
        }
        let judge = |part: Vec<(usize, (Episode<'a>, Completion))>| -> Result<Vec<SampleRow>, AnswerError> {
            let judged = part.into_iter().map(|(sample, response)| self.judge_one(row, sample, response));
            judged.collect()
        };
        let judge = &judge;
        let judged: Vec<Result<Vec<SampleRow>, AnswerError>> = if parts.len() > 1 {
            thread::scope(|scope| {
                let running: Vec<_> =
                    parts.into_iter().map(|part| scope.spawn(move || judge(part))).collect();
                running.into_iter().map(|thread| thread.join().expect("judging does not panic")).collect()
            })
        } else {
            parts.into_iter().map(judge).collect()
        };
        let parts: Vec<Vec<SampleRow>> = judged.into_iter().collect::<Result<_, _>>()?;
        Ok(AnsweredRow { row, content: self.questions.content(row), samples: parts.concat() })
    }

    fn judge_one(
        &self,
        row: usize,
        sample: usize,
        (mut episode, completion): (Episode<'a>, Completion),
    ) -> Result<SampleRow, AnswerError> {
        if !self.several_turns() {
            let (tokens, stopped) = (completion.tokens.as_slice(), completion.stopped);
            episode.hear(EndedTurn { ticket: Ticket(row as u64), sample, tokens, stopped, left: 0 })?;
        }
        let text = if self.keep_texts { texts(self.workload, &completion) } else { Vec::new() };
        let answer = episode.answer(completion)?;
        Ok(SampleRow {
            reward: answer.verdict.reward,
            correct: answer.verdict.correct,
            tokens: u32::try_from(answer.completion.tokens.len()).unwrap_or(u32::MAX),
            cut: !answer.finished,
            text,
        })
    }
}

/// Lets the episode of a response play its turn. Where it fails, the row ends.
fn hear(
    under_way: &mut BTreeMap<u64, UnderWay<'_>>,
    turn: EndedTurn<'_>,
) -> Result<Option<Vec<u32>>, AnswerError> {
    let Some(row) = under_way.get_mut(&turn.ticket.0) else { return Ok(None) };
    match row.episodes[turn.sample].hear(turn) {
        Err(error) if error.is_of_order() => {
            row.failed = Some(error);
            Ok(None)
        }
        heard => heard,
    }
}

#[cfg(test)]
mod tests;
