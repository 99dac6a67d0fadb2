//! Sets, tuples and intervals.

use std::sync::Arc;

use super::super::expr::{Expr, RealInterval, SharedExpr};
use super::{Comparison, is_set, region};

impl Comparison<'_> {
    pub(super) fn collections(&self, gold: &SharedExpr, prediction: &SharedExpr) -> bool {
        let (gold, prediction) = (collection(gold), collection(prediction));
        if let (Expr::Interval(gold), Expr::Interval(prediction)) = (&*gold, &*prediction) {
            return gold.from_open == prediction.from_open
                && gold.to_open == prediction.to_open
                && self.nodes(&gold.from, &prediction.from, false)
                && self.nodes(&gold.to, &prediction.to, false);
        }
        if gold == prediction
            || (is_set(&gold)
                && is_set(&prediction)
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
            Expr::Set(members) => Some(Members { all: members.iter().collect(), ordered: false }),
            Expr::Tuple(members) => Some(Members { all: members.iter().collect(), ordered: true }),
            Expr::Interval(RealInterval { from, to, from_open: true, to_open: true }) => {
                Some(Members { all: vec![from, to], ordered: true })
            }
            _ => None,
        }
    }

    /// Compares members one by one. A gold set has no order; a gold tuple wants its order, of a
    /// set the written one.
    fn same_members(&self, gold: &Members<'_>, prediction: &Members<'_>) -> bool {
        if gold.ordered {
            return gold.all.len() == prediction.all.len()
                && gold.all.iter().zip(&prediction.all).all(|(gold, given)| self.nodes(gold, given, false));
        }
        let gold = distinct(&gold.all);
        let mut left = if prediction.ordered { prediction.all.clone() } else { distinct(&prediction.all) };
        gold.len() == left.len()
            && gold.iter().all(|gold| {
                let at = left.iter().position(|given| self.nodes(gold, given, false));
                at.map(|at| left.remove(at)).is_some()
            })
    }
}

struct Members<'n> {
    all: Vec<&'n SharedExpr>,
    ordered: bool,
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
