//! Puzzles that have a solution, because they are built from one.

use echo_protocol::wire::rng::Draws;

use super::CountdownConfig;

/// Numbers, a target, and one way from the former to the latter.
#[derive(Debug)]
pub(crate) struct Puzzle {
    pub(crate) numbers: Vec<i64>,
    pub(crate) target: i64,
    pub(crate) solution: String,
}

impl Puzzle {
    /// Draws the numbers, then joins random pairs by random operators until one value is left.
    /// Every value on the way is an integer within `1..=config.target`.
    pub(crate) fn draw(config: &CountdownConfig, draws: &mut Draws) -> Self {
        let numbers: Vec<i64> = (0..config.count).map(|_| draws.between(1, config.largest)).collect();
        let mut parts: Vec<Part> = numbers.iter().map(|&number| Part::number(number)).collect();
        while parts.len() > 1 {
            let one = parts.swap_remove(draws.below(parts.len() as u64) as usize);
            let other = parts.swap_remove(draws.below(parts.len() as u64) as usize);
            let (large, small) = if one.value >= other.value { (one, other) } else { (other, one) };
            let joined = [Join::Add, Join::Subtract, Join::Multiply, Join::Divide]
                .into_iter()
                .filter(|join| join.value(large.value, small.value).is_some_and(|v| v <= config.target))
                .collect::<Vec<_>>();
            let join = draws.pick(&joined).expect("different parts have a difference, equal ones a quotient");
            parts.push(join.apply(&large, &small));
        }
        let last = parts.pop().expect("a puzzle has at least two numbers");
        Self { numbers, target: last.value, solution: last.text }
    }
}

/// How tightly an expression holds together, loosest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Sum,
    Product,
    Number,
}

/// An expression with its value.
#[derive(Debug)]
struct Part {
    value: i64,
    text: String,
    binding: Binding,
}

impl Part {
    fn number(value: i64) -> Self {
        Self { value, text: value.to_string(), binding: Binding::Number }
    }

    /// The text, in parentheses unless it binds at least as tightly as `least`.
    fn within(&self, least: Binding) -> String {
        if self.binding >= least { self.text.clone() } else { format!("({})", self.text) }
    }
}

#[derive(Debug, Clone, Copy)]
enum Join {
    Add,
    Subtract,
    Multiply,
    Divide,
}

impl Join {
    /// The value of joining two positive integers, `large >= small`; `None` unless it is
    /// a positive integer too.
    fn value(self, large: i64, small: i64) -> Option<i64> {
        match self {
            Self::Add => Some(large + small),
            Self::Subtract => (large > small).then(|| large - small),
            Self::Multiply => Some(large * small),
            Self::Divide => (large % small == 0).then(|| large / small),
        }
    }

    /// Joins the parts with as few parentheses as the value allows.
    fn apply(self, large: &Part, small: &Part) -> Part {
        let (sign, binding, right) = match self {
            Self::Add => ('+', Binding::Sum, Binding::Sum),
            Self::Subtract => ('-', Binding::Sum, Binding::Product),
            Self::Multiply => ('*', Binding::Product, Binding::Product),
            Self::Divide => ('/', Binding::Product, Binding::Number),
        };
        let value = self.value(large.value, small.value).expect("only joins that have a value are applied");
        Part { value, text: format!("{}{sign}{}", large.within(binding), small.within(right)), binding }
    }
}
