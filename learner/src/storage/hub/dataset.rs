//! Which files of a data set are meant: by the splits of its card, else by the Hub's conventions.

use super::error::{HubError, io_error};
use super::listing::{ListedFile, Listing, Repository};
use super::name::HubName;
use super::pin::Pin;
use echo_sandbox::task::files::MAX_TASK_FILE_BYTES;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;

/// What rows can be read of.
const FORMS: [&str; 3] = [".parquet", ".jsonl", ".json"];
/// The configuration of a data set that has but one.
const DEFAULT: &str = "default";
/// Words that a split's files or folders are called by, as `datasets` knows them.
const SPLITS: [&str; 9] =
    ["train", "training", "test", "testing", "validation", "valid", "val", "dev", "eval"];
/// Folders whose name says nothing.
const PLAIN_FOLDERS: [&str; 1] = ["data"];
/// Names that are shown where one was wrong.
const MAX_SHOWN: usize = 24;
/// Bytes of a pattern of a card. Looking at a path takes a step for each of them and each of the path's.
const MAX_PATTERN_BYTES: usize = 512;

/// Configuration and split, and the files of the split in their order.
type Splits = BTreeMap<(String, String), Vec<ListedFile>>;

/// The files that `name` means. More than a task can be made of are not even got.
pub(super) fn chosen(name: &HubName, listing: &Listing) -> Result<Vec<ListedFile>, HubError> {
    let files = named(name, listing)?;
    // A listing may state any sizes.
    let bytes = files.iter().fold(0_u64, |bytes, file| bytes.saturating_add(file.size));
    if bytes > MAX_TASK_FILE_BYTES {
        let [most, bytes] = [MAX_TASK_FILE_BYTES, bytes].map(|bytes| bytes >> 20);
        let why = format!("it has {bytes} MiB, and a task's file may have {most}: name one of its files");
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).take(MAX_SHOWN).collect();
        return Err(HubError::Part { name: name.to_string(), why, there: paths.join(", ") });
    }
    Ok(files)
}

fn named(name: &HubName, listing: &Listing) -> Result<Vec<ListedFile>, HubError> {
    let splits = splits(listing);
    let wrong = |why: &str| HubError::Part {
        name: name.to_string(),
        why: why.to_owned(),
        there: shown(&splits, listing),
    };
    let Some(part) = &name.part else {
        return match splits.values().next() {
            Some(files) if splits.len() == 1 => Ok(files.clone()),
            Some(_) => Err(wrong("it has several splits: name one of them after a colon")),
            None => Err(wrong("it has no file of rows that can be read")),
        };
    };
    if let Some(file) = listing.file(part) {
        return Ok(vec![file.clone()]);
    }
    let of = |config: &str, split: &str| splits.get(&(config.to_owned(), split.to_owned())).cloned();
    let found = match part.rsplit_once('/') {
        Some((config, split)) => of(config, split),
        None => of(DEFAULT, part).or_else(|| alone(&splits, |key| key.1 == *part)),
    };
    // A configuration's name alone, where it has one split.
    let found = found.or_else(|| alone(&splits, |key| key.0 == *part));
    found.ok_or_else(|| wrong("it has no such split or file"))
}

/// The files of the only split that is meant.
fn alone(splits: &Splits, is_meant: impl Fn(&(String, String)) -> bool) -> Option<Vec<ListedFile>> {
    let mut meant = splits.iter().filter(|(key, _)| is_meant(key));
    let (_, files) = meant.next()?;
    meant.next().is_none().then(|| files.clone())
}

/// What may be named, in words.
fn shown(splits: &Splits, listing: &Listing) -> String {
    let mut names: Vec<String> = splits
        .keys()
        .map(|(config, split)| if config == DEFAULT { split.clone() } else { format!("{config}/{split}") })
        .collect();
    if names.is_empty() {
        names = listing.files.iter().map(|file| file.path.clone()).collect();
    }
    // A card may call them anything.
    names.iter_mut().for_each(|name| name.retain(|c| !c.is_control()));
    let more = names.len().saturating_sub(MAX_SHOWN);
    names.truncate(MAX_SHOWN);
    match (names.is_empty(), more) {
        (true, _) => "no files in it".to_owned(),
        (_, 0) => names.join(", "),
        _ => format!("{} and {more} more", names.join(", ")),
    }
}

fn is_readable(file: &&ListedFile) -> bool {
    // What `save_to_disk` and the Hub itself keep beside rows.
    let is_description = ["dataset_infos.json", "dataset_dict.json", "dataset_info.json", "state.json"]
        .contains(&file.path.rsplit('/').next().unwrap_or_default());
    FORMS.iter().any(|form| file.path.ends_with(form)) && !is_description
}

/// All splits: of the card, if it names any whose files can be read.
fn splits(listing: &Listing) -> Splits {
    let readable: Vec<&ListedFile> = listing.files.iter().filter(is_readable).collect();
    let mut found = Splits::new();
    for config in &listing.configs {
        for (split, patterns) in &config.splits {
            let is_meant = |path: &str| patterns.iter().any(|pattern| matches(pattern, path));
            let files = readable.iter().filter(|file| is_meant(&file.path));
            let files: Vec<ListedFile> = files.map(|file| (*file).clone()).collect();
            if !files.is_empty() {
                found.insert((config.name.clone(), split.clone()), files);
            }
        }
    }
    if found.is_empty() {
        for file in readable {
            found.entry(by_convention(&file.path)).or_default().push(file.clone());
        }
    }
    found
}

/// Configuration and split of `CONFIG/SPLIT-00000-of-00002.parquet`, `data/SPLIT.jsonl`,
/// `CONFIG/SPLIT/0.parquet` and the like. A file that names no split is training data.
fn by_convention(path: &str) -> (String, String) {
    let (folders, name) = path.rsplit_once('/').unwrap_or(("", path));
    let stem = name.rsplit_once('.').map_or(name, |(stem, _)| stem);
    let mut folders: Vec<&str> = folders.split('/').filter(|folder| !folder.is_empty()).collect();
    let split = match split_of(stem) {
        Some(split) => Some(split),
        None => folders.pop_if(|folder| split_of(folder).is_some()).map(str::to_owned),
    };
    let config: Vec<&str> = folders.into_iter().filter(|folder| !PLAIN_FOLDERS.contains(folder)).collect();
    let config = if config.is_empty() { DEFAULT.to_owned() } else { config.join("/") };
    (config, split.unwrap_or_else(|| "train".to_owned()))
}

/// The split in a file's name: what comes before the numbers of shards, or a word that all know.
fn split_of(stem: &str) -> Option<String> {
    let mut parts = stem.rsplitn(4, '-');
    if let (Some(of), Some("of"), Some(at), Some(split)) =
        (parts.next(), parts.next(), parts.next(), parts.next())
        && [of, at].iter().all(|number| !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit()))
    {
        return Some(split.to_owned());
    }
    let lower = stem.to_ascii_lowercase();
    let mut words = lower.split(|c: char| !c.is_ascii_alphanumeric());
    words.find(|word| SPLITS.contains(word)).map(str::to_owned)
}

/// Whether a card's pattern means a path: `**` any folders, `*` and `?` within one, and a folder all in it.
fn matches(pattern: &str, path: &str) -> bool {
    let pattern = pattern.strip_prefix("./").unwrap_or(pattern);
    let is_within = path.strip_prefix(pattern).is_some_and(|rest| rest.starts_with('/'));
    is_within || (pattern.len() <= MAX_PATTERN_BYTES && is_match(pattern.as_bytes(), path.as_bytes()))
}

/// A part of a pattern.
#[derive(Clone, Copy)]
enum Part {
    /// `**`, and the slash behind it.
    Any,
    /// `*`
    Within,
    /// `?`
    One,
    Byte(u8),
}

fn parts(pattern: &[u8]) -> Vec<Part> {
    let (mut parts, mut rest) = (Vec::new(), pattern);
    while let Some((first, after)) = rest.split_first() {
        let (part, behind) = match (first, after) {
            (b'*', [b'*', after @ ..]) => (Part::Any, after.strip_prefix(b"/").unwrap_or(after)),
            (b'*', _) => (Part::Within, after),
            (b'?', _) => (Part::One, after),
            (byte, _) => (Part::Byte(*byte), after),
        };
        parts.push(part);
        rest = behind;
    }
    parts
}

/// From the end: whether what is left of the pattern means what is left of the path, from each place on. So
/// no pattern takes longer than the product of both lengths, whoever wrote it.
fn is_match(pattern: &[u8], path: &[u8]) -> bool {
    let mut behind = vec![false; path.len() + 1];
    behind[path.len()] = true;
    for part in parts(pattern).into_iter().rev() {
        let mut here = vec![false; path.len() + 1];
        for at in (0..=path.len()).rev() {
            let next = path.get(at).copied();
            here[at] = match (part, next) {
                (Part::Any, Some(_)) => behind[at] || here[at + 1],
                (Part::Within, Some(byte)) => behind[at] || (byte != b'/' && here[at + 1]),
                (Part::Any | Part::Within, None) => behind[at],
                (Part::One, Some(byte)) => byte != b'/' && behind[at + 1],
                (Part::Byte(wanted), Some(byte)) => byte == wanted && behind[at + 1],
                (Part::One | Part::Byte(_), None) => false,
            };
        }
        behind = here;
    }
    behind[0]
}

/// The one file that a pin's files come to: itself, or the rows of all of them as JSON lines.
pub(super) fn joined(
    repository: &Repository,
    pin: Pin,
    lines: impl Fn(Vec<u8>) -> Result<Vec<u8>, String>,
) -> Result<Pin, HubError> {
    if let [only] = pin.files.as_slice() {
        let local = pin.local.join(&only.path);
        return Ok(Pin { local, ..pin });
    }
    let parent = repository.derived(&pin.commit);
    fs::create_dir_all(&parent).map_err(io_error(&parent))?;
    // By what is in it: two splits never share a file.
    let contents: String = pin.files.iter().map(|file| file.sha256.as_str()).collect();
    let local = parent.join(format!("{}.jsonl", blake3::hash(contents.as_bytes()).to_hex()));
    if !local.exists() {
        let failed = || io_error(&local);
        let mut draft = tempfile::NamedTempFile::new_in(&parent).map_err(failed())?;
        let mut written = 0;
        for file in &pin.files {
            let path = pin.local.join(&file.path);
            let bytes = fs::read(&path).map_err(io_error(&path))?;
            let rows = lines(bytes).map_err(|why| HubError::Rows {
                name: pin.name.clone(),
                file: file.path.clone(),
                why,
            })?;
            // Small files of columns may unpack to a great many rows.
            written += rows.len() as u64;
            if written > MAX_TASK_FILE_BYTES {
                let most = MAX_TASK_FILE_BYTES >> 20;
                let why = format!(
                    "as JSON lines it has more than the {most} MiB of a task's file: name one of its files"
                );
                let paths: Vec<&str> =
                    pin.files.iter().map(|file| file.path.as_str()).take(MAX_SHOWN).collect();
                return Err(HubError::Part { name: pin.name.clone(), why, there: paths.join(", ") });
            }
            draft.write_all(&rows).map_err(failed())?;
            if !rows.ends_with(b"\n") {
                draft.write_all(b"\n").map_err(failed())?;
            }
        }
        draft.as_file().sync_all().map_err(failed())?;
        draft.persist(&local).map_err(|error| failed()(error.error))?;
    }
    Ok(Pin { local, ..pin })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::hub::listing::CardConfig;

    fn listing(paths: &[&str], configs: Vec<CardConfig>) -> Listing {
        let file = |path: &&str| ListedFile {
            path: (*path).to_owned(),
            size: 1,
            blob: "0".repeat(40),
            sha256: None,
        };
        Listing { commit: "0".repeat(40), files: paths.iter().map(file).collect(), configs, license: None }
    }

    fn paths(name: &str, listing: &Listing) -> Result<Vec<String>, String> {
        let files = chosen(&name.parse().unwrap(), listing).map_err(|error| error.to_string())?;
        Ok(files.into_iter().map(|file| file.path).collect())
    }

    #[test]
    fn splits_are_found_by_the_conventions_of_the_hub() {
        for (path, config, split) in [
            ("main/train-00000-of-00001.parquet", "main", "train"),
            ("data/test-00000-of-00002.parquet", "default", "test"),
            ("data/deduplicated-00000-of-00001.parquet", "default", "deduplicated"),
            ("test.jsonl", "default", "test"),
            ("rows.jsonl", "default", "train"),
            ("algebra/test/0001.json", "algebra", "test"),
            ("sanitized-mbpp.json", "default", "train"),
            ("hard/my_dev_set.jsonl", "hard", "dev"),
        ] {
            assert_eq!(by_convention(path), (config.to_owned(), split.to_owned()), "{path}");
        }
    }

    #[test]
    fn a_card_says_which_files_a_split_has() {
        let config = |name: &str, split: &str, pattern: &str| CardConfig {
            name: name.to_owned(),
            splits: vec![(split.to_owned(), vec![pattern.to_owned()])],
        };
        let files = ["README.md", "a/one.jsonl", "a/two.jsonl", "b/deep/three.jsonl", "c.csv"];
        let configs = vec![
            config("first", "train", "a/*.jsonl"),
            config("second", "test", "b/**"),
            config("third", "x", "c.csv"),
        ];
        let listing = listing(&files, configs);
        assert_eq!(paths("hf:o/d:first/train", &listing).unwrap(), ["a/one.jsonl", "a/two.jsonl"]);
        assert_eq!(paths("hf:o/d:second", &listing).unwrap(), ["b/deep/three.jsonl"]);
        assert_eq!(paths("hf:o/d:test", &listing).unwrap(), ["b/deep/three.jsonl"]);
        assert_eq!(paths("hf:o/d:c.csv", &listing).unwrap(), ["c.csv"]);
        for wrong in ["hf:o/d", "hf:o/d:third/x", "hf:o/d:first/test"] {
            let refused = paths(wrong, &listing).unwrap_err();
            assert!(refused.contains("there are first/train, second/test"), "{refused}");
        }
    }

    #[test]
    fn a_data_set_with_one_split_needs_no_name_for_it() {
        let one = listing(&["data/test-00000-of-00001.parquet", "dataset_infos.json"], Vec::new());
        assert_eq!(paths("hf:o/d", &one).unwrap(), ["data/test-00000-of-00001.parquet"]);
        assert_eq!(paths("hf:o/d:test", &one).unwrap().len(), 1);
        let refused = paths("hf:o/d:train", &one).unwrap_err();
        assert!(refused.contains("no such split") && refused.contains("there are test"), "{refused}");
        assert!(paths("hf:o/d", &listing(&["a.csv"], Vec::new())).unwrap_err().contains("a.csv"));
    }

    #[test]
    fn sizes_that_no_file_has_are_refused() {
        let mut listing = listing(&["a.jsonl", "b.jsonl"], Vec::new());
        listing.files.iter_mut().for_each(|file| file.size = u64::MAX / 2 + 1);
        let refused = paths("hf:o/d", &listing).unwrap_err();
        assert!(refused.contains("MiB"), "{refused}");
    }

    #[test]
    fn patterns_end_even_where_they_are_hostile() {
        assert!(matches("data/**/x-*.jsonl", "data/a/b/x-1.jsonl"));
        assert!(matches("**/x.jsonl", "x.jsonl") && matches("a?.jsonl", "ab.jsonl"));
        assert!(!matches("*.jsonl", "a/b.jsonl") && !matches("a?b", "a/b"));
        assert!(matches("folder", "folder/x") && !matches("folder", "folders/x"));
        let stars = "*a".repeat(40);
        assert!(matches(&stars, &"a".repeat(200)) && !matches(&(stars + "b"), &"a".repeat(200)));
        assert!(!matches("*a*a*a*a*a*a/", &"a".repeat(1_000)));
        assert!(!matches(&"a".repeat(MAX_PATTERN_BYTES + 1), &"a".repeat(MAX_PATTERN_BYTES + 1)));
        assert!(matches("a/**", "a/b/c") && matches("**", "a/b") && matches("*", "") && !matches("?", ""));
    }
}
