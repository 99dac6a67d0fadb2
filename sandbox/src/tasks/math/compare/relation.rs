//! Equations and inequalities.

use std::sync::Arc;

use super::super::evaluate::{self, VariableValues};
use super::super::expr::{Expr, Relation, RelationKind, SharedExpr, Symbol};
use super::super::scalar::Scalar;
use super::{Comparison, identity};

impl Comparison<'_> {
    pub(super) fn relations(&self, gold: &[Relation], prediction: &[Relation]) -> bool {
        let pairwise = |prediction: &mut dyn Iterator<Item = Relation>| {
            gold.iter().zip(prediction).all(|(gold, prediction)| self.single(gold, &prediction))
        };
        let turned = |relation: &Relation| Relation {
            kind: relation.kind.flipped(),
            left: relation.right.clone(),
            right: relation.left.clone(),
        };
        gold.len() == prediction.len()
            && (pairwise(&mut prediction.iter().cloned())
                // 2 > x > 1 for 1 < x < 2.
                || (gold.len() > 1 && pairwise(&mut prediction.iter().rev().map(turned))))
    }

    fn single(&self, gold: &Relation, prediction: &Relation) -> bool {
        let same_kind = gold.kind == prediction.kind;
        if conflicting(&gold.left, &prediction.left) || conflicting(&gold.right, &prediction.right) {
            return false;
        }
        if same_kind
            && self.nodes(&gold.left, &prediction.left, false)
            && self.nodes(&gold.right, &prediction.right, false)
        {
            return true;
        }
        let difference = difference(&gold.left, &gold.right);
        let same = |left: &SharedExpr, right: &SharedExpr| {
            identity::same(&difference, &self::difference(left, right), self.budget)
        };
        (same_kind && same(&prediction.left, &prediction.right))
            || (gold.kind == prediction.kind.flipped() && same(&prediction.right, &prediction.left))
            || (same_kind && gold.kind == RelationKind::Equal && self.same_solutions(gold, prediction))
    }

    /// Whether two equations in several variables have the same solutions: solved for a variable in
    /// which both are linear they give the same, or they differ by a factor.
    fn same_solutions(&self, gold: &Relation, prediction: &Relation) -> bool {
        let (gold, prediction) =
            (difference(&gold.left, &gold.right), difference(&prediction.left, &prediction.right));
        let mut symbols = gold.symbols();
        let mut theirs = prediction.symbols();
        symbols.sort();
        theirs.sort();
        if symbols.len() < 2 || symbols != theirs {
            return false;
        }
        symbols.iter().any(|variable| {
            let others: Vec<Symbol> = symbols.iter().filter(|symbol| *symbol != variable).cloned().collect();
            identity::agree(&others, self.budget, |point| {
                let solution = |expr| self.linear_solution(expr, variable, point);
                match (solution(&gold), solution(&prediction)) {
                    (Some(gold), Some(prediction)) => gold.same(&prediction),
                    (None, None) => None,
                    _ => Some(false),
                }
            })
        }) || self.constant_ratio(&symbols, &gold, &prediction)
    }

    fn constant_ratio(&self, symbols: &[Symbol], gold: &Expr, prediction: &Expr) -> bool {
        let first: std::cell::RefCell<Option<Scalar>> = std::cell::RefCell::default();
        identity::agree(symbols, self.budget, |point| {
            let value = |expr| evaluate::scalar(expr, point, self.budget);
            let ratio = value(gold)?.multiply(&value(prediction)?.power(&Scalar::integer(-1))?)?;
            if ratio.same(&Scalar::integer(0))? {
                return Some(false);
            }
            let mut first = first.borrow_mut();
            first.get_or_insert_with(|| ratio.clone()).same(&ratio)
        })
    }

    /// Where `expr`, which must be linear in `variable`, is 0.
    fn linear_solution(&self, expr: &Expr, variable: &Symbol, point: &VariableValues) -> Option<Scalar> {
        let mut point = point.clone();
        let mut at = |x: i64| {
            point.insert(variable.clone(), Scalar::integer(x));
            evaluate::scalar(expr, &point, self.budget)
        };
        let (one, two, five) = (at(1)?, at(2)?, at(5)?);
        let slope = two.add(&one.negate()?)?;
        let expected = one.add(&slope.multiply(&Scalar::integer(4))?)?;
        if !five.same(&expected)? || slope.same(&Scalar::integer(0))? {
            return None;
        }
        let step = one.multiply(&slope.power(&Scalar::integer(-1))?)?;
        Scalar::integer(1).add(&step.negate()?)
    }
}

/// Whether two values are of different units.
fn conflicting(gold: &Expr, prediction: &Expr) -> bool {
    match (gold, prediction) {
        (Expr::Measured(_, gold), Expr::Measured(_, prediction)) => !super::compatible(gold, prediction),
        _ => false,
    }
}

fn difference(left: &SharedExpr, right: &SharedExpr) -> Expr {
    Expr::sum(left.clone(), Arc::new(Expr::negative(right.clone())))
}
