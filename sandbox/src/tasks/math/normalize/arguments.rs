//! Braces around the arguments of `\frac`, `\sqrt`, `\log_` and `^` where they were left out.

use super::enclosed;

/// `\frac13` → `\frac{1}{3}`, `\sqrt3` and `\sqrt(3)` → `\sqrt{3}`, `x^(2)` →
/// `x^{2}`, `\log_28` → `\log_{2}{8}`.
pub(super) fn brace(formula: &str) -> String {
    let mut out = String::with_capacity(formula.len() + 16);
    let mut rest = formula;
    while let Some(next) = rest.chars().next() {
        let consumed = exponent(rest, &mut out)
            .or_else(|| root(rest, &mut out))
            .or_else(|| fraction(rest, &mut out))
            .or_else(|| logarithm(rest, &mut out));
        rest = match consumed {
            Some(after) => after,
            None => {
                out.push(next);
                &rest[next.len_utf8()..]
            }
        };
    }
    out
}

fn skip_space(text: &str) -> &str {
    text.strip_prefix(' ').unwrap_or(text)
}

/// The digit at the start, and what follows.
fn digit(text: &str) -> Option<(&str, &str)> {
    text.starts_with(|c: char| c.is_ascii_digit()).then(|| text.split_at(1))
}

/// All digits at the start.
fn digits(text: &str) -> Option<(&str, &str)> {
    let length = text.bytes().take_while(u8::is_ascii_digit).count();
    (length > 0).then(|| text.split_at(length))
}

/// The inside of the parentheses at the start, and what follows them.
fn parenthesized(text: &str) -> Option<(&str, &str)> {
    let inner = enclosed(text, b'(', b')')?;
    Some((inner, &text[inner.len() + 2..]))
}

/// The inside of a group, a command, or a single character.
fn argument(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    let first = text.chars().next()?;
    if first == '{' || first == '}' {
        return None;
    }
    let letters = match text.strip_prefix('\\') {
        Some(command) => 1 + command.bytes().take_while(u8::is_ascii_alphabetic).count(),
        None => first.len_utf8(),
    };
    (letters > 1 || first != '\\').then(|| text.split_at(letters))
}

fn exponent<'a>(text: &'a str, out: &mut String) -> Option<&'a str> {
    let (inner, after) = parenthesized(skip_space(text.strip_prefix('^')?))?;
    out.push_str(&format!("^{{{inner}}}"));
    Some(after)
}

fn root<'a>(text: &'a str, out: &mut String) -> Option<&'a str> {
    let after = text.strip_prefix("\\sqrt").or_else(|| text.strip_prefix("sqrt"))?;
    if let Some((inner, after)) = parenthesized(skip_space(after)) {
        out.push_str(&format!("\\sqrt{{{}}}", brace_nested(inner)));
        return Some(after);
    }
    let after = text.strip_prefix("\\sqrt")?.trim_start();
    if after.starts_with('[') {
        out.push_str("\\sqrt");
        return Some(after);
    }
    let (inner, after) = argument(after)?;
    out.push_str(&format!("\\sqrt{{{inner}}}"));
    Some(after)
}

fn fraction<'a>(text: &'a str, out: &mut String) -> Option<&'a str> {
    let after = text.strip_prefix("\\frac")?;
    let after = after.trim_start();
    if after.starts_with('{') {
        let over = enclosed(after, b'{', b'}')?;
        let (under, rest) = digit(skip_space(&after[over.len() + 2..]))?;
        out.push_str(&format!("\\frac{{{}}}{{{under}}}", brace_nested(over)));
        return Some(rest);
    }
    let (over, after) = argument(after)?;
    if after.trim_start().starts_with('{') {
        out.push_str(&format!("\\frac{{{over}}}"));
        return Some(after.trim_start());
    }
    let long = over.starts_with(|c: char| c.is_ascii_digit()).then(|| digits(skip_space(after))).flatten();
    let (under, after) = long.or_else(|| argument(after))?;
    out.push_str(&format!("\\frac{{{over}}}{{{under}}}"));
    Some(after)
}

/// The inside of an argument with its own arguments braced. What is nested deep is left as it is:
/// each level would copy its inside once more.
fn brace_nested(inner: &str) -> String {
    const MAX_NESTED: usize = 8;
    let nested = inner.matches("frac").count() + inner.matches('(').count();
    if nested > MAX_NESTED { inner.to_owned() } else { brace(inner) }
}

fn logarithm<'a>(text: &'a str, out: &mut String) -> Option<&'a str> {
    let (base, after) = digit(skip_space(text.strip_prefix("\\log_")?))?;
    let (argument, after) = digits(skip_space(after))?;
    out.push_str(&format!("\\log_{{{base}}}{{{argument}}}"));
    Some(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_get_braces() {
        assert_eq!(brace("\\frac13"), "\\frac{1}{3}");
        assert_eq!(brace("\\frac 1 {3}"), "\\frac{1}{3}");
        assert_eq!(brace("\\frac{\\sqrt3}2"), "\\frac{\\sqrt{3}}{2}");
        assert_eq!(brace("\\frac\\pi2"), "\\frac{\\pi}{2}");
        assert_eq!(brace("\\frac123"), "\\frac{1}{23}");
        assert_eq!(brace("\\sqrt 3x"), "\\sqrt{3}x");
        assert_eq!(brace("\\sqrt[3]{2}"), "\\sqrt[3]{2}");
        assert_eq!(brace("sqrt(x+1)"), "\\sqrt{x+1}");
        assert_eq!(brace("x^(a(b))"), "x^{a(b)}");
        assert_eq!(brace("\\log_28"), "\\log_{2}{8}");
        assert_eq!(brace("\\frac{1}{2}"), "\\frac{1}{2}");
        assert_eq!(brace("\\frac{1"), "\\frac{1");
    }
}
