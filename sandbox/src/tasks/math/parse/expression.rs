//! Sums, products, powers, and what they are made of.

use std::sync::Arc;

use super::super::expr::{Expr, Function, Matrix, Node, Number};
use super::super::number;
use super::super::token::{Kind, Pair};
use super::Parser;

impl Parser<'_> {
    pub(super) fn sum(&mut self) -> Option<Node> {
        let start = self.at;
        if let Some(known) = self.sums.get(&start) {
            let (sum, end) = known.clone()?;
            self.at = end;
            return Some(sum);
        }
        let sum = self.deeper(|parser| parser.attempt(Self::sum_afresh));
        self.sums.insert(start, sum.clone().map(|sum| (sum, self.at)));
        sum
    }

    fn sum_afresh(&mut self) -> Option<Node> {
        let mut terms = self.product(true)?;
        loop {
            let negative = match self.peek() {
                Some(Kind::Plus) => false,
                Some(Kind::Minus) => true,
                _ => return Some(terms),
            };
            self.next()?;
            let term = self.product(true)?;
            let term = if negative { Arc::new(Expr::negative(term)) } else { term };
            self.budget.charge(1)?;
            terms = Arc::new(Expr::sum(terms, term));
        }
    }

    /// A product. Without `functions`, only its first factor may be one: `\sin x \cos x` is no `\sin(x \cos x)`.
    pub(super) fn product(&mut self, functions: bool) -> Option<Node> {
        let mut left = self.signed(functions)?;
        loop {
            let sign = match self.peek() {
                Some(sign @ (Kind::Times | Kind::Divide | Kind::Mod)) => sign,
                _ => return Some(left),
            };
            self.next()?;
            let right = self.signed(functions)?;
            left = Arc::new(match sign {
                Kind::Times => Expr::product(left, right),
                Kind::Divide => self.quotient(left, right)?,
                _ => Expr::Apply(Function::Mod, vec![left, right]),
            });
        }
    }

    fn quotient(&self, left: Node, right: Node) -> Option<Expr> {
        let words = |node: &Node| node.as_exact().map_or(0, number::words);
        self.budget.charge_words(words(&left).saturating_add(words(&right)))?;
        Some(Expr::quotient(left, right))
    }

    fn signed(&mut self, functions: bool) -> Option<Node> {
        match self.peek()? {
            Kind::Plus => {
                self.next()?;
                self.deeper(|parser| parser.signed(functions))
            }
            Kind::Minus => {
                self.next()?;
                let inner = self.deeper(|parser| parser.signed(functions))?;
                Some(Arc::new(Expr::negative(inner)))
            }
            _ => {
                let mut factors = vec![self.power(true)?];
                while let Some(factor) = self.attempt(|parser| parser.power(functions)) {
                    factors.push(factor);
                }
                Expr::juxtaposed(factors, self.budget)
            }
        }
    }

    /// A unit with its exponents and what follows them.
    fn power(&mut self, functions: bool) -> Option<Node> {
        let mut base = self.unit(functions)?;
        for _ in 0..super::MAX_DEPTH {
            base = match self.peek() {
                Some(Kind::Caret) => {
                    let Some(exponent) = self.attempt(Self::exponent) else { return Some(base) };
                    // A subscript after the exponent says nothing.
                    self.attempt(Self::subscript);
                    Arc::new(Expr::Power(base, exponent))
                }
                Some(Kind::Factorial) => {
                    self.next()?;
                    Arc::new(Expr::Apply(Function::Factorial, vec![base]))
                }
                Some(Kind::Transpose) => {
                    self.next()?;
                    match &*base {
                        Expr::Symbol(_) | Expr::Number(_) | Expr::Call(..) => base,
                        _ => Arc::new(Expr::Apply(Function::Transpose, vec![base])),
                    }
                }
                Some(Kind::Degree) => {
                    self.next()?;
                    base
                }
                _ => return Some(base),
            };
        }
        None
    }

    /// `^` and an atom, or a sum in braces.
    pub(super) fn exponent(&mut self) -> Option<Node> {
        self.eat(Kind::Caret)?;
        self.attempt(|parser| parser.deeper(Self::atom)).or_else(|| self.braced())
    }

    fn unit(&mut self, functions: bool) -> Option<Node> {
        match self.peek()? {
            Kind::Open(pair) => {
                let grouped = self.attempt(|parser| {
                    parser.next()?;
                    let inner = parser.sum()?;
                    parser.eat(Kind::Close(pair))?;
                    grouped(pair, inner)
                });
                grouped.or_else(|| self.attempt(Self::choose))
            }
            Kind::Boxed | Kind::Phantom => {
                self.next()?;
                self.braced()
            }
            kind @ (Kind::Bar | Kind::Vert) => {
                let inner = self.between(kind, kind)?;
                Some(Arc::new(Expr::Apply(Function::Abs, vec![inner])))
            }
            Kind::Norm => {
                let inner = self.between(Kind::Norm, Kind::Norm)?;
                Some(Arc::new(Expr::Apply(Function::Norm, vec![inner])))
            }
            Kind::Fraction => {
                self.next()?;
                let over = self.braced()?;
                let under = self.braced()?;
                self.quotient(over, under).map(Arc::new)
            }
            Kind::Binomial => {
                self.next()?;
                let over = self.braced()?;
                Some(Arc::new(Expr::Apply(Function::Binomial, vec![over, self.braced()?])))
            }
            Kind::MatrixStart => self.matrix(Kind::MatrixEnd),
            Kind::ArrayStart => self.matrix(Kind::ArrayEnd),
            Kind::DeterminantStart => {
                let matrix = self.matrix(Kind::DeterminantEnd)?;
                Some(Arc::new(Expr::Apply(Function::Determinant, vec![matrix])))
            }
            _ => {
                let function =
                    if functions { self.attempt(|parser| parser.deeper(Self::function)) } else { None };
                function.or_else(|| self.attempt(Self::atom))
            }
        }
    }

    /// A binomial coefficient in TeX's form: `{n \choose k}`.
    fn choose(&mut self) -> Option<Node> {
        self.eat(Kind::Open(Pair::Brace))?;
        let over = self.sum()?;
        self.eat(Kind::Choose)?;
        let under = self.sum()?;
        self.eat(Kind::Close(Pair::Brace))?;
        Some(Arc::new(Expr::Apply(Function::Binomial, vec![over, under])))
    }

    /// Rows of equal length between `\begin{}`, which is the next token, and `end`.
    fn matrix(&mut self, end: Kind) -> Option<Node> {
        self.next()?;
        let mut entries = Vec::new();
        let mut columns = None;
        loop {
            let start = entries.len();
            entries.push(self.sum()?);
            while self.eat(Kind::Column).is_some() {
                entries.push(self.sum()?);
            }
            if *columns.get_or_insert(entries.len()) != entries.len() - start {
                return None;
            }
            let another = self.eat(Kind::Row).is_some();
            if self.eat(end).is_some() {
                return Some(Arc::new(Expr::Matrix(Matrix { columns: columns?, entries })));
            }
            if !another {
                return None;
            }
        }
    }

    fn number(&self, text: &str) -> Option<Node> {
        let value = number::parse(text)?;
        self.budget.charge_words(number::words(&value))?;
        Some(Arc::new(Expr::Number(Number { value, decimal: text.contains(['.', 'E']) })))
    }

    /// A number, a variable, a text.
    pub(super) fn atom(&mut self) -> Option<Node> {
        match self.peek()? {
            Kind::Letter | Kind::Accent => self.variable(),
            Kind::Number => {
                let text = self.next()?.text;
                let number = self.number(text)?;
                // The base of a numeral is not looked at.
                self.attempt(Self::subscript);
                Some(number)
            }
            Kind::ENotation => {
                let text = self.next()?.text;
                self.number(text)
            }
            Kind::Percent => {
                let text = self.next()?.text;
                let digits = text.trim_end_matches(['%', '\\', ' ', '\t', '\n', '\r']);
                Some(Arc::new(Expr::Percent(self.number(digits)?)))
            }
            Kind::Infinity => {
                self.next()?;
                Some(Arc::new(Expr::Constant(super::super::expr::Constant::Infinity)))
            }
            Kind::LetterE => {
                self.next()?;
                Some(super::symbol::named("e".into()))
            }
            Kind::Differential => {
                let text = self.next()?.text;
                let variable = text[1..].trim_start().trim_start_matches('\\');
                Some(super::symbol::named(format!("d{variable}")))
            }
            _ => None,
        }
    }
}

fn grouped(pair: Pair, inner: Node) -> Option<Node> {
    let function = match pair {
        Pair::Vert => Function::Abs,
        Pair::Floor | Pair::FloorCorner => Function::Floor,
        Pair::Ceiling | Pair::CeilingCorner => Function::Ceiling,
        Pair::ParenVisual | Pair::Angle => return None,
        _ => return Some(inner),
    };
    Some(Arc::new(Expr::Apply(function, vec![inner])))
}
