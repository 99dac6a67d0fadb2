//! The documentation as a whole: every link leads somewhere, every page can be reached, and every
//! page, source file and test that is named is there.
#![cfg(test)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Component, Path, PathBuf};

/// Folders of the workspace with files of ours.
const FOLDERS: [&str; 10] =
    [".github", "bootstrap", "docs", "fuzz", "learner", "node", "policy", "protocol", "sandbox", "tests"];
/// Names of folders in them that hold what was built or measured.
const LEFT_OUT: [&str; 5] = ["artifacts", "corpus", "coverage", "runs", "target"];
/// Where a reader begins.
const FRONT_PAGE: &str = "docs/README.md";

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Files of ours whose name ends in one of these, as paths from the root of the workspace.
fn files(ends: &[&str]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(PathBuf::from).collect();
    folders.push(PathBuf::new());
    while let Some(folder) = folders.pop() {
        let is_root = folder.as_os_str().is_empty();
        for entry in fs::read_dir(root().join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let (name, kind) = (entry.file_name().into_string().unwrap(), entry.file_type().unwrap());
            if kind.is_dir() && !is_root && !LEFT_OUT.contains(&name.as_str()) {
                folders.push(folder.join(&name));
            } else if kind.is_file() && ends.iter().any(|end| name.ends_with(end)) {
                found.push(folder.join(&name));
            }
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The lines of a page that are not examples between fences.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut within = false;
    page.lines().filter(move |line| {
        let fence = line.trim_start().starts_with("```");
        within ^= fence;
        !within && !fence
    })
}

/// Where the links of a page lead, in its own words. Code is no link, and ends with its
/// paragraph at the latest.
fn links(page: &str) -> Vec<String> {
    let (mut text, mut in_code) = (String::new(), false);
    for line in prose(page) {
        in_code &= !line.trim().is_empty();
        for letter in line.chars() {
            in_code ^= letter == '`';
            text.push(if in_code { '`' } else { letter });
        }
        text.push('\n');
    }
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets
        .map(|(target, _)| target.to_owned())
        .filter(|target| !target.contains(char::is_whitespace))
        .collect()
}

/// What GitHub calls the headings of a page.
fn anchors(page: &str) -> BTreeSet<String> {
    let (mut anchors, mut counts) = (BTreeSet::new(), BTreeMap::<String, usize>::new());
    for line in prose(page).filter(|line| line.starts_with('#')) {
        let name = anchor(line.trim_start_matches('#').trim());
        let count = counts.entry(name.clone()).or_default();
        anchors.insert(if *count == 0 { name } else { format!("{name}-{count}") });
        *count += 1;
    }
    anchors
}

fn anchor(heading: &str) -> String {
    let kept = |letter: &char| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter);
    heading
        .to_lowercase()
        .chars()
        .filter(kept)
        .map(|letter| if letter == ' ' { '-' } else { letter })
        .collect()
}

/// `path` as seen from `page`, from the root of the workspace; `None` where that leads out of it.
fn resolve(page: &Path, path: &str) -> Option<PathBuf> {
    let mut parts = Vec::new();
    for part in page.parent()?.join(path).components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => drop(parts.pop()?),
            part => parts.push(part.as_os_str().to_owned()),
        }
    }
    Some(parts.into_iter().collect())
}

/// The links of a page that stay in the workspace: the file, the anchor, and the link as it is written.
fn inner_links(page: &Path) -> Vec<(Option<PathBuf>, String, String)> {
    let outer = |link: &String| link.contains("://") || link.starts_with("mailto:");
    let links = links(&read(page)).into_iter().filter(|link| !outer(link));
    links
        .map(|link| {
            let (path, anchor) = link.split_once('#').unwrap_or((link.as_str(), ""));
            let file = if path.is_empty() { Some(page.to_owned()) } else { resolve(page, path) };
            (file, anchor.to_owned(), link)
        })
        .collect()
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

#[test]
fn every_link_leads_to_a_file_and_every_anchor_to_a_heading() {
    let mut broken = Vec::new();
    for page in files(&[".md"]) {
        for (file, anchor, link) in inner_links(&page) {
            let place = file.filter(|file| root().join(file).exists());
            let whole = anchor.is_empty();
            let found =
                place.is_some_and(|file| whole || !is_page(&file) || anchors(&read(&file)).contains(&anchor));
            if !found {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "these links lead nowhere:\n{}", broken.join("\n"));
}

#[test]
fn every_page_can_be_reached_from_the_front_page() {
    let mut reached = BTreeSet::new();
    let mut next = vec![PathBuf::from(FRONT_PAGE)];
    while let Some(page) = next.pop() {
        if is_page(&page) && reached.insert(page.clone()) {
            next.extend(inner_links(&page).into_iter().filter_map(|(file, ..)| file));
        }
    }
    let pages = files(&[".md"]).into_iter().filter(|page| page.starts_with("docs"));
    let lost: Vec<PathBuf> = pages.filter(|page| !reached.contains(page)).collect();
    assert!(lost.is_empty(), "no link leads from {FRONT_PAGE} to {lost:?}");
}

#[test]
fn every_page_that_is_named_is_there() {
    let mut missing = Vec::new();
    for file in files(&[".md", ".rs", ".sh", ".toml", ".wat", ".yml"]) {
        let text = read(&file);
        for rest in text.split("docs/").skip(1) {
            let end = rest.find(|letter: char| !letter.is_ascii_alphanumeric() && !"/_.-".contains(letter));
            let name = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
            if name.ends_with(".md") && !root().join("docs").join(name).exists() {
                missing.push(format!("{}: docs/{name}", file.display()));
            }
        }
    }
    assert!(missing.is_empty(), "these pages are named and not there:\n{}", missing.join("\n"));
}

/// The code in the prose of our pages, with the page.
fn named_in_code() -> Vec<(PathBuf, String)> {
    let mut named = Vec::new();
    for page in files(&[".md"]).into_iter().filter(|page| !is_measured(page)) {
        let text = read(&page);
        for paragraph in prose(&text).collect::<Vec<_>>().join("\n").split("\n\n") {
            named.extend(paragraph.split('`').skip(1).step_by(2).map(|code| (page.clone(), code.to_owned())));
        }
    }
    named
}

#[test]
fn every_source_file_that_a_page_names_is_there() {
    let mut missing = Vec::new();
    for (page, code) in named_in_code() {
        let Some((folder, rest)) = code.split_once('/').filter(|(folder, _)| FOLDERS.contains(folder)) else {
            continue;
        };
        let is_path = rest.chars().all(|letter| letter.is_ascii_alphanumeric() || "/_.-".contains(letter));
        let is_source = [".rs", ".toml", ".wat"].iter().any(|end| rest.ends_with(end));
        // Pages leave `src/` out, and those of a crate its folder as well.
        let of_crate = page.parent().unwrap_or(&page).join("src").join(&code);
        let places = [root().join(&code), root().join(folder).join("src").join(rest), root().join(of_crate)];
        if is_path && is_source && !places.iter().any(|place| place.exists()) {
            missing.push(format!("{}: {code}", page.display()));
        }
    }
    assert!(missing.is_empty(), "these files are named and not there:\n{}", missing.join("\n"));
}

#[test]
fn every_test_that_a_page_names_is_there() {
    let is_word = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let mut words = BTreeSet::new();
    for file in files(&[".rs"]) {
        words.extend(read(&file).split(|letter| !is_word(letter)).filter(is_sentence).map(str::to_owned));
    }
    let mut missing = Vec::new();
    for (page, code) in named_in_code() {
        let is_name = code.chars().all(|letter| is_word(letter) && !letter.is_ascii_uppercase());
        // That page has the settings of other trainers, some of which are as long as a test's name.
        let is_ours = !page.ends_with("docs/guides/from-trl.md");
        if is_ours && is_name && is_sentence(&code.as_str()) && !words.contains(&code) {
            missing.push(format!("{}: {code}", page.display()));
        }
    }
    assert!(missing.is_empty(), "these tests are named and not there:\n{}", missing.join("\n"));
}

/// Whether a page says what was measured, perhaps on an older tree.
fn is_measured(page: &Path) -> bool {
    page.to_string_lossy().starts_with("docs/results")
}

/// Whether a name has as many words as those of our tests.
fn is_sentence(name: &&str) -> bool {
    name.matches('_').count() >= 4
}

#[test]
fn anchors_are_those_of_github() {
    let page = "# One: `two`\n## Hold'em's reward\n## One: two\n```\n# no heading\n```\n### κ, and `a_b`\n";
    let expected = ["one-two", "holdems-reward", "one-two-1", "κ-and-a_b"];
    assert_eq!(anchors(page), BTreeSet::from(expected.map(str::to_owned)));
    assert_eq!(links("[a](b.md#c) `[d](e)`\n```\n[f](g)\n```\n[h\ni](j)"), ["b.md#c", "j"]);
}
