//! The known functions.

use num_complex::Complex64;
use num_integer::Integer;
use num_traits::Zero;

use super::super::budget::StepBudget;
use super::super::expr::Function;
use super::super::number::{self, Rational};
use super::super::scalar::Scalar;
use super::Value;

/// How near to an integer a float may come and still be taken for it, relative to its size.
const NEAR_INTEGER: f64 = 1e-9;

/// Integers beyond this are no longer exact as floats.
const MAX_FLOORED: f64 = 9e15;

pub(super) fn apply(function: Function, arguments: &[Value], budget: &StepBudget) -> Option<Value> {
    if let [Value::Grid(grid)] = arguments {
        return match function {
            Function::Determinant | Function::Abs => grid.determinant(budget).map(Value::Scalar),
            Function::Trace => grid.trace(budget).map(Value::Scalar),
            Function::Transpose => grid.transpose(budget).map(Value::Grid),
            Function::Norm => grid.norm(budget).map(Value::Scalar),
            _ => None,
        };
    }
    let scalars = arguments.iter().map(|argument| match argument {
        Value::Scalar(scalar) => Some(scalar),
        Value::Grid(_) => None,
    });
    of_scalars(function, &scalars.collect::<Option<Vec<_>>>()?, budget).map(Value::Scalar)
}

fn of_scalars(function: Function, arguments: &[&Scalar], budget: &StepBudget) -> Option<Scalar> {
    budget.charge(arguments.len() as u32)?;
    budget.charge_words(arguments.iter().map(|argument| argument.words()).fold(0, u32::saturating_add))?;
    match (function, arguments) {
        (Function::Transpose | Function::Trace | Function::Determinant, [x]) => Some((*x).clone()),
        (Function::Abs | Function::Norm, [x]) => x.abs(),
        (Function::Floor, [x]) => floor(x),
        (Function::Ceiling, [x]) => floor(&x.negate()?)?.negate(),
        (Function::Factorial, [x]) => {
            // The cost of the largest factorial that is worked out.
            budget.charge(number::MAX_FACTORIAL)?;
            number::factorial(x.exact()?).map(Scalar::Exact)
        }
        (Function::Binomial, [n, k]) => {
            budget.charge(number::MAX_FACTORIAL)?;
            number::binomial(n.exact()?, k.exact()?).map(Scalar::Exact)
        }
        (Function::Gcd, all) => of_integers(all, |a, b| a.gcd(b)),
        (Function::Lcm, all) => of_integers(all, |a, b| a.lcm(b)),
        (Function::Max, all) => extreme(all, |a, b| a > b),
        (Function::Min, all) => extreme(all, |a, b| a < b),
        (Function::Mod, [x, y]) => {
            let (x, y) = (x.exact()?, y.exact()?);
            if y.is_zero() { None } else { number::modulo(x, y).map(Scalar::Exact) }
        }
        (Function::Log, [x, base]) => logarithm(x, base),
        // It is never 0.
        (Function::Exp, [x]) => x.map(analytic(function)?).filter(|value| !value.has_vanished()),
        (_, [x]) => x.map(analytic(function)?),
        _ => None,
    }
}

/// The functions of one complex variable.
fn analytic(function: Function) -> Option<fn(Complex64) -> Complex64> {
    Some(match function {
        Function::Exp => |z| z.exp(),
        Function::Sin => |z| z.sin(),
        Function::Cos => |z| z.cos(),
        Function::Tan => |z| z.tan(),
        Function::Csc => |z| z.sin().inv(),
        Function::Sec => |z| z.cos().inv(),
        Function::Cot => |z| z.tan().inv(),
        Function::Arcsin => |z| z.asin(),
        Function::Arccos => |z| z.acos(),
        Function::Arctan => |z| z.atan(),
        Function::Arccsc => |z| z.inv().asin(),
        Function::Arcsec => |z| z.inv().acos(),
        Function::Arccot => |z| z.inv().atan(),
        Function::Sinh => |z| z.sinh(),
        Function::Cosh => |z| z.cosh(),
        Function::Tanh => |z| z.tanh(),
        Function::Arsinh => |z| z.asinh(),
        Function::Arcosh => |z| z.acosh(),
        Function::Artanh => |z| z.atanh(),
        _ => return None,
    })
}

/// Whole logarithms of rationals are exact: log₂ 8 = 3.
fn logarithm(x: &Scalar, base: &Scalar) -> Option<Scalar> {
    if let Scalar::Exact(value) = x
        && value.is_zero()
    {
        return None;
    }
    let quotient = x.map(|z| z.ln())?.multiply(&base.map(|z| z.ln())?.power(&Scalar::integer(-1))?)?;
    if let (Scalar::Exact(x), Scalar::Exact(base), Some(real)) = (x, base, quotient.real())
        && real.abs() < number::MAX_NUMBER_BITS as f64
        && number::power(base, real.round() as i64).as_ref() == Some(x)
    {
        return Some(Scalar::integer(real.round() as i64));
    }
    Some(quotient)
}

fn floor(x: &Scalar) -> Option<Scalar> {
    match x {
        Scalar::Exact(exact) => Some(Scalar::Exact(exact.floor())),
        other => {
            let real = other.real().filter(|real| real.abs() < MAX_FLOORED)?;
            let nearest = real.round();
            let near = (real - nearest).abs() <= NEAR_INTEGER * nearest.abs().max(1.0);
            Some(Scalar::integer(if near { nearest } else { real.floor() } as i64))
        }
    }
}

fn of_integers(
    all: &[&Scalar],
    join: impl Fn(&num_bigint::BigInt, &num_bigint::BigInt) -> num_bigint::BigInt,
) -> Option<Scalar> {
    let mut integers = all.iter().map(|scalar| {
        let exact = scalar.exact()?;
        exact.is_integer().then(|| exact.numer().clone())
    });
    let first = integers.next()??;
    let joined = integers.try_fold(first, |so_far, next| {
        Some(join(&so_far, &next?)).filter(|joined| joined.bits() <= number::MAX_NUMBER_BITS)
    });
    joined.map(|joined| Scalar::Exact(Rational::from_integer(joined)))
}

fn extreme(all: &[&Scalar], better: impl Fn(f64, f64) -> bool) -> Option<Scalar> {
    let (first, rest) = all.split_first()?;
    let mut best = (*first, first.real()?);
    for scalar in rest {
        let real = scalar.real()?;
        if better(real, best.1) {
            best = (scalar, real);
        }
    }
    Some(best.0.clone())
}
