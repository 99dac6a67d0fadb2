//! Blocks between fences: three or more backticks or tildes, and what models make of them.

use crate::programs::Language;

/// The fewest marks that make a fence.
const LEAST: usize = 3;
/// What Python's texts of several lines stand in.
const QUOTES: [&str; 2] = ["\"\"\"", "'''"];

/// A block of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block<'a> {
    /// What its fence calls it, without what stands around that; empty where it says nothing.
    pub(super) name: &'a str,
    pub(super) text: &'a str,
    /// Whether a fence ends it.
    pub(super) is_closed: bool,
    /// Where the line of its first fence begins.
    pub(super) at: usize,
}

impl Block<'_> {
    pub(super) fn is_of(&self, language: Language) -> bool {
        is_name(self.name, language)
    }
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

/// Whether a language is called so. Python may have a version, and a file its ending.
fn is_name(name: &str, language: Language) -> bool {
    let known = |name: &str| names(language).iter().any(|known| name.eq_ignore_ascii_case(known));
    let ending = name.rsplit_once('.').is_some_and(|(_, ending)| known(ending));
    let unversioned = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    known(name) || ending || (language == Language::Python && known(unversioned))
}

fn is_any_name(name: &str) -> bool {
    Language::ALL.into_iter().any(|language| is_name(name, language))
}

/// A line that begins with marks.
#[derive(Clone, Copy)]
struct Fence<'a> {
    mark: char,
    count: usize,
    /// What stands behind the marks.
    info: &'a str,
}

impl<'a> Fence<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let mark = line.chars().next().filter(|mark| ['`', '~'].contains(mark))?;
        let info = line.trim_start_matches(mark);
        // Both marks are one byte long.
        let count = line.len() - info.len();
        (count >= LEAST).then_some(Self { mark, count, info: info.trim() })
    }

    /// What it calls its block: the first word, without braces, dots before it and what follows a colon.
    fn name(&self) -> &'a str {
        let word = self.info.split([' ', '\t', ':', ',', ';', '{', '}', '=']).find(|word| !word.is_empty());
        let word = word.unwrap_or_default().trim_start_matches('.');
        if word.chars().any(char::is_alphanumeric) { word } else { "" }
    }

    /// What stands behind the name.
    fn behind_name(&self) -> &'a str {
        let name = self.name();
        let at = self.info.find(name).map_or(0, |at| at + name.len());
        self.info[at..].trim_start()
    }

    /// Whether it may end a block that `opening` has begun: nothing but signs stands behind it.
    fn ends(&self, opening: &Fence<'_>) -> bool {
        self.mark == opening.mark
            && self.count >= opening.count
            && !self.info.chars().any(|c| c.is_alphanumeric() || c == opening.mark)
    }

    /// Name and code of a block that is one line, as in `` ```print(1)``` ``.
    fn in_one_line(&self) -> Option<(&'a str, &'a str)> {
        let inner = self.info.strip_suffix("```").filter(|inner| self.mark == '`' && !inner.contains('`'))?;
        let opening = Fence { info: inner, ..*self };
        let (name, code) = (opening.name(), opening.behind_name().trim());
        let is_named = is_any_name(name) && inner.starts_with(name) && !code.is_empty();
        let (name, code) = if is_named { (name, code) } else { ("", inner.trim()) };
        (!code.is_empty()).then_some((name, code))
    }
}

/// The blocks of a text, in their order. Fences within texts of a program of `language` are no fences.
pub(super) fn of(text: &str, language: Language) -> Vec<Block<'_>> {
    let mut lines: Vec<(usize, &str)> = Vec::new();
    for line in text.split_inclusive('\n') {
        let at = lines.last().map_or(0, |(at, line)| at + line.len());
        lines.push((at, line));
    }
    let (mut blocks, mut next) = (Vec::new(), 0);
    while let Some(&(at, line)) = lines.get(next) {
        next += 1;
        let Some(fence) = Fence::of(line) else { continue };
        if let Some((name, text)) = fence.in_one_line() {
            blocks.push(Block { name, text, is_closed: true, at });
            continue;
        }
        if fence.info.contains('`') {
            continue;
        }
        let rest = &lines[next..];
        let shorter = Fence { count: LEAST, ..fence };
        let closing = closing_of(rest, &fence, language).or_else(|| closing_of(rest, &shorter, language));
        let end = closing.map_or(text.len(), |(end, _)| end);
        next += closing.map_or(rest.len(), |(_, taken)| taken);
        let inner = &text[at + line.len()..end];
        // Some write the first line beside the name.
        let beside = fence.behind_name();
        let is_beside = inner.trim().is_empty() && beside.contains(['(', ';']);
        let start = at + if is_beside { line.trim_end().len() - beside.len() } else { line.len() };
        blocks.push(Block { name: fence.name(), text: &text[start..end], is_closed: closing.is_some(), at });
    }
    blocks
}

/// Where a block ends, and how many of these lines it takes with its last fence. A fence within a text of
/// a Python program only ends it where no other does.
fn closing_of(lines: &[(usize, &str)], opening: &Fence<'_>, language: Language) -> Option<(usize, usize)> {
    let (mut quoted, mut within) = (None, None);
    for (index, (at, line)) in lines.iter().enumerate() {
        let found = match Fence::of(line) {
            Some(fence) if fence.ends(opening) => Some((*at, index + 1)),
            // It opens the next block.
            Some(fence) if fence.mark == opening.mark && is_any_name(fence.name()) => Some((*at, index)),
            Some(_) => None,
            None => behind_code(line, opening).map(|length| (at + length, index + 1)),
        };
        match (found, quoted) {
            (Some(found), None) => return Some(found),
            (Some(found), Some(_)) => within = within.or(Some(found)),
            (None, _) if language == Language::Python => quoted = left_open(line, quoted),
            (None, _) => {}
        }
    }
    within
}

/// Where marks begin that stand behind code on its line.
fn behind_code(line: &str, opening: &Fence<'_>) -> Option<usize> {
    let code = line.trim_end().strip_suffix("```").filter(|_| opening.mark == '`')?;
    (!code.contains('`') && !code.trim().is_empty()).then_some(code.len())
}

/// The quotes that a line leaves open, where those before it left `open`.
fn left_open(line: &str, mut open: Option<&'static str>) -> Option<&'static str> {
    let mut rest = line;
    loop {
        let next = match open {
            Some(quotes) => rest.find(quotes).map(|at| (at, quotes)),
            None => QUOTES.into_iter().filter_map(|quotes| Some((rest.find(quotes)?, quotes))).min(),
        };
        let Some((at, quotes)) = next else { return open };
        open = if open.is_some() { None } else { Some(quotes) };
        rest = &rest[at + quotes.len()..];
    }
}

/// What stands in the last marks of the language, as CodeLlama writes them: `[PYTHON]` and `[/PYTHON]`.
pub(super) fn marked(text: &str, language: Language) -> Option<&str> {
    names(language).iter().find_map(|name| {
        let name = name.to_ascii_uppercase();
        let (_, behind) = text.rsplit_once(format!("[{name}]").as_str())?;
        let inner = behind.split_once(format!("[/{name}]").as_str()).map_or(behind, |(inner, _)| inner);
        Some(inner.strip_prefix("\r\n").or_else(|| inner.strip_prefix('\n')).unwrap_or(inner))
    })
}
