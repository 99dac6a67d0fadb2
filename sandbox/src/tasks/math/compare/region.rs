//! Sets of real numbers, given as sets or as the inequalities that describe them.
//!
//! Two of them are the same if they agree at every point where one of them may begin or end,
//! and between these points.

use super::super::budget::StepBudget;
use super::super::evaluate::{self, VariableValues};
use super::super::expr::{
    Domain, Expr, RealInterval, Relation, RelationKind, SetOperation, SharedExpr, Symbol,
};
use super::super::scalar::Scalar;

/// What is nearer to an end than this, relative to the end or to one, is the end.
const TOLERANCE: f64 = 1e-9;

/// How near to a better known root a place is where two curves seem to touch.
const TOUCHING: f64 = 1e-4;

/// Roots are looked for between -sinh(16) and sinh(16), about ±4.4 million, at this many
/// steps to either side.
const STEPS: i32 = 192;

/// How often a step in which there is a root is halved.
const HALVINGS: u32 = 80;

/// Whether two sets, or a set and what inequalities in one variable describe, have
/// the same members. `None` where that cannot be told, as of sets that are not made
/// of intervals and numbers. Inequalities in two variables describe nothing together.
pub(super) fn same(left: &Expr, right: &Expr, budget: &StepBudget) -> Option<bool> {
    let regions = [Region::new(left, budget)?, Region::new(right, budget)?];
    if let [Some(left), Some(right)] = [&regions[0].variable, &regions[1].variable]
        && !left.is(right)
    {
        return Some(false);
    }
    let mut ends = Vec::new();
    // What is written down is exact: it comes before what is looked for.
    for written in [true, false] {
        for region in &regions {
            region.ends(region.set, written, &mut ends)?;
        }
    }
    ends.sort_by(f64::total_cmp);
    ends.dedup_by(|a, b| near(*a, *b));
    let mut points = ends.clone();
    points.extend(ends.windows(2).map(|pair| (pair[0] + pair[1]) / 2.0));
    match (ends.first(), ends.last()) {
        (Some(first), Some(last)) => points.extend([first - first.abs() - 1.0, last + last.abs() + 1.0]),
        _ => points.push(0.0),
    }
    for point in points {
        if regions[0].contains(regions[0].set, point)? != regions[1].contains(regions[1].set, point)? {
            return Some(false);
        }
    }
    Some(true)
}

fn near(a: f64, b: f64) -> bool {
    a == b || ((a - b).is_finite() && (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()).max(1.0))
}

/// A set, in which inequalities may stand for the numbers of which they hold.
struct Region<'a> {
    set: &'a Expr,
    /// What the inequalities are about, if there are any.
    variable: Option<Variable<'a>>,
    budget: &'a StepBudget,
}

/// What inequalities are about: a variable, or the value of an unknown function.
enum Variable<'a> {
    Symbol(Symbol),
    Call(&'a SharedExpr),
}

impl Variable<'_> {
    fn is(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Symbol(left), Self::Symbol(right)) => left == right,
            (Self::Call(left), Self::Call(right)) => left == right,
            _ => false,
        }
    }
}

/// The inequalities in a set.
fn inequalities<'a>(set: &'a Expr, all: &mut Vec<&'a Relation>) {
    match set {
        Expr::Combine(_, left, right) => {
            inequalities(left, all);
            inequalities(right, all);
        }
        other => all.extend(other.relations()),
    }
}

impl<'a> Region<'a> {
    fn new(set: &'a Expr, budget: &'a StepBudget) -> Option<Self> {
        let mut relations = Vec::new();
        inequalities(set, &mut relations);
        if relations.is_empty() {
            return Some(Self { set, variable: None, budget });
        }
        let sides = || relations.iter().flat_map(|relation| [&relation.left, &relation.right]);
        if let Some(call) = sides().find(|side| matches!(&***side, Expr::Call(..))) {
            return Some(Self { set, variable: Some(Variable::Call(call)), budget });
        }
        let mut symbols: Vec<Symbol> = Vec::new();
        for symbol in sides().flat_map(|side| side.symbols()) {
            if !symbols.contains(&symbol) {
                symbols.push(symbol);
            }
        }
        let variable = symbols.pop().filter(|_| symbols.is_empty())?;
        Some(Self { set, variable: Some(Variable::Symbol(variable)), budget })
    }

    /// Adds the points where `set` may begin or end: those that are `written` down, or those that
    /// have to be looked for.
    fn ends(&self, set: &Expr, written: bool, ends: &mut Vec<f64>) -> Option<()> {
        let relations = set.relations();
        if let (Some(variable), false) = (&self.variable, relations.is_empty()) {
            for relation in relations.iter().filter(|_| !written) {
                self.budget.charge(1)?;
                roots(|x| sides(relation, variable, x, self.budget), ends);
            }
            return Some(());
        }
        let mut push = |node: &SharedExpr| {
            if !written {
                return Some(());
            }
            let end = evaluate::constant(node, self.budget)?.real()?;
            if end.is_finite() {
                ends.push(end);
            }
            Some(())
        };
        match set {
            Expr::Interval(interval) => {
                push(&interval.from)?;
                push(&interval.to)
            }
            Expr::Set(members) | Expr::List(members) => members.iter().try_for_each(push),
            Expr::Combine(_, left, right) => {
                self.ends(left, written, ends)?;
                self.ends(right, written, ends)
            }
            Expr::Domain(Domain::Reals | Domain::Empty) => Some(()),
            _ => None,
        }
    }

    fn contains(&self, set: &Expr, x: f64) -> Option<bool> {
        self.budget.charge(1)?;
        let relations = set.relations();
        if let (Some(variable), false) = (&self.variable, relations.is_empty()) {
            return relations.iter().try_fold(true, |all, relation| {
                // Where a side has no value, nothing holds; without a budget nobody knows.
                self.budget.charge(1)?;
                Some(all && holds(relation, variable, x, self.budget))
            });
        }
        let value = |node: &SharedExpr| evaluate::constant(node, self.budget)?.real();
        match set {
            Expr::Interval(RealInterval { from, to, from_open, to_open }) => {
                let (from, to) = (value(from)?, value(to)?);
                let after = if near(x, from) { !from_open } else { x > from };
                let before = if near(x, to) { !to_open } else { x < to };
                Some(after && before)
            }
            Expr::Set(members) | Expr::List(members) => {
                members.iter().try_fold(false, |any, member| Some(any || near(x, value(member)?)))
            }
            Expr::Combine(operation, left, right) => {
                let (left, right) = (self.contains(left, x)?, self.contains(right, x)?);
                Some(match operation {
                    SetOperation::Union => left || right,
                    SetOperation::Intersection => left && right,
                    SetOperation::Difference => left && !right,
                })
            }
            Expr::Domain(Domain::Reals) => Some(true),
            Expr::Domain(Domain::Empty) => Some(false),
            _ => None,
        }
    }
}

/// Whether a relation holds at `x`; where a side has no value, it does not.
fn holds(relation: &Relation, variable: &Variable<'_>, x: f64, budget: &StepBudget) -> bool {
    sides(relation, variable, x, budget).is_some_and(|(left, right)| {
        let same = near(left, right);
        match relation.kind {
            RelationKind::Equal => same,
            RelationKind::Unequal => !same,
            RelationKind::Less => left < right && !same,
            RelationKind::LessEqual => left < right || same,
            RelationKind::Greater => left > right && !same,
            RelationKind::GreaterEqual => left > right || same,
        }
    })
}

/// The values of both sides at `x`.
fn sides(relation: &Relation, variable: &Variable<'_>, x: f64, budget: &StepBudget) -> Option<(f64, f64)> {
    let mut point = VariableValues::new();
    if let Variable::Symbol(symbol) = variable {
        point.insert(symbol.clone(), Scalar::complex(x.into())?);
    }
    let side = |node: &SharedExpr| match variable {
        Variable::Call(call) if node == *call => Some(x),
        _ => evaluate::scalar(node, &point, budget)?.real(),
    };
    Some((side(&relation.left)?, side(&relation.right)?))
}

/// Adds the places where both sides are the same, as far as they show on the grid as a change of sign of the
/// difference, as a zero, or as a place where the difference is smaller than to both sides.
fn roots(sides: impl Fn(f64) -> Option<(f64, f64)>, ends: &mut Vec<f64>) {
    let f = |x: f64| sides(x).map(|(left, right)| left - right);
    let grid: Vec<(f64, f64)> = (-STEPS..=STEPS)
        .map(|step| (f64::from(step) * 16.0 / f64::from(STEPS)).sinh())
        .filter_map(|x| f(x).map(|value| (x, value)))
        .collect();
    for pair in grid.windows(2) {
        let [(left, value), (right, other)] = [pair[0], pair[1]];
        if value == 0.0 {
            ends.push(left);
        }
        if value * other < 0.0 {
            ends.push(bisect(f, left, right, value));
        }
    }
    for triple in grid.windows(3) {
        let [left, middle, right] = [triple[0], triple[1], triple[2]];
        if middle.1.abs() > left.1.abs() || middle.1.abs() > right.1.abs() {
            continue;
        }
        let lowest = lowest(|x| f(x).map_or(f64::INFINITY, f64::abs), left.0, right.0);
        let touches = sides(lowest).is_some_and(|(left, right)| near(left, right));
        // Where two curves touch is known to half of the digits only: a root that is
        // known better stays alone.
        if touches && !ends.iter().any(|end| (end - lowest).abs() <= TOUCHING * lowest.abs().max(1.0)) {
            ends.push(lowest);
        }
    }
}

/// The root between two points at which `f` has different signs, `value` at the left one.
fn bisect(f: impl Fn(f64) -> Option<f64>, mut left: f64, mut right: f64, value: f64) -> f64 {
    for _ in 0..HALVINGS {
        let middle = (left + right) / 2.0;
        match f(middle) {
            Some(0.0) => return middle,
            Some(inner) if inner * value > 0.0 => left = middle,
            _ => right = middle,
        }
    }
    (left + right) / 2.0
}

/// Where `size` is smallest between two points.
fn lowest(size: impl Fn(f64) -> f64, mut left: f64, mut right: f64) -> f64 {
    for _ in 0..HALVINGS {
        let third = (right - left) / 3.0;
        if size(left + third) <= size(right - third) {
            right -= third;
        } else {
            left += third;
        }
    }
    (left + right) / 2.0
}
