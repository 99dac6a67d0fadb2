//! Characters beyond ASCII, and the spelling of programs, as LaTeX.

/// Characters that are another character, wherever they stand in a text: digits, minus signs and
/// spaces. No text grows.
pub(crate) fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\u{2212}' | '\u{fe63}' | '\u{ff0d}' => out.push('-'),
            '\u{ff0b}' => out.push('+'),
            '\u{ff1d}' => out.push('='),
            '\u{ff08}' => out.push('('),
            '\u{ff09}' => out.push(')'),
            '\u{ff0c}' => out.push(','),
            '\u{ff0e}' => out.push('.'),
            '\u{ff1a}' => out.push(':'),
            '\u{ff05}' => out.push('%'),
            '\u{a0}' | '\u{2007}' | '\u{2009}' | '\u{200a}' | '\u{202f}' | '\u{3000}' => out.push(' '),
            '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2060}' | '\u{feff}' => {}
            '\u{ff10}'..='\u{ff19}' => out.extend(char::from_digit(c as u32 - 0xff10, 10)),
            other => out.push(other),
        }
    }
    out
}

/// What a superscript stands for.
fn raised(c: char) -> Option<char> {
    Some(match c {
        '⁰' => '0',
        '¹' => '1',
        '²' => '2',
        '³' => '3',
        '⁴'..='⁹' => char::from_digit(c as u32 - '⁴' as u32 + 4, 10)?,
        '⁺' => '+',
        '⁻' => '-',
        'ⁿ' => 'n',
        _ => return None,
    })
}

fn lowered(c: char) -> Option<char> {
    ('₀'..='₉').contains(&c).then(|| char::from_digit(c as u32 - '₀' as u32, 10))?
}

fn word(c: char) -> Option<&'static str> {
    Some(match c {
        '∞' => "\\infty ",
        '·' | '⋅' => "\\cdot ",
        '…' | '⋯' => "\\ldots ",
        '∈' => "\\in ",
        '½' => "\\frac{1}{2}",
        '⅓' => "\\frac{1}{3}",
        '⅔' => "\\frac{2}{3}",
        '¼' => "\\frac{1}{4}",
        '¾' => "\\frac{3}{4}",
        '⅕' => "\\frac{1}{5}",
        '⅖' => "\\frac{2}{5}",
        '⅗' => "\\frac{3}{5}",
        '⅘' => "\\frac{4}{5}",
        '⅙' => "\\frac{1}{6}",
        '⅚' => "\\frac{5}{6}",
        '⅛' => "\\frac{1}{8}",
        '⅜' => "\\frac{3}{8}",
        '⅝' => "\\frac{5}{8}",
        '⅞' => "\\frac{7}{8}",
        '⌊' => "\\lfloor ",
        '⌋' => "\\rfloor ",
        '⌈' => "\\lceil ",
        '⌉' => "\\rceil ",
        '€' | '£' | '¥' | '₹' => "",
        _ => return None,
    })
}

/// `x²`, `√12`, `[2,∞)`, `½`, `x**2` in LaTeX.
pub(super) fn spell_out(formula: &str) -> String {
    let plain = plain(formula);
    let mut out = String::with_capacity(plain.len() + 16);
    let mut rest = plain.as_str();
    while let Some(c) = rest.chars().next() {
        let after = &rest[c.len_utf8()..];
        let run = |of: fn(char) -> Option<char>| rest.find(|c| of(c).is_none()).unwrap_or(rest.len());
        let before = out.chars().next_back();
        rest = if raised(c).is_some() || lowered(c).is_some() {
            let (mark, of): (_, fn(char) -> Option<char>) =
                if raised(c).is_some() { ("^{", raised) } else { ("_{", lowered) };
            let length = run(of);
            out.push_str(mark);
            out.extend(rest[..length].chars().filter_map(of));
            out.push('}');
            &rest[length..]
        } else if c == '√' {
            let digits = after.bytes().take_while(|byte| byte.is_ascii_digit() || *byte == b'.').count();
            out.push_str("\\sqrt");
            if digits > 0 {
                out.push_str(&format!("{{{}}}", &after[..digits]));
            }
            &after[digits..]
        } else if c == '°' && !matches!(before, Some('^' | '{')) {
            out.push_str("^\\circ ");
            after
        } else if c == '*'
            && let Some(power) = after.strip_prefix('*')
            && before.is_some_and(|c| c.is_ascii_alphanumeric() || matches!(c, ')' | '}'))
            && power.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '(' || c == '{')
        {
            out.push('^');
            power
        } else {
            match word(c) {
                Some(word) => out.push_str(word),
                None => out.push(c),
            }
            after
        };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_latex_is_spelled_out() {
        assert_eq!(spell_out("4√12"), "4\\sqrt{12}");
        assert_eq!(spell_out("x²⁰+x₁"), "x^{20}+x_{1}");
        assert_eq!(spell_out("[2,∞)"), "[2,\\infty )");
        assert_eq!(spell_out("x**2"), "x^2");
        assert_eq!(spell_out("**5**"), "**5**");
        assert_eq!(spell_out("90°"), "90^\\circ ");
        assert_eq!(plain("−5 ５"), "-5 5");
    }
}
