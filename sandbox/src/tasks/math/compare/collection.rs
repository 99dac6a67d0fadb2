//! Sets, tuples and intervals.

use std::sync::Arc;

use super::super::expr::{Expr, RealInterval, RelationKind, SetOperation, SharedExpr};
use super::{Comparison, is_set, region};

impl Comparison<'_> {
    pub(super) fn collections(&self, gold: &SharedExpr, prediction: &SharedExpr) -> bool {
        let (gold, mut prediction) = (collection(gold), collection(prediction));
        if let (Expr::Combine(SetOperation::Union, first, _), Expr::List(all)) = (&*gold, &*prediction)
            && is_relational(first)
            && all.iter().all(|member| !member.relations().is_empty())
        {
            // x < 3, x > 5 for x < 3 or x > 5.
            let union = |left, right| Arc::new(Expr::Combine(SetOperation::Union, left, right));
            prediction = all.iter().cloned().reduce(union).unwrap_or_else(|| prediction.clone());
        }
        if let (Expr::Interval(gold), Expr::Interval(prediction)) = (&*gold, &*prediction) {
            return gold.from_open == prediction.from_open
                && gold.to_open == prediction.to_open
                && self.nodes(&gold.from, &prediction.from, false)
                && self.nodes(&gold.to, &prediction.to, false);
        }
        if gold == prediction
            || (is_set(&gold)
                && is_set(&prediction)
                // As regions, 3 red and 2 blue are the numbers 2 and 3.
                && !(is_measured(&gold) && is_measured(&prediction))
                && region::same(&gold, &prediction, self.budget) == Some(true))
        {
            return true;
        }
        match (&*gold, &*prediction) {
            (Expr::Combine(first, a, b), Expr::Combine(second, c, d)) => {
                first == second && self.nodes(a, c, false) && self.nodes(b, d, false)
            }
            _ => match (self.members(&gold), self.members(&prediction)) {
                (Some(gold), Some(prediction)) => self.same_members(&gold, &prediction),
                _ => false,
            },
        }
    }

    /// The members of a finite set or tuple; an open interval may have been meant as a pair.
    fn members<'n>(&self, node: &'n Expr) -> Option<Members<'n>> {
        match node {
            Expr::Set(members) => Some(Members { all: members.iter().collect(), kind: Kind::Set }),
            Expr::List(members) => Some(Members { all: members.iter().collect(), kind: Kind::List }),
            Expr::Tuple(members) => Some(Members { all: members.iter().collect(), kind: Kind::Tuple }),
            Expr::Interval(RealInterval { from, to, from_open: true, to_open: true }) => {
                Some(Members { all: vec![from, to], kind: Kind::Tuple })
            }
            _ => None,
        }
    }

    /// Compares members one by one. A set has no order and a tuple has one: neither is the other.
    /// A list is either, as a tuple in the order in which it is written.
    fn same_members(&self, gold: &Members<'_>, prediction: &Members<'_>) -> bool {
        if let (Kind::Tuple, Kind::Set) | (Kind::Set, Kind::Tuple) = (gold.kind, prediction.kind) {
            return false;
        }
        if gold.kind == Kind::Tuple || prediction.kind == Kind::Tuple {
            let (gold, prediction) = (gold.by_coordinates(), prediction.by_coordinates());
            return gold.len() == prediction.len()
                && gold.iter().zip(&prediction).all(|(gold, given)| self.nodes(gold, given, false));
        }
        let gold = distinct(&gold.all);
        let mut left = distinct(&prediction.all);
        gold.len() == left.len()
            && gold.iter().all(|gold| {
                let at = left.iter().position(|given| self.nodes(gold, given, false));
                at.map(|at| left.remove(at)).is_some()
            })
    }
}

/// Whether something is said of a value in it.
fn is_measured(node: &Expr) -> bool {
    matches!(node, Expr::Measured(..)) || node.children().into_iter().any(|child| is_measured(child))
}

/// Whether this is an inequality, or several that are joined by "or".
fn is_relational(node: &Expr) -> bool {
    match node {
        Expr::Combine(_, left, _) => is_relational(left),
        other => !other.relations().is_empty(),
    }
}

struct Members<'n> {
    all: Vec<&'n SharedExpr>,
    kind: Kind,
}

impl<'n> Members<'n> {
    /// In their order; of a list such as `y = 4, x = 3`, in the order of a point's coordinates.
    fn by_coordinates(&self) -> Vec<&'n SharedExpr> {
        const COORDINATES: [&str; 3] = ["x", "y", "z"];
        let place = |member: &SharedExpr| match member.relations() {
            [only] if only.kind == RelationKind::Equal => match &*only.left {
                Expr::Symbol(symbol) => COORDINATES.iter().position(|name| *name == symbol.name),
                _ => None,
            },
            _ => None,
        };
        let placed = self.all.iter().map(|member| Some((place(member)?, *member)));
        let placed = placed.collect::<Option<Vec<_>>>().filter(|_| self.kind == Kind::List);
        let Some(mut placed) = placed else { return self.all.clone() };
        placed.sort_by_key(|(place, _)| *place);
        placed.into_iter().map(|(_, member)| member).collect()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// In braces.
    Set,
    /// In parentheses.
    Tuple,
    /// With nothing around it.
    List,
}

/// What is no collection is taken for the set of itself.
fn collection(node: &SharedExpr) -> SharedExpr {
    if node.is_collection() { node.clone() } else { Arc::new(Expr::Set(vec![node.clone()])) }
}

fn distinct<'n>(members: &[&'n SharedExpr]) -> Vec<&'n SharedExpr> {
    let mut kept: Vec<&SharedExpr> = Vec::new();
    for member in members {
        if !kept.contains(member) {
            kept.push(member);
        }
    }
    kept
}
