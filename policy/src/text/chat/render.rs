//! One rendering: the engine set up as transformers sets up Jinja2, within the limits of a
//! template nobody has read.

use std::error::Error as _;
use std::sync::Arc;

use minijinja::machinery::{CompiledTemplate, Instruction, Instructions, TemplateConfig};
use minijinja::machinery::{eval, make_string_output};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Rest, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, State, Value};

use super::budget::{self, RenderBudget};
use super::rewrite::{ONE, rewrite};
use super::{ChatTime, filters, methods, operators, python};

/// Instructions that one rendering may execute. A message of a usual template takes 50 to 150.
pub const MAX_FUEL: u64 = 500_000;
/// Nested blocks, loops and macro calls of a template.
pub const MAX_RECURSION: usize = 200;
/// Bytes of a rendered chat.
pub const MAX_OUTPUT_BYTES: usize = 32 << 20;
/// Bytes of fixed template text that one rendering may emit; templates with long fixed texts get less fuel.
pub const MAX_FIXED_TEXT_BYTES: u64 = 256 << 20;
/// Largest bound or step that `range` takes; the engine itself limits its length to 100,000.
pub const MAX_RANGE_BOUND: i64 = 1 << 31;
/// Stack of the thread that renders. A template may nest a list once every few instructions, and
/// dropping it takes stack for each level; address space only, until it is used.
const STACK_BYTES: usize = 256 << 20;

/// Name of the template in error messages.
const NAME: &str = "chat_template";
/// No template can name these functions: they stand in for the operators.
const ADD: &str = "+";
const CONCAT: &str = "~";
const MULTIPLY: &str = "*";
const SLICE: &str = "[:]";

/// Checks that a template parses and that it can be rendered within the limits.
pub(crate) fn check(source: &str) -> Result<(), String> {
    let checked = || {
        let syntax = syntax()?;
        compile(&rewrite(source, &syntax)?, syntax).map(|_| ())
    };
    checked().map_err(|error| explain(&error))
}

/// Renders `source` with the variables of `root`, in a thread of its own. An error is returned as
/// text, because the engine's holds the template's variables, and what that thread could build only
/// that thread has the stack to drop.
pub(crate) fn render(
    source: &str,
    root: serde_json::Map<String, serde_json::Value>,
    now: Option<ChatTime>,
) -> Result<String, String> {
    std::thread::scope(|scope| {
        let worker = std::thread::Builder::new()
            .name("chat-template".into())
            .stack_size(STACK_BYTES)
            .spawn_scoped(scope, move || run(source, &root, now).map_err(|error| explain(&error)))
            .map_err(|error| format!("cannot start the rendering thread: {error}"))?;
        worker.join().unwrap_or_else(|_| Err("the template engine panicked".into()))
    })
}

/// The engine's error and its causes on one line.
fn explain(error: &Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

fn run(
    source: &str,
    root: &serde_json::Map<String, serde_json::Value>,
    now: Option<ChatTime>,
) -> Result<String, Error> {
    let syntax = syntax()?;
    let source = rewrite(source, &syntax)?;
    let compiled = compile(&source, syntax)?;
    let budget = RenderBudget::new();
    let mut env = environment(&budget, now);
    env.set_fuel(Some(MAX_FUEL.min(MAX_FIXED_TEXT_BYTES / longest_fixed_text(&compiled).max(1))));
    let root = Value::from_pairs(
        root.iter().map(|(name, value)| (Value::from(name.as_str()), python::from_json(value))),
    );
    let mut out = String::new();
    eval(
        &env,
        &compiled.instructions,
        root,
        &compiled.blocks,
        &mut make_string_output(&mut out),
        AutoEscape::None,
    )?;
    if out.len() > MAX_OUTPUT_BYTES {
        return Err(Error::new(
            ErrorKind::OutOfFuel,
            format!("the rendered chat has {} bytes, more than the {MAX_OUTPUT_BYTES} allowed", out.len()),
        ));
    }
    Ok(out)
}

/// As transformers sets the engine up.
fn syntax() -> Result<SyntaxConfig, Error> {
    SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()
}

/// Parses a template, with every operator that can multiply memory replaced by a call that is charged for it.
fn compile(source: &str, syntax_config: SyntaxConfig) -> Result<CompiledTemplate<'_>, Error> {
    let config = TemplateConfig { syntax_config, default_auto_escape: Arc::new(|_: &str| AutoEscape::None) };
    let mut compiled = CompiledTemplate::new(NAME, source, &config)?;
    guard(&mut compiled.instructions);
    compiled.blocks.values_mut().for_each(guard);
    Ok(compiled)
}

fn guard(instructions: &mut Instructions<'_>) {
    let mut index = 0;
    while let Some(instruction) = instructions.get_mut(index) {
        match instruction {
            Instruction::Add => *instruction = Instruction::CallFunction(ADD, Some(2)),
            Instruction::Mul => *instruction = Instruction::CallFunction(MULTIPLY, Some(2)),
            Instruction::StringConcat => *instruction = Instruction::CallFunction(CONCAT, Some(2)),
            Instruction::Slice => *instruction = Instruction::CallFunction(SLICE, Some(4)),
            _ => {}
        }
        index += 1;
    }
}

fn longest_fixed_text(compiled: &CompiledTemplate<'_>) -> u64 {
    let all = std::iter::once(&compiled.instructions).chain(compiled.blocks.values());
    let texts = all.flat_map(|instructions| {
        (0..).map_while(|index| instructions.get(index)).filter_map(|instruction| match instruction {
            Instruction::EmitRaw(text) => Some(text.len() as u64),
            _ => None,
        })
    });
    texts.max().unwrap_or(0)
}

fn environment(budget: &RenderBudget, now: Option<ChatTime>) -> Environment<'static> {
    let mut env = Environment::new();
    env.set_recursion_limit(MAX_RECURSION);
    filters::install(&mut env, budget);
    env.add_test("sequence", methods::is_sequence);
    env.add_test("iterable", methods::is_iterable);
    env.remove_global("debug");

    let own = budget.clone();
    env.set_formatter(move |out, _, value| out.write_str(&python::text(value, &own)?).map_err(Error::from));
    let own = budget.clone();
    env.set_unknown_method_callback(move |state, value, method, args| {
        methods::call(&own, state, value, method, args)
    });

    let own = budget.clone();
    env.add_function(ADD, move |left: &Value, right: &Value| {
        if left.kind() != ValueKind::Number {
            own.charge(budget::shallow_size(left).saturating_add(budget::shallow_size(right)))?;
        }
        operators::add(left, right)
    });
    let own = budget.clone();
    env.add_function(CONCAT, move |left: &Value, right: &Value| {
        Ok::<_, Error>(python::text(left, &own)? + &python::text(right, &own)?)
    });
    let own = budget.clone();
    env.add_function(MULTIPLY, move |left: &Value, right: &Value| operators::multiply(&own, left, right));
    env.add_global(ONE, 1);
    let own = budget.clone();
    env.add_function(SLICE, move |value: &Value, start: &Value, stop: &Value, step: &Value| {
        own.charge(budget::size(value))?;
        operators::slice(value, start, stop, step)
    });

    let builtin = Value::from_function(minijinja::functions::range);
    env.add_function("range", move |state: &mut State, args: Rest<Value>| {
        for bound in args.iter() {
            if !(-MAX_RANGE_BOUND..=MAX_RANGE_BOUND).contains(&i64::try_from(bound.clone())?) {
                return Err(Error::new(
                    ErrorKind::InvalidOperation,
                    format!("range: bounds are limited to ±{MAX_RANGE_BOUND}"),
                ));
            }
        }
        builtin.call(state, &args)
    });
    env.add_function("raise_exception", |message: &str| {
        Err::<Value, _>(Error::new(ErrorKind::InvalidOperation, message.to_owned()))
    });
    if let Some(now) = now {
        env.add_function("strftime_now", move |format: &str| now.format(format));
    }
    env
}
