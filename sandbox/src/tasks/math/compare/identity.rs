//! Whether two terms are the same function of their variables: they are worked out at seeded
//! points, exactly where that is possible.

use super::super::budget::StepBudget;
use super::super::evaluate::{Value, VariableValues, evaluate};
use super::super::expr::{Expr, Symbol};
use super::super::number::Rational;
use super::super::scalar::Scalar;
use super::super::seed::seed;

/// How many points are tried.
const POINTS: u64 = 10;

/// At how many of them both terms must have a value.
const MIN_POINTS: u32 = 4;

/// What a variable's value at a point costs.
const STEPS_PER_VALUE: u32 = 8;

/// Numerators and denominators of the points.
const NUMERATORS: u64 = 89;
const DENOMINATORS: u64 = 23;

/// Whether the terms have the same values wherever they have any.
pub(super) fn same(gold: &Expr, prediction: &Expr, budget: &StepBudget) -> bool {
    let mut symbols = gold.symbols();
    symbols.extend(prediction.symbols());
    symbols.sort();
    symbols.dedup();
    // Where there is no other unknown, i is the imaginary unit.
    if let [Symbol { name }] = symbols.as_slice()
        && name == "i"
    {
        let unit = VariableValues::from([(symbols[0].clone(), Scalar::imaginary_unit())]);
        let values = [gold, prediction].map(|side| evaluate(side, &unit, budget));
        if let [Some(gold), Some(prediction)] = values
            && same_values(&gold, &prediction) == Some(true)
        {
            return true;
        }
    }
    agree(&symbols, budget, |point| {
        let (gold, prediction) = (evaluate(gold, point, budget)?, evaluate(prediction, point, budget)?);
        match same_values(&gold, &prediction) {
            // Of an unknown whose roots are meant to be real, such a point says nothing.
            Some(false) if is_unreal(&gold) && is_unreal(&prediction) => None,
            same => same,
        }
    })
}

/// Whether `same` holds at enough points and fails at none; `None` means that it says nothing.
/// Where it says nothing at fractions, as of factorials, natural numbers are tried. Where the
/// budget ends, it is false.
pub(super) fn agree(
    symbols: &[Symbol],
    budget: &StepBudget,
    same: impl Fn(&VariableValues) -> Option<bool>,
) -> bool {
    if symbols.is_empty() {
        return same(&VariableValues::new()) == Some(true);
    }
    for natural in [false, true] {
        let mut agreed = 0;
        for point in 0..POINTS {
            if budget.charge(STEPS_PER_VALUE.saturating_mul(symbols.len() as u32)).is_none() {
                return false;
            }
            match same(&assignment(symbols, point, natural)) {
                Some(true) => agreed += 1,
                Some(false) => return false,
                None => {}
            }
        }
        if agreed >= MIN_POINTS {
            return true;
        }
    }
    false
}

/// Whether this is a number that is not real.
fn is_unreal(value: &Value) -> bool {
    matches!(value, Value::Scalar(scalar) if scalar.real().is_none())
}

fn same_values(gold: &Value, prediction: &Value) -> Option<bool> {
    match (gold, prediction) {
        (Value::Scalar(gold), Value::Scalar(prediction)) => gold.same(prediction),
        (Value::Grid(gold), Value::Grid(prediction)) => {
            if gold.columns != prediction.columns || gold.entries.len() != prediction.entries.len() {
                return Some(false);
            }
            gold.entries
                .iter()
                .zip(&prediction.entries)
                .try_fold(true, |all, (gold, prediction)| Some(all && gold.same(prediction)?))
        }
        _ => Some(false),
    }
}

/// Small fractions that depend on the name and the point's number alone, positive at even points,
/// of either sign at odd ones; or their numerators.
fn assignment(symbols: &[Symbol], point: u64, natural: bool) -> VariableValues {
    let values = symbols.iter().map(|symbol| {
        let seed = seed(&format!("{point} {}", symbol.name));
        let size = (seed % NUMERATORS + 2) as i64;
        if natural {
            return (symbol.clone(), Scalar::integer(size));
        }
        let negative = point % 2 == 1 && seed >> 63 == 1;
        let denominator = (seed >> 32) % DENOMINATORS + 11;
        let value = Rational::new(if negative { -size } else { size }.into(), denominator.into());
        (symbol.clone(), Scalar::Exact(value))
    });
    values.collect()
}
