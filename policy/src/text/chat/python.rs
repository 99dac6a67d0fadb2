//! Values as Python sees them: chat templates are written for Jinja2 and rely on Python's text of a value.

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

use super::budget::RenderBudget;

/// Deepest nesting of lists and maps that is printed or written as JSON. serde_json reads at most
/// 128 levels, so only a template that nests its own values can reach this.
pub const MAX_VALUE_DEPTH: usize = 256;

/// Decimal exponent from which Python writes a float in scientific notation.
const SCIENTIFIC_FROM: i32 = 16;
/// Decimal exponent below which Python writes a float in scientific notation.
const SCIENTIFIC_BELOW: i32 = -4;

/// Converts JSON into a template value. Keys keep their order; a number beyond 64 bits is a
/// float already in `json`.
pub(crate) fn from_json(json: &serde_json::Value) -> Value {
    match json {
        serde_json::Value::Null => Value::from(()),
        serde_json::Value::Bool(value) => Value::from(*value),
        serde_json::Value::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(value), _) => Value::from(value),
            (None, Some(value)) => Value::from(value),
            (None, None) => Value::from(number.as_f64().unwrap_or(f64::NAN)),
        },
        serde_json::Value::String(text) => Value::from(text.as_str()),
        serde_json::Value::Array(items) => Value::from(items.iter().map(from_json).collect::<Vec<_>>()),
        serde_json::Value::Object(map) => {
            Value::from_pairs(map.iter().map(|(key, value)| (Value::from(key.as_str()), from_json(value))))
        }
    }
}

/// Whether Python's `str.isspace` holds: Unicode white space and the four separators U+001C to U+001F.
pub(crate) fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\u{1c}'..='\u{1f}').contains(&c)
}

/// The value as Python's `str()` prints it.
pub(crate) fn text(value: &Value, budget: &RenderBudget) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        budget.charge(text.len() as u64)?;
        return Ok(text.to_owned());
    }
    let mut out = String::new();
    write_repr(&mut out, value, budget, 0)?;
    Ok(out)
}

/// Whether a value is a float rather than an integer.
pub(crate) fn as_float(value: &Value) -> Option<f64> {
    if value.kind() != ValueKind::Number || value.is_integer() {
        return None;
    }
    f64::try_from(value.clone()).ok()
}

/// Appends Python's `repr()` of a value; an undefined value is empty, as Jinja2 prints it.
fn write_repr(out: &mut String, value: &Value, budget: &RenderBudget, depth: usize) -> Result<(), Error> {
    // A list that holds another twice doubles in print: every node pays as it is written, not at the end.
    budget.charge(node_bytes(value))?;
    if depth > MAX_VALUE_DEPTH {
        return Err(too_deep());
    }
    match value.kind() {
        ValueKind::String => quote(out, value.as_str().unwrap_or_default()),
        ValueKind::Number => match as_float(value) {
            Some(number) => out.push_str(&float(number)),
            None => out.push_str(&value.to_string()),
        },
        ValueKind::Seq | ValueKind::Iterable => {
            let (open, close) = if value.is_tuple() { ('(', ')') } else { ('[', ']') };
            out.push(open);
            for (index, item) in value.try_iter()?.enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(out, &item, budget, depth + 1)?;
            }
            if value.is_tuple() && value.len() == Some(1) {
                out.push(',');
            }
            out.push(close);
        }
        ValueKind::Map => {
            out.push('{');
            for (index, key) in value.try_iter()?.enumerate() {
                if index > 0 {
                    out.push_str(", ");
                }
                write_repr(out, &key, budget, depth + 1)?;
                out.push_str(": ");
                write_repr(out, &value.get_item(&key)?, budget, depth + 1)?;
            }
            out.push('}');
        }
        _ => out.push_str(&value.to_string()),
    }
    Ok(())
}

/// What printing one value costs, what it contains not counted.
pub(crate) fn node_bytes(value: &Value) -> u64 {
    /// More than any number or pair of brackets takes in print: it also bounds the time that a
    /// printed tree of shared lists can cost.
    const PLAIN_BYTES: u64 = 128;
    value.as_str().map_or(PLAIN_BYTES, |text| text.len() as u64 + 2)
}

/// The error for a value nested beyond [`MAX_VALUE_DEPTH`].
pub(crate) fn too_deep() -> Error {
    Error::new(
        ErrorKind::InvalidOperation,
        format!("a value is nested more than {MAX_VALUE_DEPTH} levels deep"),
    )
}

/// Appends a string literal in Python's preferred quotes.
fn quote(out: &mut String, text: &str) {
    let mark = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    out.push(mark);
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c == mark => out.extend(['\\', c]),
            c if is_printable(c) => out.push(c),
            c if c <= '\u{ff}' => out.push_str(&format!("\\x{:02x}", c as u32)),
            c if c <= '\u{ffff}' => out.push_str(&format!("\\u{:04x}", c as u32)),
            c => out.push_str(&format!("\\U{:08x}", c as u32)),
        }
    }
    out.push(mark);
}

/// Python's `str.isprintable` for one character. The standard library escapes the same
/// categories, and combining marks besides at the start of a text; so the character is asked
/// about after another one.
fn is_printable(c: char) -> bool {
    (' '..='~').contains(&c) || ['x', c].iter().collect::<String>().escape_debug().eq(['x', c])
}

/// The shortest text that reads back as the same float, laid out as Python's
/// `repr()`: `1.0`, `1e-07`, `1e+16`.
pub(crate) fn float(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.into();
    }
    // serde_json breaks a tie between two shortest candidates towards the even digit, as Python
    // does; `{:e}` does not.
    let shortest = serde_json::Value::from(value.abs()).to_string();
    let (mantissa, exponent) = shortest.split_once(['e', 'E']).unwrap_or((&shortest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = format!("{whole}{fraction}");
    let leading = all.len() - all.trim_start_matches('0').len();
    let digits = all.trim_matches('0');
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if digits.is_empty() {
        return format!("{sign}0.0");
    }
    // value = 0.DIGITS x 10^point
    let point = exponent.parse::<i32>().unwrap_or(0) + whole.len() as i32 - leading as i32;
    let scientific = point - 1;
    if !(SCIENTIFIC_BELOW..SCIENTIFIC_FROM).contains(&scientific) {
        let (first, rest) = digits.split_at(1);
        let dot = if rest.is_empty() { "" } else { "." };
        let exponent_sign = if scientific < 0 { '-' } else { '+' };
        return format!("{sign}{first}{dot}{rest}e{exponent_sign}{:02}", scientific.abs());
    }
    if point <= 0 {
        return format!("{sign}0.{}{digits}", "0".repeat(point.unsigned_abs() as usize));
    }
    let point = point as usize;
    if digits.len() <= point {
        return format!("{sign}{digits}{}.0", "0".repeat(point - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..point], &digits[point..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_read_as_in_python() {
        for (value, want) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (0.1, "0.1"),
            (100.0, "100.0"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (1.5e16, "1.5e+16"),
            (1e22, "1e+22"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (-1.25e-7, "-1.25e-07"),
            (123456.789, "123456.789"),
            (5e-324, "5e-324"),
            (1.7976931348623157e308, "1.7976931348623157e+308"),
            (5.684341886080802e-14, "5.684341886080802e-14"),
        ] {
            assert_eq!(float(value), want);
        }
    }

    #[test]
    fn containers_print_as_in_python() {
        let json = serde_json::json!({"b": [1, 2.0, true, null], "a": "it's", "c": "\"'\n\u{1}é", "d": {}});
        let got = text(&from_json(&json), &RenderBudget::new()).unwrap();
        assert_eq!(got, r#"{'b': [1, 2.0, True, None], 'a': "it's", 'c': '"\'\n\x01é', 'd': {}}"#);
    }

    #[test]
    fn unprintable_characters_are_escaped_as_in_python() {
        let json = serde_json::json!([
            "\u{a0}\u{ad}\u{200d}\u{2028}\u{3000}\u{e000}\u{e0001}",
            "\u{94d}👦🏽\u{fe0f}ï"
        ]);
        let want = r"['\xa0\xad\u200d\u2028\u3000\ue000\U000e0001', '".to_owned() + "\u{94d}👦🏽\u{fe0f}ï']";
        assert_eq!(text(&from_json(&json), &RenderBudget::new()).unwrap(), want);
    }

    #[test]
    fn nesting_is_limited() {
        let mut value = Value::from(1);
        for _ in 0..=MAX_VALUE_DEPTH {
            value = Value::from(vec![value]);
        }
        assert!(text(&value, &RenderBudget::new()).is_err());
    }
}
