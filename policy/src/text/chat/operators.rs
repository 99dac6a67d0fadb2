//! The engine's own `+`, `*` and slicing, callable: the guarded operators first charge for the result
//! and then come here. Texts and lists are repeated as in Python.

use std::iter::repeat_n;
use std::sync::LazyLock;

use minijinja::value::ValueKind;
use minijinja::{Environment, Error, ErrorKind, Expression, Value, context};

use super::budget::{self, RenderBudget};

static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(Environment::new);
static ADD: LazyLock<Expression<'static, 'static>> = LazyLock::new(|| parse("left + right"));
static MULTIPLY: LazyLock<Expression<'static, 'static>> = LazyLock::new(|| parse("left * right"));
static SLICE: LazyLock<Expression<'static, 'static>> = LazyLock::new(|| parse("value[start:stop:step]"));

fn parse(source: &'static str) -> Expression<'static, 'static> {
    ENGINE.compile_expression(source).expect("all expressions are fixed and valid")
}

/// `left + right`, as the template engine evaluates it.
pub(crate) fn add(left: &Value, right: &Value) -> Result<Value, Error> {
    ADD.eval(context! { left, right })
}

/// `value[start:stop:step]`, as the template engine evaluates it.
pub(crate) fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    SLICE.eval(context! { value, start, stop, step })
}

/// `left * right`, as Python evaluates it, charged for what it makes.
pub(crate) fn multiply(budget: &RenderBudget, left: &Value, right: &Value) -> Result<Value, Error> {
    for (what, count) in [(left, right), (right, left)] {
        if let Some(text) = what.as_str() {
            let times = times(count)?;
            budget.charge((text.len() as u64).saturating_mul(times as u64))?;
            return Ok(Value::from(text.repeat(times)));
        }
        if what.kind() == ValueKind::Seq && !what.is_tuple() {
            let times = times(count)?;
            budget.charge(budget::shallow_size(what).max(1).saturating_mul(times as u64))?;
            let items: Vec<Value> = what.try_iter()?.collect();
            return Ok(Value::from(repeat_n(items, times).flatten().collect::<Vec<Value>>()));
        }
    }
    MULTIPLY.eval(context! { left, right })
}

/// How often something is repeated: not at all below 0.
fn times(count: &Value) -> Result<usize, Error> {
    let whole = count.is_integer().then(|| i64::try_from(count.clone()).ok()).flatten();
    let why = "a text or a list can only be multiplied with an integer";
    let whole = whole.ok_or_else(|| Error::new(ErrorKind::InvalidOperation, why))?;
    Ok(usize::try_from(whole).unwrap_or(0))
}
