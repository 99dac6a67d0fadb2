//! From what a policy says to a program.

use crate::programs::Language;

/// What opens and closes a block of code.
const FENCE: &str = "```";

/// The program of a response: the last fenced block whose opening names the language; where there
/// is none, the last whose opening names nothing; where there is none either, all of it. A block
/// that nothing closes goes to the end.
pub(super) fn program(response: &str, language: Language) -> &str {
    let (mut named, mut unnamed) = (None, None);
    for (name, block) in blocks(response) {
        if name.is_empty() {
            unnamed = Some(block);
        } else if names(language).iter().any(|known| name.eq_ignore_ascii_case(known)) {
            named = Some(block);
        }
    }
    named.or(unnamed).unwrap_or(response)
}

/// What blocks of a language are called.
fn names(language: Language) -> &'static [&'static str] {
    match language {
        Language::Python => &["python", "python3", "py"],
        Language::Cpp17 | Language::Cpp20 => &["c++", "cpp", "cc", "cxx", "c++17", "c++20", "cpp17", "cpp20"],
        Language::Rust => &["rust", "rs"],
        Language::Go => &["go", "golang"],
    }
}

/// The fenced blocks of a text: what each is called, and what is in it.
fn blocks(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut from = 0;
    let mut lines = text.split_inclusive('\n').map(move |line| {
        let at = from;
        from += line.len();
        (at, line)
    });
    std::iter::from_fn(move || {
        let (opening, name) = lines.find_map(|(at, line)| Some((at + line.len(), opened(line)?)))?;
        let closing = lines.find(|(_, line)| line.trim() == FENCE);
        let end = closing.map_or(text.len(), |(at, _)| at);
        Some((name, &text[opening..end]))
    })
}

/// What the block is called that this line opens.
fn opened(line: &str) -> Option<&str> {
    let info = line.trim().strip_prefix(FENCE)?;
    // Code between fences in one line opens nothing.
    (!info.contains('`')).then(|| info.split_whitespace().next().unwrap_or_default())
}

/// Where the definition of a Python function begins that stands at the margin.
pub(super) fn definition(source: &str, name: &str) -> Option<usize> {
    let mut from = 0;
    source.split_inclusive('\n').find_map(|line| {
        let at = from;
        from += line.len();
        let line = line.strip_prefix("async ").unwrap_or(line);
        let rest = line.strip_prefix("def ")?.trim_start().strip_prefix(name)?;
        rest.trim_start().starts_with('(').then_some(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_last_block_of_the_language_is_the_program() {
        let python = |text| program(text, Language::Python);
        assert_eq!(python("print(1)\n"), "print(1)\n");
        assert_eq!(
            python("First:\n```python\nold\n```\nBetter:\n```py\nnew\n```\nIt prints:\n```\n5\n```\n"),
            "new\n"
        );
        assert_eq!(python("It is:\n```\ncode\n```\n```text\n5\n```\n"), "code\n");
        assert_eq!(python("```Python title=x\r\ncode\r\n``` \r\n"), "code\r\n");
        assert_eq!(python("```python\nnever closed"), "never closed");
        assert_eq!(python("```python"), "");
        assert_eq!(python("say ```x``` and\n```x```\n"), "say ```x``` and\n```x```\n");
        assert_eq!(python("```rust\nfn main() {}\n```"), "```rust\nfn main() {}\n```", "another language's");
        assert_eq!(
            program("```rust\nfn main() {}\n```\n```cpp\nint main;\n```", Language::Cpp20),
            "int main;\n"
        );
    }

    #[test]
    fn definitions_stand_at_the_margin() {
        assert_eq!(definition("import x\ndef f(a):\n    pass", "f"), Some(9));
        assert_eq!(definition("async def  f (a): pass", "f"), Some(0));
        for other in ["    def f(a): pass", "def ff(a): pass", "def f", "f(1)", ""] {
            assert_eq!(definition(other, "f"), None, "{other}");
        }
    }

    proptest! {
        #[test]
        fn any_text_has_a_program_within_it(text in "[`a-z\n ]{0,60}|\\PC{0,40}") {
            for language in Language::ALL {
                prop_assert!(text.contains(program(&text, language)));
            }
        }
    }
}
