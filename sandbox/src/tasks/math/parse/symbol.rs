//! Variables: letters, Greek letters, and texts, with their subscripts.

use std::sync::Arc;

use super::super::expr::{Constant, Expr, SharedExpr, Symbol};
use super::super::number;
use super::super::token::TokenKind;
use super::Parser;

/// A variable of this name, as it is.
pub(super) fn named(name: String) -> SharedExpr {
    Arc::new(Expr::Symbol(Symbol { name }))
}

impl Parser<'_> {
    /// A name with subscript and exponent, in either order.
    pub(super) fn variable(&mut self) -> Option<SharedExpr> {
        let (name, subscript, exponent) = self.name_parts()?;
        let variable = symbol(&name, subscript.as_deref());
        Some(match exponent {
            Some(exponent) => Arc::new(Expr::Power(variable, exponent)),
            None => variable,
        })
    }

    /// The name of a function and its subscript, as written.
    pub(super) fn function_name(&mut self) -> Option<String> {
        let token = self.next()?;
        if !matches!(token.kind, TokenKind::Letter | TokenKind::Accent) {
            return None;
        }
        let subscript = self.attempt(Self::subscript).unwrap_or_default();
        Some(format!("{}{subscript}", token.text.trim()))
    }

    fn name_parts(&mut self) -> Option<(String, Option<String>, Option<SharedExpr>)> {
        let token = self.next()?;
        let name = match token.kind {
            TokenKind::Letter => token.text.trim().to_owned(),
            // An upright e is the number.
            TokenKind::Accent => accented(token.text)?,
            _ => return None,
        };
        let exponent = self.attempt(Self::exponent);
        let subscript = self.attempt(Self::subscript);
        let exponent = exponent.or_else(|| self.attempt(Self::exponent));
        Some((name, subscript, exponent))
    }

    /// The text of `_a` or `_{...}`, without its spaces.
    pub(super) fn subscript(&mut self) -> Option<String> {
        self.eat(TokenKind::Underscore)?;
        let start = self.at;
        let text = |parser: &Self, from: usize, to: usize| -> String {
            parser.tokens[from..to].iter().map(|token| token.text).collect()
        };
        if self.attempt(|parser| parser.deeper(Self::atom)).is_some() {
            return Some(text(self, start, self.at));
        }
        self.eat(TokenKind::Open(super::Pair::Brace))?;
        self.sum()?;
        while self.eat(TokenKind::Comma).is_some() {
            self.sum()?;
        }
        let end = self.at;
        self.eat(TokenKind::Close(super::Pair::Brace))?;
        Some(text(self, start + 1, end))
    }
}

/// A text: words are the same in upper and lower case, single letters are not.
pub(super) fn text(word: &str) -> SharedExpr {
    match number_word(word) {
        Some(number) => Arc::new(Expr::exact(number::integer(number))),
        None => named(word.to_lowercase()),
    }
}

/// The small numbers, as words.
pub(super) fn number_word(word: &str) -> Option<i64> {
    const WORDS: [&str; 21] = [
        "zero",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
        "thirteen",
        "fourteen",
        "fifteen",
        "sixteen",
        "seventeen",
        "eighteen",
        "nineteen",
        "twenty",
    ];
    WORDS.iter().position(|known| known.eq_ignore_ascii_case(word)).map(|number| number as i64)
}

/// Unknowns keep their case: `R` is not `r`. π is a number, and so is an upright e.
fn symbol(name: &str, subscript: Option<&str>) -> SharedExpr {
    let subscript = match subscript {
        None => String::new(),
        Some(text) if text.chars().count() > 1 => format!("_{{{text}}}"),
        Some(text) => format!("_{text}"),
    };
    let full = format!("{name}{subscript}");
    let full =
        greek(&full).map_or_else(|| full.strip_prefix('\\').unwrap_or(&full).to_owned(), str::to_owned);
    match full.as_str() {
        "pi" => Arc::new(Expr::Constant(Constant::Pi)),
        "e" => Arc::new(Expr::Constant(Constant::E)),
        _ if subscript.is_empty() && is_word(name) => text(&full),
        _ => named(full),
    }
}

fn is_word(name: &str) -> bool {
    name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// `\text{C}` is C, `\vec{v}` is another variable than v.
fn accented(text: &str) -> Option<String> {
    let (command, inner) = text.split_once('{')?;
    let command = command.strip_prefix('\\')?.trim();
    let inner = inner.strip_suffix('}')?.replace(' ', "");
    Some(match command {
        _ if command.contains("text") || command == "mbox" => inner.replace(['(', ')'], ""),
        "bar" | "overline" => format!("bar{{{inner}}}"),
        "vec" | "overrightarrow" => format!("vec{{{inner}}}"),
        "tilde" | "widetilde" => format!("tilde{{{inner}}}"),
        _ if command.contains("math") => format!("math{{{inner}}}"),
        _ => format!("{command}{{{inner}}}"),
    })
}

/// The name of a Greek letter that is written as such.
fn greek(letter: &str) -> Option<&'static str> {
    Some(match letter {
        "α" => "alpha",
        "β" => "beta",
        "γ" => "gamma",
        "Γ" => "Gamma",
        "δ" => "delta",
        "Δ" => "Delta",
        "ε" => "epsilon",
        "ϵ" => "varepsilon",
        "ζ" => "zeta",
        "η" => "eta",
        "θ" => "theta",
        "Θ" => "Theta",
        "ϑ" => "vartheta",
        "ι" => "iota",
        "κ" => "kappa",
        "λ" => "lambda",
        "Λ" => "Lambda",
        "μ" => "mu",
        "ν" => "nu",
        "ξ" => "xi",
        "Ξ" => "Xi",
        "ο" => "omicron",
        "π" => "pi",
        "Π" => "Pi",
        "ϖ" => "varpi",
        "ρ" => "rho",
        "ϱ" => "varrho",
        "σ" => "sigma",
        "Σ" => "Sigma",
        "ς" => "varsigma",
        "τ" => "tau",
        "υ" => "upsilon",
        "Υ" => "Upsilon",
        "φ" => "phi",
        "Φ" => "Phi",
        "ϕ" => "varphi",
        "χ" => "chi",
        "ψ" => "psi",
        "Ψ" => "Psi",
        "\\ldots" | "\\dots" | "\\dotsc" | "\\dotsb" | "\\cdots" | "..." => "…",
        "ω" => "omega",
        "Ω" => "Omega",
        _ => return None,
    })
}
