//! What an author hands in: a reference solution and checks.

use serde::{Deserialize, Deserializer, Serialize};

/// Bytes of a task's texts together.
pub const MAX_TASK_BYTES: usize = 1 << 20;

/// Checks of one task.
pub const MAX_CHECKS: usize = 1024;

/// Functions that are to be written, by their author. All texts are Python and trusted to tell
/// right from wrong, though not to be harmless.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionTask {
    /// A program that passes. Its imports, and what else it defines beside the `subjects`, can be
    /// used by the checks.
    pub reference: String,
    /// What a judged program has to define; `None` for everything that the reference defines. Other
    /// names of a judged program are never looked up: it cannot put its own `abs` or `tuple`
    /// between a call and its check.
    pub subjects: Option<Vec<String>>,
    /// Run before the checks.
    pub setup: String,
    /// Each is code that calls subjects and asserts. At least one.
    pub checks: Vec<String>,
}

impl FunctionTask {
    /// Bytes of all texts.
    pub(super) fn bytes(&self) -> usize {
        let texts = [&self.reference, &self.setup]
            .into_iter()
            .chain(self.subjects.iter().flatten())
            .chain(&self.checks);
        texts.map(String::len).sum()
    }
}

/// A row of HumanEval.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HumanEval {
    /// The row's name, such as `HumanEval/0`.
    pub task_id: String,
    /// The program's beginning, which ends within the function to write.
    pub prompt: String,
    /// The name of the function to write, the only subject.
    pub entry_point: String,
    /// How the prompt may go on.
    pub canonical_solution: String,
    /// Python that defines `check(candidate)`, which asserts.
    pub test: String,
}

impl HumanEval {
    /// The program that a completion makes.
    pub fn program(&self, completion: &str) -> String {
        self.prompt.clone() + completion
    }

    /// The task. Helpers that the prompt defines are the author's in the checks, whatever a
    /// program made of them.
    pub fn task(&self) -> FunctionTask {
        FunctionTask {
            reference: self.program(&self.canonical_solution),
            subjects: Some(vec![self.entry_point.clone()]),
            setup: String::new(),
            checks: vec![format!("{}\ncheck({})\n", self.test, self.entry_point)],
        }
    }
}

/// A row of MBPP.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mbpp {
    /// The row's number in the published set, or its name.
    #[serde(default, deserialize_with = "name")]
    pub task_id: String,
    /// The problem in English: what the function has to do. The sanitized set calls it `prompt`.
    #[serde(alias = "prompt")]
    pub text: String,
    /// The author's solution, which becomes the reference.
    pub code: String,
    /// Run before the tests: imports of the sanitized set.
    #[serde(default)]
    pub test_imports: Vec<String>,
    /// Run before the tests, after the imports.
    #[serde(default)]
    pub test_setup_code: String,
    /// The checks: one `assert` each, at least one.
    pub test_list: Vec<String>,
    /// Harder ones, which the published evaluation leaves out, and so does [`Mbpp::task`].
    #[serde(default)]
    pub challenge_test_list: Vec<String>,
}

impl Mbpp {
    /// The task: the author's solution is the reference, and all that it defines is a subject.
    pub fn task(&self) -> FunctionTask {
        FunctionTask {
            reference: self.code.clone(),
            subjects: None,
            setup: self.test_imports.iter().map(|line| format!("{line}\n")).collect::<String>()
                + &self.test_setup_code,
            checks: self.test_list.clone(),
        }
    }
}

/// A number or a text.
fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Name {
        Number(u64),
        Text(String),
    }
    Ok(match Name::deserialize(deserializer)? {
        Name::Number(number) => number.to_string(),
        Name::Text(text) => text,
    })
}
