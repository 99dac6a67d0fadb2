//! What is framed by `\boxed{}` or `\fbox{}`.

use super::enclosed;

/// Which frames of a text make its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountedFrames {
    /// All frames, wherever they stand in the text.
    All,
    /// The last, and those before it that belong to it.
    Last,
}

/// Frames that are fewer than this many bytes apart belong together.
const ADJACENT: usize = 10;

/// As are those with a comma, `;`, "and" or "or" between them that are fewer than this many bytes apart.
const LISTED: usize = 70;

/// With so many more words between them at most.
const MAX_OTHERS: usize = 3;

/// Words that say that an earlier frame does not count, or that a later one follows from it.
const CORRECTING: &[&str] = &[
    "no",
    "not",
    "nope",
    "wrong",
    "incorrect",
    "wait",
    "actually",
    "but",
    "instead",
    "correct",
    "corrected",
    "correction",
    "mistake",
    "error",
    "sorry",
    "rather",
    "should",
    "hmm",
    "is",
    "was",
    "so",
    "then",
    "thus",
    "hence",
    "therefore",
    "now",
    "finally",
    "check",
    "checking",
    "giving",
    "gives",
    "right",
    "it",
    "let",
];

/// The most frames that are joined.
const MAX_FRAMES: usize = 64;

/// The contents of the frames in `text`, joined by commas; all of `text` where there is none.
pub(crate) fn contents(text: &str, frames: CountedFrames) -> String {
    let mut found: Vec<&str> = Vec::new();
    let mut limit = text.len();
    let mut following = None;
    while found.len() < MAX_FRAMES {
        let starts =
            ["\\boxed", "\\fbox"].map(|command| Some((text[..limit].rfind(command)?, command.len())));
        let Some((start, command)) = starts.into_iter().flatten().max() else { break };
        let inner = text[start + command..limit].trim_start();
        if inner.is_empty() {
            break;
        }
        let Some((content, end)) = enclosed(inner, b'{', b'}').map(|content| {
            let from = limit - inner.len();
            (content.trim(), from + content.len() + 2)
        }) else {
            // A frame that nothing closes is the answer only when it is the last.
            if found.is_empty() {
                found.push(inner);
            }
            break;
        };
        if frames == CountedFrames::Last
            && let Some(next) = following
            && !belongs(&text[end..next], found.last().is_some_and(|last| *last == content))
        {
            break;
        }
        found.push(content);
        following = Some(start);
        limit = start;
    }
    if found.is_empty() {
        return text.to_owned();
    }
    found.reverse();
    found.join(",")
}

/// Whether two frames are parts of one answer, by what stands between them: little, or a comma or
/// "and" with a few more words, none of which takes the first frame back.
fn belongs(between: &str, repeated: bool) -> bool {
    let sentence_ends = between.char_indices().any(|(at, c)| {
        matches!(c, '.' | '!' | '?' | ':') && !between[at + 1..].starts_with(|c: char| c.is_ascii_digit())
    });
    if between.len() >= LISTED || between.contains("\n\n") || sentence_ends {
        return false;
    }
    let plain = between.replace("\\text", " ").replace("\\quad", " ").replace("\\qquad", " ");
    let words = plain.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let (mut joined, mut others) = (plain.contains([',', ';']), 0);
    for word in words {
        let word = word.to_lowercase();
        match word.as_str() {
            "and" | "or" => joined = true,
            _ if CORRECTING.contains(&word.as_str()) => return false,
            _ => others += 1,
        }
    }
    (between.len() < ADJACENT && others == 0) || (!repeated && joined && others <= MAX_OTHERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_taken_back_does_not_count() {
        for between in [
            ". No, it is ",
            " is wrong, ",
            "\n\n",
            ", no, ",
            ", wait, it is ",
            " for the left hand side gives ",
        ] {
            assert_eq!(
                contents(&format!("\\boxed{{4}}{between}\\boxed{{7}}"), CountedFrames::Last),
                "7",
                "{between}"
            );
        }
    }

    #[test]
    fn frames_are_joined_where_they_belong_together() {
        assert_eq!(contents("\\boxed{1} and \\boxed{2}", CountedFrames::Last), "1,2");
        assert_eq!(contents("\\boxed{1} papers, later on \\boxed{2}", CountedFrames::Last), "1,2");
        assert_eq!(contents("\\boxed{2} papers, later on \\boxed{2}", CountedFrames::Last), "2");
        assert_eq!(contents("\\boxed{1}. The next one is \\boxed{2}", CountedFrames::Last), "2");
        assert_eq!(contents("\\boxed{1}. The next one is \\boxed{2}", CountedFrames::All), "1,2");
        assert_eq!(contents("\\boxed{\\frac{1}{2}", CountedFrames::All), "{\\frac{1}{2}");
        assert_eq!(contents("\\fbox 7", CountedFrames::All), "7");
        assert_eq!(contents("plain", CountedFrames::All), "plain");
        assert_eq!(contents("\\boxed", CountedFrames::All), "\\boxed");
    }
}
