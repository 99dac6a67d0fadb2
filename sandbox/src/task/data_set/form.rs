//! From the forms in which people have rows to JSON lines, and words for what is no such form.

use serde_json::Value;

use super::fields::described;
use super::{DataError, MAX_ROWS, parquet};
use crate::task::files::MAX_TASK_FILE_BYTES;

/// UTF-8's byte-order mark, which some editors write.
const MARK: &[u8] = b"\xef\xbb\xbf";

/// How a row looks, for whoever has something else.
const A_ROW: &str = "a row is one object a line, such as {\"question\": \"…\", \"answer\": \"…\"}";

/// Beginnings of files that hold no text, what they are, and what to do.
const OTHER_FILES: [(&[u8], &str); 9] = [
    (b"\x1f\x8b", "it is compressed by gzip: unpack it (`gunzip FILE`)"),
    (b"\x28\xb5\x2f\xfd", "it is compressed by zstd: unpack it (`unzstd FILE`)"),
    (b"\xfd7zXZ", "it is compressed by xz: unpack it (`unxz FILE`)"),
    (b"BZh", "it is compressed by bzip2: unpack it (`bunzip2 FILE`)"),
    (b"PK\x03\x04", "it is a zip archive: unpack it, and name the file with the rows"),
    (b"ARROW1", "it is an Arrow file: write its rows as Parquet or JSON lines"),
    (b"\xff\xfe", "it is UTF-16: save it as UTF-8"),
    (b"\xfe\xff", "it is UTF-16: save it as UTF-8"),
    (
        b"version https://git-lfs",
        "it is a pointer of Git LFS, and not the file itself: fetch that with `git lfs pull`",
    ),
];

/// The rows of a file as JSON lines: one object a line. JSON lines stay as they are. A JSON array, an
/// object that holds one, and Parquet, which is known by its content, become JSON lines; then row N
/// stands in line N.
///
/// # Errors
/// [`DataError::Form`] when it is none of them, in words that say what it is; when it is damaged, or
/// has more rows than [`MAX_ROWS`] or more than [`MAX_TASK_FILE_BYTES`] as JSON lines.
pub fn as_lines(mut bytes: Vec<u8>) -> Result<Vec<u8>, DataError> {
    if bytes.starts_with(parquet::MAGIC) {
        return parquet::as_lines(bytes);
    }
    if let Some((_, words)) = OTHER_FILES.iter().find(|(start, _)| bytes.starts_with(start)) {
        return Err(DataError::Form((*words).to_owned()));
    }
    if bytes.starts_with(MARK) {
        bytes.drain(..MARK.len());
    }
    let text = bytes.trim_ascii_start();
    let first_line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
    match text.first() {
        Some(b'[') => of_array(whole(text)?),
        Some(b'<') => Err(DataError::Form(format!("it is a web page or XML, and no rows: {A_ROW}"))),
        // An object over several lines; whether it is one, only the whole says.
        Some(b'{') if serde_json::from_slice::<Value>(first_line).is_err() => match whole(text) {
            Ok(value) => of_object(value),
            Err(_) => Ok(bytes),
        },
        _ => Ok(bytes),
    }
}

fn whole(text: &[u8]) -> Result<Value, DataError> {
    serde_json::from_slice(text).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        let words = format!("it begins as a JSON array, and is none ({} in {place})", cause(&error));
        DataError::Form(format!("{words}: correct that place, or write one object a line"))
    })
}

fn of_array(value: Value) -> Result<Vec<u8>, DataError> {
    let Value::Array(rows) = value else {
        return Err(DataError::Form(format!("it is {}: {A_ROW}", described(&value))));
    };
    if let Some((at, other)) = rows.iter().enumerate().find(|(_, row)| !row.is_object()) {
        return Err(DataError::Form(format!("row {} of its array is {}: {A_ROW}", at + 1, described(other))));
    }
    let mut lines = Lines::default();
    rows.iter().try_for_each(|row| lines.push(row))?;
    Ok(lines.bytes)
}

/// An object over several lines is a row, or holds the rows under one of its keys.
fn of_object(value: Value) -> Result<Vec<u8>, DataError> {
    let lists = |value: &Value| matches!(value, Value::Array(rows) if !rows.is_empty() && rows.iter().all(Value::is_object));
    let entries = value.as_object().into_iter().flatten();
    let holds: Vec<String> = entries.filter(|(_, v)| lists(v)).map(|(key, _)| key.clone()).collect();
    match holds.as_slice() {
        // A row may hold messages.
        [key] if !["prompt", "messages", "tests"].contains(&key.as_str()) => {
            of_array(value[key.as_str()].clone())
        }
        [_] | [] => of_array(Value::Array(vec![value])),
        several => {
            let keys: Vec<String> = several.iter().map(|key| format!("`{key}`")).collect();
            Err(DataError::Form(format!(
                "it is one object with several lists of rows ({}): write the one that is meant as JSON lines",
                keys.join(", ")
            )))
        }
    }
}

/// JSON lines that are being made, within the bounds of a task's file.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) bytes: Vec<u8>,
    rows: usize,
}

impl Lines {
    /// Whether no row was added yet.
    pub(super) fn is_empty(&self) -> bool {
        self.rows == 0
    }

    /// Adds a row.
    pub(super) fn push(&mut self, row: &Value) -> Result<(), DataError> {
        if self.rows == MAX_ROWS {
            return Err(DataError::TooManyRows);
        }
        self.rows += 1;
        serde_json::to_writer(&mut self.bytes, row)
            .map_err(|error| DataError::Form(format!("row {} cannot be written: {error}", self.rows)))?;
        self.bytes.push(b'\n');
        if self.bytes.len() as u64 > MAX_TASK_FILE_BYTES {
            return Err(DataError::Form(format!(
                "as JSON lines, its first {} rows have more than {MAX_TASK_FILE_BYTES} bytes: give a part of it, or \
                 only the keys that the task reads",
                self.rows
            )));
        }
        Ok(())
    }
}

/// The bytes without a byte-order mark.
pub(super) fn without_mark(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(MARK).unwrap_or(bytes)
}

/// What is wrong with a line that is no row, and what to do.
pub(super) fn not_a_row(line: &[u8], error: &serde_json::Error) -> String {
    let line = line.trim_ascii();
    match serde_json::from_slice::<Value>(line) {
        Ok(value @ (Value::Object(_) | Value::Number(_))) => {
            format!("it is {} with other content than a row has ({})", described(&value), cause(error))
        }
        Ok(other) => format!("it is {}: {A_ROW}", described(&other)),
        Err(error) => {
            let whole = |line: &[u8]| serde_json::from_slice::<Value>(line).is_ok();
            let mend = if line.strip_suffix(b",").is_some_and(whole) {
                "a comma stands behind the object: remove it"
            } else if line.windows(3).any(|word| word == b"NaN")
                || line.windows(8).any(|word| word == b"Infinity")
            {
                "NaN and Infinity are no JSON: write null, or leave the key out"
            } else if line.starts_with(b"{'") {
                "it has single quotes, as Python prints: write it with json.dumps"
            } else if line.starts_with(b"{") {
                "write each object in one line, as `jq -c . FILE` does"
            } else {
                A_ROW
            };
            format!("it is not JSON ({} in column {}): {mend}", cause(&error), error.column())
        }
    }
}

/// What serde says without the place, which is that of a line.
fn cause(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.rsplit_once(" at line ").map_or(text.as_str(), |(what, _)| what).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> String {
        String::from_utf8(as_lines(text.as_bytes().to_vec()).unwrap()).unwrap()
    }

    fn refused(bytes: &[u8]) -> String {
        as_lines(bytes.to_vec()).unwrap_err().to_string()
    }

    #[test]
    fn json_lines_stay_as_they_are_but_for_a_mark() {
        assert_eq!(lines("{\"a\": 1}\r\n\n{\"a\": 2}"), "{\"a\": 1}\r\n\n{\"a\": 2}");
        assert_eq!(lines("\u{feff}{\"a\": 1}\n"), "{\"a\": 1}\n");
        assert_eq!(lines("not json"), "not json", "the task names the row");
    }

    #[test]
    fn arrays_and_objects_that_hold_one_become_lines() {
        assert_eq!(lines("\u{feff}[{\"b\": 1, \"a\": 2},\n {\"b\": 3}]"), "{\"b\":1,\"a\":2}\n{\"b\":3}\n");
        assert_eq!(
            lines("{\n \"version\": 1,\n \"data\": [{\"a\": 1}, {\"a\": 2}]\n}"),
            "{\"a\":1}\n{\"a\":2}\n"
        );
        assert_eq!(
            lines("{\n \"question\": \"?\",\n \"answer\": \"1\"\n}"),
            "{\"question\":\"?\",\"answer\":\"1\"}\n"
        );
        assert_eq!(lines("{\n\"prompt\": [{\"role\": \"user\"}]}"), "{\"prompt\":[{\"role\":\"user\"}]}\n");
        assert!(refused(b"[{\"a\": 1}, 2]").contains("row 2 of its array is the number 2"));
        assert!(refused(b"[{\"a\": 1},\n{\"a\"").contains("line 2"), "{}", refused(b"[{\"a\": 1},\n{\"a\""));
        assert!(refused(b"{\n\"train\": [{}], \"test\": [{}]}").contains("`train`, `test`"));
    }

    #[test]
    fn what_is_no_text_is_named() {
        for (bytes, words) in [
            (b"\x1f\x8b\x08rest".as_slice(), "gunzip"),
            (b"\xff\xfe{\0".as_slice(), "UTF-8"),
            (b"version https://git-lfs.github.com/spec/v1\noid".as_slice(), "git lfs pull"),
            (b"<!DOCTYPE html>".as_slice(), "web page"),
            (b"PAR1 and nothing else".as_slice(), "Parquet"),
        ] {
            assert!(refused(bytes).contains(words), "{}", refused(bytes));
        }
    }

    #[test]
    fn lines_that_are_no_json_come_with_the_mend() {
        let words = |line: &str| {
            let error = serde_json::from_str::<serde_json::Map<String, Value>>(line).unwrap_err();
            not_a_row(line.as_bytes(), &error)
        };
        for (line, mend) in [
            ("{\"a\": 1},", "remove it"),
            ("{\"a\": NaN}", "write null"),
            ("{'a': 1}", "json.dumps"),
            ("{", "jq -c"),
            ("question,answer", "a row is one object"),
            ("[1, 2]", "it is a list of 2"),
        ] {
            assert!(words(line).contains(mend), "{line}: {}", words(line));
        }
    }
}
