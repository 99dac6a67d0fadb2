//! Numbers and arithmetic without any delimiters.

use super::{
    AFTER_ANSWER, AFTER_FINAL_ANSWER, Anchor, Found, Match, after_colon, after_is, announced, asides,
    everywhere, hoped, within,
};
use crate::tasks::denial;

/// The longest arithmetic that is looked at, in bytes.
const MAX_ARITHMETIC: usize = 128;

const CURRENCIES: &str = "$€£¥₹₽₪₩₫฿₡₢₣₤₥₦₧₨₭₮₯₰₱₲₳₴₵₶₷₸₺₻₼₾₿";

/// Finds the numbers and the arithmetic that are announced in this way.
pub(super) fn matches<'a>(text: &'a str, anchor: Anchor, all: &mut Vec<Match<'a>>) {
    let either = |at| arithmetic(text, at).or_else(|| number(text, at)).map(|found| unhedged(text, found));
    match anchor {
        Anchor::Marked => all.extend(marked(text)),
        Anchor::Hoped => {
            let target = |at| either(at).filter(|(_, end)| hoped(text, *end));
            announced(text, "final answer is", |at| after_colon(text, at), target, all);
        }
        Anchor::Final => announced(text, "final answer", |at| after_is(text, at, false), either, all),
        Anchor::Colon => announced(text, "answer:", |at| gaps(text, at), |at| unequated(text, at), all),
        Anchor::Answer => announced(text, "answer", |at| gaps(text, at), |at| unequated(text, at), all),
        Anchor::Start => {}
        Anchor::Anywhere => {
            if let Some(found) = enumeration(text) {
                all.push(Match { start: 0, end: text.len(), found });
                return;
            }
            let mut found = Vec::new();
            everywhere(text, |at| arithmetic(text, at), &mut found);
            everywhere(text, |at| number(text, at), &mut found);
            // What is said in brackets counts where nothing else does.
            let asides = asides(text);
            let aside = |found: &Match<'_>| {
                let next = asides.partition_point(|(_, close)| *close < found.start);
                asides.get(next).is_some_and(|(open, _)| *open < found.start)
            };
            if !found.iter().all(aside) {
                found.retain(|found| !aside(found));
            }
            all.append(&mut found);
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
        .map(|found| unhedged(text, found))
}

/// What is announced, unless another number follows behind "or", or nothing but numbers follow in the line:
/// then it is unclear which is meant.
fn unhedged<'a>(text: &'a str, (found, end): (Found<'a>, usize)) -> (Found<'a>, usize) {
    let line = text[end..].lines().next().unwrap_or_default();
    let other = line.trim_start_matches([' ', ',', '(', '*']).strip_prefix("or ");
    let has_other = other.is_some_and(|other| {
        let other = other.trim_start_matches(|c: char| "-*".contains(c) || CURRENCIES.contains(c));
        other.starts_with(|c: char| c.is_ascii_digit())
    });
    let words = || line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let is_list = line.chars().all(|c| c.is_alphanumeric() || " ,;|.()*$".contains(c))
        && words().any(is_number)
        && words().all(|word| is_number(word) || matches!(word, "and" | "or"));
    if has_other || (is_list && matches!(found, Found::Number { .. })) {
        return (Found::Unclear(text[..end].trim_end()), end);
    }
    (found, end)
}

/// What the solutions of GSM8K have before the answer.
const MARK: &str = "####";

/// The number behind the last `####` of which nothing but its unit follows in the line.
fn marked(text: &str) -> Option<Match<'_>> {
    /// So many words may follow.
    const MAX_WORDS: usize = 2;
    let start = text.rfind(MARK)?;
    let from = start + MARK.len();
    let at = text.len() - text[from..].trim_start_matches([' ', '*']).len();
    let line = text[at..].find('\n').map_or(text.len(), |end| at + end);
    let at = at.checked_sub(1).filter(|at| text.is_char_boundary(*at))?;
    let (found, end) = arithmetic(text, at).filter(|(_, end)| *end <= line).or_else(|| number(text, at))?;
    let rest = text.get(end..line)?.trim().trim_end_matches(['.', '*']);
    let mut words = rest.split_whitespace();
    let plain = words.clone().count() <= MAX_WORDS && words.all(|word| word.chars().all(char::is_lowercase));
    (plain && !rest.starts_with(|c: char| c.is_ascii_digit())).then_some(Match { start, end, found })
}

/// Several numbers and nothing else, or behind the last `####`: `1 2 3 4`, `2 or 3`. The last of them is no
/// more the answer than the others. With commas or words between them they are a list.
fn enumeration(text: &str) -> Option<Found<'_>> {
    /// Digits of a group: `21 211` is one number.
    const GROUP: usize = 3;
    let said = text.rfind(MARK).map_or(text, |at| text[at + MARK.len()..].lines().next().unwrap_or_default());
    let said = said.trim().trim_end_matches('.');
    let (mut numbers, mut groups, mut listed) = (0, 0, false);
    let inside = said.strip_prefix(['(', '[', '{']).and_then(|said| said.strip_suffix([')', ']', '}']));
    for word in inside.unwrap_or(said).split_whitespace() {
        let number = word.trim_end_matches([',', ';']);
        if matches!(number, "and" | "or") {
            listed = true;
            continue;
        }
        let digits = number.strip_prefix('-').unwrap_or(number);
        let is_number = digits.starts_with(|c: char| c.is_ascii_digit())
            && digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b','));
        if !is_number {
            return None;
        }
        listed |= number.len() < word.len();
        groups += usize::from(numbers > 0 && digits.len() == GROUP);
        numbers += 1;
    }
    match (numbers, listed) {
        (2.., true) => Some(Found::Phrase(said)),
        (3.., false) if groups + 1 < numbers => Some(Found::Unclear(said)),
        _ => None,
    }
}

/// What may stand before a number beside white space.
const OPENING: &str = "=:([\"'`*_>≈~→#“‘\\";

/// What must stand before a number: the beginning of the text, white space or a sign, and stars.
fn prefix(text: &str, at: usize) -> Vec<usize> {
    let mut starts = Vec::new();
    if let Some(c) = text[at..].chars().next()
        && (c.is_whitespace() || OPENING.contains(c))
        // 3:30 and a[2] are no numbers 30 and 2.
        && (c.is_whitespace() || c == '=' || c == '*' || !text[..at].ends_with(char::is_alphanumeric) || (c == ':' && text[..at].ends_with(char::is_alphabetic)))
    {
        starts.push(at + c.len_utf8());
    }
    if at == 0 {
        starts.insert(0, 0);
    }
    let starts = starts.into_iter().map(|start| start + if text[start..].starts_with("**") { 2 } else { 0 });
    starts.filter(|start| !is_denied(text, *start)).collect()
}

/// Whether a number that begins here is one that the answer is said not to be, or only a bound of it.
fn is_denied(text: &str, start: usize) -> bool {
    let is_value = text[start..]
        .starts_with(|c: char| c.is_ascii_digit() || "+-.(".contains(c) || CURRENCIES.contains(c));
    is_value && (denial::by_words(&text[..start]) || denial::by_sign(&text[..start]))
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
    best.map(|(end, suffix)| {
        let written = rest[..end].trim();
        let found = if is_range(written) { Found::Unclear(written) } else { Found::Arithmetic(&rest[..end]) };
        (found, start + end + suffix)
    })
}

/// `5-7`: from five to seven.
fn is_range(written: &str) -> bool {
    let number =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    written.split_once('-').is_some_and(|(from, to)| number(from) && number(to))
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
        [start + currency, start]
            .into_iter()
            .find_map(|from| signed(text, from).or_else(|| written(text, from)))
    })
}

/// `+5`, and `- 5` behind "is" or a colon.
fn signed(text: &str, from: usize) -> Option<(Found<'_>, usize)> {
    let rest = &text[from..];
    if let Some(after) = rest.strip_prefix('+') {
        return after
            .starts_with(|c: char| c.is_ascii_digit() || c == '.')
            .then(|| written(text, from + 1))?;
    }
    rest.strip_prefix("- ").filter(|after| after.starts_with(|c: char| c.is_ascii_digit()))?;
    let before = text[..from].trim_end_matches(' ');
    let is = || before.as_bytes().last_chunk::<3>().is_some_and(|end| end.eq_ignore_ascii_case(b" is"));
    if !before.ends_with([':', '=', '#']) && !is() {
        return None;
    }
    let (found, end) = written(text, from + 2)?;
    // It has no sign of its own: it gets the one before it.
    Some((Found::Arithmetic(&text[from..end]), end))
        .filter(|_| matches!(found, Found::Number { percent: false, exponent: 0, .. }))
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
    let mut length = length;
    let (written_integer, written_decimals) = (&rest[..integer], &rest[integer..length]);
    let mut exponent = 0_i32;
    let is_money = text[..from].ends_with(|c: char| CURRENCIES.contains(c));
    let power = scientific(&rest[length..]).or_else(|| magnitude(&rest[length..]));
    if let Some((power, more)) = power.or_else(|| letter(&rest[length..], is_money)) {
        exponent = power;
        length += more;
    }
    // Three dozen are not three, and neither are three and a half.
    const DOZEN: &str = "dozen";
    let behind = rest[length..].trim_start_matches([' ', '-']);
    let more = match behind.chars().next().filter(|c| is_fraction(*c)) {
        Some(fraction) => fraction.len_utf8(),
        None if behind.starts_with(DOZEN) => DOZEN.len(),
        None => 0,
    };
    if more > 0 {
        let end = rest.len() - behind.len() + more;
        return Some((Found::Unclear(&rest[..end]), from + end));
    }
    // 3:30 is a time.
    if let Some(minutes) = rest[length..].strip_prefix(':')
        && minutes.starts_with(|c: char| c.is_ascii_digit())
    {
        let more = 1 + minutes.bytes().take_while(u8::is_ascii_digit).count();
        return Some((Found::Unclear(&rest[..length + more]), from + length + more));
    }
    const PERCENT: [&str; 8] = ["%", "\\%", "percentage", "Percentage", "percent", "Percent", "pct", "Pct"];
    let after = from + length;
    let space = text[after..].len() - text[after..].trim_start().len();
    let percent = PERCENT.iter().find(|sign| text[after + space..].starts_with(**sign));
    let end = after + percent.map_or(0, |sign| space + sign.len());
    let found = Found::Number {
        integer: written_integer,
        decimals: written_decimals,
        exponent,
        percent: percent.is_some(),
    };
    Some((found, end))
}

/// The power of ten in `e3` or `E-3`, and its length.
fn scientific(rest: &str) -> Option<(i32, usize)> {
    let power = rest.strip_prefix(['e', 'E'])?;
    let sign = usize::from(power.starts_with(['+', '-']));
    let digits = power[sign..].bytes().take_while(u8::is_ascii_digit).count();
    let ends = !power[sign + digits..].starts_with(|c: char| c.is_alphanumeric());
    let exponent = power[..sign + digits].parse().ok()?;
    (digits > 0 && ends).then_some((exponent, 1 + sign + digits))
}

/// `½` and the like.
fn is_fraction(c: char) -> bool {
    matches!(c, '¼'..='¾' | '⅐'..='⅞')
}

/// The power of ten of `18k`, and of `$18M`, whose letter may be a unit elsewhere, and its length.
fn letter(rest: &str, is_money: bool) -> Option<(i32, usize)> {
    const LETTERS: [(&str, i32); 6] = [("k", 3), ("K", 3), ("M", 6), ("mn", 6), ("bn", 9), ("B", 9)];
    let known = if is_money { LETTERS.len() } else { 1 };
    let ends = |after: &str| !after.starts_with(|c: char| c.is_alphanumeric());
    let mut letters = LETTERS.into_iter().take(known);
    let (name, power) = letters.find(|(name, _)| rest.strip_prefix(*name).is_some_and(ends))?;
    Some((power, name.len()))
}

/// The power of ten in "million" and the like, and its length with the space before it.
fn magnitude(rest: &str) -> Option<(i32, usize)> {
    const MAGNITUDES: [(&str, i32); 5] =
        [("hundred", 2), ("thousand", 3), ("million", 6), ("billion", 9), ("trillion", 12)];
    let word = rest.trim_start_matches([' ', '-']);
    let (name, power) = MAGNITUDES.iter().find(|(name, _)| {
        word.strip_prefix(*name).is_some_and(|after| !after.starts_with(|c: char| c.is_ascii_alphabetic()))
    })?;
    Some((*power, rest.len() - word.len() + name.len()))
}
