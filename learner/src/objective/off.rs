//! Optional settings in run files: TOML has no null, so an option is written as its value or as `false`.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Setting<T> {
    Switch(bool),
    Value(T),
}

pub(super) fn serialize<T: Serialize + Copy, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    value.map_or(Setting::Switch(false), Setting::Value).serialize(serializer)
}

pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    match Setting::deserialize(deserializer)? {
        Setting::Switch(false) => Ok(None),
        Setting::Switch(true) => Err(D::Error::custom("write the value itself, or `false` to leave it out")),
        Setting::Value(value) => Ok(Some(value)),
    }
}
