//! Run files that the documentation shows, and those in `examples/`, are sound.

use super::RunConfig;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// All files below `dir` whose names end so.
fn files(dir: &Path, end: &str, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            files(&path, end, found);
        } else if path.to_str().is_some_and(|name| name.ends_with(end)) {
            found.push(path);
        }
    }
}

/// The whole run files in a page: blocks of TOML, and what a shell is given to write.
fn run_files(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let end = match line {
            "```toml" => "```",
            line if line.ends_with("run.toml <<EOF") => "EOF",
            _ => continue,
        };
        let block: String =
            lines.by_ref().take_while(|line| *line != end).map(|line| format!("{line}\n")).collect();
        // Others show a few settings.
        if block.contains("[run]\n") {
            found.push(block);
        }
    }
    found
}

#[test]
fn run_files_of_the_documentation_and_the_examples_have_no_problems() {
    let (mut pages, mut examples) = (vec![root().join("README.md")], Vec::new());
    files(&root().join("docs"), ".md", &mut pages);
    files(&root().join("examples"), ".toml", &mut examples);
    let of_pages = pages.into_iter().flat_map(|path| {
        let blocks = run_files(&fs::read_to_string(&path).unwrap());
        blocks.into_iter().map(move |block| (path.clone(), block))
    });
    let of_examples = examples.into_iter().map(|path| (path.clone(), fs::read_to_string(&path).unwrap()));
    // A peer list's draft is TOML too.
    let of_examples = of_examples.filter(|(_, text)| text.contains("[run]\n"));
    let mut count = 0;
    for (path, text) in of_pages.chain(of_examples) {
        let config = RunConfig::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let problems: Vec<String> = config.problems().iter().map(ToString::to_string).collect();
        assert_eq!(problems, [""; 0], "{}", path.display());
        count += 1;
    }
    assert!(count >= 2, "the operator's guide alone has two");
}

#[test]
fn blocks_are_found_in_pages() {
    let page = "a\n```toml\n[run]\nname = 1\n```\n```toml\n[data]\n```\ncat > x/run.toml <<EOF\n[run]\nEOF\n";
    assert_eq!(run_files(page), ["[run]\nname = 1\n", "[run]\n"]);
}
