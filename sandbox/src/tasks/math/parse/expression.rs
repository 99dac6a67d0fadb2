//! Sums, products, powers, and what they are made of.

use std::sync::Arc;

use super::super::expr::{Expr, Function, Matrix, Number, SharedExpr};
use super::super::number;
use super::super::token::{Pair, TokenKind};
use super::Parser;

impl Parser<'_> {
    pub(super) fn sum(&mut self) -> Option<SharedExpr> {
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

    fn sum_afresh(&mut self) -> Option<SharedExpr> {
        let mut terms = self.product(true)?;
        loop {
            let negative = match self.peek() {
                Some(TokenKind::Plus) => false,
                Some(TokenKind::Minus) => true,
                _ => return Some(terms),
            };
            self.next()?;
            let term = self.product(true)?;
            let term = if negative { Arc::new(Expr::negative(term)) } else { term };
            self.budget.charge(1)?;
            terms = Arc::new(Expr::sum(terms, term));
        }
    }

    /// A product. Without `functions`, only its first factor may be one: `\sin x \cos x` is
    /// no `\sin(x \cos x)`.
    pub(super) fn product(&mut self, functions: bool) -> Option<SharedExpr> {
        let mut left = self.signed(functions)?;
        loop {
            let sign = match self.peek() {
                Some(sign @ (TokenKind::Times | TokenKind::Divide | TokenKind::Mod)) => sign,
                _ => return Some(left),
            };
            self.next()?;
            let right = self.signed(functions)?;
            left = Arc::new(match sign {
                TokenKind::Times => Expr::product(left, right),
                TokenKind::Divide => self.quotient(left, right)?,
                _ => Expr::Apply(Function::Mod, vec![left, right]),
            });
        }
    }

    fn quotient(&self, left: SharedExpr, right: SharedExpr) -> Option<Expr> {
        let words = |node: &SharedExpr| node.as_exact().map_or(0, number::words);
        self.budget.charge_words(words(&left).saturating_add(words(&right)))?;
        Some(Expr::quotient(left, right))
    }

    fn signed(&mut self, functions: bool) -> Option<SharedExpr> {
        match self.peek()? {
            TokenKind::Plus => {
                self.next()?;
                self.deeper(|parser| parser.signed(functions))
            }
            TokenKind::Minus => {
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
    fn power(&mut self, functions: bool) -> Option<SharedExpr> {
        let mut base = self.unit(functions)?;
        for _ in 0..super::MAX_DEPTH {
            base = match self.peek() {
                Some(TokenKind::Caret) => {
                    let Some(exponent) = self.attempt(Self::exponent) else { return Some(base) };
                    // A subscript after the exponent says nothing.
                    self.attempt(Self::subscript);
                    Arc::new(Expr::Power(base, exponent))
                }
                Some(TokenKind::Factorial) => {
                    self.next()?;
                    Arc::new(Expr::Apply(Function::Factorial, vec![base]))
                }
                Some(TokenKind::Transpose) => {
                    self.next()?;
                    match &*base {
                        Expr::Symbol(_) | Expr::Number(_) | Expr::Call(..) => base,
                        _ => Arc::new(Expr::Apply(Function::Transpose, vec![base])),
                    }
                }
                Some(TokenKind::Degree) => {
                    self.next()?;
                    base
                }
                _ => return Some(base),
            };
        }
        None
    }

    /// `^` and an atom, or a sum in braces.
    pub(super) fn exponent(&mut self) -> Option<SharedExpr> {
        self.eat(TokenKind::Caret)?;
        let exponent = self.attempt(|parser| parser.deeper(Self::atom)).or_else(|| self.braced())?;
        // No exponent has a base or a unit.
        Some(match &*exponent {
            Expr::Measured(value, _) => value.clone(),
            _ => exponent,
        })
    }

    fn unit(&mut self, functions: bool) -> Option<SharedExpr> {
        match self.peek()? {
            TokenKind::Open(pair) => {
                let grouped = self.attempt(|parser| {
                    parser.next()?;
                    let inner = parser.sum()?;
                    parser.eat(TokenKind::Close(pair))?;
                    grouped(pair, inner)
                });
                grouped.or_else(|| self.attempt(Self::choose))
            }
            TokenKind::Boxed | TokenKind::Phantom => {
                self.next()?;
                self.braced()
            }
            kind @ (TokenKind::Bar | TokenKind::Vert) => {
                let inner = self.between(kind, kind)?;
                Some(Arc::new(Expr::Apply(Function::Abs, vec![inner])))
            }
            TokenKind::Norm => {
                let inner = self.between(TokenKind::Norm, TokenKind::Norm)?;
                Some(Arc::new(Expr::Apply(Function::Norm, vec![inner])))
            }
            TokenKind::Fraction => {
                self.next()?;
                let over = self.braced()?;
                let under = self.braced()?;
                self.quotient(over, under).map(Arc::new)
            }
            TokenKind::Binomial => {
                self.next()?;
                let over = self.braced()?;
                Some(Arc::new(Expr::Apply(Function::Binomial, vec![over, self.braced()?])))
            }
            TokenKind::MatrixStart => self.matrix(TokenKind::MatrixEnd),
            TokenKind::ArrayStart => self.matrix(TokenKind::ArrayEnd),
            TokenKind::DeterminantStart => {
                let matrix = self.matrix(TokenKind::DeterminantEnd)?;
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
    fn choose(&mut self) -> Option<SharedExpr> {
        self.eat(TokenKind::Open(Pair::Brace))?;
        let over = self.sum()?;
        self.eat(TokenKind::Choose)?;
        let under = self.sum()?;
        self.eat(TokenKind::Close(Pair::Brace))?;
        Some(Arc::new(Expr::Apply(Function::Binomial, vec![over, under])))
    }

    /// Rows of equal length between `\begin{}`, which is the next token, and `end`.
    fn matrix(&mut self, end: TokenKind) -> Option<SharedExpr> {
        self.next()?;
        let mut entries = Vec::new();
        let mut columns = None;
        loop {
            let start = entries.len();
            entries.push(self.sum()?);
            while self.eat(TokenKind::Column).is_some() {
                entries.push(self.sum()?);
            }
            if *columns.get_or_insert(entries.len()) != entries.len() - start {
                return None;
            }
            let another = self.eat(TokenKind::Row).is_some();
            if self.eat(end).is_some() {
                return Some(Arc::new(Expr::Matrix(Matrix { columns: columns?, entries })));
            }
            if !another {
                return None;
            }
        }
    }

    fn number(&self, text: &str) -> Option<SharedExpr> {
        let value = number::parse(&text.replace('e', "E"))?;
        self.budget.charge_words(number::words(&value))?;
        Some(Arc::new(Expr::Number(Number { value, decimal: text.contains(['.', 'E']) })))
    }

    /// A number, a variable, a text.
    pub(super) fn atom(&mut self) -> Option<SharedExpr> {
        match self.peek()? {
            TokenKind::Letter | TokenKind::Accent => self.variable(),
            TokenKind::Number => {
                let text = self.next()?.text;
                let number = self.number(text)?;
                // The digits of a numeral are compared, and the bases where both sides name one.
                let base = self.attempt(Self::subscript).map(|base| format!("base{}", numeral_base(&base)));
                Some(match base {
                    Some(base) => Arc::new(Expr::Measured(number, vec![base])),
                    None => number,
                })
            }
            TokenKind::Repeating => {
                let text = self.next()?.text;
                let value = number::parse_repeating(text)?;
                self.budget.charge_words(number::words(&value))?;
                Some(Arc::new(Expr::exact(value)))
            }
            TokenKind::ENotation => {
                let text = self.next()?.text;
                self.number(text)
            }
            TokenKind::Percent => {
                let text = self.next()?.text;
                let digits = text.trim_end_matches(['%', '\\', ' ', '\t', '\n', '\r']);
                Some(Arc::new(Expr::Percent(self.number(digits)?)))
            }
            TokenKind::Infinity => {
                self.next()?;
                Some(Arc::new(Expr::Constant(super::super::expr::Constant::Infinity)))
            }
            TokenKind::LetterE => {
                self.next()?;
                Some(super::symbol::named("E".into()))
            }
            TokenKind::Differential => {
                let text = self.next()?.text;
                let variable = text[1..].trim_start().trim_start_matches('\\');
                Some(super::symbol::named(format!("d{variable}")))
            }
            _ => None,
        }
    }
}

/// `8` for `8`, `\text{eight}` and `{eight}`.
fn numeral_base(subscript: &str) -> String {
    let word = subscript.trim_start_matches("\\text").trim_matches(['{', '}', ' ']).to_lowercase();
    super::symbol::number_word(&word).map_or(word, |base| base.to_string())
}

fn grouped(pair: Pair, inner: SharedExpr) -> Option<SharedExpr> {
    let function = match pair {
        Pair::Vert => Function::Abs,
        Pair::Floor | Pair::FloorCorner => Function::Floor,
        Pair::Ceiling | Pair::CeilingCorner => Function::Ceiling,
        Pair::ParenVisual | Pair::Angle => return None,
        _ => return Some(inner),
    };
    Some(Arc::new(Expr::Apply(function, vec![inner])))
}
