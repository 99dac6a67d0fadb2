//! Plain arithmetic, as in `2*(3+4)/5` or `2^10`.

use std::sync::Arc;

use super::expr::{Expr, Number, SharedExpr};
use super::number;
use super::parse::MAX_DEPTH;

/// Reads arithmetic of decimal numbers, `+ - * / ^ **` and parentheses. `None` where it is something else.
pub(super) fn parse(text: &str) -> Option<SharedExpr> {
    if let Some(mixed) = mixed(text.trim()) {
        return Some(mixed);
    }
    let mut reader = Reader { rest: text.trim(), depth: 0 };
    let sum = reader.sum()?;
    reader.skip().is_empty().then_some(sum)
}

/// A mixed number: `1 1/4`.
fn mixed(text: &str) -> Option<SharedExpr> {
    let text = text.trim_end_matches('.');
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest.trim_start()));
    let (whole, part) = text.split_once(' ')?;
    let (over, under) = part.trim_start().split_once('/')?;
    let natural = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| number::parse(text))?;
    let (whole, over, under) = (natural(whole)?, natural(over)?, natural(under.trim())?);
    if over >= under {
        return None;
    }
    let value = number::add(&whole, &(over / under))?;
    Some(Arc::new(Expr::exact(if negative { -value } else { value })))
}

struct Reader<'a> {
    rest: &'a str,
    depth: u32,
}

impl<'a> Reader<'a> {
    fn skip(&mut self) -> &'a str {
        self.rest = self.rest.trim_start();
        self.rest
    }

    fn eat(&mut self, sign: &str) -> bool {
        match self.skip().strip_prefix(sign) {
            Some(after) => {
                self.rest = after;
                true
            }
            None => false,
        }
    }

    fn deeper(&mut self, rule: impl FnOnce(&mut Self) -> Option<SharedExpr>) -> Option<SharedExpr> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.depth += 1;
        let found = rule(self);
        self.depth -= 1;
        found
    }

    fn sum(&mut self) -> Option<SharedExpr> {
        let mut sum = self.product()?;
        loop {
            let negative = if self.eat("+") {
                false
            } else if self.eat("-") {
                true
            } else {
                return Some(sum);
            };
            let term = self.product()?;
            let term = if negative { Arc::new(Expr::negative(term)) } else { term };
            sum = Arc::new(Expr::sum(sum, term));
        }
    }

    fn product(&mut self) -> Option<SharedExpr> {
        let mut product = self.signed()?;
        loop {
            // `**` is a power.
            let times = !self.skip().starts_with("**") && self.eat("*");
            product = if times {
                Arc::new(Expr::product(product, self.signed()?))
            } else if self.eat("/") {
                Arc::new(Expr::quotient(product, self.signed()?))
            } else {
                return Some(product);
            };
        }
    }

    fn signed(&mut self) -> Option<SharedExpr> {
        if self.eat("-") {
            return Some(Arc::new(Expr::negative(self.deeper(Self::signed)?)));
        }
        if self.eat("+") {
            return self.deeper(Self::signed);
        }
        let base = self.unit()?;
        if self.eat("^") || self.eat("**") {
            let exponent = self.deeper(Self::signed)?;
            return Some(Arc::new(Expr::Power(base, exponent)));
        }
        Some(base)
    }

    fn unit(&mut self) -> Option<SharedExpr> {
        if self.eat("(") {
            let inner = self.deeper(Self::sum)?;
            return self.eat(")").then_some(inner);
        }
        let rest = self.skip();
        let length = rest.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
        let (written, after) = rest.split_at(length);
        if written.matches('.').count() > 1 || !written.contains(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.rest = after;
        Some(Arc::new(Expr::Number(Number {
            value: number::parse(written)?,
            decimal: written.contains('.'),
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::super::budget::StepBudget;
    use super::super::evaluate::constant;
    use super::super::scalar::Scalar;
    use super::*;

    fn value(text: &str) -> Option<Scalar> {
        constant(&*parse(text)?, &StepBudget::new(1_000))
    }

    #[test]
    fn arithmetic_is_read() {
        assert_eq!(value("2*(3+4) - 5"), Some(Scalar::integer(9)));
        assert_eq!(value("2^-1 * 4"), Some(Scalar::integer(2)));
        assert_eq!(value("-2**2"), Some(Scalar::integer(-4)));
        assert_eq!(value("1/3 + .5 - 5/6"), Some(Scalar::integer(0)));
    }

    #[test]
    fn what_is_no_arithmetic_is_refused() {
        for text in ["2 3", "2(3)", "1.2.3", "2*", "(2", "2)", "2 ÷ 3", ".", ""] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&"(".repeat(100_000)), None);
    }
}
