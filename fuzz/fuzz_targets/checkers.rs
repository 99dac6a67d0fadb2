//! Outputs of judged programs: no checker may panic, quote them at length, or call what equals the answer wrong.
#![no_main]

use echo_sandbox::checkers::{Checker, CheckerVerdict, check};
use libfuzzer_sys::fuzz_target;

/// Longest message, in bytes: two doubles and an error in full, or two quotes of at most 64 bytes, each of which may become a
/// replacement character of three.
const MAX_MESSAGE: usize = 1200;

fuzz_target!(|input: (u8, &[u8], &[u8])| {
    let (choice, output, answer) = input;
    let checker = Checker::ALL[usize::from(choice) % Checker::ALL.len()];
    let judgement = check(checker, &[], output, answer);
    assert!(judgement.message.len() <= MAX_MESSAGE);
    assert_ne!(judgement.verdict, CheckerVerdict::Points);
    if !matches!(checker, Checker::Fcmp | Checker::Lcmp) {
        let ended = [output, b"\r\n"].concat();
        assert_eq!(check(checker, &[], &ended, answer), judgement);
    }
    if !answer.starts_with("\u{feff}".as_bytes()) {
        assert_ne!(check(checker, &[], answer, answer).verdict, CheckerVerdict::WrongAnswer);
    }
});
