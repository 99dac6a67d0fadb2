//! Objectives by name, as run files choose them.

use serde::{Deserialize, Serialize};

use super::{DecoupledPpo, Gepo, Objective, ObjectiveError};

/// An objective and its settings, tagged by `name`:
///
/// ```toml
/// [objective]
/// name = "gepo"
/// cppo_kl_beta = 0.005
/// clip = { low = 0.2, high = 0.28 }
/// ```
///
/// Settings that are left out keep their defaults.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "snake_case")]
pub enum Preset {
    /// Group expectation policy optimization.
    Gepo(Gepo),
    /// PPO with separate behaviour and proximal policies.
    DecoupledPpo(DecoupledPpo),
}

impl Default for Preset {
    fn default() -> Self {
        Self::Gepo(Gepo::default())
    }
}

impl Preset {
    /// Checks the settings, so that a run is refused at its start rather than at its first update.
    ///
    /// # Errors
    /// [`ObjectiveError::Setting`] names the setting and its domain.
    pub fn validate(&self) -> Result<(), ObjectiveError> {
        match self {
            Self::Gepo(gepo) => gepo.validate(),
            Self::DecoupledPpo(ppo) => ppo.validate(),
        }
    }

    /// The objective itself.
    #[must_use]
    pub fn objective(&self) -> &dyn Objective {
        match self {
            Self::Gepo(gepo) => gepo,
            Self::DecoupledPpo(ppo) => ppo,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objective::Clip;

    #[test]
    fn a_run_file_names_an_objective_and_overrides_parts_of_it() {
        let preset: Preset =
            toml::from_str("name = 'gepo'\ncppo_kl_beta = 0.005\nclip = { low = 0.1, high = 0.3 }").unwrap();
        assert_eq!(
            preset,
            Preset::Gepo(Gepo { clip: Some(Clip { low: 0.1, high: 0.3 }), cppo_kl_beta: 0.005 })
        );
        let preset: Preset = toml::from_str("name = 'decoupled_ppo'").unwrap();
        assert_eq!(preset.objective().name(), "decoupled_ppo");
        assert_eq!(preset, Preset::DecoupledPpo(DecoupledPpo::default()));
    }

    #[test]
    fn optional_parts_are_left_out_with_false() {
        let preset: Preset = toml::from_str("name = 'gepo'\nclip = false").unwrap();
        assert_eq!(preset, Preset::Gepo(Gepo { clip: None, cppo_kl_beta: 0.0 }));
        assert_eq!(toml::from_str::<Preset>(&toml::to_string(&preset).unwrap()).unwrap(), preset);
        let preset: Preset = toml::from_str("name = 'decoupled_ppo'\nbehaviour_weight_cap = false").unwrap();
        assert!(matches!(preset, Preset::DecoupledPpo(DecoupledPpo { behaviour_weight_cap: None, .. })));
        assert!(toml::from_str::<Preset>("name = 'gepo'\nclip = true").is_err());
    }

    #[test]
    fn unknown_names_and_settings_are_refused() {
        assert!(toml::from_str::<Preset>("name = 'sft'").is_err());
        assert!(toml::from_str::<Preset>("name = 'gepo'\nclpi = 1").is_err());
    }

    #[test]
    fn settings_outside_their_domain_are_named() {
        let bad = Preset::Gepo(Gepo { clip: Some(Clip { low: 1.5, high: 0.2 }), cppo_kl_beta: 0.0 });
        assert!(bad.validate().unwrap_err().to_string().contains("clip.low"));
        let bad =
            Preset::DecoupledPpo(DecoupledPpo { behaviour_weight_cap: Some(0.0), ..Default::default() });
        assert!(bad.validate().unwrap_err().to_string().contains("behaviour_weight_cap"));
    }
}
