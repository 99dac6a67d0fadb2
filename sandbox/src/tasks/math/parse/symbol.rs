//! Variables: letters, Greek letters, and texts, with their subscripts.

use std::sync::Arc;

use super::super::expr::{Constant, Expr, SharedExpr, Symbol};
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
        if name == "I" {
            return Some(Arc::new(Expr::Constant(Constant::ImaginaryUnit)));
        }
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

/// Names are lower case here, and π is a number under all of its names.
fn symbol(name: &str, subscript: Option<&str>) -> SharedExpr {
    let subscript = match subscript {
        None => String::new(),
        Some(text) if text.chars().count() > 1 => format!("_{{{text}}}"),
        Some(text) => format!("_{text}"),
    };
    let full = format!("{name}{subscript}");
    let full =
        greek(&full).map_or_else(|| full.strip_prefix('\\').unwrap_or(&full).to_lowercase(), str::to_owned);
    if full == "pi" { Arc::new(Expr::Constant(Constant::Pi)) } else { named(full) }
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
        "γ" | "Γ" => "gamma",
        "δ" | "Δ" => "delta",
        "ε" => "epsilon",
        "ϵ" => "varepsilon",
        "ζ" => "zeta",
        "η" => "eta",
        "θ" | "Θ" => "theta",
        "ϑ" => "vartheta",
        "ι" => "iota",
        "κ" => "kappa",
        "λ" | "Λ" => "lambda",
        "μ" => "mu",
        "ν" => "nu",
        "ξ" | "Ξ" => "xi",
        "ο" => "omicron",
        "π" | "Π" => "pi",
        "ϖ" => "varpi",
        "ρ" => "rho",
        "ϱ" => "varrho",
        "σ" | "Σ" => "sigma",
        "ς" => "varsigma",
        "τ" => "tau",
        "υ" | "Υ" => "upsilon",
        "φ" | "Φ" => "phi",
        "ϕ" => "varphi",
        "χ" => "chi",
        "ψ" | "Ψ" => "psi",
        "ω" | "Ω" => "omega",
        _ => return None,
    })
}
