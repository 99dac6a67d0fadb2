//! Python's string, list and dict methods in templates: minijinja-contrib's, corrected where Python differs.

use minijinja::value::{ValueKind, from_args};
use minijinja::{Error, ErrorKind, State, Value};

use super::budget::RenderBudget;
use super::python;
use super::text::{join_values, replaced_size, strip};

/// Answers a method call on a plain value. The result is charged to the budget.
pub(crate) fn call(
    budget: &RenderBudget,
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    let result = match value.as_str() {
        Some(text) => string_method(budget, state, text, value, method, args),
        None => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }?;
    budget.charged(result)
}

fn string_method(
    budget: &RenderBudget,
    state: &mut State<'_, '_>,
    text: &str,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    match method {
        "strip" | "lstrip" | "rstrip" => {
            let (chars,): (Option<&str>,) = from_args(args)?;
            Ok(Value::from(strip(text, method != "rstrip", method != "lstrip", chars)))
        }
        "split" | "rsplit" => {
            let (separator, limit) = split_arguments(args)?;
            let parts = split(text, separator, limit, method == "rsplit")?;
            Ok(Value::from(parts.into_iter().map(Value::from).collect::<Vec<_>>()))
        }
        "splitlines" => {
            let (keep_ends,): (Option<bool>,) = from_args(args)?;
            Ok(split_lines(text, keep_ends.unwrap_or(false)).into_iter().map(Value::from).collect())
        }
        "isspace" => {
            let () = from_args(args)?;
            Ok(Value::from(!text.is_empty() && text.chars().all(python::is_space)))
        }
        "removeprefix" => {
            let (prefix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_prefix(prefix).unwrap_or(text)))
        }
        "removesuffix" => {
            let (suffix,): (&str,) = from_args(args)?;
            Ok(Value::from(text.strip_suffix(suffix).unwrap_or(text)))
        }
        "replace" => {
            let (old, new): (&str, &str) = from_args(args.get(..2).unwrap_or(args))?;
            budget.charge(replaced_size(text, old, new))?;
            minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args)
        }
        "join" => {
            let (items,): (&Value,) = from_args(args)?;
            join_values(budget, items, text)
        }
        // A width in the format string could ask for any amount of memory.
        "format" => {
            Err(Error::new(ErrorKind::UnknownMethod, "str.format is not available in chat templates"))
        }
        _ => minijinja_contrib::pycompat::unknown_method_callback(state, value, method, args),
    }
}

/// The arguments `(sep=None, maxsplit=-1)`, by position or by name.
fn split_arguments(args: &[Value]) -> Result<(Option<&str>, Option<usize>), Error> {
    let named = args.last().filter(|last| last.is_kwargs());
    let positional = if named.is_some() { &args[..args.len() - 1] } else { args };
    let (separator, limit): (Option<&str>, Option<i64>) = from_args(positional)?;
    let limit = match named {
        Some(named) => i64::try_from(named.get_attr("maxsplit")?).ok().or(limit),
        None => limit,
    };
    Ok((separator, limit.and_then(|limit| usize::try_from(limit).ok())))
}

fn split<'a>(
    text: &'a str,
    separator: Option<&str>,
    limit: Option<usize>,
    from_end: bool,
) -> Result<Vec<&'a str>, Error> {
    let pieces = limit.map_or(usize::MAX, |limit| limit.saturating_add(1));
    match separator {
        Some("") => Err(Error::new(ErrorKind::InvalidOperation, "split: empty separator")),
        Some(separator) if from_end => {
            let mut parts: Vec<_> = text.rsplitn(pieces, separator).collect();
            parts.reverse();
            Ok(parts)
        }
        Some(separator) => Ok(text.splitn(pieces, separator).collect()),
        None => Ok(split_spaces(text, pieces, from_end)),
    }
}

/// Splits at runs of white space into at most `pieces`, without empty parts.
fn split_spaces(text: &str, pieces: usize, from_end: bool) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = strip(text, true, true, None);
    while !rest.is_empty() {
        let at = if from_end { rest.rfind(python::is_space) } else { rest.find(python::is_space) };
        let Some(at) = at.filter(|_| parts.len() + 1 < pieces) else {
            parts.push(rest);
            break;
        };
        let (before, after) = rest.split_at(at);
        if from_end {
            parts.push(after.trim_start_matches(python::is_space));
            rest = before.trim_end_matches(python::is_space);
        } else {
            parts.push(before);
            rest = after.trim_start_matches(python::is_space);
        }
    }
    if from_end {
        parts.reverse();
    }
    // With a limit Python leaves the outer white space of the last piece, on the side that was not split.
    if let (Some(limited), true) = (parts.len().checked_sub(1), parts.len() == pieces) {
        if from_end {
            let whole = text.len() - strip(text, true, false, None).len();
            let inner = parts[0].len();
            parts[0] = &text[..whole + inner];
        } else {
            let trailing = strip(text, false, true, None).len();
            let start = trailing - parts[limited].len();
            parts[limited] = &text[start..];
        }
    }
    parts
}

/// `str.splitlines`: breaks at every line boundary Python knows, `\r\n` counting once.
fn split_lines(text: &str, keep_ends: bool) -> Vec<&str> {
    let is_break =
        |c: char| matches!(c, '\n'..='\r' | '\u{1c}'..='\u{1e}' | '\u{85}' | '\u{2028}' | '\u{2029}');
    let mut lines = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find(is_break) {
        let after = &rest[at..];
        let width =
            if after.starts_with("\r\n") { 2 } else { after.chars().next().map_or(0, char::len_utf8) };
        lines.push(&rest[..if keep_ends { at + width } else { at }]);
        rest = &rest[at + width..];
    }
    if !rest.is_empty() {
        lines.push(rest);
    }
    lines
}

/// Whether `is sequence` holds: in Python everything with a length and items, so strings and dicts too.
pub(crate) fn is_sequence(value: &Value) -> bool {
    matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map | ValueKind::Undefined)
}

/// Whether `is iterable` holds; `None` is not, although the engine would loop over it zero times.
pub(crate) fn is_iterable(value: &Value) -> bool {
    is_sequence(value) || value.kind() == ValueKind::Iterable
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_like_python() {
        for (text, separator, limit, from_end, want) in [
            ("a,b,c", Some(","), None, false, vec!["a", "b", "c"]),
            ("a,b,c", Some(","), Some(1), false, vec!["a", "b,c"]),
            ("a,b,c", Some(","), Some(1), true, vec!["a,b", "c"]),
            (" a \u{1c} b  c ", None, None, false, vec!["a", "b", "c"]),
            (" a b  c ", None, Some(1), false, vec!["a", "b  c "]),
            (" a b  c ", None, Some(1), true, vec![" a b", "c"]),
            (" a b ", None, Some(0), false, vec!["a b "]),
            (" a b ", None, Some(0), true, vec![" a b"]),
            (" a b ", None, Some(1), false, vec!["a", "b "]),
            ("  ", None, None, false, vec![]),
            ("  ", None, Some(0), true, vec![]),
        ] {
            assert_eq!(
                split(text, separator, limit, from_end).unwrap(),
                want,
                "{text:?} {limit:?} {from_end}"
            );
        }
        assert!(split("a", Some(""), None, false).is_err());
    }

    #[test]
    fn lines_break_like_python() {
        assert_eq!(split_lines("a\r\nb\u{b}c\u{2028}\n", false), ["a", "b", "c", ""]);
        assert_eq!(split_lines("a\r\nb", true), ["a\r\n", "b"]);
        assert!(split_lines("", true).is_empty());
    }

    #[test]
    fn strips_the_separators_that_rust_does_not_call_white_space() {
        assert_eq!(strip("\u{1f} a\u{a0}", true, true, None), "a");
        assert_eq!(strip("\n\n a\n", true, false, Some("\n")), " a\n");
    }
}
