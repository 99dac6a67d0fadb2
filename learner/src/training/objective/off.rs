//! Optional parts in run files: TOML has no null, so an option is written as its value or as
//! `false`, and one that serves any preset by its defaults also as `true`.

use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, IntoDeserializer, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub(super) fn serialize<T: Serialize + Copy, S: Serializer>(
    value: &Option<T>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match value {
        Some(value) => value.serialize(serializer),
        None => serializer.serialize_bool(false),
    }
}

pub(super) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_any(Switch { on: None })
}

/// Reads `true` as the part's defaults.
pub(super) fn deserialize_or_default<'de, T: Deserialize<'de> + Default, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    deserializer.deserialize_any(Switch::<T> { on: Some(T::default) })
}

/// Reads what is there as itself, so that its own errors are reported.
struct Switch<T> {
    /// What `true` stands for; `None`: it is refused.
    on: Option<fn() -> T>,
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Switch<T> {
    type Value = Option<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the value itself, or `false` to leave it out")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Self::Value, E> {
        match (value, self.on) {
            (false, _) => Ok(None),
            (true, Some(on)) => Ok(Some(on())),
            (true, None) => Err(E::custom("write the value itself, or `false` to leave it out")),
        }
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Some)
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Some)
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Self::Value, E> {
        T::deserialize(value.into_deserializer()).map(Some)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }
}
