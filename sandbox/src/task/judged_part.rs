//! Which part of a response is judged.
//!
//! A model that reasons writes `<think>` … `</think>` first. What it tried there is not its answer, so no
//! task sees it. Every response passes through here before its task judges it, on the node, on a verifier
//! and on the learner: in [`Play::turn`](crate::task::episode::Play::turn), or in
//! [`Assignment::reward`](crate::rollout::assignment::Assignment::reward).

use echo_protocol::run::prompt::PromptSpec;

use crate::task::{Miss, Response, Verdict};

/// How models mark their thinking. Templates open the first alone.
const THINKING: [(&str, &str); 2] = [("<think>", "</think>"), ("<thinking>", "</thinking>")];
const ANSWER: &str = "<answer>";
const ANSWERED: &str = "</answer>";

/// Which part of each response a run judges. The default is all that comes after the thinking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JudgedPart {
    /// Only what stands in the last `<answer>` … `</answer>`.
    pub answer_tags: bool,
    /// Prompts end within `<think>`, so a response is thinking until `</think>`.
    pub thinking_is_open: bool,
}

/// What follows the thinking of a text: all of it where there is none. `None` where thinking does not end.
pub(crate) fn behind_thinking(text: &str) -> Option<&str> {
    let mut rest = text;
    for (open, close) in THINKING {
        if let Some((_, behind)) = rest.rsplit_once(close) {
            rest = without_blank_lines(behind);
        }
        if rest.contains(open) {
            return None;
        }
    }
    Some(rest)
}

/// A text without the blank lines at its beginning. Its first line keeps its indentation, as it may go on
/// with a function of the prompt.
fn without_blank_lines(text: &str) -> &str {
    let trimmed = text.trim_start();
    let blank = &text[..text.len() - trimmed.len()];
    blank.rfind('\n').map_or(trimmed, |end| &text[end + 1..])
}

impl From<&PromptSpec> for JudgedPart {
    fn from(prompt: &PromptSpec) -> Self {
        Self { answer_tags: prompt.answer_tags, thinking_is_open: prompt.thinking_is_open }
    }
}

impl JudgedPart {
    /// The judged part of a text: what follows the last `</think>`, and of that, where answers have tags,
    /// what stands in the last pair of them. A text without either is judged as it is. `None` where
    /// nothing is judged: the thinking was not closed, or there is no answer in tags.
    #[must_use]
    pub fn of<'a>(&self, text: &'a str) -> Option<&'a str> {
        let [(_, close), _] = THINKING;
        if self.thinking_is_open && !text.contains(close) {
            return None;
        }
        let behind = behind_thinking(text)?;
        if !self.answer_tags {
            return Some(behind);
        }
        let (before, _) = behind.rsplit_once(ANSWERED)?;
        let (_, answer) = before.rsplit_once(ANSWER)?;
        // Tags within tags, and a closing one too many, are no part of the answer.
        let answer = answer.split_once(ANSWERED).map_or(answer, |(answer, _)| answer);
        Some(answer.trim())
    }

    /// The response that a task judges.
    ///
    /// # Errors
    /// The verdict on a response of which nothing is judged: it earns nothing.
    pub fn response<'a>(&self, response: &Response<'a>) -> Result<Response<'a>, Verdict> {
        let miss = if response.finished { Miss::Malformed } else { Miss::Cut };
        let text = self.of(response.text).ok_or_else(|| Verdict::wrong(miss))?;
        Ok(Response { text, finished: response.finished })
    }

    /// A text of which `answer` is the judged part, for the supervised warm-up.
    pub fn around(&self, answer: String) -> String {
        let [before, behind] = self.frame();
        if before.is_empty() && behind.is_empty() { answer } else { format!("{before}{answer}{behind}") }
    }

    /// Bytes that [`JudgedPart::around`] adds to an answer.
    pub fn frame_bytes(&self) -> usize {
        self.frame().concat().len()
    }

    fn frame(&self) -> [&'static str; 2] {
        match (self.thinking_is_open, self.answer_tags) {
            (false, false) => ["", ""],
            (false, true) => [ANSWER, ANSWERED],
            (true, false) => ["</think>\n\n", ""],
            (true, true) => ["</think>\n\n<answer>", ANSWERED],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: JudgedPart = JudgedPart { answer_tags: false, thinking_is_open: false };
    const TAGS: JudgedPart = JudgedPart { answer_tags: true, thinking_is_open: false };
    const OPEN: JudgedPart = JudgedPart { answer_tags: false, thinking_is_open: true };

    #[test]
    fn thinking_is_not_judged() {
        for (text, judged) in [
            ("5", Some("5")),
            (" 5 ", Some(" 5 ")),
            ("", Some("")),
            ("<think>answer is 3</think> 5", Some("5")),
            ("<think>So \\boxed{4}? No.</think>\n\n5\n", Some("5\n")),
            // The prompt had opened it.
            ("is it 3?</think>5", Some("5")),
            ("<think>a</think>3<think>b</think>5", Some("5")),
            ("<think>the answer is 5", None),
            ("5 <think>or 6?", None),
            ("<think>a</think>5<think>or 6?", None),
            ("<think></think>", Some("")),
            ("<thinking>3?</thinking>\n5", Some("5")),
            ("<thinking>3?", None),
        ] {
            assert_eq!(PLAIN.of(text), judged, "{text:?}");
        }
        assert_eq!(OPEN.of("the answer is 5"), None);
        assert_eq!(OPEN.of("hm</think>\n5"), Some("5"));
    }

    #[test]
    fn the_first_line_after_thinking_keeps_its_indentation() {
        assert_eq!(OPEN.of("hm</think>\n \n    return x\n"), Some("    return x\n"));
        assert_eq!(OPEN.of("hm</think>    return x\n"), Some("return x\n"), "not of a line of its own");
    }

    #[test]
    fn only_the_last_answer_in_tags_is_judged() {
        for (text, judged) in [
            ("<answer>5</answer>", Some("5")),
            ("I think 4. <answer>\n5 </answer> Done.", Some("5")),
            ("<answer>4</answer> no: <answer>5</answer>", Some("5")),
            ("<think><answer>4</answer></think><answer>5</answer>", Some("5")),
            ("<think><answer>4</answer></think>5", None),
            ("<answer><answer>5</answer></answer>", Some("5")),
            ("<answer>5</answer> or so</answer>", Some("5")),
            ("<answer>5</answer> <answer>6", Some("5")),
            ("<answer></answer>", Some("")),
            ("<answer>5", None),
            ("5</answer>", None),
            ("</answer><answer>5", None),
            ("5", None),
        ] {
            assert_eq!(TAGS.of(text), judged, "{text:?}");
        }
    }

    #[test]
    fn what_is_put_around_an_answer_is_not_judged() {
        let both = JudgedPart { answer_tags: true, thinking_is_open: true };
        for part in [PLAIN, TAGS, OPEN, both] {
            let text = part.around("5".to_owned());
            assert_eq!((part.of(&text), text.len()), (Some("5"), 1 + part.frame_bytes()), "{text}");
        }
    }

    #[test]
    fn nothing_judged_is_nothing_earned() {
        let nothing = |finished| PLAIN.response(&Response { text: "<think>5", finished }).unwrap_err();
        assert_eq!(nothing(true), Verdict::wrong(Miss::Malformed));
        assert_eq!(nothing(false), Verdict::wrong(Miss::Cut));
        let judged = PLAIN.response(&Response { text: "<think>3</think>5", finished: true });
        assert_eq!(judged, Ok(Response { text: "5", finished: true }));
    }
}
