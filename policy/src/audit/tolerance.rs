//! How far an honest node may be off, by what it declares and by what the auditing machine computes in.

use super::near_misses::RaceLimits;
use crate::model::precision::{Precision, UnknownPrecision};

/// How tokens are audited that were drawn in some precision: in the same, by the limits that honest
/// machines keep among themselves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Standard {
    /// What was declared, and what the audit computes in.
    pub precision: Precision,
    /// How far honest nodes may be off.
    pub tolerance: Tolerance,
}

impl Standard {
    /// For tokens that were drawn at this temperature in the precision of the name `declared`.
    ///
    /// # Errors
    /// Those that [`Tolerance::of`] fails with.
    pub fn of(declared: &str, temperature: f32) -> Result<Self, CannotAudit> {
        let precision: Precision = declared.parse()?;
        Ok(Self { precision, tolerance: Tolerance::of(declared, precision, temperature)? })
    }
}

/// How far an honest node may be off.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tolerance {
    /// Probability by which u may miss a token's interval.
    pub border: f64,
    /// Share of tokens that may be further off.
    pub off: f64,
    /// Mean of |Δ log p| over many tokens; over few, see [`Tolerance::mean_of`].
    pub mean: f64,
    /// Largest |Δ log p|.
    pub max: f32,
    /// How far apart honest machines are where tokens race; `border` and `off` say nothing of races.
    pub race: RaceLimits,
}

/// Why nothing can be said about tokens, true or false.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CannotAudit {
    /// Drawn in a way that is not known here.
    #[error("tokens cannot be audited here: {0}, and audits in f32, bf16, int8 or int4")]
    Unknown(#[from] UnknownPrecision),
    /// Nobody has measured how far such machines lie apart.
    #[error(
        "tokens cannot be audited here: no limits are known between {declared}, as declared, and {auditing}"
    )]
    Unmeasured {
        /// What the node computed in.
        declared: Precision,
        /// What the audit would compute in.
        auditing: Precision,
    },
    /// This machine does not come to the bits that are known, so it can tell nobody that theirs are wrong.
    #[error(
        "tokens cannot be audited here: this processor does not compute {precision} to the bit as others do; audit on another machine"
    )]
    Processor {
        /// What the node computed in.
        precision: Precision,
    },
    /// The policies that an audit needs at once are too large.
    #[error(
        "tokens cannot be audited here: declared in {precision}, they are audited in {precision}, and policies of {versions} versions at once take {needed} of {limit} bytes"
    )]
    NoRoom {
        /// What the node computed in, and what the audit would compute in.
        precision: Precision,
        /// Versions whose policies have to be there together.
        versions: usize,
        /// Bytes that copies of their weights take.
        needed: usize,
        /// Bytes that copies may take.
        limit: usize,
    },
}

// All at temperature 1. On the CPU the same recipe gives the same bits everywhere, but for bf16 on
// a matrix unit; where a recipe leaves the order of sums open, limits are for a machine that adds
// in another one, such a unit or a GPU. Such ones were imitated, and what all but a thousandth of
// their responses of 256 tokens keep is measured (`cargo lab study audit`, "another order of
// sums"); limits leave twice that and more.

/// Measured: 8e-7, 4e-6 and 5e-4. Wider than twice that, as kinds of GPUs differ in
/// their elementary functions, too.
const F32: Tolerance = Tolerance {
    border: 1e-4,
    off: 0.0,
    mean: 2e-4,
    max: 1e-2,
    // One token of 256,000 was off by 5e-4: at that gap, these give a chance of 1e-4.
    race: RaceLimits { most: 5e-3, spread: 5e-5 },
};
/// Measured: 1.4e-3, 3.9e-4 and 3.5e-2 with a policy that has learned; 2.7e-4, 2.8e-3 and
/// 1.7e-2 between a matrix unit and vectors with random weights of one to 28 layers, which
/// are less sure of their tokens. What is rounded to the other side is off by a part in 256,
/// and moves what follows.
const BF16: Tolerance = Tolerance {
    border: 3e-3,
    off: 0.0,
    mean: 5e-3,
    max: 0.1,
    // One token of 256,000 was off by 3.5e-2, and the mean is 2.8e-3 where weights are random.
    race: RaceLimits { most: 0.1, spread: 4e-3 },
};
/// Where [nothing is left open](Precision::is_exact), honest machines agree to the bit. What is
/// left is what another way to add up the weights of one draw may move, after the last product:
/// [`crate::sampling`] says how little.
const EXACT: Tolerance = Tolerance {
    border: 1e-6,
    off: 0.0,
    mean: 1e-6,
    max: 1e-5,
    // The same logits give the same race everywhere.
    race: RaceLimits { most: 1e-6, spread: 1e-7 },
};

/// The limits at temperature 1: rows are what is declared, columns what the audit computes in. A
/// pair gets limits when differences of honest nodes were measured between the two, and none
/// before: guessed ones would ban the honest or let liars pass.
fn limits(declared: Precision, auditing: Precision) -> Option<Tolerance> {
    use Precision::{Bf16, F32 as Single, Int4, Int8};
    match (declared, auditing) {
        (Single, Single) => Some(F32),
        (Bf16, Bf16) => Some(BF16),
        (Int8, Int8) | (Int4, Int4) => Some(EXACT),
        (Single, Bf16 | Int8 | Int4) => None,
        (Bf16, Single | Int8 | Int4) => None,
        (Int8, Single | Bf16 | Int4) => None,
        (Int4, Single | Bf16 | Int8) => None,
    }
}

impl Tolerance {
    /// For tokens that were drawn at this temperature in the precision of the name `declared`,
    /// where the audit computes in `auditing`. A temperature below 1 multiplies differences. Where
    /// top-p or top-k cut the distribution, a token at the cut may be in on one machine and out on
    /// another: such draws cannot be judged by these limits.
    ///
    /// # Errors
    /// When an audit would say nothing about them.
    pub fn of(declared: &str, auditing: Precision, temperature: f32) -> Result<Self, CannotAudit> {
        let declared: Precision = declared.parse()?;
        let limits = limits(declared, auditing).ok_or(CannotAudit::Unmeasured { declared, auditing })?;
        Ok(limits.at(temperature))
    }

    /// For nodes and audits that both compute in f32.
    #[must_use]
    pub fn f32(temperature: f32) -> Self {
        F32.at(temperature)
    }

    fn at(self, temperature: f32) -> Self {
        self.times(if temperature > 0.0 { (1.0 / temperature).max(1.0) } else { 1.0 })
    }

    /// Mean of |Δ log p| over so many tokens: one of them may be as far off as any may be.
    #[must_use]
    pub fn mean_of(&self, tokens: usize) -> f64 {
        self.mean + f64::from(self.max) / tokens.max(1) as f64
    }

    /// The same for nodes that are `factor` times as far off.
    #[must_use]
    pub fn times(self, factor: f32) -> Self {
        let wide = f64::from(factor);
        let race = self.race.times(wide);
        Self { border: self.border * wide, mean: self.mean * wide, max: self.max * factor, race, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_low_temperature_widens_the_limits() {
        let (warm, cold) = (Tolerance::f32(2.0), Tolerance::f32(0.1));
        assert_eq!((warm, cold.max), (Tolerance::f32(1.0), 10.0 * warm.max));
        assert_eq!(Tolerance::f32(0.0), warm);
        assert_eq!(warm.mean_of(1), warm.mean + f64::from(warm.max));
        assert_eq!((warm.border, warm.off, warm.mean, warm.max), (1e-4, 0.0, 2e-4, 1e-2));
    }

    #[test]
    fn nothing_is_judged_by_limits_that_nobody_measured() {
        let of = |precision, auditing| Tolerance::of(precision, auditing, 0.5);
        for declared in Precision::ALL {
            for auditing in Precision::ALL {
                let found = of(declared.name(), auditing);
                if declared == auditing {
                    let (limits, f32) = (found.unwrap(), Tolerance::f32(0.5));
                    assert_eq!(limits.border < f32.border, declared.is_exact());
                } else {
                    assert_eq!(found, Err(CannotAudit::Unmeasured { declared, auditing }));
                }
            }
        }
        assert!(matches!(of("fp8", Precision::F32), Err(CannotAudit::Unknown(_))));
    }

    #[test]
    fn what_is_declared_is_what_the_audit_computes_in() {
        for precision in Precision::ALL {
            let Standard { precision: found, tolerance } = Standard::of(precision.name(), 0.5).unwrap();
            assert_eq!((found, Ok(tolerance)), (precision, Tolerance::of(precision.name(), precision, 0.5)));
        }
        let unknown = Standard::of("fp8", 1.0).unwrap_err().to_string();
        assert!(unknown.contains("fp8") && unknown.contains("f32, bf16, int8 or int4"), "{unknown}");
    }
}
