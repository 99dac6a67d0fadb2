use super::*;
use proptest::prelude::*;

/// What a checker says of `output` where `answer` is right.
fn says(checker: Checker, output: &str, answer: &str) -> String {
    check(checker, b"1\n", output.as_bytes(), answer.as_bytes()).to_string()
}

#[test]
fn names_are_testlibs() {
    for checker in Checker::ALL {
        assert_eq!(checker.name().parse(), Ok(checker));
        assert_eq!(serde_json::to_string(&checker).unwrap(), format!("\"{}\"", checker.name()));
    }
    let refused = "pointscmp".parse::<Checker>().unwrap_err().to_string();
    assert!(refused.contains("acmp, caseicmp"), "{refused}");
}

#[test]
fn every_checker_accepts_its_own_answer() {
    for checker in Checker::ALL {
        let answer = match checker {
            Checker::Caseicmp | Checker::Casencmp | Checker::Casewcmp => "Case 1: 7\nCase 2: 8\n",
            Checker::Yesno | Checker::Nyesno => "yes\n",
            _ => "7\n",
        };
        assert!(says(checker, answer, answer).starts_with("ok "), "{}", checker.name());
        // Lines past the answer's are unread like tokens are, and a missing answer is no answer.
        let extra = says(checker, &format!("{answer}x"), answer);
        assert!(extra.starts_with("wrong "), "{}: {extra}", checker.name());
        assert!(says(checker, "", answer).starts_with("wrong "), "{}", checker.name());
    }
}

#[test]
fn a_malformed_answer_is_no_verdict_on_the_output() {
    use Checker::*;
    for checker in
        [Acmp, Dcmp, Icmp, Hcmp, Ncmp, Rcmp6, Rncmp, Uncmp, Yesno, Nyesno, Caseicmp, Casencmp, Casewcmp]
    {
        assert!(says(checker, "1", "none").starts_with("FAIL "), "{}", checker.name());
    }
    assert_eq!(says(Hcmp, "1", "1 2"), "FAIL expected exactly one token in the answer file");
}

#[test]
fn unread_output_is_a_presentation_error() {
    let extra = "wrong output format Extra information in the output file";
    assert_eq!(says(Checker::Icmp, "1 1", "1"), extra);
    assert_eq!(says(Checker::Fcmp, "a\nb\n", "a\n"), extra);
    assert_eq!(says(Checker::Icmp, "1 \n\t\r\n", "1"), "ok answer is 1");
    // A wrong answer is wrong whatever follows.
    assert_eq!(says(Checker::Icmp, "2 1", "1"), "wrong answer expected 1, found 2");
}

#[test]
fn tokens_are_separated_by_four_blanks_only() {
    assert_eq!(says(Checker::Wcmp, "a\r\n\t b", "a b"), "ok 2 tokens");
    assert_eq!(
        says(Checker::Wcmp, "a\u{c}b", "a b"),
        "wrong answer 1st words differ - expected: 'a', found: 'a\u{c}b'"
    );
    assert_eq!(says(Checker::Lcmp, "a\u{c}b\n", "a b"), "ok single line: 'a\u{c}b'");
    assert_eq!(says(Checker::Wcmp, "a\0", "a"), "wrong answer 1st words differ - expected: 'a', found: 'a~'");
}

#[test]
fn a_byte_order_mark_opens_outputs_only() {
    assert_eq!(says(Checker::Ncmp, "\u{feff}5", "5"), "ok 1 number(s): \"5\"");
    assert_eq!(
        says(Checker::Ncmp, "\u{feff}\u{feff}5", "5"),
        "wrong output format Expected integer, but \"\u{feff}5\" found"
    );
    assert_eq!(says(Checker::Ncmp, "5", "\u{feff}5"), "FAIL Expected integer, but \"\u{feff}5\" found");
}

#[test]
fn integers_keep_their_range() {
    let expected =
        |what: &str, found: &str| format!("wrong output format Expected {what}, but \"{found}\" found");
    assert_eq!(says(Checker::Icmp, "2147483648", "1"), expected("int32", "2147483648"));
    assert_eq!(says(Checker::Ncmp, "9223372036854775808", "1"), expected("integer", "9223372036854775808"));
    assert_eq!(says(Checker::Ncmp, "1\0", "1"), expected("integer", "1~") + " (it contains \\0)");
    assert_eq!(says(Checker::Hcmp, "-0", "0"), "wrong output format -0 is not a valid integer");
    let huge = "9".repeat(70);
    let quoted = format!("{}...{}", "9".repeat(30), "9".repeat(31));
    assert_eq!(says(Checker::Hcmp, &huge, &huge), format!("ok answer is '{quoted}'"));
}

#[test]
fn sequences_end_together() {
    use Checker::*;
    let longer = "contains longer sequence [length = 3], but";
    assert_eq!(says(Ncmp, "1", "1 2 3"), format!("wrong answer Answer {longer} output contains 1 elements"));
    assert_eq!(
        says(Nyesno, "no no no", "no"),
        format!("wrong answer Output {longer} answer contains 1 elements")
    );
    assert_eq!(says(Ncmp, "1 2 x", "1"), "wrong output format Expected integer, but \"x\" found");
    assert_eq!(says(Wcmp, "a", "a b"), "wrong answer Unexpected EOF in the participants output");
    assert_eq!(says(Uncmp, "3 1 2", "1 2 3"), "ok 3 numbers (in increasing order): 1 2 3");
    assert_eq!(says(Uncmp, "1 1 2", "1 2"), "wrong answer Expected 2 elements, but 3 found");
    assert_eq!(says(Uncmp, "", ""), "ok empty sequence");
}

#[test]
fn reals_may_err_a_little() {
    use Checker::*;
    assert_eq!(says(Rcmp, "1.0000015", "1"), "ok answer is 1.0000000000");
    assert_eq!(says(Rcmp, "1.0000016", "1"), "wrong answer expected 1.0000000000, found 1.0000016000");
    // A relative error suffices, an absolute one too.
    assert!(says(Rcmp6, "1000000.9", "1000000").starts_with("ok "));
    assert!(says(Rcmp6, "0.0000009", "0").starts_with("ok "));
    assert!(says(Acmp, "1000000.9", "1000000").starts_with("wrong answer "));
    assert_eq!(says(Rcmp4, "-0.0", "0"), "ok found '-0.00000', expected '0.00000', error '0.00000'");
    assert_eq!(says(Rcmp4, "0", "0"), "ok found '0.00000', expected '0.00000', error '-0.00000'");
    assert_eq!(says(Rcmp6, "1e999", "2e999"), "ok found 'inf', expected 'inf', error '-nan'");
    assert!(says(Dcmp, "1e999", "1e301").starts_with("ok "));
    assert_eq!(
        says(Rncmp, "1e999", "1"),
        "wrong answer 1st numbers differ - expected: '1.0000000000', found: 'inf'"
    );
    assert_eq!(says(Rcmp6, "nan", "1"), "wrong output format Expected double, but \"nan\" found");
}

#[test]
fn cases_are_numbered() {
    use Checker::*;
    let differ = "wrong answer Sequences differ: jury has \"1 2 3 ... 5 6\" [size=6], but participant has \"\" [size=0]";
    assert_eq!(says(Casencmp, "Case 1:", "Case 1: 1 2 3 4 5 6"), format!("{differ} [test case 1]"));
    assert_eq!(says(Casewcmp, "Case 1: a b Case 2: c", "Case 1: a b\nCase 2: c"), "ok 2 test cases(s)");
    let wrong_number = "wrong output format Expected '2:' but found '3:' [test case 2]";
    assert_eq!(says(Casewcmp, "Case 1: a Case 3: c", "Case 1: a\nCase 2: c"), wrong_number);
    assert_eq!(
        says(Caseicmp, "Case 1: 1", "Case 1: 1\nCase 2: 5"),
        "wrong output format Expected 2 test case(s) but found 1"
    );
    // Once a case was ended by the word, the word alone at the end is no case.
    assert_eq!(says(Casencmp, "Case 1: 5 Case", "Case 1: 5"), "ok 1 test cases(s)");
    assert_eq!(says(Casencmp, "Case 1: 5\0x", "Case 1: 5"), "ok 1 test cases(s)");
}

#[test]
fn files_beyond_the_limit_are_refused() {
    let large = vec![b' '; MAX_FILE_BYTES + 1];
    let size = "File size exceeds 134217728 bytes, size is 134217729";
    assert_eq!(check(Checker::Wcmp, &large, b"", b"").to_string(), format!("FAIL {size}"));
    assert_eq!(check(Checker::Wcmp, b"", &large, b"").to_string(), format!("wrong output format {size}"));
    assert_eq!(check(Checker::Wcmp, b"", b"", &large).to_string(), format!("FAIL {size}"));
}

fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        "[ \\t\\r\\n]{1,3}",
        "[-+0-9.eE]{1,8}",
        "(Case )?[1-3]: ",
        "yes|NO|Yes",
        any::<char>().prop_map(String::from),
    ];
    let bytes =
        prop_oneof![9 => piece.prop_map(String::into_bytes), 1 => any::<[u8; 1]>().prop_map(Vec::from)];
    prop::collection::vec(bytes, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn foreign_bytes_are_judged_and_quoted_briefly(output in text(), answer in text()) {
        for checker in Checker::ALL {
            let judgement = check(checker, b"", &output, &answer);
            prop_assert!(judgement.message.len() < 1200, "{judgement}");
            prop_assert_ne!(judgement.verdict, CheckerVerdict::Points);
        }
    }

    #[test]
    fn a_line_end_after_the_last_token_changes_nothing(output in text(), answer in text()) {
        let ended = [output.as_slice(), b"\r\n"].concat();
        for checker in Checker::ALL {
            if !matches!(checker, Checker::Fcmp | Checker::Lcmp) {
                prop_assert_eq!(check(checker, b"", &ended, &answer), check(checker, b"", &output, &answer));
            }
        }
    }

    #[test]
    fn what_equals_the_answer_is_never_wrong(answer in text()) {
        prop_assume!(!answer.starts_with("\u{feff}".as_bytes()));
        for checker in Checker::ALL {
            let judgement = check(checker, b"", &answer, &answer);
            prop_assert_ne!(judgement.verdict, CheckerVerdict::WrongAnswer, "{:?}", checker);
        }
    }
}
