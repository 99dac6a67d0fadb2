//! From what a policy says to a program.
//!
//! - `blocks`: what stands between fences;
//! - `words`: what is said around a program that has none.

mod blocks;
mod words;

use crate::programs::Language;
use blocks::Block;

/// How models mark the end of a turn. Some write it as text, and go on.
const ENDS: [&str; 7] = [
    "<|endoftext|>",
    "<|im_end|>",
    "<|eot_id|>",
    "<|end_of_text|>",
    "<|end|>",
    "<｜end▁of▁sentence｜>",
    "<end_of_turn>",
];

/// The program of a response, up to the first mark that ends a turn. It is the first of these that exists:
///
/// 1. the last block whose fence names the language;
/// 2. what stands in the marks of its name, as `[PYTHON]` and `[/PYTHON]`;
/// 3. the last block that names nothing, and looks like code if one does;
/// 4. all of it, without the words that stand around it.
///
/// A block that only calls what one before it defines is an example, and not the program.
pub(super) fn program(response: &str, language: Language) -> &str {
    let end = ENDS.iter().filter_map(|mark| response.find(*mark)).min();
    let text = &response[..end.unwrap_or(response.len())];
    let blocks = blocks::of(text, language);
    let of = |is_wanted: &dyn Fn(&Block<'_>) -> bool| -> Vec<_> {
        blocks.iter().filter(|block| is_wanted(block)).map(|block| block.text).collect()
    };
    let named = of(&|block| block.is_of(language));
    let filled: Vec<_> = named.iter().copied().filter(|block| !block.trim().is_empty()).collect();
    if let Some(last) = named.last() {
        return chosen(&filled, language).unwrap_or(last);
    }
    if let Some(marked) = blocks::marked(text, language) {
        return marked;
    }
    if let [Block { name: "", text: inner, is_closed: false, at }] = blocks.as_slice() {
        // A fence alone closes the program before it, or opens the one behind it.
        let before = words::without(&text[..*at]);
        if words::has_code(before) && !words::has_code(inner) {
            return before;
        }
    }
    let code = of(&|block| block.name.is_empty() && words::looks_like_code(block.text));
    let unnamed = of(&|block| block.name.is_empty());
    let all = if blocks.is_empty() { words::without(text) } else { text };
    chosen(&code, language).or(unnamed.last().copied()).unwrap_or(all)
}

/// The last of some blocks that is a program by itself, or the last if none is.
fn chosen<'a>(blocks: &[&'a str], language: Language) -> Option<&'a str> {
    let is_program = |at: &usize| match language {
        Language::Python => !is_example(blocks[*at], &blocks[..*at]),
        Language::Cpp17 | Language::Cpp20 | Language::Rust | Language::Go => blocks[*at].contains("main("),
    };
    let program = (0..blocks.len()).rev().find(is_program).map(|at| blocks[at]);
    program.or(blocks.last().copied())
}

/// Whether a Python block defines nothing, and names what one before it defines.
fn is_example(block: &str, before: &[&str]) -> bool {
    let names = |word: &str| block.split(|c: char| !c.is_alphanumeric() && c != '_').any(|part| part == word);
    defined(block).next().is_none() && before.iter().flat_map(|block| defined(block)).any(names)
}

/// The functions and classes that a Python source defines at the margin.
fn defined(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| {
        let line = line.strip_prefix("async ").unwrap_or(line);
        let rest = line.strip_prefix("def ").or_else(|| line.strip_prefix("class "))?.trim_start();
        rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
    })
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

    fn python(text: &str) -> &str {
        program(text, Language::Python)
    }

    #[test]
    fn the_last_block_of_the_language_is_the_program() {
        assert_eq!(python("print(1)\n"), "print(1)\n");
        assert_eq!(
            python("First:\n```python\nold\n```\nBetter:\n```py\nnew\n```\nIt prints:\n```\n5\n```\n"),
            "new\n"
        );
        assert_eq!(python("It is:\n```\ncode\n```\n```text\n5\n```\n"), "code\n");
        assert_eq!(python("```Python title=x\r\ncode\r\n``` \r\n"), "code\r\n");
        assert_eq!(python("```python\nnever closed"), "never closed");
        assert_eq!(python("```python"), "");
        assert_eq!(python("say ```x``` and no more\n"), "say ```x``` and no more\n");
        assert_eq!(python("```rust\nfn main() {}\n```"), "```rust\nfn main() {}\n```", "another language's");
        assert_eq!(
            program("```rust\nfn main() {}\n```\n```cpp\nint main;\n```", Language::Cpp20),
            "int main;\n"
        );
    }

    #[test]
    fn fences_and_names_have_many_forms() {
        for text in [
            "```py3\nprint(1)\n```",
            "```python3.11\nprint(1)\n```",
            "```{python}\nprint(1)\n```",
            "```{.python .numberLines}\nprint(1)\n```",
            "```python:main.py\nprint(1)\n```",
            "```main.py\nprint(1)\n```",
            "~~~python\nprint(1)\n~~~",
            "````python\nprint(1)\n````",
            "````python\nprint(1)\n```\n",
            "```python\nprint(1)\n```.\nDone",
            "```python\nprint(1)\n```python\n",
            "[PYTHON]\nprint(1)\n[/PYTHON]",
            "Like so:\n[PYTHON]\nprint(1)\n[/PYTHON]\nIt prints 1.",
            "```\nprint(1)\n```\nThis prints:\n```\n1\n```\n",
            "```python\nprint(1)\n```<|endoftext|>```python\nprint(2)\n```",
            "print(1)\n<|im_end|>\nuser",
        ] {
            assert_eq!(python(text), "print(1)\n", "{text}");
        }
        assert_eq!(python("```python\nprint(1)```"), "print(1)");
        assert_eq!(python("```print(1)```"), "print(1)");
        assert_eq!(python("```python print(1)```"), "print(1)");
        assert_eq!(python("```python print(1)\n```"), "print(1)\n");
    }

    #[test]
    fn fences_within_texts_of_the_program_do_not_end_it() {
        let within = "def f():\n    \"\"\"\n    ```\n    f()\n    ```\n    \"\"\"\n    return 1\n";
        assert_eq!(python(&format!("So:\n```python\n{within}```\nDone.")), within);
        let longer = "s = '''\n```\n'''\n";
        assert_eq!(python(&format!("````python\n{longer}````\n")), longer);
    }

    #[test]
    fn a_fence_alone_ends_the_program_or_opens_it() {
        let add = "def add(a, b):\n    return a + b\n";
        assert_eq!(python(&format!("{add}```")), add);
        let completion = "    return a + b\n";
        assert_eq!(python(&format!("{completion}```\nThis adds both numbers.\n")), completion);
        assert_eq!(python(&format!("Here it is:\n```\n{add}")), add);
    }

    #[test]
    fn an_example_behind_the_program_is_not_the_program() {
        let add = "def add(a, b):\n    return a + b\n";
        let with = |example: &str| format!("So:\n```python\n{add}```\nThen:\n```python\n{example}\n```");
        assert_eq!(python(&with("print(add(1, 2))  # 3")), add);
        assert_eq!(python(&with("assert add(1, 2) == 3")), add);
        assert_eq!(python(&with("def add(a, b): return b + a")), "def add(a, b): return b + a\n");
        assert_eq!(python(&with("print(3)")), "print(3)\n", "it is another program");
        let cpp = "```cpp\nint main() {}\n```\nThe loop is:\n```cpp\nfor (;;) {}\n```";
        assert_eq!(program(cpp, Language::Cpp17), "int main() {}\n");
    }

    #[test]
    fn words_around_a_program_without_fences_are_left_out() {
        let code = "n = int(input())\nprint(n)\n";
        assert_eq!(python(&format!("Sure! Here is the program:\n\n{code}")), code);
        assert_eq!(python(&format!("Here is the program\n{code}\nIt reads a number and prints it.\n")), code);
        for all in [
            "from math import gcd\nprint(gcd(4,6))\n",
            "I think that it is three.",
            "    return x\n",
            "\n\nx = 1\n\n",
            "if a is b:\n    pass\n",
            "",
        ] {
            assert_eq!(python(all), all);
        }
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
        fn any_text_has_a_program_within_it(text in "[`~a-z.:\"\n ]{0,60}|\\PC{0,40}") {
            for language in Language::ALL {
                prop_assert!(text.contains(program(&text, language)));
            }
        }
    }
}
