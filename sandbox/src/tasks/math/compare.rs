//! Whether a prediction says what the gold answer says. Not symmetric: the gold answer decides what
//! form is asked for.

mod collection;
mod identity;
mod region;
mod relation;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::MathOptions;
use super::budget::StepBudget;
use super::evaluate;
use super::expr::{Constant, Expr, Relation, RelationKind, SharedExpr, Symbol};
use super::number;
use super::scalar::Scalar;

/// How answers are compared, and the steps that this may take.
#[derive(Clone, Copy)]
pub(super) struct Comparison<'a> {
    pub(super) options: &'a MathOptions,
    pub(super) budget: &'a StepBudget,
}

impl Comparison<'_> {
    /// Compares whole answers; unless strict, unknowns may have other names if they are as many.
    pub(super) fn answers(&self, gold: &SharedExpr, prediction: &SharedExpr) -> bool {
        let renamed = match self.options.strict {
            true => None,
            false => renamed(gold, prediction),
        };
        self.nodes(gold, renamed.as_ref().unwrap_or(prediction), self.options.allow_set_relation_comp)
    }

    /// Compares answers or parts of them. `both_ways`: also a gold set with a predicted inequality.
    fn nodes(&self, gold: &SharedExpr, prediction: &SharedExpr, both_ways: bool) -> bool {
        if self.budget.charge(1).is_none() {
            return false;
        }
        let (mut gold, mut prediction) = (shortened(gold), shortened(prediction));
        let (asked, given) = (is_equation(&gold), is_equation(&prediction));
        if given && !asked {
            prediction = last_side(&prediction);
        } else if is_assignment(&gold) && !given {
            gold = last_side(&gold);
        }
        if !gold.relations().is_empty()
            && is_set(&prediction)
            && let Some(same) = region::same(&gold, &prediction, self.budget)
        {
            return same;
        }
        if both_ways
            && is_set(&gold)
            && !prediction.relations().is_empty()
            && let Some(same) = region::same(&gold, &prediction, self.budget)
        {
            return same;
        }
        if gold == prediction {
            return true;
        }
        match (&*gold, &*prediction) {
            (Expr::Not(gold), Expr::Not(prediction)) => self.nodes(gold, prediction, false),
            _ if !gold.relations().is_empty() && !prediction.relations().is_empty() => {
                self.relations(gold.relations(), prediction.relations())
            }
            _ if gold.is_collection() || prediction.is_collection() => self.collections(&gold, &prediction),
            _ => spelled_alike(&gold, &prediction) || self.scalars(&gold, &prediction),
        }
    }

    /// Compares numbers, terms and matrices.
    fn scalars(&self, gold: &SharedExpr, prediction: &SharedExpr) -> bool {
        if let (Expr::Matrix(gold), Expr::Matrix(prediction)) = (&**gold, &**prediction)
            && gold.columns == prediction.columns
            && gold.entries.len() == prediction.entries.len()
        {
            return gold
                .entries
                .iter()
                .zip(&prediction.entries)
                .all(|(gold, prediction)| spelled_alike(gold, prediction) || self.scalars(gold, prediction));
        }
        self.rounded(gold, prediction) == Some(true) || identity::same(gold, prediction, self.budget)
    }

    /// Where a decimal number is to be compared: whether both sides are the same to
    /// the decimals of `MathOptions::precision`.
    fn rounded(&self, gold: &Expr, prediction: &Expr) -> Option<bool> {
        if !is_decimal(gold) && !is_decimal(prediction) {
            return None;
        }
        let places = self.options.precision;
        let rounded = |expr: &Expr| match evaluate::constant(expr, self.budget)? {
            Scalar::Exact(exact) => Some(number::scaled(&exact, places)),
            other => {
                let real = number::from_f64(other.real()?)?;
                Some(number::scaled(&real, places))
            }
        };
        Some(rounded(gold)? == rounded(prediction)?)
    }
}

/// A number with a decimal point, or a percentage with one.
fn is_decimal(expr: &Expr) -> bool {
    match expr {
        Expr::Number(number) => number.decimal,
        Expr::Percent(inner) => matches!(&**inner, Expr::Number(number) if number.decimal),
        _ => false,
    }
}

/// Texts are variables, and words outside of `\text{}` products of letters: they are the same if
/// they spell the same.
fn spelled_alike(gold: &Expr, prediction: &Expr) -> bool {
    let letter = |expr: &Expr| match expr {
        Expr::Symbol(symbol) => Some(symbol.name.to_lowercase()),
        // The e of a word is read as the number.
        Expr::Constant(Constant::E) => Some("e".to_owned()),
        // \text{5}
        Expr::Number(number) if !number.decimal => Some(number.value.to_string()),
        _ => None,
    };
    let word = |expr: &Expr| match expr {
        Expr::Multiply(letters) => letters.iter().map(|expr| letter(expr)).collect::<Option<String>>(),
        other => letter(other),
    };
    let symbol = |expr: &Expr| matches!(expr, Expr::Symbol(_));
    (symbol(gold) || symbol(prediction)) && word(gold).is_some_and(|gold| word(prediction) == Some(gold))
}

fn is_set(expr: &Expr) -> bool {
    expr.is_collection() && !matches!(expr, Expr::Tuple(_))
}

fn is_equation(expr: &Expr) -> bool {
    let relations = expr.relations();
    !relations.is_empty() && relations.iter().all(|relation| relation.kind == RelationKind::Equal)
}

/// `x = 5`, `f(x) = 2x + 1`, `(x, y) = (1, 2)`: what stands on the left is only named.
fn is_assignment(expr: &Expr) -> bool {
    is_equation(expr) && expr.relations()[0].left.only_symbols()
}

/// Of a chain that starts with a name only the name and what comes out in the end.
fn shortened(node: &SharedExpr) -> SharedExpr {
    match node.relations() {
        [first, .., last] if is_assignment(node) => Arc::new(Expr::Relation(Relation {
            kind: RelationKind::Equal,
            left: first.left.clone(),
            right: last.right.clone(),
        })),
        _ => node.clone(),
    }
}

fn last_side(node: &SharedExpr) -> SharedExpr {
    node.relations().last().map_or_else(|| node.clone(), |relation| relation.right.clone())
}

/// The prediction with its variables named as in the gold answer, where there are as many.
fn renamed(gold: &Expr, prediction: &SharedExpr) -> Option<SharedExpr> {
    let (gold, ours) = (gold.symbols(), prediction.symbols());
    (gold.len() == ours.len()).then(|| {
        let names: BTreeMap<Symbol, Symbol> = ours.into_iter().zip(gold).collect();
        prediction.renamed(&names)
    })
}
