//! The `tojson` filter as transformers defines it for chat templates: `json.dumps` with
//! `ensure_ascii=False` and without the HTML escapes of Jinja2's own filter.

use minijinja::value::{Kwargs, ValueKind};
use minijinja::{Error, ErrorKind, Value};

use super::budget::RenderBudget;
use super::python;

/// Widest indentation of `tojson(indent=..)`; wider is refused.
pub const MAX_JSON_INDENT: usize = 16;

/// How the text is laid out.
struct Layout {
    ensure_ascii: bool,
    sort_keys: bool,
    indent: Option<usize>,
    item_separator: String,
    key_separator: String,
}

/// `value | tojson(ensure_ascii=false, indent=none, separators=none, sort_keys=false)`.
pub(crate) fn tojson(
    budget: &RenderBudget,
    value: &Value,
    ensure_ascii: Option<bool>,
    kwargs: &Kwargs,
) -> Result<Value, Error> {
    let indent = match kwargs.get::<Option<Value>>("indent")? {
        None => None,
        Some(indent) if indent.is_none() => None,
        Some(indent) => Some(usize::try_from(indent)?),
    };
    if indent.is_some_and(|indent| indent > MAX_JSON_INDENT) {
        return Err(invalid(format!("tojson: indent is at most {MAX_JSON_INDENT}")));
    }
    let separators = kwargs.get::<Option<Value>>("separators")?.filter(|value| !value.is_none());
    let (item_separator, key_separator) = match separators {
        None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        Some(pair) => {
            let parts: Vec<Value> = pair.try_iter()?.take(3).collect();
            match parts.as_slice() {
                [item, key] => (python::text(item, budget)?, python::text(key, budget)?),
                _ => return Err(invalid("tojson: separators must be a pair of strings".into())),
            }
        }
    };
    let layout = Layout {
        ensure_ascii: match ensure_ascii {
            Some(value) => value,
            None => kwargs.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
        },
        sort_keys: kwargs.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
        indent,
        item_separator,
        key_separator,
    };
    kwargs.assert_all_used()?;
    let mut out = String::new();
    layout.write(&mut out, value, budget, 0)?;
    Ok(Value::from(out))
}

impl Layout {
    fn write(
        &self,
        out: &mut String,
        value: &Value,
        budget: &RenderBudget,
        depth: usize,
    ) -> Result<(), Error> {
        let indentation = self.indent.map_or(0, |indent| indent * depth) + self.item_separator.len();
        budget.charge(python::node_bytes(value).saturating_add(indentation as u64))?;
        if depth > python::MAX_VALUE_DEPTH {
            return Err(python::too_deep());
        }
        match value.kind() {
            ValueKind::None => out.push_str("null"),
            ValueKind::Bool => out.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => out.push_str(&number(value)),
            ValueKind::String => self.quote(out, value.as_str().unwrap_or_default()),
            ValueKind::Seq | ValueKind::Iterable => {
                let mut empty = true;
                out.push('[');
                for item in value.try_iter()? {
                    self.begin_item(out, empty, depth + 1);
                    empty = false;
                    self.write(out, &item, budget, depth + 1)?;
                }
                self.end(out, empty, depth);
                out.push(']');
            }
            ValueKind::Map => {
                let mut keys: Vec<Value> = value.try_iter()?.collect();
                if self.sort_keys {
                    keys.sort();
                }
                out.push('{');
                for (index, key) in keys.iter().enumerate() {
                    self.begin_item(out, index == 0, depth + 1);
                    budget.charge(python::node_bytes(key).saturating_add(self.key_separator.len() as u64))?;
                    self.quote(out, &key_text(key)?);
                    out.push_str(&self.key_separator);
                    self.write(out, &value.get_item(key)?, budget, depth + 1)?;
                }
                self.end(out, keys.is_empty(), depth);
                out.push('}');
            }
            kind => return Err(invalid(format!("tojson: a value of type {kind} has no JSON form"))),
        }
        Ok(())
    }

    fn begin_item(&self, out: &mut String, first: bool, depth: usize) {
        if !first {
            out.push_str(&self.item_separator);
        }
        self.new_line(out, depth);
    }

    fn end(&self, out: &mut String, empty: bool, depth: usize) {
        if !empty {
            self.new_line(out, depth);
        }
    }

    fn new_line(&self, out: &mut String, depth: usize) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn quote(&self, out: &mut String, text: &str) {
        out.push('"');
        for c in text.chars() {
            match c {
                '"' => out.push_str("\\\""),
                '\\' => out.push_str("\\\\"),
                '\n' => out.push_str("\\n"),
                '\r' => out.push_str("\\r"),
                '\t' => out.push_str("\\t"),
                '\u{8}' => out.push_str("\\b"),
                '\u{c}' => out.push_str("\\f"),
                c if c < ' ' => out.push_str(&format!("\\u{:04x}", c as u32)),
                // With `ensure_ascii` Python escapes U+007F too, without it not.
                c if self.ensure_ascii && !(' '..='~').contains(&c) => {
                    for unit in c.encode_utf16(&mut [0; 2]) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
                c => out.push(c),
            }
        }
        out.push('"');
    }
}

fn number(value: &Value) -> String {
    match python::as_float(value) {
        Some(value) if value.is_nan() => "NaN".into(),
        Some(value) if value.is_infinite() => if value > 0.0 { "Infinity" } else { "-Infinity" }.into(),
        Some(value) => python::float(value),
        None => value.to_string(),
    }
}

fn key_text(key: &Value) -> Result<String, Error> {
    Ok(match key.kind() {
        ValueKind::String => key.as_str().unwrap_or_default().to_owned(),
        ValueKind::Number => number(key),
        ValueKind::Bool => if key.is_true() { "true" } else { "false" }.into(),
        ValueKind::None => "null".into(),
        kind => return Err(invalid(format!("tojson: a key of type {kind} has no JSON form"))),
    })
}

fn invalid(text: String) -> Error {
    Error::new(ErrorKind::InvalidOperation, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dump(json: serde_json::Value, options: &[(&str, Value)]) -> Result<String, Error> {
        let kwargs: Kwargs = options.iter().cloned().collect();
        Ok(tojson(&RenderBudget::new(), &python::from_json(&json), None, &kwargs)?.to_string())
    }

    #[test]
    fn compact_form_keeps_order_and_escapes_only_what_json_must() {
        let json = serde_json::json!({"z": [1, -2.5, 1e-7, 1e16], "a": "<&>'\"\\\n\u{1}\u{7f}é😀", "n": null, "t": true, "e": {}, "l": []});
        let want = "{\"z\": [1, -2.5, 1e-07, 1e+16], \"a\": \"<&>'\\\"\\\\\\n\\u0001\u{7f}é😀\", \"n\": null, \"t\": true, \"e\": {}, \"l\": []}";
        assert_eq!(dump(json, &[]).unwrap(), want);
    }

    #[test]
    fn options_follow_python() {
        let json = serde_json::json!({"b": [1, {"c": []}], "a": "é😀\u{7f}"});
        let indented =
            "{\n  \"b\": [\n    1,\n    {\n      \"c\": []\n    }\n  ],\n  \"a\": \"é😀\u{7f}\"\n}";
        assert_eq!(dump(json.clone(), &[("indent", Value::from(2))]).unwrap(), indented);
        let ascii = "{\"a\":\"\\u00e9\\ud83d\\ude00\\u007f\",\"b\":[1,{\"c\":[]}]}";
        let options = [
            ("separators", Value::from(vec![",", ":"])),
            ("sort_keys", Value::from(true)),
            ("ensure_ascii", Value::from(true)),
        ];
        assert_eq!(dump(json.clone(), &options).unwrap(), ascii);
        assert!(dump(json.clone(), &[("indent", Value::from(MAX_JSON_INDENT + 1))]).is_err());
        assert!(dump(json, &[("unknown", Value::from(1))]).is_err());
    }
}
