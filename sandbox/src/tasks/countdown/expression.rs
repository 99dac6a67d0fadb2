//! Arithmetic expressions from strangers: a bounded parser and exact evaluation.
//!
//! ```text
//! sum     = product { ("+" | "-") product }
//! product = factor { ("*" | "/") factor }
//! factor  = number | "(" sum ")"
//! number  = "0" | a digit from 1 to 9, then further digits
//! ```
//!
//! Spaces may stand before and after everything but inside numbers.

use num_rational::Ratio;
use num_traits::{CheckedAdd, CheckedDiv, CheckedMul, CheckedSub};

/// The longest expression that is read.
pub(crate) const MAX_EXPRESSION_BYTES: usize = 256;

/// The deepest nesting of parentheses: it bounds the parser's recursion.
pub(crate) const MAX_NESTING: usize = 16;

/// The most numbers in one expression. With [`MAX_LITERAL_DIGITS`] it keeps every numerator and
/// denominator far below the limits of `i128`.
pub(crate) const MAX_LITERALS: usize = 8;

/// The most digits of one number.
pub(crate) const MAX_LITERAL_DIGITS: usize = 4;

/// A parsed expression, in the order in which a stack machine computes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Expression {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Push(i64),
    Apply(Operator),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Add,
    Subtract,
    Multiply,
    Divide,
}

/// The text is not an expression, or exceeds a limit of this module.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ExpressionError {
    #[error("the expression has {bytes} bytes: use at most {MAX_EXPRESSION_BYTES}")]
    TooLong { bytes: usize },
    #[error("parentheses are nested too deep at byte {at}: use at most {MAX_NESTING} levels")]
    TooDeep { at: usize },
    #[error("too many numbers at byte {at}: use at most {MAX_LITERALS}")]
    TooManyNumbers { at: usize },
    #[error(
        "the number at byte {at} is too long or starts with 0: write at most {MAX_LITERAL_DIGITS} digits"
    )]
    BadNumber { at: usize },
    #[error("unexpected text at byte {at}: write numbers, + - * / and parentheses")]
    Unexpected { at: usize },
}

impl Expression {
    /// Reads the whole of `text`.
    pub(crate) fn parse(text: &str) -> Result<Self, ExpressionError> {
        if text.len() > MAX_EXPRESSION_BYTES {
            return Err(ExpressionError::TooLong { bytes: text.len() });
        }
        let mut parser = Parser { text: text.as_bytes(), at: 0, nesting: 0, literals: 0, steps: Vec::new() };
        parser.sum()?;
        match parser.peek() {
            None => Ok(Self { steps: parser.steps }),
            Some(_) => Err(ExpressionError::Unexpected { at: parser.at }),
        }
    }

    /// The numbers as written, from left to right.
    pub(crate) fn literals(&self) -> impl Iterator<Item = i64> {
        self.steps.iter().filter_map(|step| match step {
            Step::Push(number) => Some(*number),
            Step::Apply(_) => None,
        })
    }

    /// The exact value; `None` where something is divided by zero.
    pub(crate) fn value(&self) -> Option<Ratio<i128>> {
        let mut stack = Vec::new();
        for step in &self.steps {
            let value = match step {
                Step::Push(number) => Ratio::from_integer(i128::from(*number)),
                Step::Apply(operator) => {
                    let right = stack.pop()?;
                    let left: Ratio<i128> = stack.pop()?;
                    match operator {
                        Operator::Add => left.checked_add(&right),
                        Operator::Subtract => left.checked_sub(&right),
                        Operator::Multiply => left.checked_mul(&right),
                        Operator::Divide => left.checked_div(&right),
                    }?
                }
            };
            stack.push(value);
        }
        stack.pop()
    }
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    nesting: usize,
    literals: usize,
    steps: Vec<Step>,
}

impl Parser<'_> {
    /// The next byte that is not a space, which becomes the current one.
    fn peek(&mut self) -> Option<u8> {
        while self.text.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn sum(&mut self) -> Result<(), ExpressionError> {
        self.product()?;
        loop {
            let operator = match self.peek() {
                Some(b'+') => Operator::Add,
                Some(b'-') => Operator::Subtract,
                _ => return Ok(()),
            };
            self.at += 1;
            self.product()?;
            self.steps.push(Step::Apply(operator));
        }
    }

    fn product(&mut self) -> Result<(), ExpressionError> {
        self.factor()?;
        loop {
            let operator = match self.peek() {
                Some(b'*') => Operator::Multiply,
                Some(b'/') => Operator::Divide,
                _ => return Ok(()),
            };
            self.at += 1;
            self.factor()?;
            self.steps.push(Step::Apply(operator));
        }
    }

    fn factor(&mut self) -> Result<(), ExpressionError> {
        match self.peek() {
            Some(b'0'..=b'9') => self.number(),
            Some(b'(') => {
                if self.nesting == MAX_NESTING {
                    return Err(ExpressionError::TooDeep { at: self.at });
                }
                self.nesting += 1;
                self.at += 1;
                self.sum()?;
                if self.peek() != Some(b')') {
                    return Err(ExpressionError::Unexpected { at: self.at });
                }
                self.at += 1;
                self.nesting -= 1;
                Ok(())
            }
            _ => Err(ExpressionError::Unexpected { at: self.at }),
        }
    }

    fn number(&mut self) -> Result<(), ExpressionError> {
        let start = self.at;
        if self.literals == MAX_LITERALS {
            return Err(ExpressionError::TooManyNumbers { at: start });
        }
        let mut number = 0;
        while let Some(digit @ b'0'..=b'9') = self.text.get(self.at) {
            if self.at - start == MAX_LITERAL_DIGITS || (self.at > start && number == 0) {
                return Err(ExpressionError::BadNumber { at: start });
            }
            number = number * 10 + i64::from(digit - b'0');
            self.at += 1;
        }
        self.literals += 1;
        self.steps.push(Step::Push(number));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
