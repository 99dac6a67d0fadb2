//! Many runs of every kind leave nothing behind.

use super::support::alone;
use crate::isolation::Requirements;
use crate::isolation::soak::soak;

/// How many runs, unless the variable says otherwise.
const RUNS: u32 = 300;

/// The variable with the number of runs.
const VARIABLE: &str = "ECHO_SANDBOX_SOAK";

/// Runs itself in a process of its own, whose descriptors and children are not those of other tests.
#[test]
fn mixed_runs_leave_nothing_behind() {
    const INNER: &str = "ECHO_SANDBOX_SOAK_INNER";
    if std::env::var_os(INNER).is_some() {
        let runs = std::env::var(VARIABLE).ok().and_then(|runs| runs.parse().ok()).unwrap_or(RUNS);
        let requirements = Requirements { rlimits_suffice: true, ..Requirements::default() };
        let report = soak(&requirements, runs, 2).unwrap();
        println!("{report:?}");
        assert_eq!(report.runs, runs);
        assert!(report.surprises.is_empty(), "{report:?}");
        assert!(report.left.is_empty(), "{report:?}");
        return;
    }
    alone(INNER);
}
