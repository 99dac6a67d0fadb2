//! A task over all rows of its file. Rows that are wrong are named, and the others stay with their numbers.

use crate::config::TaskEntry;
use crate::founding::read_task_file;
use crate::training::evaluation::questions::Questions;
use anyhow::bail;
use echo_protocol::program::error_chain::with_causes;
use echo_protocol::run::charter::TaskSpec;
use echo_protocol::wire::content_id::ContentId;
use echo_sandbox::rollout::assignment::Assignment;
use echo_sandbox::task::Task;
use echo_sandbox::task::data_set::{DataError, NamedRows};
use echo_sandbox::task::files::TaskFiles;
use echo_sandbox::task::spec::SpecError;
use echo_sandbox::tasks::{registry, wasm};
use serde::Serialize;
use std::collections::BTreeSet;
use std::path::Path;

/// Decides what a task asks that makes its prompts up.
const SEED: u64 = 0;

/// What is tried.
pub(super) struct Asked<'a> {
    pub(super) entry: &'a TaskEntry,
    /// The file that the task is made of, on this machine.
    pub(super) file: Option<&'a Path>,
    /// Prompts of a task that makes them up.
    pub(super) prompts: usize,
}

/// A row with what is said of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct NamedRow {
    /// Its number in the file, from 1.
    pub(super) row: usize,
    pub(super) reason: String,
}

/// Rows with what is said of them: the first thousand, and how many there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Named {
    pub(super) count: usize,
    pub(super) rows: Vec<NamedRow>,
}

impl From<&NamedRows> for Named {
    fn from(rows: &NamedRows) -> Self {
        let named = rows.iter().map(|(row, reason)| NamedRow { row, reason: reason.to_owned() });
        Self { count: rows.count(), rows: named.collect() }
    }
}

/// A task, and what is wrong with the file that it is made of.
pub(super) struct TriedTask {
    pub(super) name: String,
    /// Rows that are no rows of the task.
    pub(super) wrong: Named,
    /// Rows that no answer could earn on.
    pub(super) left_out: Named,
    /// What else keeps the task from being asked.
    pub(super) problems: Vec<String>,
    /// What the task itself says of its file.
    pub(super) remarks: Vec<String>,
    /// Rows to train on and rows held out; none of a task that makes its prompts up.
    pub(super) split: Option<(usize, usize)>,
    questions: Option<Questions>,
    /// The number in the file of each row that can be asked.
    numbers: Vec<usize>,
}

impl TriedTask {
    pub(super) fn open(asked: &Asked<'_>) -> Self {
        let Asked { entry, file, prompts } = asked;
        let mut found = Self {
            name: entry.name.clone(),
            wrong: Named::default(),
            left_out: Named::default(),
            problems: Vec::new(),
            remarks: Vec::new(),
            split: None,
            questions: None,
            numbers: Vec::new(),
        };
        match file.map(|path| read_task_file(&entry.name, path)).transpose() {
            Ok(bytes) => found.build(entry, bytes, *prompts),
            Err(error) => found.problems.push(with_causes(&error)),
        }
        found
    }

    fn build(&mut self, entry: &TaskEntry, bytes: Option<Vec<u8>>, prompts: usize) {
        let address = bytes.as_deref().map(ContentId::of);
        if let (Some(module), Some(found)) = (wasm::module_of(&entry.name), address)
            && module != found
        {
            self.problems.push(format!("the file has the address wasm:{found}, and the task's name another"));
        }
        let Err(refused) = self.asked(entry, bytes.as_deref(), prompts) else { return };
        let (SpecError::Data { reason: DataError::Rows(rows), .. }, Some(bytes)) = (&refused, &bytes) else {
            self.refuse(&refused);
            return;
        };
        self.wrong = Named::from(rows);
        // An empty line in the place of each keeps the numbers of the others.
        let rest = without(bytes, &self.wrong);
        if let Err(refused) = self.asked(entry, Some(rest.as_slice()), prompts)
            && !matches!(&refused, SpecError::Data { reason: DataError::Rows(_) | DataError::Empty, .. })
        {
            self.refuse(&refused);
        }
    }

    /// Takes up why there is no task.
    fn refuse(&mut self, refused: &SpecError) {
        if let SpecError::Data { reason: DataError::AllDead(rows), .. } = refused {
            self.left_out = Named::from(rows);
            self.problems.push("no answer can earn on any of its rows".to_owned());
        } else {
            self.problems.push(refused.to_string());
        }
    }

    /// Makes the task's questions of these rows.
    fn asked(&mut self, entry: &TaskEntry, bytes: Option<&[u8]>, prompts: usize) -> Result<(), SpecError> {
        let mut files = TaskFiles::none();
        let data = bytes.map(|bytes| files.add(bytes));
        let name: &str = if wasm::asks_for_module(&entry.name) { wasm::NAME } else { &entry.name };
        let spec = TaskSpec { data, params: entry.params.clone(), ..TaskSpec::new(name) };
        let task = registry::build(&spec, &files)?;
        self.remarks = task.remarks().to_vec();
        self.left_out = task.left_out().map(Named::from).unwrap_or_default();
        self.split = task.rows().map(|train| (train, task.held_out_rows().unwrap_or_default()));
        let limit = self.split.is_none().then_some(prompts);
        let questions = match Questions::new(&spec, &files, SEED, limit) {
            Ok(questions) => questions,
            Err(error) => {
                self.problems.push(error.to_string());
                return Ok(());
            }
        };
        let rows = bytes.filter(|_| self.split.is_some());
        self.numbers = numbers(rows, &self.left_out, questions.count());
        self.questions = Some(questions);
        Ok(())
    }

    /// How many rows can be asked.
    pub(super) fn count(&self) -> usize {
        self.numbers.len()
    }

    /// The number in the file of a row that can be asked.
    pub(super) fn number(&self, index: usize) -> usize {
        self.numbers.get(index).copied().unwrap_or(index + 1)
    }

    /// What a row asks; none past the last.
    pub(super) fn assignment(&self, index: usize) -> Option<Assignment<'_>> {
        self.questions.as_ref().filter(|questions| index < questions.count()).map(|all| all.assignment(index))
    }

    /// Decides the draws of a row's responses.
    pub(super) fn sampler_seed(&self, index: usize) -> [u8; 32] {
        self.questions.as_ref().map(|questions| questions.sampler_seed(index)).unwrap_or_default()
    }

    /// The task over all rows; none where there is none.
    pub(super) fn task(&self) -> Option<&dyn Task> {
        self.questions.as_ref().map(Questions::task)
    }

    /// Where the row with this number is among those that can be asked; the first where none is named, and
    /// none where there is nothing to ask.
    pub(super) fn place(&self, row: Option<u32>) -> anyhow::Result<Option<usize>> {
        let first = (self.count() > 0).then_some(0);
        let Some(row) = row.map(|row| row as usize) else { return Ok(first) };
        let reason =
            |named: &Named| named.rows.iter().find(|named| named.row == row).map(|n| n.reason.clone());
        match self.numbers.iter().position(|number| *number == row) {
            Some(place) => Ok(Some(place)),
            None if first.is_none() => Ok(None),
            None => match reason(&self.left_out).or_else(|| reason(&self.wrong)) {
                Some(reason) => bail!("--row {row} cannot be asked: {reason}"),
                None => bail!("there is no row {row}: the last is {}", self.number(self.count() - 1)),
            },
        }
    }
}

/// The lines without those that are named.
fn without(bytes: &[u8], named: &Named) -> Vec<u8> {
    let wrong: BTreeSet<usize> = named.rows.iter().map(|named| named.row).collect();
    let lines = (1..).zip(bytes.split(|byte| *byte == b'\n'));
    let empty: &[u8] = b"";
    let kept = lines.map(|(number, line)| if wrong.contains(&number) { empty } else { line });
    kept.collect::<Vec<&[u8]>>().join(&b'\n')
}

/// The numbers of so many rows: of those lines that are neither empty nor left out. Where more are left out
/// than are kept by their numbers, and where there is no file, rows are counted.
fn numbers(bytes: Option<&[u8]>, left_out: &Named, count: usize) -> Vec<usize> {
    let dead: BTreeSet<usize> = left_out.rows.iter().map(|named| named.row).collect();
    let lines = (1..).zip(bytes.unwrap_or_default().split(|byte| *byte == b'\n'));
    let rows = lines.filter(|(number, line)| !line.trim_ascii().is_empty() && !dead.contains(number));
    let numbers: Vec<usize> = rows.map(|(number, _)| number).collect();
    if numbers.len() == count { numbers } else { (1..=count).collect() }
}
