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
use num_traits::Zero;

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
        if self.contradicts_itself(prediction) && gold != prediction {
            return false;
        }
        let (mut gold, mut prediction) = (shortened(gold), shortened(prediction));
        let (asked, given) = (is_equation(&gold), is_equation(&prediction));
        if given && !asked {
            // y ∈ (5, ∞) does not answer x > 5.
            if other_name(&prediction, &gold) {
                return false;
            }
            prediction = last_side(&prediction);
        } else if is_assignment(&gold) && !given {
            if other_name(&gold, &prediction) {
                return false;
            }
            gold = last_side(&gold);
        }
        if let (Expr::Measured(_, asked), Expr::Measured(_, given)) = (&*gold, &*prediction)
            && !compatible(asked, given)
        {
            return false;
        }
        let (gold, prediction) = (unmeasured(gold), unmeasured(prediction));
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
            // A column may be written as a tuple.
            (Expr::Matrix(column), Expr::Tuple(_) | Expr::Interval(_)) if column.columns == 1 => {
                self.collections(&Arc::new(Expr::Tuple(column.entries.clone())), &prediction)
            }
            // 28 for 28%.
            (Expr::Percent(gold), Expr::Number(_)) if self.nodes(gold, &prediction, false) => true,
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
        let value = |expr: &Expr| match evaluate::constant(expr, self.budget)? {
            Scalar::Exact(exact) => Some((exact, true)),
            other => Some((number::from_f64(other.real()?)?, false)),
        };
        let ((asked, exact), (given, exactly)) = (value(gold)?, value(prediction)?);
        let places = self.options.precision;
        // What has few decimals and was written without a point is asked for to the last digit,
        // and nothing but 0 is 0.
        let short = !is_decimal(gold) && number::decimals_within(&asked, places);
        if exact && exactly && (short || asked.is_zero() || given.is_zero()) {
            return Some(asked == given);
        }
        // Of what is tiny so many digits are compared, not decimals.
        let places = places.saturating_add(number::leading_zeros(&asked));
        Some(number::scaled(&asked, places) == number::scaled(&given, places))
    }

    /// Whether a chain of equations says of two numbers that they are the same which nobody would
    /// take for each other: `5 = 7`.
    fn contradicts_itself(&self, node: &Expr) -> bool {
        /// Numbers that differ by less, relative to the larger, may have been rounded.
        const ROUNDED: f64 = 0.01;
        if !is_equation(node) {
            return false;
        }
        let relations = node.relations();
        let sides = relations.iter().map(|relation| &relation.left).chain(relations.last().map(|r| &r.right));
        let mut known: Option<f64> = None;
        for side in sides.filter(|side| is_plain_number(side)) {
            let Some(value) = evaluate::constant(side, self.budget).and_then(|value| value.real()) else {
                continue;
            };
            let first = *known.get_or_insert(value);
            if (value - first).abs() > ROUNDED * value.abs().max(first.abs()) {
                return true;
            }
        }
        false
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
/// they spell the same. Words do so in upper and lower case, single letters do not, but for those
/// of multiple choice.
fn spelled_alike(gold: &Expr, prediction: &Expr) -> bool {
    let letter = |expr: &Expr| match expr {
        Expr::Symbol(symbol) => Some(symbol.name.clone()),
        // The e and pi of a word are read as the numbers.
        Expr::Constant(Constant::E) => Some("e".to_owned()),
        Expr::Constant(Constant::Pi) => Some("pi".to_owned()),
        // \text{5}
        Expr::Number(number) if !number.decimal => Some(number.value.to_string()),
        _ => None,
    };
    let word = |expr: &Expr| match expr {
        Expr::Multiply(letters) => letters.iter().map(|expr| letter(expr)).collect::<Option<String>>(),
        other => letter(other),
    };
    let symbol = |expr: &Expr| matches!(expr, Expr::Symbol(_));
    let same = |gold: &str, prediction: &str| match (gold.len(), prediction.len()) {
        _ if is_greek(gold) && is_greek(prediction) => gold == prediction,
        (1, 1) => {
            gold == prediction
                || (gold.eq_ignore_ascii_case(prediction)
                    && CHOICES.contains(&gold.to_ascii_uppercase().as_str()))
        }
        _ => gold.eq_ignore_ascii_case(prediction),
    };
    (symbol(gold) || symbol(prediction))
        && !named_alike(gold, prediction)
        && word(gold).is_some_and(|gold| word(prediction).is_some_and(|prediction| same(&gold, &prediction)))
}

/// Whether this is the name of a Greek letter, which is another one with a capital.
fn is_greek(name: &str) -> bool {
    const WITH_CAPITAL: [&str; 11] =
        ["gamma", "delta", "theta", "lambda", "xi", "pi", "sigma", "upsilon", "phi", "psi", "omega"];
    WITH_CAPITAL.iter().any(|letter| letter.eq_ignore_ascii_case(name))
}

/// The letters of multiple choice; E is left out, as e is a number.
const CHOICES: [&str; 4] = ["A", "B", "C", "D"];

/// Whether both are one name with a subscript or the like, which has its own case.
fn named_alike(gold: &Expr, prediction: &Expr) -> bool {
    let composed = |expr: &Expr| matches!(expr, Expr::Symbol(symbol) if symbol.name.contains(['_', '{']) && gold != prediction);
    composed(gold) || composed(prediction)
}

/// Whether all that is said of one value is said of the other: nothing was said in vain.
fn compatible(asked: &[String], given: &[String]) -> bool {
    asked.iter().all(|word| given.contains(word)) || given.iter().all(|word| asked.contains(word))
}

/// A value without what is said of it.
fn unmeasured(node: SharedExpr) -> SharedExpr {
    match &*node {
        Expr::Measured(inner, _) => inner.clone(),
        _ => node,
    }
}

/// Whether `named` says of what unknown it speaks, and `about`, an inequality, is about another.
fn other_name(named: &Expr, about: &Expr) -> bool {
    let [first, ..] = named.relations() else { return false };
    let Expr::Symbol(_) = &*first.left else { return false };
    if about.relations().is_empty() || is_equation(about) {
        return false;
    }
    let symbols = about.symbols();
    symbols.len() == 1 && first.left.symbols() != symbols
}

/// Whether nothing but numbers stands here, without percent signs and unknown functions.
fn is_plain_number(expr: &Expr) -> bool {
    match expr {
        Expr::Symbol(_) | Expr::Call(..) | Expr::Percent(_) | Expr::Fold(_) | Expr::Measured(..) => false,
        Expr::Constant(constant) => *constant != Constant::Infinity,
        _ if expr.is_collection() => false,
        _ => expr.children().into_iter().all(|child| is_plain_number(child)),
    }
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
