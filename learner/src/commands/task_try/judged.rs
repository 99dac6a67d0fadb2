//! What a response earns, and why: judged as a node does, in an episode that hears the judged part.

use super::TryPlan;
use crate::common::workload::Workload;
use crate::training::evaluation::engine::load;
use crate::training::local_rollouts::{LocalAnswer, answers_to, texts};
use anyhow::anyhow;
use echo_policy::generation::SampleRequest;
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;
use echo_policy::sampling::SamplingParams;
use echo_protocol::work::trajectory::MetaValue;
use echo_sandbox::rollout::assignment::Assignment;
use echo_sandbox::task::episode::EpisodeStep;
use echo_sandbox::task::{Response, TaskError, Verdict};
use serde::Serialize;
use std::sync::Arc;

/// A response, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct JudgedResponse {
    /// The number of the row that it answers.
    pub(super) row: usize,
    /// What was said, turn by turn.
    pub(super) said: Vec<String>,
    /// Tokens of it; none where it came from a file.
    pub(super) tokens: Option<usize>,
    /// Whether the policy ended it; otherwise it was cut.
    pub(super) finished: bool,
    /// The part of the last turn that is judged; none where nothing is.
    pub(super) judged: Option<String>,
    /// What the task read as the answer.
    pub(super) read: Option<String>,
    /// What that is compared with.
    pub(super) reference: Option<String>,
    /// Whether it is right; none where the episode goes on.
    pub(super) correct: Option<bool>,
    /// What it earns, within [0, 1].
    pub(super) reward: Option<f32>,
    /// Why, in words.
    pub(super) reason: String,
}

impl JudgedResponse {
    fn new(row: usize, assignment: &Assignment<'_>, said: Vec<String>, finished: bool) -> Self {
        let last = said.last().map_or("", String::as_str);
        let judged = assignment.judged(last).map(str::to_owned);
        let read = assignment.answer_read(&Response { text: last, finished });
        let reference = assignment.reference();
        let (tokens, correct, reward, reason) = (None, None, None, String::new());
        Self { row, said, tokens, finished, judged, read, reference, correct, reward, reason }
    }

    fn with(self, verdict: &Verdict) -> Self {
        let reason = match &self.judged {
            None => "nothing of it is judged: its thinking does not end, or no answer is in tags".to_owned(),
            Some(_) => reason(verdict),
        };
        Self { correct: Some(verdict.correct), reward: Some(verdict.reward), reason, ..self }
    }

    /// Why it earns what it does, in one line.
    pub(super) fn in_short(&self) -> String {
        let of = |name: &str, text: &Option<String>| {
            text.as_ref().map(|text| format!("; {name} {:?}", short(text))).unwrap_or_default()
        };
        format!("{}{}{}", self.reason, of("read", &self.read), of("the reference is", &self.reference))
    }
}

/// The beginning of a text, for one line.
fn short(text: &str) -> String {
    const CHARS: usize = 60;
    text.chars().take(CHARS).collect()
}

/// Judges the text of a response that its writer ended. In a task of several turns it is the first, and what
/// the policy would hear is the reason.
pub(super) fn of_text(row: usize, assignment: &Assignment<'_>, text: &str) -> anyhow::Result<JudgedResponse> {
    let judged = JudgedResponse::new(row, assignment, vec![text.to_owned()], true);
    // There are tokens left for another turn, where there is one.
    match assignment.play().turn(&Response { text, finished: true }, 1).map_err(in_authors_words)? {
        EpisodeStep::Over { verdict, .. } => Ok(judged.with(&verdict)),
        EpisodeStep::Heard(heard) => Ok(JudgedResponse {
            reason: format!("the episode goes on: the policy hears {heard:?}"),
            ..judged
        }),
    }
}

/// What a node would do with its trajectory is nothing to somebody who writes a task.
fn in_authors_words(TaskError::Internal { task, reason }: TaskError) -> anyhow::Error {
    anyhow!("task {task} could not judge the response: {reason}")
}

/// Why a response earns what it does.
fn reason(verdict: &Verdict) -> String {
    let words = match verdict.metadata.get("miss") {
        Some(MetaValue::Text(miss)) => match miss.as_str() {
            "cut" => "it was cut by length, and a beginning is no answer",
            "malformed" => "nothing in it could be read as an answer",
            "not_given" => "it uses what the prompt does not give, or uses it too often",
            _ => "its answer is not the right one",
        },
        _ if verdict.correct => "it is right",
        _ => "the task gives no reason",
    };
    let said = verdict.metadata.iter().filter(|(key, _)| *key != "miss").map(|(key, value)| match value {
        MetaValue::Flag(flag) => format!(", {key} {flag}"),
        MetaValue::Integer(number) => format!(", {key} {number}"),
        MetaValue::Number(number) => format!(", {key} {number}"),
        MetaValue::Text(text) => format!(", {key} {text}"),
    });
    format!("{words}{}", said.collect::<String>())
}

/// A model that answers, on the engine of nodes.
pub(super) struct Asking<'a> {
    pub(super) plan: &'a TryPlan,
    pub(super) workload: &'a Workload,
    pub(super) weights: &'a Weights,
    /// Decides every draw.
    pub(super) seed: [u8; 32],
}

impl<'a> Asking<'a> {
    /// What it answers to a row, judged.
    pub(super) fn answers(
        &self,
        row: usize,
        assignment: Assignment<'a>,
    ) -> anyhow::Result<Vec<JudgedResponse>> {
        let Self { plan, workload, weights, seed } = *self;
        let policy = Arc::new(load(&plan.device, Precision::F32, 0, &workload.model, weights)?);
        let sampling = workload.sampling();
        let temperature = plan.temperature.unwrap_or(sampling.temperature);
        let params = SamplingParams { temperature, ..sampling };
        let request = workload.request_for(&assignment, plan.samples)?;
        let request = SampleRequest { seed, params, ..request };
        let answers = answers_to(workload, policy, vec![(request, assignment)])?;
        let judge = |answer: LocalAnswer| {
            let said = texts(workload, &answer.completion);
            let judged = JudgedResponse::new(row, &assignment, said, answer.finished);
            let tokens = Some(answer.completion.tokens.len());
            JudgedResponse { tokens, ..judged }.with(&answer.verdict)
        };
        Ok(answers.into_iter().flatten().map(judge).collect())
    }
}
