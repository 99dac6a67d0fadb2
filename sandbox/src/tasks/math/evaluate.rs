//! The values of expressions where every variable has one.

mod function;
mod matrix;

use std::collections::BTreeMap;

use self::matrix::Grid;
use super::budget::StepBudget;
use super::expr::{Constant, Expr, Fold, SharedExpr, Symbol};
use super::number;
use super::scalar::Scalar;
use super::seed::seed;

/// The most terms of a sum or product that are worked out.
pub(crate) const MAX_FOLD_TERMS: i64 = 1_000;

/// What the variables stand for.
pub(crate) type VariableValues = BTreeMap<Symbol, Scalar>;

/// A number or a matrix of numbers.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Scalar(Scalar),
    Grid(Grid),
}

/// Works out `expression`. `None` where it has no value (a division by zero, a variable without
/// one, a set), where a value would be too large, or where the budget ends.
pub(crate) fn evaluate(expression: &Expr, variables: &VariableValues, budget: &StepBudget) -> Option<Value> {
    budget.charge(1)?;
    let value = |node: &SharedExpr| evaluate(node, variables, budget);
    let scalar = |node: &SharedExpr| scalar(node, variables, budget);
    match expression {
        Expr::Number(number) => {
            budget.charge(number::words(&number.value))?;
            Some(Value::Scalar(Scalar::Exact(number.value.clone())))
        }
        Expr::Symbol(symbol) => variables.get(symbol).cloned().map(Value::Scalar),
        Expr::Measured(inner, _) => value(inner),
        Expr::Constant(constant) => constant_value(*constant).map(Value::Scalar),
        Expr::Add(terms) => combine(terms, value, |left, right| left.add(right, budget)),
        Expr::Multiply(factors) => combine(factors, value, |left, right| left.multiply(right, budget)),
        Expr::Power(base, exponent) => value(base)?.power(&scalar(exponent)?, budget),
        Expr::Percent(inner) => {
            let hundredth = Scalar::Exact(number::power(&number::integer(100), -1)?);
            multiply(&scalar(inner)?, &hundredth, budget).map(Value::Scalar)
        }
        Expr::Apply(function, arguments) => {
            let arguments = arguments.iter().map(value).collect::<Option<Vec<_>>>()?;
            function::apply(*function, &arguments, budget)
        }
        Expr::Call(name, arguments) => {
            let arguments = arguments.iter().map(scalar).collect::<Option<Vec<_>>>()?;
            unknown(name, &arguments, budget).map(Value::Scalar)
        }
        Expr::Fold(fold) => fold_value(fold, variables, budget).map(Value::Scalar),
        Expr::Matrix(matrix) => {
            let entries = matrix.entries.iter().map(scalar).collect::<Option<Vec<_>>>()?;
            Some(Value::Grid(Grid { columns: matrix.columns, entries }))
        }
        _ => None,
    }
}

/// As [`evaluate`], for what must be a number.
pub(crate) fn scalar(expression: &Expr, variables: &VariableValues, budget: &StepBudget) -> Option<Scalar> {
    match evaluate(expression, variables, budget)? {
        Value::Scalar(scalar) => Some(scalar),
        Value::Grid(_) => None,
    }
}

/// The value of an expression without variables.
pub(crate) fn constant(expression: &Expr, budget: &StepBudget) -> Option<Scalar> {
    scalar(expression, &VariableValues::new(), budget)
}

fn combine(
    nodes: &[SharedExpr],
    value: impl Fn(&SharedExpr) -> Option<Value>,
    join: impl Fn(&Value, &Value) -> Option<Value>,
) -> Option<Value> {
    let (first, rest) = nodes.split_first()?;
    rest.iter().try_fold(value(first)?, |sum, node| join(&sum, &value(node)?))
}

fn constant_value(constant: Constant) -> Option<Scalar> {
    match constant {
        Constant::Pi => Scalar::float(std::f64::consts::PI),
        Constant::E => Scalar::float(std::f64::consts::E),
        Constant::Infinity => Some(Scalar::Infinite { negative: false }),
    }
}

impl Value {
    fn add(&self, other: &Self, budget: &StepBudget) -> Option<Self> {
        match (self, other) {
            (Self::Scalar(left), Self::Scalar(right)) => add(left, right, budget).map(Self::Scalar),
            (Self::Grid(left), Self::Grid(right)) => left.add(right, budget).map(Self::Grid),
            _ => None,
        }
    }

    fn multiply(&self, other: &Self, budget: &StepBudget) -> Option<Self> {
        match (self, other) {
            (Self::Scalar(left), Self::Scalar(right)) => multiply(left, right, budget).map(Self::Scalar),
            (Self::Grid(grid), Self::Scalar(factor)) | (Self::Scalar(factor), Self::Grid(grid)) => {
                grid.scale(factor, budget).map(Self::Grid)
            }
            (Self::Grid(left), Self::Grid(right)) => left.multiply(right, budget).map(Self::Grid),
        }
    }

    fn power(&self, exponent: &Scalar, budget: &StepBudget) -> Option<Self> {
        match self {
            Self::Scalar(base) => power(base, exponent, budget).map(Self::Scalar),
            Self::Grid(grid) => grid.power(number::small_integer(exponent.exact()?)?, budget).map(Self::Grid),
        }
    }
}

/// `left + right`, for its price.
fn add(left: &Scalar, right: &Scalar, budget: &StepBudget) -> Option<Scalar> {
    budget.charge_words(left.words() + right.words())?;
    left.add(right)
}

/// `left · right`, for its price.
fn multiply(left: &Scalar, right: &Scalar, budget: &StepBudget) -> Option<Scalar> {
    budget.charge_words(left.words() + right.words())?;
    left.multiply(right)
}

/// `base ^ exponent`, for its price, which is that of the result too.
fn power(base: &Scalar, exponent: &Scalar, budget: &StepBudget) -> Option<Scalar> {
    budget.charge_words(base.words() + exponent.words())?;
    let power = base.power(exponent)?;
    budget.charge_words(power.words())?;
    Some(power)
}

/// A value for a function that nobody defined: always the same for the same name and arguments, and
/// any other for others.
fn unknown(name: &str, arguments: &[Scalar], budget: &StepBudget) -> Option<Scalar> {
    /// A prime: values beyond a million rarely meet.
    const VALUES: u64 = 1_000_003;
    /// What it costs to write an argument down, and how many bytes of a name cost a step.
    /// Long numbers cost more.
    const STEPS_PER_ARGUMENT: u32 = 4;
    const BYTES_PER_STEP: usize = 32;
    budget.charge((name.len() / BYTES_PER_STEP) as u32)?;
    for argument in arguments {
        budget.charge(STEPS_PER_ARGUMENT)?;
        budget.charge_words(argument.words())?;
    }
    let mut call = name.to_owned();
    for argument in arguments {
        call += &match argument {
            Scalar::Exact(exact) => format!(",{exact}"),
            Scalar::Infinite { negative } => format!(",{negative}"),
            // Nine digits: what was computed on two ways differs in the last ones. Adding 0 makes
            // -0 and 0 the same.
            Scalar::Approx(approx) => format!(",{:.9e},{:.9e}", approx.value.re + 0.0, approx.value.im + 0.0),
        };
    }
    Some(Scalar::integer((seed(&call) % VALUES) as i64 + 2))
}

fn fold_value(fold: &Fold, variables: &VariableValues, budget: &StepBudget) -> Option<Scalar> {
    let Expr::Symbol(index) = &*fold.variable else { return None };
    let bound = |node: &SharedExpr| number::small_integer(scalar(node, variables, budget)?.exact()?);
    let (from, to) = (bound(&fold.from)?, bound(&fold.to)?);
    if to.checked_sub(from)? >= MAX_FOLD_TERMS {
        return None;
    }
    budget.charge(variables.len() as u32)?;
    let mut variables = variables.clone();
    let mut value = Scalar::integer(fold.product.into());
    for step in from..=to {
        variables.insert(index.clone(), Scalar::integer(step));
        let term = scalar(&fold.body, &variables, budget)?;
        value = if fold.product { multiply(&value, &term, budget)? } else { add(&value, &term, budget)? };
    }
    Some(value)
}
