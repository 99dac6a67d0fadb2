//! Token vectors: JSON lines that say which ids a text has and what a conversation renders to.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};

use super::{MAX_REPORTED_FAILURES, VectorReport};
use crate::text::tokenizer::{Tokenizer, TokenizerError};

/// Bytes of one line; a longer one is a failure, and what follows it is still read.
pub const MAX_LINE_BYTES: u64 = 16 << 20;
/// Lines of one file; the rest is one failure.
pub const MAX_LINES: usize = 1_000_000;
/// Characters of a text that a failure shows.
const SHOWN_CHARACTERS: usize = 80;

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Row {
    Encode {
        text: String,
        ids: Vec<u32>,
        decoded: String,
    },
    Chat {
        messages: Value,
        #[serde(default)]
        kwargs: Map<String, Value>,
        text: String,
        ids: Vec<u32>,
    },
}

/// Checks every row of `file` against the tokenizer of `tokenizer_dir`, by default the file's own directory.
///
/// A row of kind `encode` passes when the text has exactly these ids and the ids, special
/// tokens included, decode to exactly `decoded`; one of kind `chat` when the messages render to
/// exactly `text` and that has exactly these ids. Rows of other kinds are skipped. `worst` is
/// the share of failed rows.
///
/// # Errors
/// When the file cannot be read or the tokenizer cannot be opened.
pub fn check_file(file: &Path, tokenizer_dir: Option<&Path>) -> Result<VectorReport, TokenizerError> {
    let tokenizer = Tokenizer::from_dir(tokenizer_dir.or(file.parent()).unwrap_or(Path::new(".")))?;
    let failed = |source| TokenizerError::File { path: file.to_owned(), source };
    let mut reader = BufReader::new(std::fs::File::open(file).map_err(failed)?);
    let mut report = VectorReport::default();
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        let read = reader.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line).map_err(failed)?;
        if read == 0 {
            break;
        }
        if number > MAX_LINES {
            report.fail(format!("line {number}: the file has more than {MAX_LINES} lines"));
            break;
        }
        if read as u64 == MAX_LINE_BYTES && line.last() != Some(&b'\n') {
            report.fail(format!("line {number}: longer than {MAX_LINE_BYTES} bytes"));
            reader.skip_until(b'\n').map_err(failed)?;
        } else if !line.trim_ascii().is_empty() {
            check_line(&tokenizer, &line, number, &mut report);
        }
    }
    if report.cases > 0 {
        report.worst = report.failed as f64 / report.cases as f64;
    }
    Ok(report)
}

fn check_line(tokenizer: &Tokenizer, line: &[u8], number: usize, report: &mut VectorReport) {
    let row: Value = match serde_json::from_slice(line) {
        Ok(row) => row,
        Err(error) => return report.fail(format!("line {number}: not JSON: {error}")),
    };
    match row.get("kind").and_then(Value::as_str) {
        Some("encode" | "chat") => {}
        Some(other) => {
            report.skip();
            if report.failures.len() < MAX_REPORTED_FAILURES {
                report.failures.push(format!("line {number}: skipped: unknown kind {:?}", shown(other)));
            }
            return;
        }
        None => return report.fail(format!("line {number}: no `kind`")),
    }
    let outcome = match Row::deserialize(row) {
        Ok(row) => check_row(tokenizer, &row),
        Err(error) => Err(format!("malformed row: {error}")),
    };
    match outcome {
        Ok(()) => report.pass(),
        Err(text) => report.fail(format!("line {number}: {text}")),
    }
}

fn check_row(tokenizer: &Tokenizer, row: &Row) -> Result<(), String> {
    match row {
        Row::Encode { text, ids, decoded } => {
            same_ids(tokenizer, text, ids)?;
            let got = tokenizer.decode(ids, false).map_err(|error| error.to_string())?;
            same_text("decoded text", &got, decoded)
        }
        Row::Chat { messages, kwargs, text, ids } => {
            let template = tokenizer.chat_template().map_err(|error| error.to_string())?;
            let template = template.ok_or("the tokenizer has no chat template")?;
            let got = template.render(messages, kwargs).map_err(|error| error.to_string())?;
            same_text("rendered chat", &got, text)?;
            same_ids(tokenizer, &got, ids)
        }
    }
}

fn same_ids(tokenizer: &Tokenizer, text: &str, want: &[u32]) -> Result<(), String> {
    let got = tokenizer.encode(text).map_err(|error| error.to_string())?;
    if got == want {
        return Ok(());
    }
    let at = got.iter().zip(want).take_while(|(a, b)| a == b).count();
    let text = shown(text);
    Err(format!("{text:?}: ids differ at {at}: got {:?}, want {:?}", got.get(at), want.get(at)))
}

fn same_text(what: &str, got: &str, want: &str) -> Result<(), String> {
    if got == want {
        return Ok(());
    }
    let at: usize =
        got.chars().zip(want.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
    Err(format!("{what} differs at byte {at}: got {:?}, want {:?}", shown(&got[at..]), shown(&want[at..])))
}

/// The start of a text, short enough for a report.
fn shown(text: &str) -> &str {
    text.char_indices().nth(SHOWN_CHARACTERS).map_or(text, |(end, _)| &text[..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::tokenizer::CharTokenizer;

    const TEMPLATE: &str = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n\n{% endfor %}";

    fn check(lines: &[u8]) -> VectorReport {
        let dir = tempfile::tempdir().unwrap();
        CharTokenizer::default().save_huggingface(dir.path()).unwrap();
        std::fs::write(dir.path().join("chat_template.jinja"), TEMPLATE).unwrap();
        let file = dir.path().join("vectors.jsonl");
        std::fs::write(&file, lines).unwrap();
        check_file(&file, None).unwrap()
    }

    #[test]
    fn right_rows_pass() {
        let report = check(
            br#"{"kind": "encode", "text": "1<eos>", "ids": [4, 2], "decoded": "1<eos>"}

{"kind": "chat", "messages": [{"role": "a", "content": "0"}], "kwargs": {}, "text": "a: 0\n\n", "ids": [13, 48, 39, 3, 54, 54]}"#,
        );
        assert_eq!((report.cases, report.passed, report.worst), (2, 2, 0.0), "{:?}", report.failures);
    }

    #[test]
    fn every_kind_of_wrong_row_is_counted_with_its_line() {
        let report = check(
            b"{\"kind\": \"encode\", \"text\": \"1\", \"ids\": [5], \"decoded\": \"1\"}\n\
              {\"kind\": \"encode\", \"text\": \"1\", \"ids\": [4], \"decoded\": \"2\"}\n\
              {\"kind\": \"chat\", \"messages\": [], \"text\": \"x\", \"ids\": []}\n\
              {\"kind\": \"encode\", \"text\": \"1\"}\n\
              not JSON \xff\n\
              {\"text\": \"1\"}\n\
              {\"kind\": \"future\"}\n",
        );
        assert_eq!((report.cases, report.passed, report.failed, report.skipped), (7, 0, 6, 1));
        assert_eq!(report.worst, 6.0 / 7.0);
        for (index, text) in report.failures.iter().enumerate() {
            assert!(text.starts_with(&format!("line {}:", index + 1)), "{text}");
        }
        assert!(report.failures[6].contains("skipped"));
    }
}
