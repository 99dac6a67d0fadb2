//! Rows of a file and programs out of responses, without anything that runs them: for the fuzz targets.

use super::*;

/// A problem of a file.
#[derive(Debug)]
pub struct CodeRow(CodeProblem);

/// Reads a file: its problems, and the data of their tests.
///
/// # Errors
/// All rows that are no problem.
pub fn code_rows(file: &[u8]) -> Result<(Vec<CodeRow>, TaskFiles), DataError> {
    let (rows, data) = row::read(file)?;
    Ok((rows.rows.into_iter().map(CodeRow).collect(), data))
}

/// The program of a response.
pub fn code_program(response: &str, language: Language) -> &str {
    extract::program(response, language)
}

/// Where the definition of a Python function begins that stands at the margin.
pub fn code_definition(source: &str, name: &str) -> Option<usize> {
    extract::definition(source, name)
}

impl CodeRow {
    /// What the policy is asked.
    pub fn prompt(&self) -> &str {
        &self.0.prompt
    }

    /// A response that is right, if the author shows one.
    pub fn solution(&self) -> Option<&str> {
        self.0.solution.as_deref()
    }

    /// What its programs are written in.
    pub fn language(&self) -> Language {
        self.0.language()
    }

    /// Its tests, where it has the form of tests.
    pub fn suite(&self) -> Option<&Suite> {
        match &self.0.judged {
            JudgingMethod::Tests { suite, .. } => Some(suite),
            JudgingMethod::HumanEval(_) | JudgingMethod::Mbpp(_) => None,
        }
    }

    /// Whether responses go on where the prompt ends.
    pub fn goes_on(&self) -> bool {
        matches!(self.0.judged, JudgingMethod::HumanEval(_))
    }

    /// Whether its tests call a function: lines that do so stand around what the policy says.
    pub fn calls_function(&self) -> bool {
        matches!(self.0.judged, JudgingMethod::Tests { function: Some(_), .. })
    }

    /// The program that a response makes.
    pub fn program(&self, response: &str) -> String {
        self.0.program(response)
    }
}
