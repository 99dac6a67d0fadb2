//! What answers are made of.

use std::collections::BTreeMap;
use std::sync::Arc;

use num_traits::{One, Signed};

use super::budget::StepBudget;
use super::number::{self, Rational};

/// An expression that several others may share, as chains of relations do.
pub(crate) type SharedExpr = Arc<Expr>;

/// An answer or a part of it, as it was written: nothing is simplified.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Expr {
    Number(Number),
    Symbol(Symbol),
    Constant(Constant),
    Add(Vec<SharedExpr>),
    Multiply(Vec<SharedExpr>),
    Power(SharedExpr, SharedExpr),
    /// A hundredth of the number: `28\%`.
    Percent(SharedExpr),
    Apply(Function, Vec<SharedExpr>),
    /// A function nobody defined, `f(x)`, or an operator that is not worked out, such as an integral.
    Call(String, Vec<SharedExpr>),
    Fold(Fold),
    Matrix(Matrix),
    Tuple(Vec<SharedExpr>),
    /// A finite set in braces, in the order in which it was written, repetitions included.
    Set(Vec<SharedExpr>),
    /// Several answers that nothing encloses: a set, and a tuple where one is asked for.
    List(Vec<SharedExpr>),
    /// A value and the words of its unit, or what else is said of it: `10\text{ miles north}`.
    Measured(SharedExpr, Vec<String>),
    Interval(RealInterval),
    Combine(SetOperation, SharedExpr, SharedExpr),
    Domain(Domain),
    Relation(Relation),
    /// `a < b < c`: what is written once is shared by two neighbours.
    Chain(Vec<Relation>),
    Not(SharedExpr),
}

/// A number as written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Number {
    pub(crate) value: Rational,
    /// Whether it was written with a decimal point: then only the decimals
    /// of `MathOptions::precision` are compared.
    pub(crate) decimal: bool,
}

/// A variable, or a text that stands for itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Symbol {
    pub(crate) name: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Constant {
    Pi,
    E,
    Infinity,
}

/// The functions whose values are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Function {
    Abs,
    Floor,
    Ceiling,
    Factorial,
    Binomial,
    Gcd,
    Lcm,
    Max,
    Min,
    Mod,
    /// The logarithm of the first argument to the base of the second.
    Log,
    Exp,
    Sin,
    Cos,
    Tan,
    Csc,
    Sec,
    Cot,
    Arcsin,
    Arccos,
    Arctan,
    Arccsc,
    Arcsec,
    Arccot,
    Sinh,
    Cosh,
    Tanh,
    Arsinh,
    Arcosh,
    Artanh,
    Determinant,
    Trace,
    Transpose,
    Norm,
}

/// `\sum` or `\prod` over the integers from `from` to `to`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Fold {
    pub(crate) product: bool,
    pub(crate) variable: SharedExpr,
    pub(crate) from: SharedExpr,
    pub(crate) to: SharedExpr,
    pub(crate) body: SharedExpr,
}

/// A matrix, row after row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Matrix {
    pub(crate) columns: usize,
    pub(crate) entries: Vec<SharedExpr>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RealInterval {
    pub(crate) from: SharedExpr,
    pub(crate) to: SharedExpr,
    pub(crate) from_open: bool,
    pub(crate) to_open: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetOperation {
    Union,
    Intersection,
    Difference,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Domain {
    Naturals,
    Integers,
    Rationals,
    Reals,
    Complexes,
    Empty,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Relation {
    pub(crate) kind: RelationKind,
    pub(crate) left: SharedExpr,
    pub(crate) right: SharedExpr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RelationKind {
    Equal,
    Unequal,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl RelationKind {
    /// The relation with its sides swapped.
    pub(crate) fn flipped(self) -> Self {
        match self {
            Self::Equal | Self::Unequal => self,
            Self::Less => Self::Greater,
            Self::LessEqual => Self::GreaterEqual,
            Self::Greater => Self::Less,
            Self::GreaterEqual => Self::LessEqual,
        }
    }
}

impl Expr {
    /// A number without a decimal point.
    pub(crate) fn exact(value: Rational) -> Self {
        Self::Number(Number { value, decimal: false })
    }

    /// The value of a number without a decimal point.
    pub(crate) fn as_exact(&self) -> Option<&Rational> {
        match self {
            Self::Number(Number { value, decimal: false }) => Some(value),
            _ => None,
        }
    }

    /// A sum, flat. A `left` that nobody shares grows in place: terms one by one make a sum in linear time.
    pub(crate) fn sum(left: SharedExpr, right: SharedExpr) -> Self {
        let mut terms = terms(left);
        terms.extend(self::terms(right));
        Self::Add(terms)
    }

    /// A product, flat; it grows as a sum does.
    pub(crate) fn product(left: SharedExpr, right: SharedExpr) -> Self {
        let mut factors = factors(left);
        factors.extend(self::factors(right));
        Self::Multiply(factors)
    }

    /// `left / right`; a number where both are integers.
    pub(crate) fn quotient(left: SharedExpr, right: SharedExpr) -> Self {
        if let (Some(over), Some(under)) = (left.as_exact(), right.as_exact())
            && over.is_integer()
            && under.is_integer()
            && under.numer().bits() > 0
        {
            return Self::exact(over / under);
        }
        Self::product(left, Arc::new(Self::Power(right, Arc::new(Self::exact(-Rational::one())))))
    }

    /// `-inner`; a number where it is one.
    pub(crate) fn negative(inner: SharedExpr) -> Self {
        match &*inner {
            Self::Number(number) => {
                Self::Number(Number { value: -number.value.clone(), decimal: number.decimal })
            }
            _ => Self::product(Arc::new(Self::exact(-Rational::one())), inner),
        }
    }

    /// What stands side by side: a product, whose last factors may be a mixed number such as
    /// `2 \frac{1}{2}`. `None` where nothing does, or where the budget ends.
    pub(crate) fn juxtaposed(mut row: Vec<SharedExpr>, budget: &StepBudget) -> Option<SharedExpr> {
        let mut last = row.pop()?;
        while let Some((whole, part)) = row.last().and_then(|node| node.as_exact()).zip(last.as_exact())
            && whole.is_integer()
            && part.is_positive()
        {
            budget.charge_words(number::words(whole).saturating_add(number::words(part)))?;
            last = Arc::new(Self::exact(if whole.is_negative() { whole - part } else { whole + part }));
            row.pop();
        }
        if row.is_empty() {
            return Some(last);
        }
        row.push(last);
        Some(Arc::new(Self::Multiply(row.into_iter().flat_map(factors).collect())))
    }

    /// Whether nothing but variables (and quotients of them) stands here: what can be assigned to.
    pub(crate) fn only_symbols(&self) -> bool {
        match self {
            Self::Symbol(_) => true,
            Self::Power(base, exponent) => {
                base.only_symbols() && exponent.as_exact().is_none_or(|number| *number == -Rational::one())
            }
            Self::Number(_)
            | Self::Constant(_)
            | Self::Percent(_)
            | Self::Domain(_)
            | Self::Interval(_)
            | Self::Fold(_) => false,
            _ => {
                let children = self.children();
                !children.is_empty() && children.iter().all(|child| child.only_symbols())
            }
        }
    }

    /// The expressions directly inside.
    pub(crate) fn children(&self) -> Vec<&SharedExpr> {
        match self {
            Self::Number(_) | Self::Symbol(_) | Self::Constant(_) | Self::Domain(_) => Vec::new(),
            Self::Add(all) | Self::Multiply(all) | Self::Tuple(all) | Self::Set(all) | Self::List(all) => {
                all.iter().collect()
            }
            Self::Apply(_, all) | Self::Call(_, all) => all.iter().collect(),
            Self::Power(left, right) | Self::Combine(_, left, right) => vec![left, right],
            Self::Percent(inner) | Self::Not(inner) | Self::Measured(inner, _) => vec![inner],
            Self::Fold(fold) => vec![&fold.variable, &fold.from, &fold.to, &fold.body],
            Self::Matrix(matrix) => matrix.entries.iter().collect(),
            Self::Interval(interval) => vec![&interval.from, &interval.to],
            Self::Relation(relation) => vec![&relation.left, &relation.right],
            Self::Chain(relations) => relations.iter().flat_map(|r| [&r.left, &r.right]).collect(),
        }
    }

    /// The variables in here, in the order in which they first occur.
    pub(crate) fn symbols(&self) -> Vec<Symbol> {
        let mut found = Vec::new();
        self.collect_symbols(&mut found);
        found
    }

    fn collect_symbols(&self, found: &mut Vec<Symbol>) {
        if let Self::Symbol(symbol) = self
            && !found.contains(symbol)
        {
            found.push(symbol.clone());
        }
        for child in self.children() {
            child.collect_symbols(found);
        }
    }

    /// The same with other variables.
    pub(crate) fn renamed(&self, names: &BTreeMap<Symbol, Symbol>) -> SharedExpr {
        let all = |nodes: &[SharedExpr]| nodes.iter().map(|node| node.renamed(names)).collect::<Vec<_>>();
        let relation = |relation: &Relation| Relation {
            kind: relation.kind,
            left: relation.left.renamed(names),
            right: relation.right.renamed(names),
        };
        Arc::new(match self {
            Self::Number(_) | Self::Constant(_) | Self::Domain(_) => self.clone(),
            Self::Symbol(symbol) => Self::Symbol(names.get(symbol).unwrap_or(symbol).clone()),
            Self::Add(terms) => Self::Add(all(terms)),
            Self::Multiply(factors) => Self::Multiply(all(factors)),
            Self::Power(base, exponent) => Self::Power(base.renamed(names), exponent.renamed(names)),
            Self::Percent(inner) => Self::Percent(inner.renamed(names)),
            Self::Not(inner) => Self::Not(inner.renamed(names)),
            Self::Apply(function, arguments) => Self::Apply(*function, all(arguments)),
            Self::Call(name, arguments) => Self::Call(name.clone(), all(arguments)),
            Self::Fold(fold) => Self::Fold(Fold {
                product: fold.product,
                variable: fold.variable.renamed(names),
                from: fold.from.renamed(names),
                to: fold.to.renamed(names),
                body: fold.body.renamed(names),
            }),
            Self::Matrix(matrix) => {
                Self::Matrix(Matrix { columns: matrix.columns, entries: all(&matrix.entries) })
            }
            Self::Tuple(members) => Self::Tuple(all(members)),
            Self::Set(members) => Self::Set(all(members)),
            Self::List(members) => Self::List(all(members)),
            Self::Measured(inner, words) => Self::Measured(inner.renamed(names), words.clone()),
            Self::Interval(interval) => Self::Interval(RealInterval {
                from: interval.from.renamed(names),
                to: interval.to.renamed(names),
                ..interval.clone()
            }),
            Self::Combine(operation, left, right) => {
                Self::Combine(*operation, left.renamed(names), right.renamed(names))
            }
            Self::Relation(one) => Self::Relation(relation(one)),
            Self::Chain(relations) => Self::Chain(relations.iter().map(relation).collect()),
        })
    }

    /// The relations of an equation, an inequality or a chain of them.
    pub(crate) fn relations(&self) -> &[Relation] {
        match self {
            Self::Relation(relation) => std::slice::from_ref(relation),
            Self::Chain(relations) => relations,
            _ => &[],
        }
    }

    /// Whether this is a set, or a tuple.
    pub(crate) fn is_collection(&self) -> bool {
        matches!(
            self,
            Self::Tuple(_)
                | Self::Set(_)
                | Self::List(_)
                | Self::Interval(_)
                | Self::Combine(..)
                | Self::Domain(_)
        )
    }
}

/// The terms of a sum; an expression that is no sum is its own only term.
fn terms(mut node: SharedExpr) -> Vec<SharedExpr> {
    if let Some(Expr::Add(terms)) = Arc::get_mut(&mut node) {
        return std::mem::take(terms);
    }
    match &*node {
        Expr::Add(terms) => terms.clone(),
        _ => vec![node],
    }
}

/// The factors of a product; an expression that is no product is its own only factor.
fn factors(mut node: SharedExpr) -> Vec<SharedExpr> {
    if let Some(Expr::Multiply(factors)) = Arc::get_mut(&mut node) {
        return std::mem::take(factors);
    }
    match &*node {
        Expr::Multiply(factors) => factors.clone(),
        _ => vec![node],
    }
}
