//! Errors as people read them.

use std::error::Error;

/// An error with its causes after it, each said once: many errors say their cause themselves.
#[must_use]
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in std::iter::successors(error.source(), |&cause| cause.source()) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Failure {
        #[error("no disk")]
        Disk,
        #[error("a.json: {0}")]
        Says(#[source] Box<Failure>),
        #[error("not started")]
        Hides(#[source] Box<Failure>),
    }

    #[test]
    fn every_cause_is_said_once() {
        let says = || Failure::Says(Box::new(Failure::Disk));
        assert_eq!(with_causes(&Failure::Disk), "no disk");
        assert_eq!(with_causes(&says()), "a.json: no disk");
        assert_eq!(with_causes(&Failure::Hides(Box::new(says()))), "not started: a.json: no disk");
    }
}
