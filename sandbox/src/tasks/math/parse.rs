//! From LaTeX to [`Expr`], after the grammar of the reference checker.
//!
//! ```text
//! answer    = names ("=" | "∈") list | list | set-relation
//! list      = row { ";" row }        row = element { "," element }
//! element   = [sum] "±" sum | set | sum { relation sum }
//! sum       = product { ("+" | "-") product }
//! product   = signed { ("·" | "/" | ":" | "mod") signed }
//! signed    = ("+" | "-") signed | power { power }
//! power     = unit { "^" (atom | "{" sum "}") } { "!" | transpose | degree }
//! ```
//!
//! Alternatives are tried in order. Sums and elements are remembered by where they start, so that
//! nesting costs no more than its length; the budget and [`MAX_DEPTH`] bound the rest.

mod expression;
mod function;
mod set;
mod symbol;

use std::collections::BTreeMap;
use std::sync::Arc;

use super::budget::StepBudget;
use super::expr::{Expr, SharedExpr};
use super::number;
use super::token::{self, Pair, Token, TokenKind};

/// The deepest nesting of groups, signs and functions, and the longest row of powers.
pub const MAX_DEPTH: u32 = 48;

/// The longest word that is read where it is not set as text.
const MAX_WORD_BYTES: usize = 32;

/// Reads a formula; where it is a chain of equations that cannot be read as a whole, its last part.
/// `None` where it is no formula.
pub(crate) fn parse(formula: &str, budget: &StepBudget) -> Option<SharedExpr> {
    parse_whole(formula, budget)
        .or_else(|| either_sign(formula, budget))
        .or_else(|| parse_whole(last_equation(formula)?, budget))
}

/// Both values of a formula with a `±` within it: `\frac{1 \pm \sqrt{5}}{2}`.
fn either_sign(formula: &str, budget: &StepBudget) -> Option<SharedExpr> {
    const SIGNS: [&str; 4] = ["\\pm", "\\mp", "±", "∓"];
    let signs = |part: &str| SIGNS.iter().map(|sign| part.matches(*sign).count()).sum::<usize>();
    // Two signs in one value may belong together, or not.
    if signs(formula) == 0 || formula.split(',').any(|part| signs(part) > 1) {
        return None;
    }
    let is_longer = |sign: &str| {
        let mut found = formula.match_indices(sign);
        found.any(|(at, _)| formula[at + sign.len()..].starts_with(|c: char| c.is_ascii_alphabetic()))
    };
    if SIGNS[..2].iter().any(|command| is_longer(command)) {
        return None;
    }
    let with = |sign: &str| SIGNS.iter().fold(formula.to_owned(), |text, either| text.replace(*either, sign));
    let (plus, minus) = (parse_whole(&with("+"), budget)?, parse_whole(&with("-"), budget)?);
    if plus.relations().len() > 1 {
        return None;
    }
    Some(Arc::new(match (&*plus, &*minus) {
        (Expr::List(first), Expr::List(second)) => Expr::List([first.as_slice(), second.as_slice()].concat()),
        (Expr::Set(first), Expr::Set(second)) => Expr::Set([first.as_slice(), second.as_slice()].concat()),
        _ => Expr::List(vec![plus.clone(), minus.clone()]),
    }))
}

fn parse_whole(formula: &str, budget: &StepBudget) -> Option<SharedExpr> {
    if let Some(word) = bare_word(formula) {
        return Some(word);
    }
    let tokens = token::tokens(formula)?;
    budget.charge(tokens.len() as u32)?;
    let mut parser =
        Parser { tokens, at: 0, depth: 0, budget, sums: BTreeMap::new(), elements: BTreeMap::new() };
    if let Some(answer) = parser.whole(Parser::assignment) {
        return Some(answer);
    }
    if let Some(answer) = parser.whole(Parser::list) {
        // 333,333 is a number and no set; with a space it is a set.
        return thousands(formula).or(Some(answer));
    }
    parser.whole(Parser::set_relation)
}

/// A word that was not set as text: otherwise it would be a product of letters, in any order. In
/// a product a letter that comes twice is written as a power, and long ones are rare.
fn bare_word(formula: &str) -> Option<SharedExpr> {
    const LONG: usize = 5;
    const SHORT: usize = 3;
    let word = formula.trim();
    let letters = word.len() >= SHORT && word.bytes().all(|byte| byte.is_ascii_alphabetic());
    let repeated = || word.bytes().enumerate().any(|(at, byte)| word.as_bytes()[..at].contains(&byte));
    (letters && word.len() <= MAX_WORD_BYTES && (word.len() >= LONG || repeated()))
        .then(|| symbol::text(word))
}

/// The part after the last `=` of several, where no comma or semicolon says that there are several answers.
fn last_equation(formula: &str) -> Option<&str> {
    if formula.contains([',', ';']) {
        return None;
    }
    let bytes = formula.as_bytes();
    let splits = (0..bytes.len())
        .filter(|&at| bytes[at] == b'=' && !(at > 0 && matches!(bytes[at - 1], b'\\' | b'<' | b'!' | b'>')));
    let splits: Vec<_> = splits.collect();
    (splits.len() >= 2).then(|| &formula[splits[splits.len() - 1] + 1..])
}

/// A number with commas or spaces between thousands: `7,425,000`, `7 425 000` or `-1,000.5`.
fn thousands(formula: &str) -> Option<SharedExpr> {
    let text = formula.trim();
    // What is said of the number stays with it.
    if let Some((number, words)) = text.strip_suffix('}').and_then(|text| text.split_once(token::UNIT)) {
        let words = words.split_whitespace().map(str::to_owned).collect();
        return thousands(number).map(|number| Arc::new(Expr::Measured(number, words)));
    }
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = unsigned.split_once('.').map_or((unsigned, None), |(a, b)| (a, Some(b)));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mark = if whole.contains(',') { ',' } else { ' ' };
    let mut groups = whole.split(mark);
    let grouped = groups.next().is_some_and(|first| all_digits(first) && first.len() <= 3)
        && whole.contains(mark)
        && groups.all(|group| all_digits(group) && group.len() == 3)
        && fraction.is_none_or(all_digits);
    if !grouped {
        return None;
    }
    // 0,111 is a decimal.
    let comma = text.starts_with('0') && mark == ',';
    let plain = if comma { text.replace(mark, ".") } else { text.replace(mark, "") };
    let decimal = comma || fraction.is_some();
    let value = number::parse(&plain)?;
    Some(Arc::new(Expr::Number(super::expr::Number { value, decimal })))
}

/// What was read at a place, and where it ended.
type Memo<T> = BTreeMap<usize, Option<(T, usize)>>;

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    at: usize,
    depth: u32,
    budget: &'a StepBudget,
    sums: Memo<SharedExpr>,
    elements: Memo<Vec<SharedExpr>>,
}

impl<'a> Parser<'a> {
    fn whole(&mut self, rule: impl FnOnce(&mut Self) -> Option<SharedExpr>) -> Option<SharedExpr> {
        self.at = 0;
        let answer = rule(self)?;
        let answer = self.with_unit(answer)?;
        (self.at == self.tokens.len()).then_some(answer)
    }

    fn peek(&self) -> Option<TokenKind> {
        self.tokens.get(self.at).map(|token| token.kind)
    }

    fn next(&mut self) -> Option<Token<'a>> {
        self.budget.charge(1)?;
        let token = self.tokens.get(self.at).copied()?;
        self.at += 1;
        Some(token)
    }

    /// Takes the next token if it is of this kind.
    fn eat(&mut self, kind: TokenKind) -> Option<Token<'a>> {
        if self.peek()? == kind { self.next() } else { None }
    }

    /// Runs a rule; where it fails, nothing was read.
    fn attempt<T>(&mut self, rule: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        let start = self.at;
        let found = rule(self);
        if found.is_none() {
            self.at = start;
        }
        found
    }

    /// Runs a rule one level deeper.
    fn deeper<T>(&mut self, rule: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        if self.depth == MAX_DEPTH {
            return None;
        }
        self.budget.charge(1)?;
        self.depth += 1;
        let found = rule(self);
        self.depth -= 1;
        found
    }

    /// A sum between braces, which only group: `{ sum }`.
    fn braced(&mut self) -> Option<SharedExpr> {
        self.between(TokenKind::Open(Pair::Brace), TokenKind::Close(Pair::Brace))
    }

    fn between(&mut self, open: TokenKind, close: TokenKind) -> Option<SharedExpr> {
        self.eat(open)?;
        let inner = self.sum()?;
        self.eat(close)?;
        Some(inner)
    }
}

#[cfg(test)]
mod tests;
