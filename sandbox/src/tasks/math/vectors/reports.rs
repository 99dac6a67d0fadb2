//! Cases after public reports about answer checkers: a gold answer, what a model wrote, and whether
//! a careful teacher would call it right. Each goes the way of a run: a row of a file, and an
//! episode of one turn, of which the judged part earns.

use serde::Deserialize;

use super::super::problems::{MathConfig, MathProblems};
use crate::task::episode::{EpisodeStep, Play};
use crate::task::{Response, Task, TaskSeed};

/// One case as it is written.
#[derive(Deserialize)]
struct Reported {
    #[serde(default)]
    id: String,
    answer: String,
    response: String,
    expected: bool,
    /// `gsm8k`: the answer stands after `####`, as a GSM8K solution ends.
    #[serde(default)]
    form: Option<String>,
}

/// What a run would give for the response of a case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RewardedCase {
    /// Whether the response should earn the reward.
    pub expected: bool,
    /// Whether it does.
    pub earned: bool,
    /// The case in one line.
    pub line: String,
}

/// Judges the case of a line.
///
/// # Errors
/// When the line is no such case.
pub fn reward(line: &[u8]) -> Result<RewardedCase, String> {
    /// The most characters of a response that are shown.
    const SHOWN: usize = 200;
    let case: Reported = serde_json::from_slice(line)
        .map_err(|error| format!("not a reported case, which has answer, response and expected: {error}"))?;
    let answer = match case.form.as_deref() {
        Some("gsm8k") if !case.answer.contains("####") => format!("#### {}", case.answer),
        _ => case.answer.clone(),
    };
    let row = serde_json::json!({"question": "?", "answer": answer}).to_string();
    let response = Response { text: &case.response, finished: true };
    let task = MathProblems::new(MathConfig { held_out_percent: 0 }, row.as_bytes());
    // A run refuses a row without an answer: nothing is earned on it.
    let earned = match task {
        Ok(task) => played(&task, &response)?,
        Err(_) => false,
    };
    let shown: String = case.response.chars().take(SHOWN).collect();
    let verdict = if earned { "earns" } else { "earns nothing" };
    let line = format!("{}: gold {:?}, response {shown:?} {verdict}", case.id, case.answer);
    Ok(RewardedCase { expected: case.expected, earned, line })
}

/// Whether a response is right that is all the policy says.
fn played(task: &dyn Task, response: &Response<'_>) -> Result<bool, String> {
    match Play::new(task, TaskSeed([0; 32])).turn(response, 0).map_err(|error| error.to_string())? {
        EpisodeStep::Over { verdict, .. } => Ok(verdict.correct),
        EpisodeStep::Heard(_) => Err("an episode of math has more than one turn".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_go_through_the_reward_of_a_run() {
        let of = |line: &str| reward(line.as_bytes()).unwrap();
        let right =
            of(r#"{"id": "a", "answer": "[2,5)", "response": "\\boxed{2 \\le x < 5}", "expected": true}"#);
        assert!(right.earned && right.expected, "{right:?}");
        let wrong = of(r#"{"answer": "18", "response": "It is 19.", "expected": false, "form": "gsm8k"}"#);
        assert!(!wrong.earned && wrong.line.ends_with("earns nothing"), "{wrong:?}");
        let thought =
            of(r#"{"answer": "2", "response": "<think>So 2.</think> It is 3.", "expected": false}"#);
        assert!(!thought.earned, "thinking is not judged: {thought:?}");
        let marked =
            r#"{"answer": "3", "response": "So 2.</think> It is \\boxed{3}.</think>", "expected": true}"#;
        assert!(of(marked).earned, "thinking ends once");
        assert!(reward(b"{}").unwrap_err().contains("not a reported case"));
    }
}
