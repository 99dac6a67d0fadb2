//! What holds for a suite that passes its checks, whoever sent it.

use echo_sandbox::programs::suite::{MAX_CPU_MS, MAX_MEMORY, MAX_NAME_BYTES, MAX_OUTPUT, MAX_TESTS, Suite};

/// Panics unless everything is within its limits, and names of files name two in the working directory.
pub fn check(suite: &Suite) {
    assert!((1..=MAX_TESTS).contains(&suite.tests.len()) && suite.data().len() <= 2 * MAX_TESTS);
    assert!((1..=MAX_CPU_MS).contains(&suite.cpu_ms));
    assert!((1..=MAX_MEMORY).contains(&suite.memory) && (1..=MAX_OUTPUT).contains(&suite.output));
    let Some(files) = &suite.files else { return };
    assert_ne!(files.input, files.output);
    for name in [&files.input, &files.output] {
        assert!(
            (1..=MAX_NAME_BYTES).contains(&name.len())
                && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        );
        assert!(name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c)));
    }
}
