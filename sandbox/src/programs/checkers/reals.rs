//! Files as sequences of real numbers.

use super::message::ordinal;
use super::stream::Files;
use super::verdict::Judgement;

/// What every tolerance is widened by, for what the doubles themselves round.
const ROUNDING: f64 = 1e-15;
/// Numbers beyond this magnitude count as infinite where errors may be relative.
const INFINITE: f64 = 1e300;
/// Below this magnitude of the expected number, an error is shown as absolute.
const SMALLEST_RELATIVE: f64 = 1e-9;

/// How far a number may be from the expected one.
#[derive(Debug, Clone, Copy)]
enum Tolerance {
    /// The difference is at most this.
    Absolute(f64),
    /// The difference, or its share of the expected number, is at most this.
    Either(f64),
}

/// A way to compare reals, and to write them.
#[derive(Debug, Clone, Copy)]
pub(super) struct RealComparison {
    tolerance: Tolerance,
    /// How many decimals a message writes.
    decimals: usize,
}

/// `acmp`, and `rcmp`, which is the same.
pub(super) const ACMP: RealComparison =
    RealComparison { tolerance: Tolerance::Absolute(1.5e-6), decimals: 10 };
/// `dcmp`: one number, within 1e-6 absolutely or relatively.
pub(super) const DCMP: RealComparison = RealComparison { tolerance: Tolerance::Either(1e-6), decimals: 10 };
/// `rcmp4`: a sequence, within 1e-4 absolutely or relatively.
pub(super) const RCMP4: RealComparison = RealComparison { tolerance: Tolerance::Either(1e-4), decimals: 5 };
/// `rcmp6`: a sequence, within 1e-6 absolutely or relatively.
pub(super) const RCMP6: RealComparison = RealComparison { tolerance: Tolerance::Either(1e-6), decimals: 7 };
/// `rcmp9`: a sequence, within 1e-9 absolutely or relatively.
pub(super) const RCMP9: RealComparison = RealComparison { tolerance: Tolerance::Either(1e-9), decimals: 10 };
/// `rncmp`: a sequence, within 1.5e-5 absolutely.
pub(super) const RNCMP: RealComparison =
    RealComparison { tolerance: Tolerance::Absolute(1.5e-5), decimals: 10 };

/// Compares one number, the first of each file.
pub(super) fn one(files: &mut Files<'_>, comparison: RealComparison) -> Result<String, Judgement> {
    let decimals = comparison.decimals;
    let (expected, found) = (files.answer.double()?, files.output.double()?);
    if !comparison.tolerance.accepts(expected, found) {
        return Err(Judgement::wrong(format!("expected {expected:.decimals$}, found {found:.decimals$}")));
    }
    Ok(format!("answer is {expected:.decimals$}"))
}

/// As many numbers as the answer has.
pub(super) fn sequence(files: &mut Files<'_>, comparison: RealComparison) -> Result<String, Judgement> {
    let RealComparison { tolerance, decimals } = comparison;
    let mut count = 0;
    let mut last = (0.0, 0.0);
    while !files.answer.seek_end() {
        let (expected, found) = (files.answer.double()?, files.output.double()?);
        count += 1;
        if !tolerance.accepts(expected, found) {
            let nth = ordinal(count);
            let mut message = format!(
                "{nth} numbers differ - expected: '{expected:.decimals$}', found: '{found:.decimals$}'"
            );
            if let Tolerance::Either(_) = tolerance {
                message += &format!(", error = '{}'", error_text(expected, found, decimals));
            }
            return Err(Judgement::wrong(message));
        }
        last = (expected, found);
    }
    if let (1, Tolerance::Either(_)) = (count, tolerance) {
        let (expected, found) = last;
        let error = error_text(expected, found, decimals);
        return Ok(format!("found '{found:.decimals$}', expected '{expected:.decimals$}', error '{error}'"));
    }
    Ok(format!("{count} numbers"))
}

impl Tolerance {
    /// Neither number is NaN. Infinite ones agree with their like.
    fn accepts(self, expected: f64, found: f64) -> bool {
        match self {
            // The difference of like infinities is NaN, which is not beyond anything.
            Self::Absolute(tolerance) => {
                let difference = (expected - found).abs();
                difference.is_nan() || difference <= tolerance + ROUNDING
            }
            Self::Either(tolerance) => {
                let is_infinite = |number: f64| number.abs() > INFINITE;
                if is_infinite(expected) || is_infinite(found) {
                    return is_infinite(expected) && is_infinite(found) && (expected > 0.0) == (found > 0.0);
                }
                let tolerance = tolerance + ROUNDING;
                let (one, other) = (expected * (1.0 - tolerance), expected * (1.0 + tolerance));
                (found - expected).abs() <= tolerance || one.min(other) <= found && found <= one.max(other)
            }
        }
    }
}

/// The lesser of the absolute and the relative error, as C prints it, including a zero's sign and a NaN's.
fn error_text(expected: f64, found: f64, decimals: usize) -> String {
    // Of a zero this gives the other zero.
    let magnitude = |number: f64| if number > 0.0 { number } else { -number };
    let absolute = magnitude(found - expected);
    if absolute.is_nan() {
        return "-nan".to_owned();
    }
    if magnitude(expected) <= SMALLEST_RELATIVE {
        return format!("{absolute:.decimals$}");
    }
    let relative = magnitude(absolute / expected);
    if relative.is_nan() {
        return "nan".to_owned();
    }
    let error = if absolute < relative { absolute } else { relative };
    format!("{error:.decimals$}")
}
