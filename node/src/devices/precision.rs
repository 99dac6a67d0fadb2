//! In which numbers this node computes: its owner's choice among those that the run takes.

use echo_policy::generation::cpu::computes_as_known;
use echo_policy::model::precision::Precision;
use echo_protocol::run::precision::PrecisionName;

/// The run does not take what the owner chose.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "precision is {wanted}, and the run takes {taken}; set precision (--precision) to one of these, or leave it out for {default}"
)]
pub struct NotTaken {
    /// What the owner's setting asks for.
    wanted: Precision,
    /// What the charter lists.
    taken: String,
    /// What is computed in without the setting.
    default: Precision,
}

/// The precision to generate in: `wanted`, or else the first of the charter's that this program
/// knows and this machine computes in, as its operator lists first what nodes had best compute in.
///
/// # Errors
/// When the charter does not list what is wanted.
pub fn choose(taken: &[PrecisionName], wanted: Option<Precision>) -> Result<Precision, NotTaken> {
    let known = || taken.iter().filter_map(|name| name.as_str().parse::<Precision>().ok());
    let default = known().find(|precision| computes_as_known(*precision)).unwrap_or_default();
    match wanted {
        None => Ok(default),
        Some(wanted) if known().any(|precision| precision == wanted) => Ok(wanted),
        Some(wanted) => {
            let taken = taken.iter().map(PrecisionName::as_str).collect::<Vec<_>>().join(", ");
            Err(NotTaken { wanted, taken, default })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<PrecisionName> {
        names.iter().map(|name| PrecisionName::try_from((*name).to_owned()).unwrap()).collect()
    }

    #[test]
    fn the_first_that_is_known_is_computed_in_unless_the_owner_chooses_another() {
        let taken = names(&["fp4", "int8", "f32"]);
        assert_eq!(choose(&taken, None), Ok(Precision::Int8));
        assert_eq!(choose(&taken, Some(Precision::F32)), Ok(Precision::F32));
        assert_eq!(choose(&names(&["f32", "int8"]), None), Ok(Precision::F32));
    }

    #[test]
    fn what_the_run_does_not_take_is_refused_with_what_it_takes() {
        let refused = choose(&names(&["f32", "bf16"]), Some(Precision::Int4)).unwrap_err().to_string();
        for part in ["precision is int4", "takes f32, bf16", "--precision", "leave it out for f32"] {
            assert!(refused.contains(part), "{refused}");
        }
    }
}
