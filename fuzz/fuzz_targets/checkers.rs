//! Outputs of judged programs: no checker may panic, quote them at length, or call what equals
//! the answer wrong; and what the plainest of them accept is what a few lines accept that
//! split, parse and compare.
#![no_main]

use echo_sandbox::programs::checkers::{Checker, CheckerVerdict, check};
use libfuzzer_sys::fuzz_target;

/// Longest message, in bytes: two doubles and an error in full, or two quotes of at most 64 bytes,
/// each of which may become a replacement character of three.
const MAX_MESSAGE: usize = 1200;

/// What an output may begin with and an answer may not.
const BYTE_ORDER_MARK: &[u8] = "\u{feff}".as_bytes();

fuzz_target!(|input: (u8, &[u8], &[u8], &[u8])| {
    let (choice, input, output, answer) = input;
    let checker = Checker::ALL[usize::from(choice) % Checker::ALL.len()];
    let judgement = check(checker, &[], output, answer);
    assert!(judgement.message.len() <= MAX_MESSAGE);
    assert_ne!(judgement.verdict, CheckerVerdict::Points);
    assert_eq!(check(checker, input, output, answer), judgement);
    if !matches!(checker, Checker::Fcmp | Checker::Lcmp) {
        let ended = [output, b"\r\n"].concat();
        assert_eq!(check(checker, &[], &ended, answer), judgement);
    }
    if !answer.starts_with(BYTE_ORDER_MARK) {
        assert_ne!(check(checker, &[], answer, answer).verdict, CheckerVerdict::WrongAnswer);
    }
    let output = output.strip_prefix(BYTE_ORDER_MARK).unwrap_or(output);
    if let Some(accepts) = accepts(checker, output, answer) {
        assert_eq!(judgement.verdict == CheckerVerdict::Ok, accepts, "{judgement}");
    }
});

/// Whether the output is accepted; `None` where only the checker knows.
fn accepts(checker: Checker, output: &[u8], answer: &[u8]) -> Option<bool> {
    let (found, expected) = (words(output), words(answer));
    let same_as = |same: bool| Some(same && found == expected);
    match checker {
        Checker::Wcmp => same_as(true),
        // Written in one way only, integers are the same where their digits are.
        Checker::Ncmp => same_as(found.iter().all(|word| integer(word).is_some())),
        Checker::Uncmp => {
            let sorted = |words: &[&[u8]]| {
                let mut integers = words.iter().map(|word| integer(word)).collect::<Option<Vec<i64>>>()?;
                integers.sort_unstable();
                Some(integers)
            };
            Some(sorted(&found).is_some() && sorted(&found) == sorted(&expected))
        }
        Checker::Yesno => {
            let said = [&found, &expected].map(|words| words.first().and_then(|word| choice(word)));
            Some(found.len() == 1 && said[0].is_some() && said[0] == said[1])
        }
        Checker::Nyesno => {
            let choices =
                |words: &[&[u8]]| words.iter().map(|word| choice(word)).collect::<Option<Vec<bool>>>();
            Some(choices(&found).is_some() && choices(&found) == choices(&expected))
        }
        // What carriage returns make of lines is another matter.
        Checker::Fcmp | Checker::Lcmp if ![output, answer].concat().contains(&b'\r') => {
            Some(same_lines(checker, output, answer))
        }
        _ => None,
    }
}

fn words(file: &[u8]) -> Vec<&[u8]> {
    file.split(|byte| b" \t\n\r".contains(byte)).filter(|word| !word.is_empty()).collect()
}

/// A 64-bit integer that is written as it would be printed.
fn integer(word: &[u8]) -> Option<i64> {
    let word = std::str::from_utf8(word).ok()?;
    word.parse().ok().filter(|integer: &i64| integer.to_string() == word)
}

fn choice(word: &[u8]) -> Option<bool> {
    match word.to_ascii_lowercase().as_slice() {
        b"yes" => Some(true),
        b"no" => Some(false),
        _ => None,
    }
}

/// Every line of the answer is there, but for an empty one at its end, and only blanks follow.
fn same_lines(checker: Checker, output: &[u8], answer: &[u8]) -> bool {
    let lines = |file| <[u8]>::split(file, |byte| *byte == b'\n').collect::<Vec<_>>();
    let (mut expected, found) = (lines(answer), lines(output));
    for _ in 0..2 {
        expected.pop_if(|line| line.is_empty());
    }
    let is_space = |byte: &u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let words = |line: &[u8]| -> Vec<Vec<u8>> {
        line.split(is_space).filter(|word| !word.is_empty()).map(<[u8]>::to_vec).collect()
    };
    let same = |expected: &[u8], found: &[u8]| match checker {
        Checker::Fcmp => expected == found,
        _ => words(expected) == words(found),
    };
    let rest = found.get(expected.len()..).unwrap_or_default();
    expected.iter().enumerate().all(|(at, line)| same(line, found.get(at).copied().unwrap_or_default()))
        && rest.iter().all(|line| self::words(line).is_empty())
}
