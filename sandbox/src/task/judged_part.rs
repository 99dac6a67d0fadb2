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
    behind(text, false)
}

/// The same for a text that the prompt may have begun within the thinking.
///
/// Thinking ends at the first mark that closes it. The prompt of a text that opens none may have opened it
/// without anybody's knowledge, so a closing mark before all others ends thinking too. Any other one is text.
fn behind(text: &str, thinking_is_open: bool) -> Option<&str> {
    let [(_, close), _] = THINKING;
    let (mut rest, mut has_thought) = (text, false);
    let mut closed_by = thinking_is_open.then_some(close);
    loop {
        if let Some(close) = closed_by {
            let (_, behind) = rest.split_once(close)?;
            (rest, has_thought) = (without_blank_lines(behind), true);
        }
        let Some((end, opened)) = first_mark(rest, !has_thought) else { return Some(rest) };
        rest = &rest[end..];
        closed_by = opened;
        if opened.is_none() {
            (rest, has_thought) = (without_blank_lines(rest), true);
        }
    }
}

/// The end of the first mark outside fenced code, and what closes the thinking if the mark opens it. Closing
/// marks are looked at where thinking `may_close`.
fn first_mark(text: &str, may_close: bool) -> Option<(usize, Option<&'static str>)> {
    let (mut at, mut block): (usize, Option<&str>) = (0, None);
    for line in text.split_inclusive('\n') {
        let fence = fence(line);
        let is_outside = match (block, fence) {
            (None, None) => true,
            (None, Some(_)) => {
                block = fence;
                false
            }
            (Some(open), Some(close)) if close.starts_with(open) => {
                block = None;
                true
            }
            (Some(_), _) => false,
        };
        if is_outside && let Some((end, opened)) = first_mark_of_line(line, may_close) {
            return Some((at + end, opened));
        }
        at += line.len();
    }
    None
}

fn first_mark_of_line(line: &str, may_close: bool) -> Option<(usize, Option<&'static str>)> {
    let end = |mark: &str| line.find(mark).map(|start| start + mark.len());
    let opening = THINKING.iter().filter_map(|(open, close)| Some((end(open)?, Some(*close))));
    let closing = THINKING.iter().filter_map(|(_, close)| Some((end(close)?, None)));
    // No mark is part of another, so the one that ends first also begins first.
    opening.chain(closing.filter(|_| may_close)).min_by_key(|(end, _)| *end)
}

/// The fence that a line begins with: three backticks or tildes, or more. Those of code within a line, as in
/// "```x```", are none.
fn fence(line: &str) -> Option<&str> {
    let line = line.trim_start_matches(' ');
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let behind = line.trim_start_matches(mark);
    let fence = &line[..line.len() - behind.len()];
    (fence.len() >= 3 && !(mark == '`' && behind.contains(mark))).then_some(fence)
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
    /// The judged part of a text: what follows its thinking, and of that, where answers have tags, what
    /// stands in the last pair of them. A text without either is judged as it is. `None` where nothing is
    /// judged: the thinking was not closed, or there is no answer in tags.
    ///
    /// Thinking ends at the first `</think>` after it was opened. Where nothing opened any, the first one
    /// outside fenced code ends it. All later ones are text.
    #[must_use]
    pub fn of<'a>(&self, text: &'a str) -> Option<&'a str> {
        let behind = behind(text, self.thinking_is_open)?;
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
        assert_eq!(OPEN.of("<think>hm</think>\n5"), Some("5"), "opened twice");
        assert_eq!(OPEN.of("hm</think>5<think>or 6?"), None);
    }

    #[test]
    fn thinking_ends_once_and_later_marks_are_text() {
        let program = "```python\nprint(\"<think></think>\")\nprint(5)\n```\n";
        for before in ["hm</think>\n", "<think>\n```\nhm</think>\n", "<think>a</think>b<think>c</think>"] {
            assert_eq!(PLAIN.of(&format!("{before}{program}")), Some(program), "{before:?}");
        }
        // A fence that the thinking leaves open hides nothing where the thinking is known of.
        assert_eq!(OPEN.of(&format!("```\nhm</think>\n{program}")), Some(program));
        assert_eq!(OPEN.of("hm</think>print('</think>')"), Some("print('</think>')"));
        assert_eq!(PLAIN.of("<thinking>3</thinking>5</thinking></think>"), Some("5</thinking></think>"));
    }

    #[test]
    fn marks_in_fenced_code_are_text_while_nobody_thinks() {
        for text in [
            "Like so:\n```python\nprint(\"</think>\")\n```\n",
            "~~~\n```\n<think>\n~~~\n",
            "  ````py\n```\n</thinking>\n````",
            "```\nleft open <think>",
        ] {
            assert_eq!(PLAIN.of(text), Some(text), "{text:?}");
        }
        assert_eq!(PLAIN.of("```\nx\n```\nhm</think>5"), Some("5"));
        assert_eq!(PLAIN.of("```\nx\n```</think>5"), Some("5"), "behind the fence");
        assert_eq!(PLAIN.of("```x``` it is\n</think>5"), Some("5"), "no fence");
        assert_eq!(PLAIN.of("``\n</think>5"), Some("5"), "no fence");
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
