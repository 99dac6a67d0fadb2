//! Values of expressions: exact where they can be, otherwise complex with a bound on the error.

use num_complex::Complex64;
use num_traits::{One, Signed, Zero};

use super::number::{self, Rational};

/// What one operation on floats may be off by, relative to its result.
const OPERATION_ERROR: f64 = 4.0 * f64::EPSILON;

/// A point of the complex plane that was computed with floats.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Approx {
    pub(crate) value: Complex64,
    /// What the value may be off by.
    pub(crate) error: f64,
}

/// A number, or an end of the real line.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Scalar {
    Exact(Rational),
    Approx(Approx),
    Infinite { negative: bool },
}

/// Whether a float is 0, or too small to hold its digits. What is not 0 must not be taken for it.
fn has_vanished(value: Complex64) -> bool {
    value.norm() < f64::MIN_POSITIVE
}

impl Approx {
    fn checked(value: Complex64, error: f64) -> Option<Scalar> {
        (value.is_finite() && error.is_finite()).then_some(Scalar::Approx(Self { value, error }))
    }

    /// The value of `function` here; its slope decides what becomes of the error.
    fn map(self, function: impl Fn(Complex64) -> Complex64) -> Option<Scalar> {
        let value = function(self.value);
        let carried = match self.error {
            0.0 => 0.0,
            error => (function(self.value + error) - value).norm(),
        };
        Self::checked(value, carried + OPERATION_ERROR * value.norm())
    }
}

impl Scalar {
    pub(crate) fn integer(value: i64) -> Self {
        Self::Exact(number::integer(value))
    }

    /// A float and what it is off by from having been rounded.
    pub(crate) fn float(value: f64) -> Option<Self> {
        Approx::checked(value.into(), OPERATION_ERROR * value.abs())
    }

    /// A point known to the last bit.
    pub(crate) fn complex(value: Complex64) -> Option<Self> {
        Approx::checked(value, 0.0)
    }

    /// The imaginary unit.
    pub(crate) fn imaginary_unit() -> Self {
        Self::Approx(Approx { value: Complex64::I, error: 0.0 })
    }

    /// As floats; an infinity has none, and neither has what is too small for them.
    pub(crate) fn approx(&self) -> Option<Approx> {
        match self {
            Self::Exact(exact) => match Self::float(number::to_f64(exact))? {
                Self::Approx(approx) => (exact.is_zero() || !has_vanished(approx.value)).then_some(approx),
                _ => None,
            },
            Self::Approx(approx) => Some(*approx),
            Self::Infinite { .. } => None,
        }
    }

    /// The real value, infinities included; `None` where the imaginary part is not 0.
    pub(crate) fn real(&self) -> Option<f64> {
        match self {
            Self::Exact(exact) => Some(number::to_f64(exact)),
            Self::Approx(Approx { value, error }) => {
                (value.im.abs() <= error + OPERATION_ERROR * value.norm()).then_some(value.re)
            }
            Self::Infinite { negative: true } => Some(f64::NEG_INFINITY),
            Self::Infinite { negative: false } => Some(f64::INFINITY),
        }
    }

    pub(crate) fn exact(&self) -> Option<&Rational> {
        match self {
            Self::Exact(exact) => Some(exact),
            _ => None,
        }
    }

    /// How long an exact value is, in words; nothing else is long.
    pub(crate) fn words(&self) -> u32 {
        self.exact().map_or(0, number::words)
    }

    /// Whether this is 0; unknown (`None`) where the error leaves it open.
    fn is_zero(&self) -> Option<bool> {
        match self {
            Self::Exact(exact) => Some(exact.is_zero()),
            Self::Approx(approx) if approx.value.norm() <= approx.error => {
                (approx.error == 0.0).then_some(true)
            }
            _ => Some(false),
        }
    }

    fn negative(&self) -> Option<bool> {
        match self {
            Self::Infinite { negative } => Some(*negative),
            other => other.real().map(|value| value < 0.0),
        }
    }

    pub(crate) fn add(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Exact(left), Self::Exact(right)) => {
                number::add(left, right).map(Self::Exact).or_else(|| self.add_approx(other))
            }
            (Self::Infinite { negative: left }, Self::Infinite { negative: right }) => {
                (left == right).then(|| self.clone())
            }
            (Self::Infinite { .. }, _) => Some(self.clone()),
            (_, Self::Infinite { .. }) => Some(other.clone()),
            _ => self.add_approx(other),
        }
    }

    fn add_approx(&self, other: &Self) -> Option<Self> {
        let (left, right) = (self.approx()?, other.approx()?);
        let value = left.value + right.value;
        Approx::checked(value, left.error + right.error + f64::EPSILON * value.norm())
    }

    pub(crate) fn negate(&self) -> Option<Self> {
        self.multiply(&Self::integer(-1))
    }

    pub(crate) fn multiply(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Exact(left), Self::Exact(right)) => {
                number::multiply(left, right).map(Self::Exact).or_else(|| self.multiply_approx(other))
            }
            (Self::Infinite { .. }, _) | (_, Self::Infinite { .. }) => {
                if self.is_zero()? || other.is_zero()? {
                    return None;
                }
                Some(Self::Infinite { negative: self.negative()? != other.negative()? })
            }
            _ => self.multiply_approx(other),
        }
    }

    fn multiply_approx(&self, other: &Self) -> Option<Self> {
        let (left, right) = (self.approx()?, other.approx()?);
        let value = left.value * right.value;
        if has_vanished(value) && !has_vanished(left.value) && !has_vanished(right.value) {
            return None;
        }
        let carried = left.error * right.value.norm() + right.error * left.value.norm();
        Approx::checked(value, carried + OPERATION_ERROR * value.norm())
    }

    /// `self ^ exponent`, the principal value.
    pub(crate) fn power(&self, exponent: &Self) -> Option<Self> {
        if let (Self::Exact(base), Self::Exact(exact)) = (self, exponent)
            && let Some(value) = exact_power(base, exact)
        {
            return Some(Self::Exact(value));
        }
        if let Self::Infinite { .. } = self {
            return match exponent.negative()? {
                true => Some(Self::integer(0)),
                false => Some(Self::Infinite { negative: false }),
            };
        }
        if self.is_zero()? {
            return (!exponent.negative()? && !exponent.is_zero()?).then(|| Self::integer(0));
        }
        let (base, power) = (self.approx()?, exponent.approx()?);
        // Small whole powers by multiplication: no logarithm blurs them.
        if let Some(whole @ -64..=64) = exponent.exact().and_then(number::small_integer) {
            return base.map(|base| base.powi(whole as i32)).filter(|power| !power.has_vanished());
        }
        let Self::Approx(from_base) = base.map(|base| base.powc(power.value))? else { return None };
        let Self::Approx(from_power) = power.map(|power| base.value.powc(power))? else { return None };
        // No power of anything but 0 is 0.
        if has_vanished(from_base.value) {
            return None;
        }
        let grown = OPERATION_ERROR * from_base.value.norm() * (power.value * base.value.ln()).norm();
        Approx::checked(from_base.value, from_base.error + from_power.error + grown)
    }

    /// Whether a float is 0, or too small to hold its digits.
    pub(crate) fn has_vanished(&self) -> bool {
        matches!(self, Self::Approx(approx) if has_vanished(approx.value))
    }

    /// The value of an analytic function.
    pub(crate) fn map(&self, function: impl Fn(Complex64) -> Complex64) -> Option<Self> {
        self.approx()?.map(function)
    }

    pub(crate) fn abs(&self) -> Option<Self> {
        match self {
            Self::Exact(exact) => Some(Self::Exact(exact.abs())),
            Self::Infinite { .. } => Some(Self::Infinite { negative: false }),
            Self::Approx(approx) => Approx::checked(approx.value.norm().into(), approx.error),
        }
    }

    /// Whether two values are the same within their errors. `None` where the errors are too large to tell.
    pub(crate) fn same(&self, other: &Self) -> Option<bool> {
        /// Beyond such an error, relative to the value or to one, agreement says nothing.
        const BLURRED: f64 = 1e-7;
        match (self, other) {
            (Self::Exact(left), Self::Exact(right)) => Some(left == right),
            (Self::Infinite { .. }, _) | (_, Self::Infinite { .. }) => Some(self == other),
            _ => {
                let (left, right) = (self.approx()?, other.approx()?);
                let error = left.error + right.error;
                let size = left.value.norm().max(right.value.norm());
                if (left.value - right.value).norm() > 8.0 * error {
                    return Some(false);
                }
                (error <= BLURRED * size.max(1.0)).then_some(true)
            }
        }
    }
}

/// Powers and roots that are rational.
fn exact_power(base: &Rational, exponent: &Rational) -> Option<Rational> {
    let whole = number::small_integer(&Rational::from_integer(exponent.numer().clone()))?;
    if exponent.denom().is_one() {
        return number::power(base, whole);
    }
    let degree = u32::try_from(number::small_integer(&Rational::from_integer(exponent.denom().clone()))?);
    number::power(&number::root(base, degree.ok()?)?, whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(numerator: i64, denominator: i64) -> Scalar {
        Scalar::Exact(Rational::new(numerator.into(), denominator.into()))
    }

    #[test]
    fn powers_are_exact_where_they_are_rational() {
        assert_eq!(ratio(9, 4).power(&ratio(-1, 2)), Some(ratio(2, 3)));
        assert_eq!(Scalar::integer(0).power(&ratio(-1, 1)), None);
        let root = Scalar::integer(2).power(&ratio(1, 2)).unwrap();
        assert_eq!(root.multiply(&root).unwrap().same(&Scalar::integer(2)), Some(true));
    }

    #[test]
    fn tiny_values_are_told_apart() {
        let tiny = |power: i64| Scalar::float(1.0).unwrap().map(|z| (z * power as f64).exp()).unwrap();
        assert_eq!(tiny(-40).same(&tiny(-41)), Some(false));
        assert_eq!(tiny(-40).same(&Scalar::integer(0)), Some(false));
    }

    #[test]
    fn what_is_too_small_for_floats_is_not_nothing() {
        let [root, e] = [2.0_f64.sqrt(), std::f64::consts::E].map(|value| Scalar::float(value).unwrap());
        let tiny = ratio(1, 10).power(&Scalar::integer(400)).unwrap();
        assert!(tiny.exact().is_some() && tiny.approx().is_none());
        assert_eq!(tiny.multiply(&root), None);
        assert_eq!(e.power(&Scalar::integer(-1000)), None);
        let small = e.power(&Scalar::integer(-400)).unwrap();
        assert_eq!(small.multiply(&small), None);
        assert_eq!(Scalar::integer(0).multiply(&root).unwrap().same(&Scalar::integer(0)), Some(true));
    }

    #[test]
    fn infinities_have_a_sign_or_no_value() {
        let infinite = Scalar::Infinite { negative: false };
        assert_eq!(infinite.negate(), Some(Scalar::Infinite { negative: true }));
        assert_eq!(infinite.add(&infinite.negate().unwrap()), None);
        assert_eq!(infinite.multiply(&Scalar::integer(0)), None);
        assert_eq!(infinite.power(&Scalar::integer(-1)), Some(Scalar::integer(0)));
    }
}
