//! What filters and methods both do with text, as Python does it.

use minijinja::{Error, Value};

use super::budget::RenderBudget;
use super::python;

/// `str.strip` and its one-sided forms: white space by default, else any of `chars`.
pub(crate) fn strip<'a>(text: &'a str, start: bool, end: bool, chars: Option<&str>) -> &'a str {
    let drops = |c: char| chars.map_or_else(|| python::is_space(c), |set| set.contains(c));
    let text = if start { text.trim_start_matches(drops) } else { text };
    if end { text.trim_end_matches(drops) } else { text }
}

/// `glue.join(items)`, with Python's text of each item.
pub(crate) fn join_values(budget: &RenderBudget, items: &Value, glue: &str) -> Result<Value, Error> {
    let mut out = String::new();
    for (index, item) in items.try_iter()?.enumerate() {
        if index > 0 {
            budget.charge(glue.len() as u64)?;
            out.push_str(glue);
        }
        out.push_str(&python::text(&item, budget)?);
    }
    Ok(Value::from(out))
}

/// Bytes of `text` after every `old` became `new`.
pub(crate) fn replaced_size(text: &str, old: &str, new: &str) -> u64 {
    let matches = text.matches(old).count() as u64;
    (text.len() as u64).saturating_add(matches.saturating_mul(new.len() as u64))
}
