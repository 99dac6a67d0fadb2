//! Cases after public reports about programs that stand in responses, one JSON object a line: what a
//! model wrote, and the program in it. Each goes the way of a run: the judged part of the response,
//! and the program that is taken out of it.

use serde::Deserialize;

use super::extract;
use crate::programs::Language;
use crate::task::{JudgedPart, Response};

/// One case as it is written.
#[derive(Deserialize)]
struct Reported {
    #[serde(default)]
    source: String,
    response: String,
    /// The program; or `contains` and a part of it; `debatable` where nobody can say.
    expected: String,
    #[serde(default = "python")]
    language: Language,
}

fn python() -> Language {
    Language::Python
}

/// What the program of a case is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Extraction {
    /// What the case says, but for line breaks at its end.
    AsExpected,
    /// Another one, with the case in one line.
    Otherwise(String),
    /// Nobody can say what it should be; the name of the case.
    Debatable(String),
}

/// Takes the program out of the response of a line.
///
/// # Errors
/// When the line is no such case.
pub fn extraction(line: &[u8]) -> Result<Extraction, String> {
    let case: Reported = serde_json::from_slice(line)
        .map_err(|error| format!("not a reported case, which has response and expected: {error}"))?;
    let (expected, part) = match case.expected.strip_prefix("contains ") {
        Some(part) => (part, true),
        None => (case.expected.as_str(), false),
    };
    if case.expected == "debatable" || (part && expected.contains("debatable")) {
        return Ok(Extraction::Debatable(case.source));
    }
    let response = Response { text: &case.response, finished: true };
    let judged = JudgedPart::default().response(&response).ok();
    let answer = judged.and_then(|judged| judged.answer()).unwrap_or_default();
    let found = extract::program(answer, case.language);
    let ends = ['\n', '\r'];
    let is_right = if part {
        found.contains(expected.trim())
    } else {
        found.trim_end_matches(ends) == expected.trim_end_matches(ends)
    };
    Ok(if is_right {
        Extraction::AsExpected
    } else {
        Extraction::Otherwise(format!("{}: program {found:?}, expected {:?}", case.source, case.expected))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(response: &str, expected: &str) -> Extraction {
        let case = serde_json::json!({"source": "a", "response": response, "expected": expected});
        extraction(case.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn cases_go_the_way_of_a_response() {
        let thought = "<think>\n```python\nprint(0)\n```\n</think>\n```\nprint(1)\n```";
        assert_eq!(of(thought, "print(1)\n"), Extraction::AsExpected);
        assert_eq!(of(thought, "contains print(1)"), Extraction::AsExpected);
        assert!(matches!(of(thought, "print(0)"), Extraction::Otherwise(line) if line.contains("print(1)")));
        assert!(matches!(of(thought, "contains print(0)"), Extraction::Otherwise(_)));
        let printing = "It is:\n```python\nprint('</think>')\n```\n";
        for response in [printing.to_owned(), format!("hm</think>\n{printing}")] {
            assert_eq!(of(&response, "print('</think>')\n"), Extraction::AsExpected, "{response}");
        }
        for debatable in ["debatable", "contains both; debatable"] {
            assert_eq!(of(thought, debatable), Extraction::Debatable("a".into()));
        }
        assert!(extraction(b"{}").unwrap_err().contains("not a reported case"));
    }
}
