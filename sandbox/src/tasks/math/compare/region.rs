//! Sets of real numbers, given as sets or as the inequalities that describe them.
//!
//! Two of them are the same if they agree at every point where one of them may begin or end, and between these points.

use super::super::budget::Budget;
use super::super::evaluate::{self, Assignment};
use super::super::expr::{Domain, Expr, Interval, Node, Relation, RelationKind, SetOperation, Symbol};
use super::super::number;
use super::super::scalar::Scalar;

/// What is nearer to an end than this, relative to the end or to one, is the end.
const TOLERANCE: f64 = 1e-9;

/// Roots are looked for between -sinh(16) and sinh(16), about ±4.4 million, at so many steps to either side.
const STEPS: i32 = 192;

/// How often a step in which there is a root is halved.
const HALVINGS: u32 = 80;

/// Whether two sets, or a set and what inequalities in one variable describe, have the same members. `None` where that
/// cannot be told, as of sets that are not made of intervals and numbers.
pub(super) fn same(left: &Expr, right: &Expr, budget: &Budget) -> Option<bool> {
    let regions = [Region::new(left, budget)?, Region::new(right, budget)?];
    let mut ends = Vec::new();
    for region in &regions {
        region.ends(&mut ends)?;
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
        if regions[0].contains(point)? != regions[1].contains(point)? {
            return Some(false);
        }
    }
    Some(true)
}

fn near(a: f64, b: f64) -> bool {
    a == b || (a - b).abs() <= TOLERANCE * a.abs().max(b.abs()).max(1.0)
}

enum Region<'a> {
    Set(&'a Expr, &'a Budget),
    Relations(&'a [Relation], Variable<'a>, &'a Budget),
}

/// What inequalities are about: a variable, or the value of an unknown function.
enum Variable<'a> {
    Symbol(Symbol),
    Call(&'a Node),
}

impl<'a> Region<'a> {
    fn new(expr: &'a Expr, budget: &'a Budget) -> Option<Self> {
        let relations = expr.relations();
        if relations.is_empty() {
            return Some(Self::Set(expr, budget));
        }
        let sides = relations.iter().flat_map(|relation| [&relation.left, &relation.right]);
        if let Some(call) = sides.into_iter().find(|side| matches!(&***side, Expr::Call(..))) {
            return Some(Self::Relations(relations, Variable::Call(call), budget));
        }
        let mut symbols = expr.symbols();
        let variable = symbols.pop().filter(|_| symbols.is_empty())?;
        Some(Self::Relations(relations, Variable::Symbol(variable), budget))
    }

    /// Adds the points where this may begin or end.
    fn ends(&self, ends: &mut Vec<f64>) -> Option<()> {
        match self {
            Self::Set(set, budget) => set_ends(set, budget, ends),
            Self::Relations(relations, variable, budget) => {
                for relation in *relations {
                    roots(|x| difference(relation, variable, x, budget), ends);
                }
                Some(())
            }
        }
    }

    fn contains(&self, x: f64) -> Option<bool> {
        match self {
            Self::Set(set, budget) => set_contains(set, x, budget),
            Self::Relations(relations, variable, budget) => {
                relations.iter().try_fold(true, |all, relation| {
                    // Where a side has no value, nothing holds.
                    let holds =
                        difference(relation, variable, x, budget).is_some_and(|d| match relation.kind {
                            RelationKind::Equal => d == 0.0,
                            RelationKind::Unequal => d != 0.0,
                            RelationKind::Less => d < 0.0,
                            RelationKind::LessEqual => d <= 0.0,
                            RelationKind::Greater => d > 0.0,
                            RelationKind::GreaterEqual => d >= 0.0,
                        });
                    Some(all && holds)
                })
            }
        }
    }
}

fn set_ends(set: &Expr, budget: &Budget, ends: &mut Vec<f64>) -> Option<()> {
    let mut push = |node: &Node| {
        let end = evaluate::constant(node, budget)?.real()?;
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
        Expr::Set(members) => members.iter().try_for_each(push),
        Expr::Combine(_, left, right) => {
            set_ends(left, budget, ends)?;
            set_ends(right, budget, ends)
        }
        Expr::Domain(Domain::Reals | Domain::Empty) => Some(()),
        _ => None,
    }
}

fn set_contains(set: &Expr, x: f64, budget: &Budget) -> Option<bool> {
    budget.charge(1)?;
    let value = |node: &Node| evaluate::constant(node, budget)?.real();
    match set {
        Expr::Interval(Interval { from, to, from_open, to_open }) => {
            let (from, to) = (value(from)?, value(to)?);
            let after = if near(x, from) { !from_open } else { x > from };
            let before = if near(x, to) { !to_open } else { x < to };
            Some(after && before)
        }
        Expr::Set(members) => {
            members.iter().try_fold(false, |any, member| Some(any || near(x, value(member)?)))
        }
        Expr::Combine(operation, left, right) => {
            let (left, right) = (set_contains(left, x, budget)?, set_contains(right, x, budget)?);
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

/// The left side minus the right side at `x`; 0 where they are as good as the same.
fn difference(relation: &Relation, variable: &Variable<'_>, x: f64, budget: &Budget) -> Option<f64> {
    let mut point = Assignment::new();
    let x = Scalar::Exact(number::from_f64(x)?).approx()?.value;
    if let Variable::Symbol(symbol) = variable {
        point.insert(symbol.clone(), Scalar::complex(x)?);
    }
    let side = |node: &Node| match variable {
        Variable::Call(call) if node == *call => Some(x.re),
        _ => evaluate::scalar(node, &point, budget)?.real(),
    };
    let (left, right) = (side(&relation.left)?, side(&relation.right)?);
    Some(if near(left, right) { 0.0 } else { left - right })
}

/// Adds the roots of `f`, as far as they show on the grid as a change of sign, as a zero, or as a place where the size
/// is smaller than to both sides.
fn roots(f: impl Fn(f64) -> Option<f64>, ends: &mut Vec<f64>) {
    let grid: Vec<(f64, f64)> = (-STEPS..=STEPS)
        .map(|step| (f64::from(step) * 16.0 / f64::from(STEPS)).sinh())
        .filter_map(|x| f(x).map(|value| (x, value)))
        .collect();
    for pair in grid.windows(2) {
        let [(mut left, value), (mut right, other)] = [pair[0], pair[1]];
        if value == 0.0 {
            ends.push(left);
        }
        if value * other < 0.0 {
            for _ in 0..HALVINGS {
                let middle = (left + right) / 2.0;
                match f(middle) {
                    Some(0.0) => {
                        (left, right) = (middle, middle);
                    }
                    Some(inner) if inner * value > 0.0 => left = middle,
                    _ => right = middle,
                }
                if left == right {
                    break;
                }
            }
            ends.push((left + right) / 2.0);
        }
    }
    for triple in grid.windows(3) {
        let size = |x: f64| f(x).map_or(f64::INFINITY, f64::abs);
        let (mut left, mut right) = (triple[0].0, triple[2].0);
        if triple[1].1.abs() > triple[0].1.abs() || triple[1].1.abs() > triple[2].1.abs() {
            continue;
        }
        for _ in 0..HALVINGS {
            let third = (right - left) / 3.0;
            let (lower, upper) = (left + third, right - third);
            if size(lower) <= size(upper) { right = upper } else { left = lower }
        }
        let lowest = (left + right) / 2.0;
        if size(lowest) == 0.0 {
            ends.push(lowest);
        }
    }
}
