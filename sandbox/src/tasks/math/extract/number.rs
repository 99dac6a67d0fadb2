//! Numbers and arithmetic without any delimiters.

use super::{
    AFTER_ANSWER, AFTER_FINAL_ANSWER, Anchor, Found, Match, after_colon, after_is, announced, everywhere,
    hoped, within,
};

/// The longest arithmetic that is looked at, in bytes.
const MAX_ARITHMETIC: usize = 128;

const CURRENCIES: &str = "$€£¥₹₽₪₩₫฿₡₢₣₤₥₦₧₨₭₮₯₰₱₲₳₴₵₶₷₸₺₻₼₾₿";

/// Finds the numbers and the arithmetic that are announced in this way.
pub(super) fn matches<'a>(text: &'a str, anchor: Anchor, all: &mut Vec<Match<'a>>) {
    let either = |at| arithmetic(text, at).or_else(|| number(text, at));
    match anchor {
        Anchor::Hoped => {
            let target = |at| either(at).filter(|(_, end)| hoped(text, *end));
            announced(text, "final answer is", |at| after_colon(text, at), target, all);
        }
        Anchor::Final => announced(text, "final answer", |at| after_is(text, at, false), either, all),
        Anchor::Colon => announced(text, "answer:", |at| gaps(text, at), |at| unequated(text, at), all),
        Anchor::Answer => announced(text, "answer", |at| gaps(text, at), |at| unequated(text, at), all),
        Anchor::Start => {}
        Anchor::Anywhere => {
            everywhere(text, |at| arithmetic(text, at), all);
            everywhere(text, |at| number(text, at), all);
        }
    }
}

/// Where a number may begin after "answer": after the last equals sign of what follows, or soon.
fn gaps(text: &str, at: usize) -> Vec<usize> {
    let mut places = Vec::new();
    for place in within(text, at, AFTER_FINAL_ANSWER, false).into_iter().rev() {
        if text[place..].starts_with('=') {
            places.extend(after_colon(text, place + 1).into_iter().filter(|gap| *gap > place));
        }
    }
    places.extend(within(text, at, AFTER_ANSWER, false));
    places
}

/// A number that no equals sign follows.
fn unequated(text: &str, at: usize) -> Option<(Found<'_>, usize)> {
    let free = |end: usize| !text[end..].trim_start().starts_with('=');
    arithmetic(text, at)
        .filter(|(_, end)| free(*end))
        .or_else(|| number(text, at).filter(|(_, end)| free(*end)))
}

/// What must stand before a number: the beginning of the text, white space or an equals sign, and stars.
fn prefix(text: &str, at: usize) -> Vec<usize> {
    let mut starts = Vec::new();
    if let Some(c) = text[at..].chars().next()
        && (c.is_whitespace() || c == '=')
    {
        starts.push(at + c.len_utf8());
    }
    if at == 0 {
        starts.insert(0, 0);
    }
    starts.into_iter().map(|start| start + if text[start..].starts_with("**") { 2 } else { 0 }).collect()
}

fn arithmetic(text: &str, at: usize) -> Option<(Found<'_>, usize)> {
    prefix(text, at).into_iter().find_map(|start| {
        let rest = &text[start..];
        let sign = usize::from(rest.starts_with('-'));
        let open = sign + usize::from(rest[sign..].starts_with('('));
        let inner = open + usize::from(rest[open..].starts_with('-') && (open > sign || sign == 0));
        if !rest[inner..].starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        let (mut end, mut operator, mut best) = (inner + 1, None, None);
        for c in rest[inner + 1..].chars() {
            // An end needs an operator two characters before it.
            if operator.is_some_and(|at| at < end)
                && let Some(suffix) = suffix(&rest[end..])
            {
                best = Some((end, suffix));
            }
            if end > MAX_ARITHMETIC
                || !(is_operator(c) || c.is_ascii_digit() || c == '.' || c.is_whitespace())
            {
                return finish(rest, start, best);
            }
            if operator.is_none() && is_operator(c) {
                operator = Some(end + c.len_utf8());
            }
            end += c.len_utf8();
        }
        if operator.is_some_and(|at| at < end) {
            best = Some((end, 0));
        }
        finish(rest, start, best)
    })
}

fn finish(rest: &str, start: usize, best: Option<(usize, usize)>) -> Option<(Found<'_>, usize)> {
    best.map(|(end, suffix)| (Found::Arithmetic(&rest[..end]), start + end + suffix))
}

fn is_operator(c: char) -> bool {
    matches!(c, '+' | '-' | '*' | '×' | '/' | '^' | '(' | ')' | '÷')
}

/// The length of what must stand after arithmetic: stars and a mark, white space, or the end.
fn suffix(rest: &str) -> Option<usize> {
    let stars = if rest.starts_with("**") { 2 } else { 0 };
    for from in [stars, 0] {
        match rest[from..].chars().next() {
            None => return Some(from),
            Some(c) if c.is_whitespace() || matches!(c, '.' | ',' | ':' | ')' | '$') => {
                return Some(from + c.len_utf8());
            }
            _ => {}
        }
    }
    None
}

fn number(text: &str, at: usize) -> Option<(Found<'_>, usize)> {
    prefix(text, at).into_iter().find_map(|start| {
        let currency =
            text[start..].chars().next().filter(|c| CURRENCIES.contains(*c)).map_or(0, char::len_utf8);
        [start + currency, start].into_iter().find_map(|from| written(text, from))
    })
}

/// `1,234.5`, `1234.5` or `1234,5`, `.5`, `1234`, and a percent sign.
fn written(text: &str, from: usize) -> Option<(Found<'_>, usize)> {
    if text[..from].ends_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let rest = &text[from..];
    let digits = |at: usize| rest[at..].bytes().take_while(u8::is_ascii_digit).count();
    let sign = usize::from(rest.starts_with('-'));
    let first = digits(sign);
    let decimals = |at: usize, marks: &[char]| match rest[at..].strip_prefix(marks) {
        Some(_) if digits(at + 1) > 0 => 1 + digits(at + 1),
        _ => 0,
    };
    let mut grouped = sign + first;
    if (1..=3).contains(&first) && !rest[sign..].starts_with('0') {
        while rest[grouped..].starts_with([' ', ',']) && digits(grouped + 1) >= 3 {
            grouped += 4;
        }
    }
    let (integer, decimals) = if grouped > sign + first {
        // After a group of three the decimals begin only with a point.
        (grouped, decimals(grouped, &['.']))
    } else if first > 0 {
        (sign + first, decimals(sign + first, &['.', ',']))
    } else if rest.starts_with('.') {
        (0, decimals(0, &['.']))
    } else {
        return None;
    };
    let length = integer + decimals;
    if length == 0 {
        return None;
    }
    const PERCENT: [&str; 7] = ["%", "percentage", "Percentage", "percent", "Percent", "pct", "Pct"];
    let after = from + length;
    let space = text[after..].len() - text[after..].trim_start().len();
    let percent = PERCENT.iter().find(|sign| text[after + space..].starts_with(**sign));
    let end = after + percent.map_or(0, |sign| space + sign.len());
    let found = Found::Number {
        integer: &rest[..integer],
        decimals: &rest[integer..length],
        percent: percent.is_some(),
    };
    Some((found, end))
}
