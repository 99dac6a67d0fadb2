//! The engine's own `+` and slicing, callable: the guarded operators first charge for the result
//! and then come here.

use std::sync::LazyLock;

use minijinja::{Environment, Error, Expression, Value, context};

static ENGINE: LazyLock<Environment<'static>> = LazyLock::new(Environment::new);
static ADD: LazyLock<Expression<'static, 'static>> = LazyLock::new(|| parse("left + right"));
static SLICE: LazyLock<Expression<'static, 'static>> = LazyLock::new(|| parse("value[start:stop:step]"));

fn parse(source: &'static str) -> Expression<'static, 'static> {
    ENGINE.compile_expression(source).expect("both expressions are fixed and valid")
}

/// `left + right`, as the template engine evaluates it.
pub(crate) fn add(left: &Value, right: &Value) -> Result<Value, Error> {
    ADD.eval(context! { left, right })
}

/// `value[start:stop:step]`, as the template engine evaluates it.
pub(crate) fn slice(value: &Value, start: &Value, stop: &Value, step: &Value) -> Result<Value, Error> {
    SLICE.eval(context! { value, start, stop, step })
}
