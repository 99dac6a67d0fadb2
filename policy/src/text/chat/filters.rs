//! The filters of a chat template: Jinja2's, with Python's idea of text, each charged for what it makes.

use minijinja::value::{Kwargs, Rest, StringInput, ValueOrKwargs};
use minijinja::{Environment, Error, State, Value, filters};

use super::budget::{self, RenderBudget};
use super::text::{join_values, replaced_size, strip};
use super::{json, python};

/// Built-in filters whose result is not a multiple of their input: they are charged afterwards.
fn charged_builtins() -> Vec<(&'static str, Value)> {
    vec![
        ("attr", Value::from_function(filters::attr)),
        ("capitalize", Value::from_function(filters::capitalize)),
        ("dictsort", Value::from_function(filters::dictsort)),
        ("groupby", Value::from_function(filters::groupby)),
        ("items", Value::from_function(filters::items)),
        ("list", Value::from_function(filters::list)),
        ("lower", Value::from_function(filters::lower)),
        ("map", Value::from_function(filters::map)),
        ("reject", Value::from_function(filters::reject)),
        ("rejectattr", Value::from_function(filters::rejectattr)),
        ("reverse", Value::from_function(filters::reverse)),
        ("select", Value::from_function(filters::select)),
        ("selectattr", Value::from_function(filters::selectattr)),
        ("sort", Value::from_function(filters::sort)),
        ("title", Value::from_function(filters::title)),
        ("unique", Value::from_function(filters::unique)),
        ("upper", Value::from_function(filters::upper)),
    ]
}

/// Filters that are taken away: what they make is bounded by their arguments only, Jinja2 has no
/// filter of that name, or their text differs from Python's.
const UNAVAILABLE: [&str; 8] = ["batch", "chain", "format", "lines", "pprint", "slice", "split", "zip"];

/// Puts the filters of chat templates into the environment of one rendering.
pub(crate) fn install(env: &mut Environment<'_>, budget: &RenderBudget) {
    for name in UNAVAILABLE {
        env.remove_filter(name);
    }
    for (name, filter) in charged_builtins() {
        let budget = budget.clone();
        env.add_filter(name, move |state: &mut State, args: Rest<ValueOrKwargs>| {
            budget.charged(filter.call(state, &args.into_values())?)
        });
    }
    let own = budget.clone();
    env.add_filter("tojson", move |value: &Value, ensure_ascii: Option<bool>, kwargs: Kwargs| {
        json::tojson(&own, value, ensure_ascii, &kwargs)
    });
    let own = budget.clone();
    env.add_filter("string", move |value: &Value| python::text(value, &own));
    let own = budget.clone();
    env.add_filter("trim", move |value: &Value, chars: Option<&str>| {
        let text = python::text(value, &own)?;
        Ok::<_, Error>(Value::from(strip(&text, true, true, chars)))
    });
    let own = budget.clone();
    env.add_filter("join", move |items: &Value, glue: Option<&str>, kwargs: Kwargs| {
        let glue = glue.or(kwargs.get::<Option<&str>>("d")?).unwrap_or_default();
        let attribute = kwargs.get::<Option<&str>>("attribute")?;
        kwargs.assert_all_used()?;
        match attribute {
            None => join_values(&own, items, glue),
            Some(name) => {
                let picked: Vec<Value> =
                    items.try_iter()?.map(|item| item.get_attr(name)).collect::<Result<_, _>>()?;
                join_values(&own, &Value::from(picked), glue)
            }
        }
    });
    let own = budget.clone();
    let builtin = Value::from_function(filters::replace);
    env.add_filter(
        "replace",
        move |state: &mut State, text: StringInput<'_>, old: StringInput<'_>, new: StringInput<'_>| {
            own.charge(replaced_size(text.as_str(), old.as_str(), new.as_str()))?;
            builtin.call(state, &[text.as_str().into(), old.as_str().into(), new.as_str().into()])
        },
    );
    let own = budget.clone();
    let builtin = Value::from_function(filters::indent);
    env.add_filter("indent", move |state: &mut State, text: &Value, args: Rest<ValueOrKwargs>| {
        let args = args.into_values();
        let lines = text.as_str().map_or(0, |text| text.matches('\n').count() as u64 + 1);
        let width = args.first().and_then(Value::as_usize).unwrap_or(0);
        let named = args.last().filter(|last| last.is_kwargs()).map(|kwargs| kwargs.get_attr("width"));
        let named = named.transpose()?.and_then(|width| width.as_usize()).unwrap_or(4);
        own.charge(lines.saturating_mul(width.max(named) as u64).saturating_add(budget::size(text)))?;
        let mut all = vec![text.clone()];
        all.extend(args);
        builtin.call(state, &all)
    });
    let own = budget.clone();
    let builtin = Value::from_function(filters::sum);
    env.add_filter("sum", move |state: &mut State, args: Rest<ValueOrKwargs>| {
        let args = args.into_values();
        own.charge(args.iter().map(budget::size).fold(0, u64::saturating_add))?;
        builtin.call(state, &args)
    });
}
