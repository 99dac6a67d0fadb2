//! Functions, roots, sums over an index, and powers of e.

use std::sync::Arc;

use super::super::expr::{Constant, Expr, Fold, Function, SharedExpr};
use super::super::number;
use super::super::token::{Pair, TokenKind};
use super::Parser;

impl Parser<'_> {
    pub(super) fn function(&mut self) -> Option<SharedExpr> {
        match self.peek()? {
            TokenKind::Letter | TokenKind::Accent => self.undefined(),
            TokenKind::Function(
                function @ (Function::Gcd | Function::Lcm | Function::Max | Function::Min),
            ) => {
                self.next()?;
                self.of_several(function)
            }
            TokenKind::Function(function) => {
                self.next()?;
                self.of_one(function, false)
            }
            TokenKind::Ln => {
                self.next()?;
                self.of_one(Function::Log, true)
            }
            TokenKind::Operator => self.operator(),
            TokenKind::Sqrt => self.root(),
            TokenKind::Sum | TokenKind::Product => self.fold(),
            TokenKind::Limit => self.limit(),
            TokenKind::Integral => self.integral(),
            TokenKind::Euler => {
                self.next()?;
                let e = Arc::new(Expr::Constant(Constant::E));
                Some(match self.attempt(Self::exponent) {
                    Some(exponent) => Arc::new(Expr::Power(e, exponent)),
                    None => e,
                })
            }
            _ => None,
        }
    }

    /// `f(x)`, `f(x, y)`, `f^2(x)`: one argument must be an atom, so that `x(y+1)` is a product.
    fn undefined(&mut self) -> Option<SharedExpr> {
        let name = self.function_name()?;
        let exponent = self.attempt(Self::exponent);
        let wrapped = self.attempt(|parser| {
            parser.eat(TokenKind::Open(Pair::Brace))?;
            matches!(parser.peek()?, TokenKind::Open(Pair::Paren | Pair::Bracket)).then_some(())
        });
        let TokenKind::Open(pair @ (Pair::Paren | Pair::Bracket)) = self.next()?.kind else { return None };
        let close = TokenKind::Close(pair);
        let single = self.attempt(|parser| {
            let argument = parser.atom()?;
            parser.eat(close)?;
            Some(vec![argument])
        });
        let arguments = match single {
            Some(arguments) => arguments,
            None => {
                let mut arguments = vec![self.sum()?];
                self.eat(TokenKind::Comma)?;
                if self.eat(close).is_none() {
                    arguments.push(self.sum()?);
                    while self.eat(TokenKind::Comma).is_some() {
                        arguments.push(self.sum()?);
                    }
                    self.eat(close)?;
                }
                arguments
            }
        };
        if wrapped.is_some() {
            self.eat(TokenKind::Close(Pair::Brace))?;
        }
        Some(raised(Expr::Call(name, arguments), exponent))
    }

    /// Subscript and exponent of a function's name, in either order.
    fn indices(&mut self) -> (Option<SharedExpr>, Option<SharedExpr>) {
        let base = |parser: &mut Self| {
            parser.attempt(|parser| {
                parser.eat(TokenKind::Underscore)?;
                parser.attempt(Self::atom).or_else(|| parser.braced())
            })
        };
        let subscript = base(self);
        let exponent = self.attempt(Self::exponent);
        (subscript.or_else(|| base(self)), exponent)
    }

    fn of_one(&mut self, function: Function, natural: bool) -> Option<SharedExpr> {
        let (subscript, mut exponent) = self.indices();
        let bracketed = self
            .attempt(|parser| parser.between(TokenKind::Open(Pair::Paren), TokenKind::Close(Pair::Paren)));
        let argument = match bracketed {
            Some(argument) => argument,
            None => self.deeper(|parser| parser.product(false))?,
        };
        let minus_one = exponent.as_ref().is_some_and(|e| e.as_exact() == Some(&number::integer(-1)));
        let function = match inverse(function) {
            Some(inverse) if minus_one => {
                exponent = None;
                inverse
            }
            _ => function,
        };
        let mut arguments = vec![argument];
        if function == Function::Log {
            arguments.push(subscript.unwrap_or_else(|| {
                let e = Expr::Constant(Constant::E);
                Arc::new(if natural { e } else { Expr::exact(number::integer(10)) })
            }));
        }
        Some(raised(Expr::Apply(function, arguments), exponent))
    }

    fn of_several(&mut self, function: Function) -> Option<SharedExpr> {
        let (_, exponent) = self.indices();
        self.eat(TokenKind::Open(Pair::Paren))?;
        let mut arguments = vec![self.sum()?];
        while self.eat(TokenKind::Comma).is_some() {
            arguments.push(self.sum()?);
        }
        self.eat(TokenKind::Close(Pair::Paren))?;
        Some(raised(Expr::Apply(function, arguments), exponent))
    }

    fn operator(&mut self) -> Option<SharedExpr> {
        self.next()?;
        self.eat(TokenKind::Open(Pair::Brace))?;
        let TokenKind::OperatorName(name) = self.next()?.kind else { return None };
        self.eat(TokenKind::Close(Pair::Brace))?;
        match name {
            "gcd" => self.of_several(Function::Gcd),
            "lcm" => self.of_several(Function::Lcm),
            "floor" => self.of_one(Function::Floor, false),
            "ceil" => self.of_one(Function::Ceiling, false),
            "norm" => self.of_one(Function::Norm, false),
            "trace" | "tr" => self.of_one(Function::Trace, false),
            "arsinh" | "arcsinh" => self.of_one(Function::Arsinh, false),
            "arcosh" | "arccosh" => self.of_one(Function::Arcosh, false),
            "artanh" | "arctanh" => self.of_one(Function::Artanh, false),
            _ => None,
        }
    }

    fn root(&mut self) -> Option<SharedExpr> {
        self.next()?;
        let degree = match self.eat(TokenKind::Open(Pair::Bracket)) {
            Some(_) => {
                let degree = self.sum()?;
                self.eat(TokenKind::Close(Pair::Bracket))?;
                degree
            }
            None => Arc::new(Expr::exact(number::integer(2))),
        };
        let radicand = self.braced()?;
        let exponent = Expr::quotient(Arc::new(Expr::exact(number::integer(1))), degree);
        Some(Arc::new(Expr::Power(radicand, Arc::new(exponent))))
    }

    fn fold(&mut self) -> Option<SharedExpr> {
        let product = self.next()?.kind == TokenKind::Product;
        let early = self.attempt(Self::exponent);
        self.eat(TokenKind::Underscore)?;
        self.eat(TokenKind::Open(Pair::Brace))?;
        let variable = self.sum()?;
        self.eat(TokenKind::Assign).or_else(|| self.eat(TokenKind::Equal))?;
        let from = self.sum()?;
        self.eat(TokenKind::Close(Pair::Brace))?;
        let to = match early {
            Some(to) => to,
            None => self.exponent()?,
        };
        let body = self.deeper(|parser| parser.product(true))?;
        Some(Arc::new(Expr::Fold(Fold { product, variable, from, to, body })))
    }

    /// A limit is read, not worked out.
    fn limit(&mut self) -> Option<SharedExpr> {
        self.next()?;
        self.eat(TokenKind::Underscore)?;
        self.eat(TokenKind::Open(Pair::Brace))?;
        let variable = self.variable()?;
        self.eat(TokenKind::Approaches)?;
        let to = self.sum()?;
        self.eat(TokenKind::Close(Pair::Brace))?;
        let body = self.deeper(|parser| parser.product(true))?;
        Some(Arc::new(Expr::Call("\\lim".into(), vec![variable, to, body])))
    }

    /// An integral is read, not worked out; its differential is a factor of what is integrated.
    fn integral(&mut self) -> Option<SharedExpr> {
        self.next()?;
        let (from, to) = self.indices();
        let body = self.sum()?;
        Some(Arc::new(Expr::Call("\\int".into(), from.into_iter().chain(to).chain([body]).collect())))
    }
}

fn raised(function: Expr, exponent: Option<SharedExpr>) -> SharedExpr {
    let function = Arc::new(function);
    match exponent {
        Some(exponent) => Arc::new(Expr::Power(function, exponent)),
        None => function,
    }
}

/// The inverse that `\sin^{-1}` means; `None` for functions without one here.
fn inverse(function: Function) -> Option<Function> {
    Some(match function {
        Function::Sin => Function::Arcsin,
        Function::Cos => Function::Arccos,
        Function::Tan => Function::Arctan,
        Function::Csc => Function::Arccsc,
        Function::Sec => Function::Arcsec,
        Function::Cot => Function::Arccot,
        Function::Sinh => Function::Arsinh,
        Function::Cosh => Function::Arcosh,
        Function::Tanh => Function::Artanh,
        _ => return None,
    })
}
