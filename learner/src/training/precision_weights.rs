//! `[train.precision_weight]`

use crate::common::option_error::{OptionError, refused, setting};
use echo_policy::model::precision::Precision;
use echo_protocol::run::precision::PrecisionName;
use serde::{Deserialize, Serialize};

/// `[train.precision_weight]`: what a response weighs in the loss by the precision in which it was
/// computed. In f32 it weighs 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PrecisionWeights {
    /// Weight of responses computed in bf16, 0 to 1; 1 by default.
    pub bf16: f64,
    /// Weight of responses computed in int8, 0 to 1; 1 by default.
    pub int8: f64,
    /// Weight of responses computed in int4, 0 to 1; 1 by default.
    pub int4: f64,
}

impl Default for PrecisionWeights {
    fn default() -> Self {
        Self { bf16: 1.0, int8: 1.0, int4: 1.0 }
    }
}

impl PrecisionWeights {
    /// The weight of responses of this precision; 0 where it is not known here.
    #[must_use]
    pub fn of(&self, name: &PrecisionName) -> f64 {
        match name.as_str().parse() {
            Ok(Precision::F32) => 1.0,
            Ok(Precision::Bf16) => self.bf16,
            Ok(Precision::Int8) => self.int8,
            Ok(Precision::Int4) => self.int4,
            Err(_) => 0.0,
        }
    }

    /// Weights that are not 0 to 1.
    pub(crate) fn problems(&self) -> Vec<OptionError> {
        let weights = [
            ("train.precision_weight.bf16", self.bf16),
            ("train.precision_weight.int8", self.int8),
            ("train.precision_weight.int4", self.int4),
        ];
        let rule = "it has to be 0 to 1, which is what f32 weighs";
        let checked =
            weights.map(|(field, weight)| setting(field, weight, (0.0..=1.0).contains(&weight), rule));
        refused(checked)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f32_weighs_1_and_what_is_not_known_nothing() {
        let weights: PrecisionWeights = toml::from_str("bf16 = 0.5\nint4 = 0").unwrap();
        let of = |name: &str| weights.of(&PrecisionName::try_from(name.to_owned()).unwrap());
        assert_eq!(["f32", "bf16", "int8", "int4", "fp8"].map(of), [1.0, 0.5, 1.0, 0.0, 0.0]);
        assert!(weights.problems().is_empty());
        for wrong in ["bf16 = -0.1", "int8 = 1.5", "int4 = nan"] {
            assert!(toml::from_str::<PrecisionWeights>(wrong).unwrap().problems().len() == 1, "{wrong}");
        }
        assert!(toml::from_str::<PrecisionWeights>("f32 = 0.5").is_err());
    }
}
