//! Exact rationals of bounded size.

use num_bigint::{BigInt, Sign};
use num_rational::BigRational;
use num_traits::{One, Signed, ToPrimitive, Zero};

/// A rational number, always in lowest terms.
pub(crate) type Rational = BigRational;

/// The most bits that numerator and denominator may have together. What would be larger has no
/// exact value, and is never computed.
pub(crate) const MAX_NUMBER_BITS: u64 = 4096;

/// The most digits of a number as written: they fit [`MAX_NUMBER_BITS`] with room for what is done to them.
pub(crate) const MAX_DIGITS: usize = 400;

/// The largest natural number of which a factorial is taken; 400! has 2,887 bits.
pub(crate) const MAX_FACTORIAL: u32 = 400;

fn bits(number: &Rational) -> u64 {
    number.numer().bits() + number.denom().bits()
}

/// How long a number is, in whole words of 64 bits.
pub(crate) fn words(number: &Rational) -> u32 {
    u32::try_from(bits(number) / 64).unwrap_or(u32::MAX)
}

/// The remainder of `left` by `right`, of the sign of `right`, unless it would be too large;
/// `right` is not 0.
pub(crate) fn modulo(left: &Rational, right: &Rational) -> Option<Rational> {
    Some(left - right * (left / right).floor()).filter(|rest| bits(rest) <= MAX_NUMBER_BITS)
}

/// An integer as a rational.
pub(crate) fn integer(value: i64) -> Rational {
    Rational::from_integer(value.into())
}

/// Reads `123`, `-1.5`, `.5` or `2E-3` (digits, at most one dot, a power of ten).
pub(crate) fn parse(text: &str) -> Option<Rational> {
    let (mantissa, exponent) = match text.split_once('E') {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    if mantissa.len() > MAX_DIGITS {
        return None;
    }
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let negative = whole.starts_with('-');
    let digits = [whole.trim_start_matches('-'), fraction].concat();
    if digits.is_empty() {
        return None;
    }
    let digits = BigInt::parse_bytes(digits.as_bytes(), 10)?;
    let scale = power(&integer(10), i64::from(exponent) - fraction.len() as i64)?;
    let value = multiply(&Rational::from_integer(digits), &scale)?;
    Some(if negative { -value } else { value })
}

/// Reads `1.2\overline{36}`, whose last digits repeat for ever.
pub(crate) fn parse_repeating(text: &str) -> Option<Rational> {
    let (plain, period) = text.split_once('\\')?;
    let period = period.split_once('{')?.1.strip_suffix('}')?;
    let (_, fraction) = plain.split_once('.')?;
    // A period of n digits is so many ninths, n of them: 0.36… = 36/99.
    let written = parse(plain.trim_end_matches('.'))?;
    let nines = add(&power(&integer(10), period.len() as i64)?, &integer(-1))?;
    let shift = power(&integer(10), -(fraction.len() as i64))?;
    add(&written, &multiply(&multiply(&parse(period)?, &power(&nines, -1)?)?, &shift)?)
}

/// `left · right`, unless it would be too large.
pub(crate) fn multiply(left: &Rational, right: &Rational) -> Option<Rational> {
    (bits(left) + bits(right) <= MAX_NUMBER_BITS).then(|| left * right)
}

/// `left + right`, unless it would be too large.
pub(crate) fn add(left: &Rational, right: &Rational) -> Option<Rational> {
    (bits(left) + bits(right) <= MAX_NUMBER_BITS).then(|| left + right)
}

/// `base ^ exponent`, unless it would be too large or divides by zero.
pub(crate) fn power(base: &Rational, exponent: i64) -> Option<Rational> {
    let times = exponent.unsigned_abs();
    if base.is_zero() {
        return (exponent >= 0).then(|| if exponent == 0 { Rational::one() } else { Rational::zero() });
    }
    if base.abs().is_one() {
        return Some(if times.is_multiple_of(2) { Rational::one() } else { base.clone() });
    }
    if bits(base).checked_mul(times)? > MAX_NUMBER_BITS {
        return None;
    }
    Some(base.pow(i32::try_from(exponent).ok()?))
}

/// The `degree`-th root of `number` where it is rational too; `None` for a negative number.
pub(crate) fn root(number: &Rational, degree: u32) -> Option<Rational> {
    if number.is_negative() || degree == 0 {
        return None;
    }
    let exact = |part: &BigInt| {
        let root = part.nth_root(degree);
        (root.pow(degree) == *part).then_some(root)
    };
    Some(Rational::new(exact(number.numer())?, exact(number.denom())?))
}

/// `number · 10^places`, rounded to the nearest integer, halves to even.
pub(crate) fn scaled(number: &Rational, places: u32) -> BigInt {
    let scaled = number * Rational::from_integer(BigInt::from(10).pow(places));
    let below = scaled.floor();
    let rest = &scaled - &below;
    let half = Rational::new(1.into(), 2.into());
    let odd = below.to_integer().bit(0);
    let up = rest > half || (rest == half && odd);
    below.to_integer() + BigInt::from(u8::from(up))
}

/// Whether `number` is written out with at most `places` decimals.
pub(crate) fn decimals_within(number: &Rational, places: u32) -> bool {
    (number * Rational::from_integer(BigInt::from(10).pow(places))).is_integer()
}

/// About how many zeros follow the decimal point before the first digit of a number below one: one
/// more or less is of no account.
pub(crate) fn leading_zeros(number: &Rational) -> u32 {
    // log₁₀ 2, in hundred thousandths.
    const DIGITS_PER_BIT: u64 = 30_103;
    let below = number.denom().bits().saturating_sub(number.numer().bits());
    u32::try_from(below * DIGITS_PER_BIT / 100_000).unwrap_or(u32::MAX)
}

/// `number!` of a small natural number.
pub(crate) fn factorial(number: &Rational) -> Option<Rational> {
    let n = small_natural(number)?;
    Some(Rational::from_integer((1..=n).fold(BigInt::one(), |product, k| product * k)))
}

/// `n` over `k` of small natural numbers.
pub(crate) fn binomial(n: &Rational, k: &Rational) -> Option<Rational> {
    let (n, k) = (small_natural(n)?, small_natural(k)?);
    if k > n {
        return Some(Rational::zero());
    }
    let k = k.min(n - k);
    Some(Rational::from_integer((0..k).fold(BigInt::one(), |value, i| value * (n - i) / (i + 1))))
}

fn small_natural(number: &Rational) -> Option<u32> {
    let n = number.is_integer().then(|| number.numer().to_u32())??;
    (n <= MAX_FACTORIAL).then_some(n)
}

/// The value as a small integer, if it is one.
pub(crate) fn small_integer(number: &Rational) -> Option<i64> {
    number.is_integer().then(|| number.numer().to_i64())?
}

/// The nearest float; infinite where the number is out of range.
pub(crate) fn to_f64(number: &Rational) -> f64 {
    number.to_f64().unwrap_or(match number.numer().sign() {
        Sign::Minus => f64::NEG_INFINITY,
        _ => f64::INFINITY,
    })
}

/// The rational that a finite float is.
pub(crate) fn from_f64(value: f64) -> Option<Rational> {
    Rational::from_float(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(numerator: i64, denominator: i64) -> Rational {
        Rational::new(numerator.into(), denominator.into())
    }

    #[test]
    fn decimals_are_exact() {
        assert_eq!(parse("-1.25"), Some(ratio(-5, 4)));
        assert_eq!(parse(".5"), Some(ratio(1, 2)));
        assert_eq!(parse("2E-3"), Some(ratio(1, 500)));
        assert_eq!(parse("-"), None);
        assert_eq!(parse("1E999999999"), None);
        assert_eq!(parse(&"9".repeat(MAX_DIGITS + 1)), None);
    }

    #[test]
    fn what_is_too_large_is_not_computed() {
        assert_eq!(power(&integer(9), 387_420_489), None);
        assert_eq!(power(&integer(0), -1), None);
        assert_eq!(power(&integer(-1), i64::MAX), Some(integer(-1)));
        assert_eq!(factorial(&integer(1_000_000_000)), None);
        assert_eq!(binomial(&integer(5), &integer(2)), Some(integer(10)));
    }

    #[test]
    fn roots_are_exact_or_none() {
        assert_eq!(root(&ratio(9, 4), 2), Some(ratio(3, 2)));
        assert_eq!(root(&integer(2), 2), None);
        assert_eq!(root(&integer(-8), 3), None);
    }

    #[test]
    fn halves_round_to_even() {
        assert_eq!(scaled(&ratio(5, 2), 0), 2.into());
        assert_eq!(scaled(&ratio(7, 2), 0), 4.into());
        assert_eq!(scaled(&ratio(-1, 3), 2), (-33).into());
    }
}
