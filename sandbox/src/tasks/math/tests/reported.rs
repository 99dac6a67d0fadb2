//! Kinds of faults that users of answer checkers have reported, judged as in a run.

use super::super::*;

fn earns(gold: &str, response: &str) -> bool {
    let options = MathOptions::of_rewards();
    verify(&latex(gold), &extract(response, &options), &options)
}

fn boxed(response: &str) -> String {
    format!("So we get \\boxed{{{response}}}.")
}

#[track_caller]
fn right(cases: &[(&str, &str)]) {
    for (gold, response) in cases {
        assert!(earns(gold, &boxed(response)), "{gold} should accept {response}");
    }
}

#[track_caller]
fn wrong(cases: &[(&str, &str)]) {
    for (gold, response) in cases {
        assert!(!earns(gold, &boxed(response)), "{gold} should refuse {response}");
    }
}

#[track_caller]
fn says(cases: &[(&str, &str)]) {
    for (gold, response) in cases {
        assert!(earns(gold, response), "{gold} should accept {response}");
    }
}

#[track_caller]
fn says_not(cases: &[(&str, &str)]) {
    for (gold, response) in cases {
        assert!(!earns(gold, response), "{gold} should refuse {response}");
    }
}

#[test]
fn unknowns_are_told_apart_by_their_case() {
    wrong(&[
        ("\\frac{R}{r}", "1"),
        ("\\pi(R^2-r^2)", "0"),
        ("3R^2", "3r^2"),
        ("N-n", "n-N"),
        ("E", "e"),
        ("\\Gamma", "\\gamma"),
    ]);
    right(&[("A", "a"), ("\\text{Yes}", "\\text{yes}"), ("\\text{Nadia}", "nadia")]);
}

#[test]
fn a_letter_behind_a_value_is_a_factor() {
    wrong(&[("2t", "2"), ("5m", "5"), ("3ab", "3"), ("x^2bc", "x^2"), ("v_0 t", "v_0"), ("30", "30t")]);
    right(&[("5m+3", "3+5m"), ("\\frac34 h", "\\frac{3h}{4}"), ("\\frac12gt^2", "\\frac12t^2g")]);
    right(&[
        ("18", "18 cm"),
        ("18", "18\\text{ m}"),
        ("18\\mbox{ cm}^2", "18"),
        ("18", "18\\text{ kg}\\cdot\\text{m}"),
    ]);
}

#[test]
fn what_is_said_behind_both_values_must_not_differ() {
    wrong(&[
        ("7\\text{ a.m.}", "7\\text{ p.m.}"),
        ("7:00\\text{ AM}", "7:00\\text{ PM}"),
        ("3\\text{ red}, 2\\text{ blue}", "3\\text{ blue}, 2\\text{ red}"),
        ("10\\text{ miles north}", "10\\text{ miles south}"),
        ("50\\text{ cents}", "50\\text{ dollars}"),
        ("5\\text{ cm}", "5\\text{ m}"),
        ("x=5\\text{ am}", "x=5\\text{ pm}"),
        ("2\\text{ hours }30\\text{ minutes}", "2"),
        ("52_8", "52_{10}"),
        ("5", "5\\text{ million}"),
        ("5", "5\\text{ or more}"),
    ]);
    right(&[
        ("10\\text{ miles}", "10\\text{ mi}"),
        ("12\\text{ different ways}", "12\\text{ ways}"),
        ("5000000", "5\\text{ million}"),
        ("52_8", "52_{\\text{eight}}"),
        ("52_8", "52"),
    ]);
}

#[test]
fn thinking_is_not_judged() {
    says_not(&[
        ("4", "<think>So \\boxed{4}? No.</think> The answer is **5**."),
        ("4", "So \\boxed{4}? No.</think> The final answer is 5."),
        ("5", "<think>\\boxed{5}"),
        ("5", "<think>\\boxed{5}</think>"),
    ]);
    says(&[
        ("5", "<think>answer is 3</think> 5"),
        ("5", "So \\boxed{4}? No.</think>\n\n5"),
        ("4", "<think>maybe \\boxed{3}</think> It is \\boxed{4}."),
    ]);
}

#[test]
fn dots_stand_for_members() {
    wrong(&[
        ("\\{1,2,\\ldots,10\\}", "\\{1,2,10\\}"),
        ("1,2,3,\\ldots", "1,2,3"),
        ("1,2,3,\\dots", "1,2,3"),
        ("1,2,3", "1,2,3,..."),
    ]);
    right(&[("1,2,3,\\ldots", "1,2,3,\\dots")]);
}

#[test]
fn a_pair_is_no_set() {
    wrong(&[("(1,2)", "\\{1,2\\}"), ("\\{1,2\\}", "(2,1)"), ("(1,2)", "2,1"), ("(2,1)", "\\{1,2\\}")]);
    right(&[("(1,2)", "1,2"), ("\\{1,2\\}", "2,1"), ("1,2", "\\{2,1\\}"), ("(1,2)", "\\langle 1,2\\rangle")]);
}

#[test]
fn tiny_numbers_and_whole_ones_are_not_rounded_away() {
    wrong(&[
        ("0.00000025", "0.00000045"),
        ("7", "6.9999999"),
        ("0", "0.0000001"),
        ("6.6\\times 10^{-34}", "0"),
        ("e^{-1000}", "e^{-1001}"),
        ("e^{-1000}+1", "1"),
        ("e^{-800}", "0"),
        ("\\exp(-800)", "0"),
        ("2e^{-800}", "e^{-800}"),
        ("\\frac{\\sqrt2}{10^{400}}", "0"),
    ]);
    right(&[("e^{-1000}", "e^{-1000}"), ("e^0-1", "0"), ("\\sin 0", "0"), ("\\sqrt2-\\sqrt2", "0")]);
    right(&[("\\frac{1}{12}", "0.0833333333"), ("0.5", "\\frac12"), ("2.236068", "\\sqrt5")]);
}

#[test]
fn a_chain_that_contradicts_itself_says_nothing() {
    wrong(&[("7", "3=4=5=6=7"), ("7", "5=7"), ("7", "x=5=7")]);
    right(&[("7", "x=3+4=7")]);
}

#[test]
fn the_last_word_counts_where_one_corrects_oneself() {
    says(&[
        ("7", "First \\boxed{4}. No, it is \\boxed{7}."),
        ("7", "\\boxed{4} is wrong, \\boxed{7} is right"),
        ("7", "\\boxed{4}\n\n\\boxed{7}"),
        ("7", "It is \\boxed{4}, no, \\boxed{7}."),
        ("3,5,7", "The values are \\boxed{3}, \\boxed{5}, \\boxed{7}."),
    ]);
    says_not(&[
        ("5", "We find \\boxed{3} and \\boxed{5}."),
        ("4", "\\boxed{4} is wrong, \\boxed{7} is right"),
    ]);
}

#[test]
fn signs_and_decoration_around_an_answer_say_nothing() {
    for five in [
        "5.",
        "5,",
        "5;",
        "\\boldsymbol{5}",
        "\\underline{5}",
        "\\color{red}{5}",
        "~5",
        "5\\ ",
        "5~\\text{cm}",
        "\\text{Answer: }5",
        "5^\\circ C",
        "5^{\\text{th}}",
        "5 \\pmod 7",
        "\\Large{5}",
        "{\\large 5}",
        "=5",
        "\\implies x = 5",
        "\\phantom{0}5",
        "5 \\text{ (exactly)}",
        "\\$5.00",
    ] {
        assert!(earns("5", &boxed(five)), "{five}");
    }
    right(&[("(1,2)", "(1,2)."), ("120", "5!"), ("\\frac12", "\\frac{1}{2}.")]);
    wrong(&[("5", "\\overline{5}"), ("5", "\\text{not }5"), ("5", "5\\%"), ("5 \\pmod 7", "5 \\pmod 8")]);
}

#[test]
fn an_interval_may_be_answered_by_the_inequality_that_describes_it() {
    right(&[
        ("[2,5)", "2 \\le x < 5"),
        ("[\\sqrt3,\\infty)", "m \\ge \\sqrt3"),
        ("(-\\infty,3)\\cup(5,\\infty)", "x<3 \\text{ or } x>5"),
        ("x<3 \\text{ or } x>5", "(-\\infty,3)\\cup(5,\\infty)"),
        ("x<3 \\text{ or } x>5", "x>5 \\text{ or } x<3"),
        ("x \\in (-3,5)", "-3<x<5"),
        ("\\{x \\mid x > 5\\}", "(5,\\infty)"),
    ]);
    wrong(&[
        ("[2,5)", "2 < x < 5"),
        ("(-\\infty,3)\\cup(5,\\infty)", "x<3 \\text{ or } x>6"),
        ("x > 5", "y > 5"),
        ("x > 5", "y \\in (5,\\infty)"),
        ("x \\in (-3,5)", "-3<y<5"),
        ("x<3 \\text{ or } x>5", "y<3 \\text{ or } y>5"),
    ]);
}

#[test]
fn percent_is_asked_for_by_its_sign() {
    right(&[
        ("28\\%", "28"),
        ("28\\%", "0.28"),
        ("28\\%", "28 \\text{ percent}"),
        ("0.5", "50 \\text{ percent}"),
    ]);
    wrong(&[("28\\%", "2.8"), ("50", "0.5"), ("28", "28\\%")]);
    let gold = gsm8k("#### 50").unwrap();
    let options = MathOptions::of_rewards();
    for response in ["The answer is 50%.", "The answer is $50\\%$.", "#### 50%"] {
        assert!(verify(&gold, &extract(response, &options), &options), "{response}");
    }
}

#[test]
fn numbers_are_found_whatever_stands_around_them() {
    for response in [
        "The answer is +5.",
        "#### +5",
        "<answer>5</answer>",
        "<answer>5 eggs</answer>",
        "(5)",
        "\"5\"",
        "`5`",
        "*5*",
        "Answer:5",
        "≈5",
        "~5",
        "→ 5",
        "5 (not 41)",
        "There are 5 eggs (see step 1).",
        "#### 5\nchecked in 2 ways.",
        "\\fbox{5}",
        "So $\\fbox{5}$ of 9.",
        "So \\boxed {5} of 9.",
    ] {
        assert!(earns("5", response), "{response}");
    }
    says(&[
        ("-5", "The answer is −5."),
        ("-5", "The answer is - 5."),
        ("21211", "21 211"),
        ("\\frac54", "The answer is 1 1/4."),
    ]);
    says_not(&[
        ("30", "The meeting is at 3:30."),
        ("5", "The answer is 5 million."),
        ("-2", "The answer is 5-7."),
    ]);
    says(&[("5000000", "The answer is 5 million."), ("1500", "The answer is 1.5e3.")]);
}

#[test]
fn words_and_terms_need_no_delimiters() {
    says(&[
        ("\\text{Nadia}", "The answer is Nadia."),
        ("A", "The answer is A."),
        ("14-i", "The answer is 14 - i."),
        ("\\frac\\pi2", "The answer is pi/2"),
    ]);
    says_not(&[("A", "Answer: B"), ("\\text{even}", "The answer is neve.")]);
    wrong(&[("\\text{even}", "neve"), ("even", "neve")]);
}

#[test]
fn notations_for_the_same_number_are_read() {
    right(&[
        ("1-\\frac{1}{\\mathrm{e}}", "1-e^{-1}"),
        ("0.\\overline{36}", "\\frac{4}{11}"),
        ("\\frac{4}{11}", "0.\\overline{36}"),
        ("\\emptyset", "\\varnothing"),
        ("i", "\\sqrt{-1}"),
        ("-1", "i^2"),
        ("4\\sqrt2", "4√2"),
        ("4\\sqrt{12}", "4√12"),
        ("[2,\\infty)", "[2,∞)"),
        ("x^2+1", "x²+1"),
        ("x^2+1", "x**2+1"),
        ("\\frac\\pi2", "pi/2"),
        ("e^{12}-1", "exp(12)-1"),
        ("3\\times 10^8", "3e8"),
        ("21211", "21\\,211"),
        ("\\frac12", "½"),
        ("5", "\\text{five}"),
    ]);
    wrong(&[("2e-1", "0.2")]);
}

#[test]
fn what_the_answer_is_said_not_to_be_and_bounds_of_it_earn_nothing() {
    for response in [
        "The answer is not 5.",
        "The answer isn't 5.",
        "The answer cannot be 5.",
        "The answer is more than 5.",
        "#### not 5",
        "Not 5.",
        "x > 5",
        "So $> 5$.",
        "The answer is $\\ne 5$.",
    ] {
        assert!(!earns("5", response), "{response}");
    }
    wrong(&[
        ("5", "\\ne 5"),
        ("5", "\\ge 5"),
        ("5", "\\geqslant 5"),
        ("5", "> 5"),
        ("5", ">5"),
        ("5", "< 5"),
        ("5", "≥ 5"),
        ("5", "\\not= 5"),
        ("5", "\\neg 5"),
    ]);
    says(&[
        ("5", "The answer is not 4 but 5."),
        ("5", "The answer is 5, not 4."),
        ("5", "It is not 4. 5 is right."),
        ("5", "=> 5"),
        ("5", "> 5"),
        ("72", "He sold 48+24=<<48+24=72>>72 clips."),
        ("5", "He needs at least 5."),
    ]);
}

#[test]
fn a_sign_of_both_within_a_value_stands_for_two_values() {
    let roots = "\\frac{1+\\sqrt5}{2},\\frac{1-\\sqrt5}{2}";
    right(&[
        ("\\frac{1\\pm\\sqrt5}{2}", roots),
        (roots, "\\frac{1\\pm\\sqrt5}{2}"),
        (roots, "x=\\frac{1±\\sqrt5}{2}"),
        ("x=\\frac{1\\pm\\sqrt5}{2}", roots),
        ("3,\\frac{1\\pm\\sqrt5}{2}", "\\frac{1-\\sqrt5}{2},3,\\frac{1+\\sqrt5}{2}"),
    ]);
    wrong(&[
        ("\\frac{1\\pm\\sqrt5}{2}", "\\frac{1+\\sqrt5}{2}"),
        ("\\frac{1+\\sqrt5}{2}", "\\frac{1\\pm\\sqrt5}{2}"),
        (roots, "\\frac{1\\pm\\sqrt3}{2}"),
    ]);
}

#[test]
fn coordinates_are_told_by_their_names() {
    right(&[("(3,4)", "x=3, y=4"), ("(3,4)", "y=4, x=3"), ("(2,3)", "m=2, b=3"), ("(1,2,3)", "z=3,x=1,y=2")]);
    wrong(&[("(3,4)", "y=3, x=4"), ("(3,4)", "x=4, y=3")]);
}

#[test]
fn the_last_of_many_numbers_is_no_answer() {
    says_not(&[
        ("7", "1 2 3 4 5 6 7"),
        ("6", "1, 2, 3, 4, 5, 6"),
        ("3", "2 or 3"),
        ("3", "It may be this.\n#### 2 or 3"),
        ("5", "#### 4, 5"),
    ]);
    says(&[
        ("2,3", "2 or 3"),
        ("1,2,3", "1, 2, 3."),
        ("21211", "21 211"),
        ("1234567", "1 234 567"),
        ("1234", "1,234"),
        ("3", "#### 3"),
        ("-5", "- 5 = -5"),
    ]);
}

#[test]
fn words_and_letters_beside_a_number_change_it() {
    says_not(&[
        ("18", "The answer is 18 or 20."),
        ("18", "The answer is 18 or $20."),
        ("18", "Answer: either 18 or 20"),
        ("18", "Answer: 18 (or 20)"),
        ("18", "Answer: 18, 20"),
        ("18", "Answer: 18 and 20."),
        ("1", "Answer: 1, 2, 3"),
        ("18", "So \\boxed{18\\text{ and a half}}."),
        ("18", "The answer is negative 18."),
        ("18", "It is minus 18"),
        ("18", "18k"),
        ("18", "He earns $18M."),
        ("18", "The answer is 18 dozen."),
        ("18", "18½"),
        ("18", "(1, 18)"),
        ("18", "17 < 18"),
    ]);
    says(&[
        ("18000", "18k"),
        ("18000000", "He earns $18M."),
        ("18", "It is 18 kg."),
        ("18", "It is 18kg."),
        ("18", "It is 18 M."),
        ("18", "The answer is 18, or half of 36."),
        ("18", "Answer: 18\nExplanation: 9 and 2."),
        ("18", "Answer: 18. Check: 2 * 9 = 18."),
        ("(1,18)", "(1, 18)"),
    ]);
}
