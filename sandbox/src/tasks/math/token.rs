//! LaTeX as a row of tokens. The longest token wins, whatever follows it: `\pix` is π and x.

mod table;

use super::expr::{Domain, Function, RelationKind};

/// The longest formula that is read, in bytes.
pub const MAX_FORMULA_BYTES: usize = 2048;

/// How the words of a unit begin in a normalized formula.
pub(crate) const UNIT: &str = "\\unit{";

/// One token and the text it was made of.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Token<'a> {
    pub(crate) kind: TokenKind,
    pub(crate) text: &'a str,
}

/// The pairs of delimiters that group, or make tuples, sets and intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pair {
    /// Plain parentheses, `( )`.
    Paren,
    /// Escaped parentheses, `\( \)`.
    ParenVisual,
    /// Parentheses by command, `\lgroup \rgroup`.
    Group,
    /// Plain braces, `{ }`.
    Brace,
    /// Escaped braces, `\{ \}`.
    BraceVisual,
    /// Braces by command, `\lbrace \rbrace`.
    BraceCommand,
    /// Plain brackets, `[ ]`.
    Bracket,
    /// Brackets by command, `\lbrack \rbrack`.
    BracketCommand,
    /// Bars by command, `\lvert \rvert`.
    Vert,
    /// Angle brackets, `\langle \rangle`.
    Angle,
    /// Floor, which rounds down: `\lfloor \rfloor`.
    Floor,
    /// Floor drawn as corners: `\llcorner \lrcorner`.
    FloorCorner,
    /// Ceiling, which rounds up: `\lceil \rceil`.
    Ceiling,
    /// Ceiling drawn as corners: `\ulcorner \urcorner`.
    CeilingCorner,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    /// White space and what else leaves no trace.
    Skip,
    Plus,
    Minus,
    Times,
    Divide,
    Mod,
    Open(Pair),
    Close(Pair),
    /// A single bar typed as `|`.
    Bar,
    /// A single bar by command, `\vert`.
    Vert,
    /// A double bar, as of a norm: `\|`.
    Norm,
    Boxed,
    Phantom,
    Function(Function),
    /// The natural logarithm, `\ln`.
    Ln,
    /// The name of a function inside of `\operatorname{}`.
    OperatorName(&'static str),
    Operator,
    Sqrt,
    Fraction,
    Binomial,
    Choose,
    Limit,
    Approaches,
    Integral,
    Sum,
    Product,
    MatrixStart,
    MatrixEnd,
    ArrayStart,
    ArrayEnd,
    DeterminantStart,
    DeterminantEnd,
    Column,
    Row,
    Underscore,
    Caret,
    Comma,
    Semicolon,
    Transpose,
    Degree,
    /// The differential of an integral, such as `dx`.
    Differential,
    Euler,
    /// `E`, which is a letter here and the sign of a power of ten in a number.
    LetterE,
    /// A letter, a Greek letter, another symbol, or a text: what names a variable.
    Letter,
    Accent,
    Number,
    /// A decimal whose last digits repeat for ever: `0.\overline{36}`.
    Repeating,
    /// The words that stand behind a value, `\unit{cm}`.
    Unit,
    /// "or" between inequalities, `\lor`.
    Either,
    ENotation,
    Percent,
    Infinity,
    Partial,
    In,
    NotIn,
    /// One equals sign, `=`.
    Assign,
    /// Two equals signs, `==`.
    Equal,
    Approximately,
    Compare(RelationKind),
    Factorial,
    PlusMinus,
    Domain(Domain),
    Union,
    Intersection,
    SetMinus,
    Subset,
    Superset,
    /// Known to the notation, with no meaning here.
    Other,
}

/// Splits a formula. `None` where a piece of it is no token, or where it is longer than
/// [`MAX_FORMULA_BYTES`].
pub(crate) fn tokens(formula: &str) -> Option<Vec<Token<'_>>> {
    if formula.len() > MAX_FORMULA_BYTES {
        return None;
    }
    let mut rest = formula;
    let mut tokens = Vec::new();
    while !rest.is_empty() {
        let (kind, length) = longest(rest)?;
        let (text, after) = rest.split_at(length);
        if kind != TokenKind::Skip {
            tokens.push(Token { kind, text });
        }
        rest = after;
    }
    Some(tokens)
}

/// The longest token at the start of `rest`; of two that are equally long, the one of the table.
fn longest(rest: &str) -> Option<(TokenKind, usize)> {
    let found = [
        table::find(rest),
        number(rest),
        repeating(rest),
        unit(rest),
        differential(rest),
        accent(rest),
        array(rest),
        letter(rest),
    ];
    let mut best: Option<(TokenKind, usize)> = None;
    for (kind, length) in found.into_iter().flatten() {
        if best.is_none_or(|(_, longest)| length > longest) {
            best = Some((kind, length));
        }
    }
    best
}

fn digits(text: &str) -> usize {
    text.bytes().take_while(u8::is_ascii_digit).count()
}

/// `12`, `1.5`, `.5`, with a power of ten (`2E-3`) or a percent sign.
fn number(rest: &str) -> Option<(TokenKind, usize)> {
    let mut length = digits(rest);
    if let Some(fraction) = rest[length..].strip_prefix('.')
        && digits(fraction) > 0
    {
        length += 1 + digits(fraction);
    }
    if length == 0 {
        return None;
    }
    let after = &rest[length..];
    // 3e8, but not 2e-1, which is twice e less one.
    if let Some(exponent) = after.strip_prefix('e')
        && digits(exponent) > 0
    {
        return Some((TokenKind::ENotation, length + 1 + digits(exponent)));
    }
    if let Some(exponent) = after.strip_prefix('E') {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        if digits(&exponent[sign..]) > 0 {
            return Some((TokenKind::ENotation, length + 1 + sign + digits(&exponent[sign..])));
        }
    }
    let space = usize::from(after.starts_with([' ', '\t', '\n', '\r']));
    for sign in ["\\%", "%"] {
        if after[space..].starts_with(sign) {
            return Some((TokenKind::Percent, length + space + sign.len()));
        }
    }
    Some((TokenKind::Number, length))
}

/// `0.\overline{36}`, `1.2\bar{3}`.
fn repeating(rest: &str) -> Option<(TokenKind, usize)> {
    let whole = digits(rest);
    let point = rest[whole..].strip_prefix('.').filter(|_| whole > 0)?;
    let period = &point[digits(point)..];
    let inner = ["\\overline{", "\\bar{"].iter().find_map(|command| period.strip_prefix(command))?;
    let after = inner[digits(inner)..].strip_prefix('}').filter(|_| digits(inner) > 0)?;
    Some((TokenKind::Repeating, rest.len() - after.len()))
}

/// `\unit{...}`, without braces in it.
fn unit(rest: &str) -> Option<(TokenKind, usize)> {
    let inner = rest.strip_prefix(UNIT)?;
    let length = inner.find(['{', '}'])?;
    inner[length..].starts_with('}').then_some((TokenKind::Unit, UNIT.len() + length + 1))
}

/// `dx`, `d x`, `d\theta`.
fn differential(rest: &str) -> Option<(TokenKind, usize)> {
    let after = rest.strip_prefix('d')?;
    let variable = after.trim_start_matches([' ', '\t', '\n', '\r']);
    let start = rest.len() - variable.len();
    if variable.starts_with(|first: char| first.is_ascii_alphabetic()) {
        return Some((TokenKind::Differential, start + 1));
    }
    let letters = variable.strip_prefix('\\')?.bytes().take_while(u8::is_ascii_alphabetic).count();
    (letters > 0).then_some((TokenKind::Differential, start + 1 + letters))
}

/// `\text{...}`, `\vec{v}`: up to the first closing brace that is not escaped.
fn accent(rest: &str) -> Option<(TokenKind, usize)> {
    let name = table::accent(rest)?;
    let after = &rest[name.len()..];
    let space = usize::from(after.starts_with([' ', '\t', '\n', '\r']));
    let inner = after[space..].strip_prefix('{')?;
    let mut escaped = false;
    let end = inner.find(|c| {
        let closes = c == '}' && !escaped;
        escaped = c == '\\';
        closes
    });
    // A brace that is always escaped closes nevertheless.
    let end = end.or_else(|| inner.rfind('}'))?;
    Some((TokenKind::Accent, name.len() + space + 1 + end + 1))
}

/// The beginning of an array with its columns, such as `\begin{array}{ccc}`.
fn array(rest: &str) -> Option<(TokenKind, usize)> {
    let columns = rest.strip_prefix("\\begin{array}{")?;
    let end = columns.find(|c| !matches!(c, 'c' | 'l' | 'r'))?;
    columns[end..].starts_with('}').then_some((TokenKind::ArrayStart, rest.len() - columns.len() + end + 1))
}

fn letter(rest: &str) -> Option<(TokenKind, usize)> {
    match rest.chars().next()? {
        'e' => Some((TokenKind::Euler, 1)),
        'E' => Some((TokenKind::LetterE, 1)),
        letter if letter.is_ascii_alphabetic() => Some((TokenKind::Letter, 1)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(formula: &str) -> Option<Vec<TokenKind>> {
        Some(tokens(formula)?.iter().map(|token| token.kind).collect())
    }

    #[test]
    fn the_longest_token_wins() {
        assert_eq!(kinds("\\pix"), Some(vec![TokenKind::Letter, TokenKind::Letter]));
        assert_eq!(kinds("x \\le 2"), kinds("x<=2"));
        assert_eq!(kinds("12.5\\%"), Some(vec![TokenKind::Percent]));
        assert_eq!(kinds("1.5E-3"), Some(vec![TokenKind::ENotation]));
        assert_eq!(kinds("5E"), Some(vec![TokenKind::Number, TokenKind::LetterE]));
        assert_eq!(kinds("dx"), Some(vec![TokenKind::Differential]));
        assert_eq!(kinds("\\text{a \\} b}c"), Some(vec![TokenKind::Accent, TokenKind::Letter]));
        assert_eq!(kinds("^\\circ"), Some(vec![TokenKind::Degree]));
    }

    #[test]
    fn what_is_no_token_is_refused() {
        assert_eq!(kinds("\\unheardof"), None);
        assert_eq!(kinds("4 ?"), None);
        assert_eq!(kinds(&"1".repeat(MAX_FORMULA_BYTES + 1)), None);
    }
}
