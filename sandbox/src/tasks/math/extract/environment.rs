//! Formulas between `$ $`, `$$ $$`, `\( \)`, `\[ \]` and `[ ]`.

use std::cell::Cell;

use super::{
    AFTER_ANSWER, Anchor, Formula, Found, Match, after_colon, after_is, announced, everywhere, hoped,
    skip_space, within,
};

/// So many formulas may be joined by "and", "or" or commas.
const MAX_JOINED: usize = 6;

/// How a frame begins.
const FRAME: &str = "\\boxed{";

/// Finds the formulas that are announced in this way.
pub(super) fn matches<'a>(text: &'a str, anchor: Anchor, all: &mut Vec<Match<'a>>) {
    let scan = Scan::new(text, false);
    let target = |at| scan.joined(at);
    match anchor {
        Anchor::Hoped => {
            announced(
                text,
                "final answer is",
                |at| after_colon(text, at),
                |at| scan.joined_hopefully(at),
                all,
            );
        }
        Anchor::Final => announced(text, "final answer", |at| after_is(text, at, true), target, all),
        Anchor::Colon => announced(text, "answer:", |at| within(text, at, AFTER_ANSWER, true), target, all),
        Anchor::Answer => announced(text, "answer", |at| within(text, at, AFTER_ANSWER, true), target, all),
        Anchor::Marked | Anchor::Start => {}
        Anchor::Anywhere => everywhere(text, target, all),
    }
}

/// Finds the formulas with a frame in them, and what is framed outside of formulas.
pub(super) fn boxed<'a>(text: &'a str, all: &mut Vec<Match<'a>>) {
    let scan = Scan::new(text, true);
    everywhere(text, |at| scan.joined(at), all);
    // Where a frame outside of a formula ends is found later.
    if let Some(start) = text.find(FRAME)
        && let Some(end) = text.rfind('}')
        && end > start + FRAME.len()
    {
        all.push(Match { start, end: end + 1, found: Found::Boxed(&text[start..=end]) });
    }
}

/// Where a word occurs next. Searches go forward, so that no part of a text is searched twice.
struct Finder<'a> {
    text: &'a str,
    word: &'static str,
    known: Cell<(usize, Option<usize>)>,
}

impl<'a> Finder<'a> {
    fn new(text: &'a str, word: &'static str) -> Self {
        Self { text, word, known: Cell::new((usize::MAX, None)) }
    }

    fn next(&self, from: usize) -> Option<usize> {
        let (searched, found) = self.known.get();
        if searched <= from && found.is_none_or(|found| found >= from) {
            return found;
        }
        let found = self.text[from..].find(self.word).map(|at| from + at);
        self.known.set((from, found));
        found
    }
}

struct Scan<'a> {
    text: &'a str,
    boxed: bool,
    double_dollar: Finder<'a>,
    bracket: Finder<'a>,
    parenthesis: Finder<'a>,
    line: Finder<'a>,
    frame: Finder<'a>,
    brace: Finder<'a>,
}

impl<'a> Scan<'a> {
    fn new(text: &'a str, boxed: bool) -> Self {
        Self {
            text,
            boxed,
            double_dollar: Finder::new(text, "$$"),
            bracket: Finder::new(text, "\\]"),
            parenthesis: Finder::new(text, "\\)"),
            line: Finder::new(text, "\n"),
            frame: Finder::new(text, FRAME),
            brace: Finder::new(text, "}"),
        }
    }

    /// Formulas from `at` on, and where they end.
    fn joined(&self, at: usize) -> Option<(Found<'a>, usize)> {
        self.chain(at).map(|(formulas, ends)| (Found::Formulas(formulas), ends.last().copied().unwrap_or(at)))
    }

    /// The most formulas after which "I hope" stands.
    fn joined_hopefully(&self, at: usize) -> Option<(Found<'a>, usize)> {
        let (mut formulas, mut ends) = self.chain(at)?;
        while let Some(end) = ends.pop() {
            if hoped(self.text, end) {
                return Some((Found::Formulas(formulas), end));
            }
            formulas.pop();
        }
        None
    }

    fn chain(&self, at: usize) -> Option<(Vec<Formula<'a>>, Vec<usize>)> {
        let (first, mut end) = self.formula(at)?;
        let (mut formulas, mut ends) = (vec![first], vec![end]);
        while formulas.len() < MAX_JOINED {
            let next = skip_space(self.text, end);
            let rest = &self.text[next..];
            let Some(joint) =
                [",and", "and", ",or", "or", ","].iter().find(|joint| rest.starts_with(**joint))
            else {
                break;
            };
            let Some((formula, after)) = self.formula(skip_space(self.text, next + joint.len())) else {
                break;
            };
            formulas.push(formula);
            ends.push(after);
            end = after;
        }
        Some((formulas, ends))
    }

    /// One formula at `at`, and where it ends with a percent sign after it.
    fn formula(&self, at: usize) -> Option<(Formula<'a>, usize)> {
        let rest = &self.text[at..];
        if !rest.starts_with(['$', '\\', '-']) && !rest.starts_with(char::is_whitespace) {
            return None;
        }
        let (content, end) = self.delimited(at).or_else(|| self.fraction(at))?;
        let after = skip_space(self.text, end);
        const PERCENT: [&str; 7] = ["\\%", "%", "percentage", "Percentage", "percent", "Percent", "pct"];
        let sign = PERCENT.iter().chain(&["Pct"]).find(|sign| self.text[after..].starts_with(**sign));
        Some((Formula { content, percent: sign.is_some() }, after + sign.map_or(0, |sign| sign.len())))
    }

    fn delimited(&self, at: usize) -> Option<(&'a str, usize)> {
        let rest = &self.text[at..];
        let before = self.text[..at].chars().next_back();
        let escaped = before == Some('\\');
        let until =
            |end: usize, from: usize, close: &str| self.content(from, end).map(|c| (c, end + close.len()));
        if rest.starts_with("$$")
            && !escaped
            && let Some(found) = self.double_dollar.next(at + 2).and_then(|end| until(end, at + 2, "$$"))
        {
            return Some(found);
        }
        if rest.starts_with("\\[") && !escaped {
            return self.bracket.next(at + 2).and_then(|end| until(end, at + 2, "\\]"));
        }
        if rest.starts_with('$') && !escaped && !before.is_some_and(char::is_numeric) {
            let line = self.line.next(at).unwrap_or(self.text.len());
            let ends = self.text[at + 1..line].match_indices('$').map(|(offset, _)| at + 1 + offset);
            let mut ends = ends.filter(|end| !self.text[..*end].ends_with('\\'));
            return ends.next().and_then(|end| until(end, at + 1, "$"));
        }
        if rest.starts_with("\\(") && !escaped {
            let line = self.line.next(at).unwrap_or(self.text.len());
            let end = self.parenthesis.next(at + 2).filter(|end| *end < line)?;
            return until(end, at + 2, "\\)");
        }
        self.spaced_bracket(at)
    }

    /// ` [content] `, within a line.
    fn spaced_bracket(&self, at: usize) -> Option<(&'a str, usize)> {
        let space = self.text[at..].chars().next().filter(|c| c.is_whitespace())?;
        let from = at + space.len_utf8();
        let inner = self.text[from..].strip_prefix('[')?;
        let length = inner.find(['\n', '[', ']'])?;
        let after = inner[length..].strip_prefix(']')?;
        let space = after.chars().next().filter(|c| c.is_whitespace())?;
        let end = from + 1 + length;
        Some((self.content(from + 1, end)?, end + 1 + space.len_utf8()))
    }

    /// What stands between two delimiters, if it may stand there.
    fn content(&self, from: usize, end: usize) -> Option<&'a str> {
        let content = self.text.get(from..end).filter(|content| !content.is_empty())?;
        if content.ends_with('\\') {
            return None;
        }
        (!self.boxed || self.framed(from, end)).then_some(content)
    }

    /// Whether there is a frame between two places with something in it that is closed.
    fn framed(&self, from: usize, end: usize) -> bool {
        let closed = || {
            let inside = self.frame.next(from)? + FRAME.len();
            let first = self.text[inside..].chars().next()?;
            self.brace.next(inside + first.len_utf8())
        };
        closed().is_some_and(|brace| brace < end)
    }

    /// A bare `\frac{1}{2}` of numbers.
    fn fraction(&self, at: usize) -> Option<(&'a str, usize)> {
        if self.boxed {
            return None;
        }
        let rest = &self.text[at..];
        let inner = rest.strip_prefix('-').unwrap_or(rest).strip_prefix("\\frac{")?;
        let inner = simple_number(inner)?.strip_prefix("}{")?;
        let after = simple_number(inner)?.strip_prefix('}')?;
        let end = self.text.len() - after.len();
        Some((&self.text[at..end], end))
    }
}

/// The text after a `-1.5` or `1,5` at its start.
fn simple_number(text: &str) -> Option<&str> {
    let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
    let text = text.strip_prefix('-').unwrap_or(text);
    let whole = digits(text);
    let after = &text[whole..];
    let fraction = after.strip_prefix(['.', ',']).map_or(0, digits);
    let length = if fraction > 0 { 1 + fraction } else { 0 };
    (whole > 0).then(|| &after[length..])
}
