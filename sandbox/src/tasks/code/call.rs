//! Problems whose tests call a function instead of writing to a program: LiveCodeBench's with starter
//! code, and APPS's with `fn_name`.
//!
//! The program of a response is followed by lines that read the arguments, call the function (or the
//! method of `Solution`) and print the result as JSON. A checker compares it with those that are
//! accepted; they are never in the program's sandbox.

/// What such programs may use without an import.
const PRELUDE: &str = include_str!("call/prelude.py");
/// What calls the function.
const DRIVER: &str = include_str!("call/driver.py");
/// What compares results.
pub(super) const CHECKER: &str = include_str!("call/checker.py");

/// The program that calls `function` as `source` defines it.
pub(super) fn program(source: &str, function: &str) -> String {
    format!("{PRELUDE}\n{source}\n{}", DRIVER.replace("__FUNCTION__", function))
}
