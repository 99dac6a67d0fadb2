//! Samples as people read them. The texts are strangers': what a terminal would obey is escaped.

use super::{Sample, SampledResponse};
use echo_protocol::work::trajectory::MetaValue;

/// Longest text of a response in TensorBoard, in characters.
const MARKDOWN_CHARS: usize = 4000;
/// Most responses of a group in TensorBoard.
const MARKDOWN_RESPONSES: usize = 8;
/// Digits of a node's key that are shown.
const NODE_DIGITS: usize = 8;

/// The text with everything escaped that moves the cursor, changes colours or the direction of
/// reading, or cannot be seen. Line ends stay; a tab is four spaces.
#[must_use]
pub fn visible(text: &str) -> String {
    let mut seen = String::with_capacity(text.len());
    for c in text.replace("\r\n", "\n").chars() {
        match c {
            '\n' => seen.push(c),
            '\t' => seen.push_str("    "),
            c if is_hidden(c) => seen.extend(c.escape_unicode()),
            c => seen.push(c),
        }
    }
    seen
}

/// Control characters, and those of Unicode's format characters that hide or reorder text.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

impl Sample {
    /// What it is of, in one line.
    #[must_use]
    pub fn headline(&self) -> String {
        let of = match (self.update, &self.evaluation) {
            (Some(update), _) => format!("update {update}"),
            (None, None) => format!("evaluation of v{}", self.version()),
            (None, Some(name)) => format!("evaluation {} of v{}", visible(name), self.version()),
        };
        let node = self.node.as_deref().map_or(String::new(), |node| {
            format!(" · node {}", visible(&node.chars().take(NODE_DIGITS).collect::<String>()))
        });
        let task = visible(&self.task);
        format!("{of} · {task} · order {}{node} · mean reward {:.3}", self.order, self.mean_reward())
    }
}

impl SampledResponse {
    /// What became of it, in one line.
    #[must_use]
    pub fn headline(&self) -> String {
        let right = if self.correct { "right" } else { "wrong" };
        let ended = if self.ended { "ended" } else { "cut" };
        let versions = match (self.versions.first(), self.versions.last()) {
            (Some(first), Some(last)) if first != last => format!(" · v{first} to v{last}"),
            (Some(first), _) => format!(" · v{first}"),
            _ => String::new(),
        };
        let mut line =
            format!("reward {:.3} · {right} · {} tokens, {ended}{versions}", self.reward, self.tokens);
        for (key, value) in &self.omega {
            let value = match value {
                MetaValue::Flag(flag) => flag.to_string(),
                MetaValue::Integer(number) => number.to_string(),
                MetaValue::Number(number) => number.to_string(),
                MetaValue::Text(text) => visible(text).replace('\n', " "),
            };
            line.push_str(&format!(" · {} {value}", visible(key).replace('\n', " ")));
        }
        line
    }
}

/// Samples of one step as Markdown, whose code blocks show texts letter by letter.
pub(super) fn markdown(samples: &[Sample]) -> String {
    let mut text = String::new();
    for sample in samples {
        text.push_str(&format!("**{}**\n\n{}\n", sample.headline(), block(&sample.prompt)));
        for response in sample.responses.iter().take(MARKDOWN_RESPONSES) {
            text.push_str(&format!("*{}*\n\n{}\n", response.headline(), block(&response.text)));
        }
        let more = sample.left_out as usize + sample.responses.len().saturating_sub(MARKDOWN_RESPONSES);
        if more > 0 {
            text.push_str(&format!("and {more} more responses\n\n"));
        }
    }
    text
}

/// A code block by indentation: nothing in the text can end it.
fn block(text: &str) -> String {
    let (mut shown, more) = match text.char_indices().nth(MARKDOWN_CHARS) {
        Some((at, _)) => (visible(&text[..at]), true),
        None => (visible(text), false),
    };
    if more {
        shown.push_str(" …");
    }
    shown.split('\n').map(|line| format!("    {line}\n")).collect()
}
