//! What was found of a task, for people and as JSON.

use super::Prompting;
use super::judged::JudgedResponse;
use super::rows::{Named, NamedRow, TriedTask};
use super::solutions::Solutions;
use crate::commands::check::counted;
use crate::telemetry::samples::visible;
use serde::Serialize;
use std::fmt::Write as _;

/// A prompt as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ShownPrompt {
    /// The number of its row.
    pub(super) row: usize,
    /// Its text, in the template where there is one.
    pub(super) text: String,
    /// Its tokens, where there is a tokenizer that can say it.
    pub(super) tokens: Option<usize>,
    /// Why the tokenizer cannot say it.
    pub(super) refused: Option<String>,
    /// What an answer is compared with.
    pub(super) reference: Option<String>,
}

impl ShownPrompt {
    pub(super) fn of(task: &TriedTask, index: usize, prompting: &Prompting) -> Self {
        let assignment = task.assignment(index);
        let plain = assignment.map(|assignment| assignment.prompt().text).unwrap_or_default();
        let reference = assignment.and_then(|assignment| assignment.reference());
        let row = task.number(index);
        let Some(tokenizer) = &prompting.tokenizer else {
            return Self { row, text: plain, tokens: None, refused: None, reference };
        };
        let seen = tokenizer.prompt(&plain).and_then(|tokens| {
            // Decoded, it shows what stands around the text, the tokens of the template among it.
            Ok((tokenizer.decode(&tokens, false)?, tokens.len()))
        });
        match seen {
            Ok((text, tokens)) => Self { row, text, tokens: Some(tokens), refused: None, reference },
            Err(error) => {
                Self { row, text: plain, tokens: None, refused: Some(error.to_string()), reference }
            }
        }
    }
}

/// What was found of a task.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct TaskReport {
    /// Its name in run files.
    pub(super) task: String,
    /// Rows that can be asked; none of a task that makes its prompts up.
    pub(super) rows: Option<usize>,
    /// Those of them that are trained on.
    pub(super) train: Option<usize>,
    /// Those that are held out for evaluation.
    pub(super) held_out: Option<usize>,
    /// Rows that no answer could earn on.
    pub(super) left_out: Named,
    /// Rows that are no rows of the task.
    pub(super) wrong: Named,
    /// What else keeps the task from being asked.
    pub(super) problems: Vec<String>,
    /// What the task itself says of its file.
    pub(super) remarks: Vec<String>,
    /// The first prompts.
    pub(super) prompts: Vec<ShownPrompt>,
    /// What the solutions came to, where they were tried.
    pub(super) solutions: Option<Solutions>,
    /// Responses to one row.
    pub(super) responses: Vec<JudgedResponse>,
}

impl TaskReport {
    pub(super) fn of(task: &TriedTask) -> Self {
        Self {
            task: task.name.clone(),
            rows: task.split.map(|_| task.count()),
            train: task.split.map(|(train, _)| train),
            held_out: task.split.map(|(_, held_out)| held_out),
            left_out: task.left_out.clone(),
            wrong: task.wrong.clone(),
            problems: task.problems.clone(),
            remarks: task.remarks.clone(),
            prompts: Vec::new(),
            solutions: None,
            responses: Vec::new(),
        }
    }

    /// How many things are wrong.
    pub(super) fn problems(&self) -> usize {
        let of_solutions = |solutions: &Solutions| solutions.wrong.count + solutions.problems.len();
        self.wrong.count + self.problems.len() + self.solutions.as_ref().map_or(0, of_solutions)
    }

    /// What people read.
    pub(super) fn text(&self) -> String {
        let mut text = self.heading();
        // Writing to a text does not fail.
        for ShownPrompt { row, text: prompt, tokens, refused, reference } in &self.prompts {
            let tokens = tokens.map(|tokens| format!(" · {tokens} tokens")).unwrap_or_default();
            let _ = write!(text, "\nprompt {row}{tokens}\n{}", indented(prompt));
            if let Some(refused) = refused {
                let _ = writeln!(text, "the model cannot read it: {refused}");
            }
            if let Some(reference) = reference {
                text += &field("reference", reference);
            }
        }
        for response in &self.responses {
            text += &of_response(response);
        }
        if let Some(Solutions { tried, wrong, problems }) = &self.solutions {
            let _ = writeln!(text, "\nsolutions   {tried} tried, {} wrong", wrong.count + problems.len());
            text += &listed("problem", wrong);
            problems.iter().for_each(|problem| text += &format!("problem: {}\n", visible(problem)));
        }
        match self.problems() {
            0 => text + "\nnothing is wrong\n",
            problems => text + &format!("\n{}\n", counted(problems, "problem")),
        }
    }

    fn heading(&self) -> String {
        let rows = match (self.rows, self.train, self.held_out) {
            (Some(rows), Some(train), Some(0)) => {
                format!("{rows} rows, all {train} to train on: too few to hold any out")
            }
            (Some(rows), Some(train), Some(held_out)) => {
                format!("{rows} rows: {train} to train on, {held_out} held out for evaluation")
            }
            _ if self.problems.is_empty() && self.wrong.count == 0 => "it makes its prompts up".to_owned(),
            _ => "cannot be asked".to_owned(),
        };
        let mut text = format!("task {} · {rows}\n", visible(&self.task));
        if self.left_out.count > 0 {
            let count = self.left_out.count;
            text += &format!("{count} rows are left out, as no answer could earn on them:\n");
            text += &listed("left out", &self.left_out);
        }
        // Rows that are left out are in that list.
        let others = self.remarks.iter().filter(|remark| !remark.contains("rows are left out"));
        others.for_each(|remark| text += &format!("warning: {}\n", visible(remark)));
        text += &listed("problem", &self.wrong);
        self.problems.iter().for_each(|problem| text += &format!("problem: {}\n", visible(problem)));
        text
    }
}

/// One row a line, and how many more there are.
fn listed(what: &str, named: &Named) -> String {
    let line = |row: &NamedRow| format!("{what}: row {}: {}\n", row.row, visible(&row.reason));
    let mut text: String = named.rows.iter().map(line).collect();
    if named.count > named.rows.len() {
        text += &format!("{what}: and {} more rows\n", named.count - named.rows.len());
    }
    text
}

fn of_response(response: &JudgedResponse) -> String {
    let tokens = response.tokens.map(|tokens| format!(" · {tokens} tokens")).unwrap_or_default();
    let ended = if response.finished { "" } else { ", cut" };
    let mut text = format!("\nresponse to {}{tokens}{ended}\n", response.row);
    if response.tokens.is_some() {
        text += &indented(&response.said.join("\n--- next turn\n"));
    }
    let none = || "nothing".to_owned();
    text += &field("judged part", &response.judged.clone().unwrap_or_else(none));
    text += &field("answer read", &response.read.clone().unwrap_or_else(none));
    if let Some(reference) = &response.reference {
        text += &field("reference", reference);
    }
    let verdict = match (response.correct, response.reward) {
        (Some(true), Some(reward)) => format!("right, reward {reward}: {}", response.reason),
        (Some(false), Some(reward)) => format!("not right, reward {reward}: {}", response.reason),
        _ => response.reason.clone(),
    };
    text + &field("verdict", &verdict)
}

/// A name with its text: beside it, or below where there are several lines.
fn field(name: &str, text: &str) -> String {
    let text = text.trim_end();
    match text.contains('\n') {
        true => format!("{name}\n{}", indented(text)),
        false => format!("{name:<12}{}\n", visible(text)),
    }
}

fn indented(text: &str) -> String {
    visible(text.trim_end_matches('\n')).split('\n').map(|line| format!("    {line}\n")).collect()
}
