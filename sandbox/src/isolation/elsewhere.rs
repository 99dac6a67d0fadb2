//! Systems on which programs are not isolated.

use super::{IsolateError, IsolationReport, Job, Lack, Requirements, RunOutcome, Unfit};

/// No sandbox opens here, so there is no value of this type.
#[derive(Debug)]
pub(super) struct IsolationHost {
    pub(super) report: IsolationReport,
    never: std::convert::Infallible,
}

impl IsolationHost {
    pub(super) fn open(_: &Requirements) -> Result<Self, Unfit> {
        let what = format!("{} has none of the means that isolation is built on", std::env::consts::OS);
        Err(Unfit { lacks: vec![Lack { what, mend: "run code tasks on Linux".into() }] })
    }

    pub(super) fn run(&self, _: &Job<'_>) -> Result<RunOutcome, IsolateError> {
        match self.never {}
    }
}
