//! What is changed in a template's source before the engine parses it.
//!
//! transformers knows a block `{% generation %}`. It marks what the assistant says, for training, and
//! prints the same without it. It becomes a `{% with %}`, which has a scope of its own as well.
//!
//! The engine's compiler evaluates constant expressions itself, before any limit of ours holds. So every
//! multiplication gets a further factor, which is 1 and no constant. It is then done by a call, which is
//! charged for its result.

use std::borrow::Cow;

use minijinja::machinery::{Token, tokenize};
use minijinja::syntax::SyntaxConfig;
use minijinja::{Error, ErrorKind};

/// The variable that is 1.
pub(super) const ONE: &str = "__echo_one";

/// The source that the engine parses.
pub(super) fn rewrite<'a>(source: &'a str, syntax: &SyntaxConfig) -> Result<Cow<'a, str>, Error> {
    let mut out = String::new();
    let (mut copied, mut last) = (0, None);
    for token in tokenize(source, false, syntax.clone()) {
        let (token, span) = token?;
        let refused = |what: &str| {
            let why = format!("line {}: {what} is not available in chat templates", span.start_line);
            Err(Error::new(ErrorKind::SyntaxError, why))
        };
        let put = match (&token, &last) {
            (Token::Ident("generation"), Some(Token::BlockStart)) => Some("with".to_owned()),
            (Token::Ident("endgeneration"), Some(Token::BlockStart)) => Some("endwith".to_owned()),
            (Token::Mul, Some(Token::ParenOpen | Token::Comma)) => return refused("`*` before an argument"),
            (Token::Mul, _) => Some(format!("*{ONE}*")),
            (Token::Pow, _) => return refused("`**`"),
            (Token::Ident(name), _) if *name == ONE => return refused(ONE),
            _ => None,
        };
        if let Some(put) = put {
            out.push_str(source.get(copied..span.start_offset as usize).unwrap_or_default());
            out.push_str(&put);
            copied = span.end_offset as usize;
        }
        last = Some(token);
    }
    if copied == 0 {
        return Ok(Cow::Borrowed(source));
    }
    out.push_str(source.get(copied..).unwrap_or_default());
    Ok(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(source: &str) -> Result<String, Error> {
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build()?;
        rewrite(source, &syntax).map(Cow::into_owned)
    }

    #[test]
    fn only_operators_and_tags_change() {
        let same =
            "{# {% generation %} 2 * 3 #}{% raw %}{% generation %}{% endraw %}{{ generation }}{{ '2 * 3' }}*";
        assert_eq!(rewritten(same).unwrap(), same);
        assert_eq!(
            rewritten("a\n{%- generation -%} é {{ '=' * 20 }}{% endgeneration %}\n").unwrap(),
            "a\n{%- with -%} é {{ '=' *__echo_one* 20 }}{% endwith %}\n"
        );
    }

    #[test]
    fn what_cannot_be_bounded_is_refused_with_its_line() {
        for (source, why) in
            [("\n{{ 2 ** 3 }}", "line 2: `**`"), ("{{ f(*x) }}", "`*` before"), ("{{ __echo_one }}", ONE)]
        {
            let refused = rewritten(source).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
    }
}
