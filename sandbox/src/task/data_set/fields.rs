//! The values of a row by their keys, and words for values of another type.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// A row: an object of JSON.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(transparent)]
pub struct Fields(Map<String, Value>);

impl From<Map<String, Value>> for Fields {
    fn from(map: Map<String, Value>) -> Self {
        Self(map)
    }
}

impl Fields {
    /// The value of a key; `None` where there is none, or where it is null. `a.b` looks into an
    /// object. A key in another case (`Answer`) counts where the one that is asked for is not there.
    pub fn get(&self, key: &str) -> Option<&Value> {
        let mut parts = key.split('.');
        let mut value = named(&self.0, parts.next()?)?;
        for part in parts {
            value = named(value.as_object()?, part)?;
        }
        (!value.is_null()).then_some(value)
    }

    /// Whether the key is there, with any value, null too.
    pub fn has(&self, key: &str) -> bool {
        self.0.keys().any(|name| name.eq_ignore_ascii_case(key))
    }

    /// The first of the keys that has a value.
    pub fn first<'k>(&self, keys: &[&'k str]) -> Option<(&'k str, &Value)> {
        keys.iter().find_map(|key| Some((*key, self.get(key)?)))
    }

    /// The text of a key; `None` where there is none.
    ///
    /// # Errors
    /// When it is of another type, in words with the key.
    pub fn text(&self, key: &str) -> Result<Option<&str>, String> {
        match self.get(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(format!("`{key}` is {}: write a text", described(other))),
        }
    }

    /// The text of a key that a row of this form has.
    ///
    /// # Errors
    /// When it is missing or of another type, in words with the key.
    pub fn required(&self, key: &str) -> Result<&str, String> {
        self.text(key)?.ok_or_else(|| format!("it has no `{key}`, which a row of this form has"))
    }

    /// The list of texts of a key; empty where there is none.
    ///
    /// # Errors
    /// When it is of another type, in words with the key.
    pub fn texts(&self, key: &str) -> Result<Vec<String>, String> {
        Ok(self.typed(key)?.unwrap_or_default())
    }

    /// The value of a key as a type; `None` where there is none.
    ///
    /// # Errors
    /// When it is none of that type, in words with the key.
    pub fn typed<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, String> {
        let Some(value) = self.get(key) else { return Ok(None) };
        T::deserialize(value).map(Some).map_err(|error| format!("`{key}`: {error}"))
    }

    /// The object of a key, which may be written as a text of JSON; `None` where there is none.
    ///
    /// # Errors
    /// When it is neither, in words with the key.
    pub fn json(&self, key: &str) -> Result<Option<Value>, String> {
        match self.get(key) {
            Some(Value::String(text)) if text.trim().is_empty() => Ok(None),
            Some(Value::String(text)) => serde_json::from_str(text)
                .map(Some)
                .map_err(|error| format!("`{key}` is a text that is not JSON ({error})")),
            other => Ok(other.cloned()),
        }
    }

    /// The keys as a message lists them.
    pub fn keys(&self) -> String {
        /// Keys that are listed.
        const SHOWN: usize = 12;
        let keys: Vec<String> = self.0.keys().take(SHOWN).map(|key| format!("`{key}`")).collect();
        let more = if self.0.len() > SHOWN { ", …" } else { "" };
        if keys.is_empty() { "none".to_owned() } else { keys.join(", ") + more }
    }
}

fn named<'a>(object: &'a Map<String, Value>, key: &str) -> Option<&'a Value> {
    let same = || object.iter().find(|(name, _)| name.eq_ignore_ascii_case(key)).map(|(_, value)| value);
    object.get(key).or_else(same)
}

/// What a value is, as a message says it.
pub fn described(value: &Value) -> String {
    match value {
        Value::Null => "null".into(),
        Value::Bool(value) => format!("`{value}`"),
        Value::Number(number) => format!("the number {number}"),
        Value::String(_) => "a text".into(),
        Value::Array(values) => format!("a list of {}", values.len()),
        Value::Object(_) => "an object".into(),
    }
}

/// A number as a person writes it: 27.0 is 27, and none has an exponent.
pub fn number_text(number: &serde_json::Number) -> String {
    match number.as_f64() {
        Some(value) if number.is_f64() => value.to_string(),
        _ => number.to_string(),
    }
}

/// The question that a text or the messages of a conversation ask: what the system says, and then
/// what the user asks.
///
/// # Errors
/// When it is neither, or asks several times, in words with the key.
pub fn asked(key: &str, value: &Value) -> Result<String, String> {
    let messages = match value {
        Value::String(text) => return Ok(text.clone()),
        Value::Array(messages) => messages,
        other => {
            return Err(format!(
                "`{key}` is {}: write a text, or messages with `role` and `content`",
                described(other)
            ));
        }
    };
    let mut texts = Vec::new();
    let mut asked = false;
    for message in messages {
        let role = message.get("role").or_else(|| message.get("from")).and_then(Value::as_str);
        let content = message.get("content").or_else(|| message.get("value")).and_then(Value::as_str);
        match (role, content) {
            (Some("system"), Some(text)) if !asked => texts.push(text),
            (Some("user" | "human"), Some(text)) if !asked => {
                asked = true;
                texts.push(text);
            }
            // An answer that the file shows.
            (Some("assistant" | "gpt"), Some(_)) if asked => {}
            (Some("user" | "human"), Some(_)) => {
                return Err(format!(
                    "`{key}` has several messages of the user, and a row asks once: write one question, with \
                     examples within it"
                ));
            }
            (Some(role), Some(_)) => {
                return Err(format!(
                    "`{key}` has a message of the role {role:?} before a question of the user"
                ));
            }
            _ => return Err(format!("`{key}` has a message without `role` and `content` as texts")),
        }
    }
    if asked { Ok(texts.join("\n\n")) } else { Err(format!("`{key}` has no message of the user")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn fields(value: Value) -> Fields {
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn values_are_found_by_key_path_and_in_any_case() {
        let row = fields(json!({"Answer": "2", "reward_model": {"ground_truth": "3"}, "none": null, "n": 1}));
        assert_eq!(row.get("answer"), Some(&json!("2")));
        assert_eq!(row.get("reward_model.ground_truth"), Some(&json!("3")));
        assert_eq!((row.get("none"), row.has("none"), row.get("other")), (None, true, None));
        assert_eq!(row.first(&["other", "n"]), Some(("n", &json!(1))));
        assert_eq!(row.text("n").unwrap_err(), "`n` is the number 1: write a text");
        assert!(row.required("other").unwrap_err().contains("`other`"));
    }

    #[test]
    fn messages_ask_once() {
        let message = |role: &str, content: &str| json!({"role": role, "content": content});
        let one = json!([message("system", "Box it."), message("user", "1+1?"), message("assistant", "2")]);
        assert_eq!(asked("prompt", &one).unwrap(), "Box it.\n\n1+1?");
        assert_eq!(asked("prompt", &json!("1+1?")).unwrap(), "1+1?");
        for (wrong, why) in [
            (
                json!([message("user", "1+1?"), message("assistant", "2"), message("user", "2+2?")]),
                "asks once",
            ),
            (json!([message("assistant", "2")]), "before a question"),
            (json!([message("system", "Box it.")]), "no message of the user"),
            (json!([{"role": "user", "content": ["1+1?"]}]), "without `role`"),
            (json!(3), "`prompt` is the number 3"),
        ] {
            let refused = asked("prompt", &wrong).unwrap_err();
            assert!(refused.contains(why), "{refused}");
        }
    }

    #[test]
    fn an_object_may_be_written_as_text() {
        let row = fields(json!({"a": "{\"b\": 1}", "c": {"b": 1}, "d": "{", "e": ""}));
        assert_eq!(row.json("a").unwrap(), row.json("c").unwrap());
        assert!(row.json("d").unwrap_err().contains("`d` is a text that is not JSON"));
        assert_eq!((row.json("e").unwrap(), row.json("f").unwrap()), (None, None));
    }

    #[test]
    fn numbers_are_written_as_people_write_them() {
        for (number, text) in
            [(json!(27.0), "27"), (json!(0.5), "0.5"), (json!(-3), "-3"), (json!(1e-7), "0.0000001")]
        {
            let Value::Number(number) = number else { panic!("a number") };
            assert_eq!(number_text(&number), text);
        }
    }
}
