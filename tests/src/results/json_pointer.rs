//! Where something is in the JSON of a report: JSON pointers (RFC 6901), with one thing more.
//!
//! A part like `algo=grpo&delay=64` chooses the only element of a list whose fields have these values. So a
//! pointer leads to the same figure, or to nothing, when the list gets another order.

use serde_json::Value;

/// What the pointer leads to. Nothing where a part leads nowhere, or to several elements of a list.
pub(super) fn find<'a>(json: &'a Value, pointer: &str) -> Option<&'a Value> {
    let parts = pointer.strip_prefix('/')?.split('/');
    parts
        .map(|part| part.replace("~1", "/").replace("~0", "~"))
        .try_fold(json, |value, part| step(value, &part))
}

fn step<'a>(value: &'a Value, part: &str) -> Option<&'a Value> {
    match value {
        Value::Object(fields) => fields.get(part),
        Value::Array(elements) => match part.parse::<usize>() {
            Ok(index) => elements.get(index),
            Err(_) => chosen(elements, part),
        },
        _ => None,
    }
}

/// The only element whose fields have the values of `part`.
fn chosen<'a>(elements: &'a [Value], part: &str) -> Option<&'a Value> {
    let has = |element: &Value, field: &str| {
        let (name, wanted) = field.split_once('=')?;
        Some(is(element.get(name)?, wanted))
    };
    let all = |element: &&Value| part.split('&').all(|field| has(element, field) == Some(true));
    let mut like = elements.iter().filter(all);
    let first = like.next()?;
    like.next().is_none().then_some(first)
}

/// Whether the value is a text like this, or a number, true or false that is written so.
fn is(value: &Value, wanted: &str) -> bool {
    match value {
        Value::String(text) => text == wanted,
        other => {
            let text = other.to_string();
            text == wanted
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn pointers_lead_through_fields_and_lists() {
        let json = json!({"a": {"b/c": [1, {"~": 2}], "": 3, "llama.cpp": 4}});
        assert_eq!(find(&json, "/a/b~1c/0"), Some(&json!(1)));
        assert_eq!(find(&json, "/a/b~1c/1/~0"), Some(&json!(2)));
        assert_eq!(find(&json, "/a/llama.cpp"), Some(&json!(4)));
        assert_eq!(find(&json, "/a/"), Some(&json!(3)));
        for nowhere in ["a", "/b", "/a/b~1c/2", "/a/b~1c/-", "/a/b~1c/0/0", ""] {
            assert_eq!(find(&json, nowhere), None, "{nowhere}");
        }
    }

    #[test]
    fn an_element_is_chosen_by_its_fields() {
        let row = |algo: &str, delay: u64| json!({"algo": algo, "delay": delay, "last": delay + 1});
        let json = json!({"results": [row("gepo", 0), row("grpo", 0), row("grpo", 64), 7]});
        assert_eq!(find(&json, "/results/algo=grpo&delay=64/last"), Some(&json!(65)));
        assert_eq!(find(&json, "/results/algo=gepo/last"), Some(&json!(1)));
        for nowhere in ["algo=grpo", "algo=bnpo", "algo=grpo&delay=8", "algo", "speed=1"] {
            assert_eq!(find(&json, &format!("/results/{nowhere}/last")), None, "{nowhere}");
        }
        let claims = json!([{"claim": "ends above at η = 1 (a/b)", "holds": true}]);
        assert_eq!(find(&claims, "/claim=ends above at η = 1 (a~1b)/holds"), Some(&json!(true)));
    }
}
