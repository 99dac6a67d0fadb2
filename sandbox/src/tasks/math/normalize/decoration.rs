//! What is around an answer without being part of it: fonts, sizes, spaces, signs before and behind it.

/// Commands that say nothing.
const DROPPED: &[&str] = &[
    "Large",
    "large",
    "LARGE",
    "huge",
    "Huge",
    "small",
    "normalsize",
    "tiny",
    "textstyle",
    "scriptstyle",
    "bf",
    "it",
    "rm",
    "checkmark",
    "therefore",
    "limits",
    "boldsymbol",
    "bm",
    "pmb",
    "underline",
    "ensuremath",
];

/// Commands that say nothing, and neither does their argument.
const DROPPED_WITH_ARGUMENT: &[&str] =
    &["hspace", "vspace", "phantom", "hphantom", "vphantom", "color", "textcolor", "tag", "label"];

/// Spaces.
const SPACES: &[&str] = &["quad", "qquad", "enspace", "enskip", "thinspace"];

/// Other names of a command.
const RENAMED: &[(&str, &str)] = &[
    ("hbox", "\\mbox"),
    ("nicefrac", "\\frac"),
    ("sfrac", "\\frac"),
    ("textsf", "\\text"),
    ("texttt", "\\text"),
    ("textsc", "\\text"),
    ("emph", "\\text"),
    ("mathsf", "\\text"),
];

/// What an answer may begin with.
const LEADING: &[&str] = &[
    "=",
    "\\approx",
    "≈",
    "\\implies",
    "\\Rightarrow",
    "\\Longrightarrow",
    "\\rightarrow",
    "\\iff",
    "→",
    "⇒",
    "∴",
    "**",
    ":",
];

/// How a sentence begins that gives an answer, in lower case.
const ANNOUNCING: &[&str] =
    &["the final answer is", "the answer is", "answer is", "final answer:", "answer:"];

/// Takes the commands off that set an answer in type.
pub(super) fn strip(formula: &str) -> String {
    let mut out = String::with_capacity(formula.len());
    let mut rest = formula;
    while let Some(c) = rest.chars().next() {
        if c == '~' && !rest.starts_with("~=") {
            out.push(' ');
            rest = &rest[1..];
            continue;
        }
        let Some(command) = rest.strip_prefix('\\') else {
            out.push(c);
            rest = &rest[c.len_utf8()..];
            continue;
        };
        rest = stripped(command, &mut out);
    }
    out
}

/// Writes what a command after its backslash becomes, and returns what follows.
fn stripped<'a>(command: &'a str, out: &mut String) -> &'a str {
    let length = command.bytes().take_while(u8::is_ascii_alphabetic).count();
    let (name, after) = command.split_at(length);
    if name.is_empty() {
        let Some(sign) = command.chars().next() else {
            out.push('\\');
            return command;
        };
        let after = &command[sign.len_utf8()..];
        match sign {
            // A thin space between digits makes groups of three.
            ',' if out.ends_with(|c: char| c.is_ascii_digit()) && is_group(after) => {}
            ',' | ';' | ':' => out.push(' '),
            '#' => {}
            _ => {
                out.push('\\');
                out.push(sign);
            }
        }
        return after;
    }
    if DROPPED.contains(&name) {
        return after;
    }
    if SPACES.contains(&name) {
        out.push(' ');
        return after;
    }
    if DROPPED_WITH_ARGUMENT.contains(&name) {
        let after = after.strip_prefix('*').unwrap_or(after);
        return argument(after).map_or(after, |(_, after)| after);
    }
    if matches!(name, "left" | "right")
        && let Some(after) = after.strip_prefix('.')
    {
        return after;
    }
    if name == "pmod"
        && let Some((modulus, after)) = argument(after)
    {
        out.push_str(&format!("\\text{{mod {modulus}}}"));
        return after;
    }
    if let Some((_, other)) = RENAMED.iter().find(|(known, _)| *known == name) {
        out.push_str(other);
        return after;
    }
    out.push('\\');
    out.push_str(name);
    after
}

fn is_group(text: &str) -> bool {
    text.bytes().take_while(u8::is_ascii_digit).count() == 3
}

/// A group or a number, and what follows.
fn argument(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start();
    if text.starts_with('{') {
        let inner = super::enclosed(text, b'{', b'}')?;
        return Some((inner, &text[inner.len() + 2..]));
    }
    let length = text.bytes().take_while(u8::is_ascii_alphanumeric).count();
    (length > 0).then(|| text.split_at(length))
}

/// Takes off what stands before an answer.
pub(super) fn without_lead(formula: &str) -> &str {
    let mut rest = formula.trim();
    for (open, close) in [("\\(", "\\)"), ("\\[", "\\]")] {
        if let Some(inner) = rest.strip_prefix(open).and_then(|rest| rest.strip_suffix(close))
            && !inner.contains(open)
        {
            rest = inner.trim();
        }
    }
    while let Some(after) = LEADING.iter().find_map(|sign| rest.strip_prefix(sign)) {
        // A command ends where its letters end.
        let ends = rest.starts_with(|c| c != '\\') || !after.starts_with(|c: char| c.is_ascii_alphabetic());
        if !ends || after.trim().is_empty() {
            break;
        }
        rest = after.trim_start();
    }
    for words in ANNOUNCING {
        if let Some(start) = rest.get(..words.len())
            && start.eq_ignore_ascii_case(words)
            && !rest[words.len()..].starts_with(|c: char| c.is_ascii_alphanumeric())
        {
            return rest[words.len()..].trim_start_matches([':', ' ']);
        }
    }
    rest
}

/// Takes off what stands behind an answer: full stops, commas, line ends.
pub(super) fn without_trail(formula: &str) -> &str {
    let mut rest = formula.trim_end();
    loop {
        let shorter = rest
            .strip_suffix("**")
            .or_else(|| rest.strip_suffix("\\\\"))
            // Of a space that a backslash begins.
            .or_else(|| rest.strip_suffix('\\'))
            .or_else(|| rest.strip_suffix([',', ';', ':']).filter(|before| !before.ends_with('\\')))
            .or_else(|| rest.strip_suffix('.').filter(|before| !before.ends_with(['.', '\\'])));
        match shorter.map(str::trim_end) {
            Some(shorter) if !shorter.is_empty() => rest = shorter,
            _ => return rest,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decoration_goes_and_the_answer_stays() {
        assert_eq!(strip("\\boldsymbol{5}"), "{5}");
        assert_eq!(strip("\\color{red}{5}\\hspace{1mm}"), "{5}");
        assert_eq!(strip("21\\,211"), "21211");
        assert_eq!(strip("2\\,x~y"), "2 x y");
        assert_eq!(strip("\\overline{5}"), "\\overline{5}");
        assert_eq!(strip("\\\\,"), "\\\\,");
        assert_eq!(without_lead("\\implies x = 5"), "x = 5");
        assert_eq!(without_lead("The answer is 2"), "2");
        assert_eq!(without_trail("(1,2)."), "(1,2)");
        assert_eq!(without_trail("5\\ "), "5");
        assert_eq!(without_trail("1,2,..."), "1,2,...");
        assert_eq!(without_trail("5\\,"), "5\\,");
    }
}
