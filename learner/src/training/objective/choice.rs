//! The objective of a run file: a preset, and the parts that differ from it.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use toml::{Table, Value};

use super::{Objective, Preset};

/// An objective as a run file chooses it:
///
/// ```toml
/// [train.objective]
/// name = "gepo"
/// surrogate = { low = 0.2, high = 0.28 }                  # another number of the preset's part
/// kl = { estimator = "k3", beta = 0.005, anchor = "behaviour", cap = false }
/// aggregation = { kind = "per_token" }                    # another kind: it replaces the part
/// ```
///
/// What is left out is the preset's, and `objective = "gepo"` is all of it. `echo_clip = true` adds
/// EchoClip with its defaults to any of them. Written back, it lists every part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ObjectiveChoice {
    /// The preset that the parts began as.
    pub preset: Preset,
    /// The parts, as the run file has changed them.
    pub objective: Objective,
}

impl Default for ObjectiveChoice {
    fn default() -> Self {
        Preset::default().into()
    }
}

impl From<Preset> for ObjectiveChoice {
    fn from(preset: Preset) -> Self {
        Self { preset, objective: preset.objective() }
    }
}

impl Serialize for ObjectiveChoice {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.table().map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ObjectiveChoice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut changes = match Value::deserialize(deserializer)? {
            Value::Table(changes) => changes,
            // A name alone is a preset as it is.
            name @ Value::String(_) => Table::from_iter([("name".to_owned(), name)]),
            _ => return Err(D::Error::custom("an objective is a name, or a table with one")),
        };
        let preset = match changes.remove("name") {
            Some(Value::String(name)) => Preset::named(&name).ok_or_else(|| {
                let names: Vec<&str> = Preset::ALL.iter().map(|preset| preset.name()).collect();
                D::Error::custom(format!("unknown objective `{name}`; known are {}", names.join(", ")))
            })?,
            Some(_) => return Err(D::Error::custom("the objective's `name` must be in quotes")),
            None => Preset::default(),
        };
        let mut parts = Table::try_from(preset.objective()).map_err(D::Error::custom)?;
        merge(&mut parts, changes);
        let objective = Objective::deserialize(parts).map_err(D::Error::custom)?;
        Ok(Self { preset, objective })
    }
}

impl ObjectiveChoice {
    /// The preset's name and all parts.
    fn table(&self) -> Result<Table, toml::ser::Error> {
        let mut table = Table::try_from(self.objective)?;
        table.insert("name".into(), self.preset.name().into());
        Ok(table)
    }

    /// All parts, as a run file would write them.
    #[must_use]
    pub fn expansion(&self) -> String {
        let within = |key: &str, table: Table| Table::from_iter([(key.to_owned(), Value::Table(table))]);
        let text = self.table().and_then(|t| toml::to_string(&within("train", within("objective", t))));
        text.unwrap_or_else(|error| format!("# cannot be written as TOML: {error}\n"))
    }
}

/// Puts `changes` over `parts`. A table changes single keys of the part that it meets, unless
/// it names another kind.
fn merge(parts: &mut Table, changes: Table) {
    for (key, change) in changes {
        match (parts.get_mut(&key), change) {
            (Some(Value::Table(part)), Value::Table(change)) if same_kind(&key, part, &change) => {
                merge(part, change);
            }
            (_, change) => {
                parts.insert(key, change);
            }
        }
    }
}

/// Whether `change` leaves the tag of the part called `key` as it is.
fn same_kind(key: &str, part: &Table, change: &Table) -> bool {
    let tag = if key == "ratio" { "level" } else { "kind" };
    change.get(tag).is_none_or(|name| part.get(tag) == Some(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::training::objective::{
        Aggregation, Anchor, Correction, EchoClip, Estimator, Kl, Level, Surrogate, WeightBound,
    };

    fn choice(text: &str) -> Objective {
        toml::from_str::<ObjectiveChoice>(text).unwrap().objective
    }

    #[test]
    fn a_run_file_names_a_preset_and_overrides_parts_of_it() {
        let preset = Preset::Gepo.objective();
        assert_eq!(choice("name = 'gepo'"), preset);
        assert_eq!(choice(""), preset);
        #[derive(Deserialize)]
        struct Section {
            objective: ObjectiveChoice,
        }
        let section: Section = toml::from_str("objective = 'dr_grpo'").unwrap();
        assert_eq!(section.objective, Preset::DrGrpo.into(), "a name alone");
        let changed = choice(
            "name = 'gepo'\nsurrogate = { high = 0.28 }\naggregation = { kind = 'per_token' }\n\
             echo_clip = { lambda = 0.001 }",
        );
        let surrogate = Surrogate::PpoClip { low: 0.2, high: 0.28, dual: None };
        let (aggregation, echo_clip) = (Aggregation::PerToken {}, Some(EchoClip::default()));
        assert_eq!(changed, Objective { surrogate, aggregation, echo_clip, ..preset });
    }

    #[test]
    fn another_kind_replaces_the_part_and_false_leaves_it_out() {
        let changed = choice("name = 'decoupled_ppo'\nsurrogate = { kind = 'ratio' }\ncorrection = false");
        let preset = Preset::DecoupledPpo.objective();
        assert_eq!(changed, Objective { surrogate: Surrogate::Ratio {}, correction: None, ..preset });
        let changed =
            choice("name = 'decoupled_ppo'\n[correction.bound]\nkind = 'mask'\nlow = 0.5\nhigh = 2");
        let correction = Correction { level: Level::Token, bound: WeightBound::Mask { low: 0.5, high: 2.0 } };
        assert_eq!(changed, Objective { correction: Some(correction), ..preset });
    }

    #[test]
    fn what_is_not_named_stays_and_a_mistake_within_a_part_is_named() {
        let changed = choice("name = 'decoupled_ppo'\ncorrection = { level = 'sequence' }");
        let correction = Correction { level: Level::Sequence, bound: WeightBound::Truncate { cap: 5.0 } };
        assert_eq!(changed.correction, Some(correction));
        let kl = choice("kl = { estimator = 'k3', beta = 1, anchor = 'behaviour' }").kl.unwrap();
        assert_eq!((kl.beta, kl.cap), (1.0, None));
        let refused =
            toml::from_str::<ObjectiveChoice>("kl = { estimator = 'k4', beta = 1.0, anchor = 'behaviour' }");
        assert!(refused.unwrap_err().to_string().contains("k4"));
    }

    #[test]
    fn every_preset_survives_being_written_and_read() {
        for preset in Preset::ALL {
            let choice = ObjectiveChoice::from(preset);
            let written: Table = toml::from_str(&choice.expansion()).unwrap();
            assert_eq!(written["train"]["objective"].clone().try_into::<ObjectiveChoice>().unwrap(), choice);
        }
    }

    #[test]
    fn echo_clip_is_switched_on_and_off_in_any_preset() {
        for preset in Preset::ALL {
            let with = |setting: &str| choice(&format!("name = '{}'\necho_clip = {setting}", preset.name()));
            let expected = |echo_clip| Objective { echo_clip, ..preset.objective() };
            assert_eq!(with("true"), expected(Some(EchoClip::default())), "{preset:?}");
            assert_eq!(with("false"), expected(None), "{preset:?}");
            assert_eq!(with("{ lambda = 0.25 }"), expected(Some(EchoClip { lambda: 0.25 })), "{preset:?}");
        }
    }

    #[test]
    fn what_has_no_defaults_cannot_be_switched_on() {
        for part in ["kl", "correction", "advantage.overlong", "surrogate.dual"] {
            let refused =
                toml::from_str::<ObjectiveChoice>(&format!("name = 'grpo'\n{part} = true")).unwrap_err();
            assert!(refused.to_string().contains("false"), "{part}: {refused}");
        }
    }

    #[test]
    fn the_regularisers_that_presets_leave_out_are_put_back_as_documented() {
        for (name, tag, estimator, beta, cap) in [
            ("grpo", "k3", Estimator::K3, 0.04, Some(10.0)),
            ("reinforce_pp", "k2", Estimator::K2, 0.01, None),
            ("ppo_truncated_is", "k3", Estimator::K3, 0.001, None),
        ] {
            let bound = cap.map_or("false".to_owned(), |cap: f64| cap.to_string());
            let part = format!("estimator = '{tag}', beta = {beta}, anchor = 'reference', cap = {bound}");
            let kl = choice(&format!("name = '{name}'\nkl = {{ {part} }}")).kl;
            assert_eq!(kl, Some(Kl { estimator, beta, anchor: Anchor::Reference, cap }), "{name}");
        }
    }

    #[test]
    fn unknown_names_and_settings_are_refused() {
        let refused = |text: &str| toml::from_str::<ObjectiveChoice>(text).unwrap_err().to_string();
        assert!(refused("name = 'sft'").contains("dr_grpo"));
        assert!(refused("surogate = { high = 1.0 }").contains("surogate"));
        assert!(refused("surrogate = { hihg = 1.0 }").contains("hihg"));
        assert!(refused("kl = true").contains("false"));
        let alone =
            toml::from_str::<std::collections::BTreeMap<String, ObjectiveChoice>>("objective = 'gpeo'");
        assert!(alone.unwrap_err().to_string().contains("unknown objective `gpeo`"));
    }
}
