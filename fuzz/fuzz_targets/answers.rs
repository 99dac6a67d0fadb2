//! Problems of `code` from whoever founds a run, and responses of a policy to them: whatever is a
//! problem can be judged within the limits, and a response's program is what stands in its block.
#![no_main]

use echo_fuzz::{Edit, edited, suite};
use echo_sandbox::fuzzing::{CodeRow, code_definition, code_program, code_rows};
use echo_sandbox::programs::language::Language;
use echo_sandbox::task::data_set::{MAX_ROW_BYTES, MAX_ROWS};
use echo_sandbox::task::files::TaskFiles;
use libfuzzer_sys::fuzz_target;

/// What opens and closes blocks.
const FENCE: &str = "```";

/// Of what responses consist beside any text.
const PIECES: [&str; 16] = [
    "",
    "\n",
    "```",
    "```\n",
    "\n```\n",
    "```python\n",
    "``` PY title=x\r\n",
    "```rust\n",
    "```c++17\n",
    "```go\n",
    "```text\n",
    "`",
    "def f(x):\n",
    "async def  f (",
    "    return x\n",
    " ",
];

/// A file of four forms.
const SAMPLE: &str = concat!(
    r#"{"task_id": "T/0", "prompt": "import math\n\ndef f(x):\n", "entry_point": "f", "canonical_solution": "    return x\n", "test": "def check(f):\n    assert f(1) == 1\n"}"#,
    "\n",
    r#"{"task_id": 1, "text": "Say one.", "code": "def one(): return 1", "test_setup_code": "", "test_list": ["assert one() == 1"], "challenge_test_list": []}"#,
    "\n",
    r#"{"prompt": "Add.", "tests": [{"input": "1 2", "output": "3"}, {"input": "", "output": "3"}], "language": "c++20", "checker": "rcmp6", "input_file": "sum.in", "output_file": "sum.out", "cpu_s": 0.5, "memory_mb": 64, "solution": "int main;"}"#,
    "\n",
    r#"{"prompt": "Add.", "tests": [{"input": "1 2", "output": "3"}], "checker_program": {"language": "go", "source": "x"}}"#,
    "\n",
    r#"{"question": "Add.", "input_output": "{\"fn_name\": \"add\", \"inputs\": [[1, 2]], \"outputs\": [3]}", "starter_code": "def add(a, b):", "solutions": "[]"}"#,
);

fuzz_target!(|input: (u8, Vec<(u8, &str)>, &str, &str, Vec<Edit>, &[u8])| {
    let (language, pieces, name, text, edits, file) = input;
    let response: String = pieces
        .into_iter()
        .flat_map(|(piece, text)| [PIECES[usize::from(piece) % PIECES.len()], text])
        .collect();
    let language = Language::ALL[usize::from(language) % Language::ALL.len()];
    check_program(&response, text, language);
    check_definition(&response, name);

    let made = edited(SAMPLE.as_bytes(), &edits);
    let file = if file.is_empty() { &made } else { file };
    let Ok((rows, data)) = code_rows(file) else { return };
    assert!((1..=MAX_ROWS).contains(&rows.len()) && rows.len() <= file.len());
    for row in &rows {
        check_row(row, &data, &response);
    }
});

fn check_program(response: &str, text: &str, language: Language) {
    let program = code_program(response, language);
    assert!(response.contains(program));
    // The one block of the language is what counts, whatever stands in others and around it.
    if text.trim().is_empty() || text.contains(['`', '~', '"', '\'', '<']) {
        return;
    }
    let name = language.name();
    let open = format!("{FENCE}text\n{text}\n{FENCE}\n{FENCE}{name}\n{text}");
    assert_eq!(code_program(&open, language), text);
    let closed = format!("{open}\n{FENCE}\n{FENCE}text\n{text}\n{FENCE}\n");
    assert_eq!(code_program(&closed, language).strip_suffix('\n'), Some(text));
}

fn check_definition(source: &str, name: &str) {
    let found = code_definition(source, name);
    if let Some(at) = found {
        let (before, rest) = source.split_at(at);
        assert!(before.is_empty() || before.ends_with('\n'));
        assert!(rest.starts_with("def ") || rest.starts_with("async def "));
        assert_eq!(code_definition(before, name), None);
    }
    assert_eq!(code_definition(&format!("x\n{source}"), name), found.map(|at| at + 2));
    let indented: String = source.split_inclusive('\n').flat_map(|line| [" ", line]).collect();
    assert_eq!(code_definition(&indented, name), None);
    if name == name.trim() && !name.contains('\n') {
        assert_eq!(code_definition(&format!("def {name}(x):\n{source}"), name), Some(0));
    }
}

fn check_row(row: &CodeRow, data: &TaskFiles, response: &str) {
    assert!(!row.prompt().trim().is_empty() && row.prompt().len() <= 2 * MAX_ROW_BYTES);
    if let Some(suite) = row.suite() {
        suite.check().expect("a row's suite passes its checks");
        suite::check(suite);
        assert!(suite.data().iter().all(|id| data.get(id).is_some()));
    }
    if let Some(solution) = row.solution() {
        check_made(row, solution, solution);
    }
    check_made(row, response, code_program(response, row.language()));
}

/// What is said is the program, or its end where it goes on with the prompt.
fn check_made(row: &CodeRow, response: &str, said: &str) {
    let program = row.program(response);
    if row.calls_function() {
        assert!(program.contains(said));
        return;
    }
    let before = program.strip_suffix(said).expect("a program ends with what the policy said");
    if row.goes_on() {
        assert!(row.prompt().starts_with(before));
    } else {
        assert_eq!(before, "");
    }
}
