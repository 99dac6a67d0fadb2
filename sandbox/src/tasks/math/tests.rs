use std::fmt::Write;

use proptest::prelude::*;

use super::*;

mod reported;

fn equal(gold: &str, response: &str) -> bool {
    judge(gold, response, &MathOptions::default()).equal
}

#[track_caller]
fn accepts(cases: &[(&str, &str)]) {
    for (gold, response) in cases {
        assert!(equal(gold, response), "{gold} should accept {response}");
    }
}

#[track_caller]
fn refuses(cases: &[(&str, &str)]) {
    for (gold, response) in cases {
        assert!(!equal(gold, response), "{gold} should refuse {response}");
    }
}

#[test]
fn the_last_match_of_the_best_kind_counts() {
    accepts(&[
        ("$5$", "\\boxed{4}? No: the sign is missing. It is \\boxed{5}"),
        ("$5$", "First $4$. The answer is: $5$ as shown; by the way $7$."),
        ("$5$", "$4$, then $5$"),
        ("5", "we get 3 + 4 and then 5"),
        ("$34$", "Final Answer: The largest $n$ is 34."),
        ("$1,2$", "\\boxed{1} and \\boxed{2}"),
        ("$\\frac{1}{2}$", "it is \\frac{1}{2} of it"),
    ]);
    refuses(&[("$4$", "\\boxed{4}? No: the sign is missing. It is \\boxed{5}")]);
}

#[test]
fn formulas_within_a_line_end_with_it() {
    accepts(&[("$9$", "Answer $$ \n 9 \n $$"), ("$9$", "Answer \\[ \n 9 \n \\]"), ("$9$", "so [ 9 ] holds")]);
    let options = MathOptions { match_types: vec![MatchType::Latex], ..MathOptions::default() };
    assert!(!judge("$9$", "Answer $ \n 9 \n $", &options).equal);
}

#[test]
fn numbers_are_read_in_all_notations() {
    accepts(&[
        ("7425000", "7,425,000"),
        ("1000", "1 000"),
        ("1000.99", "1000,99"),
        ("$0.111$", "$0,111$"),
        ("$1{,}000$", "$1000$"),
        ("$2\\frac{1}{2}$", "$2.5$"),
        ("$10/9$", "$\\frac{10}{9}$"),
        ("$\\frac13$", "1/3"),
        ("$28\\%$", "28 percent"),
        ("$0.28$", "$28\\%$"),
        ("$1500$", "$1.5\\times10^{3}$"),
        ("18", "It costs $18"),
    ]);
    refuses(&[("$32349$", "$32, 349$"), ("$28$", "$28\\%$"), ("$1112112_3$", "$1112122_3$")]);
}

#[test]
fn decimals_are_compared_to_the_precision() {
    let to = |precision, gold, response| {
        judge(gold, response, &MathOptions { precision, ..MathOptions::default() }).equal
    };
    assert!(to(4, "$\\frac{1}{3}$", "0.3333"));
    assert!(!to(6, "$\\frac{1}{3}$", "0.3333"));
    assert!(to(2, "$(\\frac{3}{5},\\frac{8}{3}]$", "$(0.6,2.67]$"));
    assert!(to(4, "$\\sqrt{2}$", "$1.4142$"));
    assert!(!to(5, "$4$", "$4\\sqrt{2}$"));
    assert!(!to(u32::MAX, "$\\sqrt{2}$", "$1.4142$"));
}

#[test]
fn units_and_texts_are_stripped() {
    accepts(&[
        ("$125$ miles", "$\\boxed{125\\textnormal{ miles}}.$"),
        ("$15\\mbox{ cm}^2$", "$15$"),
        ("$1/3$", "$\\frac{1}{3} \\textbf{meters}$"),
        ("$90^\\circ$", "$90$"),
        ("$\\text{E}$", "$E$"),
        ("$\\text{Evelyn}$", "$evelyn$"),
        ("$5$", "$\\text{5}$"),
    ]);
    refuses(&[("$\\text{Evelyn}$", "$\\text{Angela}$")]);
}

#[test]
fn terms_are_the_same_functions() {
    accepts(&[
        ("$\\tan^2(y)+1$", "$\\sec^2(y)$"),
        ("$\\frac{x+2}{7}$", "$\\frac{x}{7}+\\frac{2}{7}$"),
        ("$\\sqrt{x^2}$", "$|x|$"),
        ("$\\frac{1}{\\sqrt{2}}$", "$\\frac{\\sqrt{2}}{2}$"),
        ("$\\sqrt[3]{27}$", "$3$"),
        ("$10!$", "$3628800$"),
        ("$\\binom{5}{2}$", "$10$"),
        ("$\\log_2 8$", "$3$"),
        ("$\\sum_{k=1}^{10} k$", "$55$"),
        ("$\\frac{n(n+1)}{2}$", "$\\sum_{k=1}^{n} k$"),
        ("$n!$", "$n(n-1)!$"),
        ("$\\frac{9}{4}\\pi$", "$2.25\\pi$"),
        ("$2^{100}$", "$4^{50}$"),
    ]);
    refuses(&[
        ("$2^{100}$", "$2^{100}+1$"),
        ("$n!$", "$n(n-1)!+1$"),
        ("$x+1$", "$x+1.0000001$"),
        ("$\\log(xy)$", "$\\log(x)+\\log(y)+10^{-9}$"),
        ("$f(x)$", "$f(y)$"),
        ("$e^{-40}$", "$e^{-41}$"),
        ("$\\sin(x)$", "$x$"),
        ("$2$", "$\\frac{1+\\sqrt{5}}{2}$"),
    ]);
}

#[test]
fn names_count_where_they_are_asked_for() {
    accepts(&[
        ("$11$", "$x=11$"),
        ("$x=11$", "$11$"),
        ("$x = 11$", "$x = 5+5+1 = 11$"),
        ("$x=11$", "$x\\approx 11$"),
        ("$\\frac{NO}{BO}=\\frac{1}{\\sqrt{6}}$", "$\\frac{1}{\\sqrt{6}}$"),
        ("$f(x)=x^2$", "$x^2$"),
        ("$p=5,q=2;p=7,q=2$", "$(5,2),(7,2)$"),
        ("$(x,y)=(5,8)$", "$(5,8)$"),
        ("$V_{1}:V_{2}=11:21$", "$11:21$"),
    ]);
    refuses(&[
        ("$x = 11$", "$x = 5+5+1 = 7 = 11$"),
        ("$x=3$", "$y=3$"),
        ("$2x + z = 1$", "$1$"),
        ("$a^2 + b = 0$", "$0$"),
    ]);
    let lax = MathOptions { strict: false, ..MathOptions::default() };
    assert!(judge("$f(x)$", "$f(y)$", &lax).equal);
}

#[test]
fn relations_hold_however_they_are_written() {
    accepts(&[
        ("$x < 3$", "$3 > x$"),
        ("$x < 1$", "$-x > -1$"),
        ("$x \\neq 5$", "$x != 5$"),
        ("$2x+4y-3=0$", "$y=-\\frac{1}{2}x+\\frac{3}{4}$"),
        ("$y=1/x$", "$xy=1$"),
        ("$x^2+y^2=1$", "$1-x^2-y^2=0$"),
        ("$1<x<2$", "$2>x>1$"),
    ]);
    refuses(&[
        ("$x \\geq 5$", "$x \\leq 5$"),
        ("$x < 1$", "$x \\le 1$"),
        ("$x < 1$", "$x > -1$"),
        ("$x+y=1$", "$x-y=1$"),
        ("$xy=0$", "$x=0$"),
    ]);
}

#[test]
fn a_gold_inequality_may_be_answered_by_an_interval_only() {
    accepts(&[
        ("$-793 < a < 10$", "$(-793, 10)$"),
        ("$1\\leq|z|\\leq \\frac{3}{2}$", "$[-\\frac{3}{2}, -1] \\cup [1, \\frac{3}{2}]$"),
        ("$(x-1)^2>0$", "$(-\\infty,1)\\cup(1,\\infty)$"),
        ("$x^2=4$", "$\\{2,-2\\}$"),
    ]);
    refuses(&[
        ("$[-2,7]$", "$-2 \\le x \\le 7$"),
        ("$(x-1)^2>0$", "$(-\\infty,\\infty)$"),
        ("$x>1$", "$[1,\\infty)$"),
    ]);
    let both = MathOptions { allow_set_relation_comp: true, ..MathOptions::default() };
    assert!(judge("$[-2,7]$", "$-2 \\le x \\le 7$", &both).equal);
}

#[test]
fn tuples_are_ordered_and_sets_are_not() {
    accepts(&[
        ("$1,2,3$", "$\\{3,2,1\\}$"),
        ("$(1,2),(3,4)$", "$(3,4),(1,2)$"),
        ("$6 \\text{ and } 8$", "$8,6$"),
        ("$1 \\pm \\sqrt{5}$", "$1-\\sqrt{5}, 1+\\sqrt{5}$"),
        ("$(1,3)$", "${1,3}$"),
        ("$(1,4.5)$", "$(1,\\frac92)$"),
        ("$\\mathbb{R}$", "$(-\\infty,\\infty)$"),
        ("$[1,3]$", "$[1,2]\\cup[2,3]$"),
        ("$\\{1,2,2\\}$", "$\\{2,1\\}$"),
        ("$(-\\infty,1)\\cup(0,\\infty)$", "$\\mathbb{R}$"),
    ]);
    refuses(&[
        ("$(1,2,3)$", "$(3,2,1)$"),
        ("$(0,9)$", "$[0,9)$"),
        ("$1,2$", "$1,2,3$"),
        ("$[1,\\infty)$", "$(-\\infty,1)\\cup(2,\\infty)$"),
        ("$(-\\infty,\\infty)$", "$\\emptyset$"),
        ("$\\pm 2021$", "$2021$"),
    ]);
}

#[test]
fn matrices_are_compared_entry_by_entry() {
    accepts(&[
        (
            "$\\begin{pmatrix}1 & 2 \\\\3 & 4\\end{pmatrix}$",
            "$ \\left[\\begin{array}{cc}1 & \\frac42 \\\\3 & 4.0\\end{array}\\right] $",
        ),
        (
            "$\\begin{pmatrix}6 & 8 \\\\ 10 & 12\\end{pmatrix}$",
            "$\\begin{pmatrix}1 & 2 \\\\ 3 & 4\\end{pmatrix} + \\begin{pmatrix}5 & 6 \\\\ 7 & 8\\end{pmatrix}$",
        ),
        ("$-2$", "$\\begin{vmatrix}1 & 2 \\\\ 3 & 4\\end{vmatrix}$"),
    ]);
    refuses(&[(
        "$\\begin{pmatrix}1 & 2 \\\\3 & 4\\end{pmatrix}$",
        "$\\begin{pmatrix}1 & 3 \\\\2 & 4\\end{pmatrix}$",
    )]);
}

#[test]
fn choices_are_found() {
    let options = MathOptions { match_types: vec![MatchType::String], ..MathOptions::default() };
    assert!(judge("B", "I thought A. but the answer is **B**.", &options).equal);
    assert!(!judge("B", "A Bad one", &options).equal);
}

#[test]
fn gold_answers_of_data_sets_are_read() {
    let gold = gsm8k("5 + 13 = <<5+13=18>>18\n#### 1,018").unwrap();
    assert!(verify(
        &gold,
        &extract("So she has \\boxed{1018} of them", &MathOptions::default()),
        &MathOptions::default()
    ));
    assert_eq!(gsm8k("18"), None);
    let gold = latex("\\left( 3, \\frac{\\pi}{2} \\right)");
    assert!(verify(&gold, &extract("$(3, \\pi/2)$", &MathOptions::default()), &MathOptions::default()));
}

#[test]
fn what_is_not_understood_is_equal_to_the_same_text_only() {
    let zzz = extract("$\\zzz x$", &MathOptions::default());
    assert!(!zzz.is_understood());
    assert!(verify(&zzz, &zzz, &MathOptions::default()));
    assert!(!verify(&zzz, &extract("$\\zzz y$", &MathOptions::default()), &MathOptions::default()));
    assert!(extract("", &MathOptions::default()).is_empty());
    assert!(!verify(&Parsed::default(), &Parsed::default(), &MathOptions::default()));
}

#[test]
fn hostile_texts_end() {
    let deep = |open: &str, close: &str| format!("${}1{}$", open.repeat(100_000), close.repeat(100_000));
    let mut hostile = vec![
        "$9^{9^9}$".to_owned(),
        "$9^{9^{9^{9}}}$".into(),
        "$(10^9)!$".into(),
        "$1000000000!$".into(),
        "$\\sum_{k=1}^{1000000000} k$".into(),
        "$\\binom{10^9}{5\\cdot10^8}$".into(),
        "$1E999999999$".into(),
        "$\\sum_{a=1}^{999}\\sum_{b=1}^{999}\\sum_{c=1}^{999} abc$".into(),
        deep("{", "}"),
        deep("(", ")"),
        deep("\\frac{", "}{2}"),
        deep("\\sqrt{", "}"),
        deep("|", "|"),
        deep("-", ""),
        deep("x^", ""),
        format!("\\boxed{}", "{".repeat(100_000)),
        "\\boxed{".repeat(50_000),
        "$".repeat(1_000_000),
        "\\(".repeat(1_000_000),
        "\\[".repeat(1_000_000),
        " [".repeat(1_000_000),
        "answer".repeat(200_000),
        "answer: =".repeat(200_000),
        "final answer is ".repeat(100_000),
        "1".repeat(1_000_000),
        "1+".repeat(1_000_000),
        " 1*".repeat(1_000_000),
        "\\frac".repeat(100_000),
        format!("${}$", "\\frac".repeat(800)),
        format!("${}$", "sqrt(".repeat(800)),
        format!("${}$", "1,".repeat(2_000)),
        format!("${}$", "(1,2),".repeat(600)),
        format!("${}$", "x".repeat(4_000)),
    ];
    let sums = "\\sum_{k=1}^{90}\\sum_{j=1}^{90}";
    hostile.extend([
        format!("${sums}\\min(0,(997^{{370}})\\mod(991^{{371}}))$"),
        format!("${sums}\\min(0,\\gcd(997^{{372}},991^{{372}}))$"),
        format!("${sums}f(997^{{370}},1)$"),
        format!("${sums}\\sin(1E-819)$"),
        format!(
            "$\\operatorname{{lcm}}({}1)$",
            (0..60).fold(String::new(), |all, i| all + &format!("{}^{{372}},", 997 - 2 * i))
        ),
    ]);
    let mut primes = String::from("$1");
    (2..300).for_each(|n| write!(primes, "+\\frac{{1}}{{{}}}", n * n + 1).unwrap());
    hostile.push(primes + "$");
    for text in &hostile {
        let judged = judge(text, text, &MathOptions::default());
        // The same text is the same answer, if there is any.
        assert!(judged.equal || judged.extracted.is_empty(), "{}", &text[..text.len().min(40)]);
        judge("$9^{9^9}$", text, &MathOptions::default());
        judge(text, "$\\{1,2\\}$", &MathOptions::default());
    }
}

/// What comparing `response` with 72 leaves of a budget.
fn left_over(response: &str) -> u32 {
    let (options, budget) = (MathOptions::default(), StepBudget::new(MAX_STEPS));
    let parsed = extract(response, &options);
    assert!(parsed.is_understood(), "{response}");
    assert!(!verify_within(&extract("$72$", &options), &parsed, &options, &budget), "{response}");
    budget.left()
}

#[test]
fn long_numbers_have_their_price_wherever_they_are_worked_with() {
    let row = |entry: &str, joint: &str| [entry; 8].join(joint);
    let matrix =
        |entry: &str| format!("\\begin{{pmatrix}}{}\\end{{pmatrix}}", vec![row(entry, "&"); 8].join("\\\\"));
    let long = "997^{370}";
    for term in [
        "\\operatorname{lcm}(1,997^{370},991^{370},983^{370})".to_owned(),
        "\\min(0,\\gcd(997^{370},991^{370}))".into(),
        "\\min(0,(997^{370})\\mod(991^{370}))".into(),
        "\\min(0,f(997^{370},1))".into(),
        format!("\\operatorname{{tr}}({})", matrix(long)),
        format!("\\|{}\\|", matrix(long)),
        format!("|{}|", matrix("\\frac{10007}{10009}")),
        format!("|{}{}|", matrix("1"), "^T".repeat(40)),
        "\\min(0,\\frac{1}{997^{370}})".into(),
    ] {
        let sums = format!("$\\sum_{{k=1}}^{{90}}\\sum_{{j=1}}^{{90}}{term}$");
        assert_eq!(left_over(&sums), 0, "{term}");
    }
    assert_eq!(left_over(&format!("$\\operatorname{{lcm}}({})$", row(long, ","))), 0);
    assert!(left_over("$10^{30}+\\frac{1}{3}$") > MAX_STEPS - 50, "numbers of everyday length are cheap");
}

#[test]
fn no_work_is_done_without_a_budget() {
    let options = MathOptions::default();
    let chain = format!("${}1$", "x<1<".repeat(250));
    let many = |sum: u32| {
        let terms: Vec<String> = (0..200).map(|i| format!("x_{{{i}}}")).collect();
        format!("${}={sum}$", terms.join("+"))
    };
    for (gold, response) in [(chain.as_str(), "$(1,2)$"), (&many(1), &many(2))] {
        let (gold, response) = (extract(gold, &options), extract(response, &options));
        assert!(gold.is_understood() && response.is_understood());
        for steps in [0, 10, MAX_STEPS] {
            let budget = StepBudget::new(steps);
            assert!(!verify_within(&gold, &response, &options, &budget));
            assert_eq!(budget.left(), 0, "of {steps}");
        }
    }
}

#[test]
fn formulas_with_frames_are_found_among_those_without() {
    accepts(&[
        ("$5$", "\\[ 1 \\] \\[ \\boxed{5} \\] \\[ 2 \\]"),
        ("$5$", "\\( \\boxed{} \\) $\\boxed{5}$"),
        ("$5$", "$$\\boxed{5}$$ and \\( \\boxed{\\)"),
    ]);
    let nested = "\\[".repeat(9_000);
    for end in ["\\]", "\\boxed{7\\]", "\\boxed{7}\\]"] {
        judge("$5$", &format!("{nested}{end}"), &MathOptions::default());
    }
}

fn pieces() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "\\boxed{",
        "}",
        "{",
        "$",
        "$$",
        "\\(",
        "\\)",
        "\\[",
        "\\]",
        "\\frac",
        "\\sqrt",
        "1",
        "23",
        ".5",
        ",",
        ";",
        "x",
        "y",
        "e",
        "i",
        "+",
        "-",
        "\\pm",
        "^",
        "_",
        "(",
        ")",
        "[",
        "]",
        "|",
        "=",
        "<",
        "\\le",
        "\\in",
        "\\cup",
        "\\text{",
        "\\begin{pmatrix}",
        "&",
        "\\\\",
        "\\end{pmatrix}",
        "\\infty",
        "\\sum_{k=1}^{9}",
        "\\sin",
        "\\log",
        "!",
        "%",
        "answer",
        "answer is",
        ":",
        " ",
        "\n",
        " and ",
        "I hope",
        "é",
        "∪",
        "\\",
        "\\mathbb{R}",
        "\\lim_{x\\to",
        "\\int",
    ]);
    prop::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn no_text_makes_it_panic(gold in any::<String>(), response in any::<String>()) {
        judge(&gold, &response, &MathOptions::default());
    }

    #[test]
    fn no_formula_makes_it_panic(gold in pieces(), response in pieces(), lax in any::<bool>()) {
        let options = MathOptions { strict: !lax, allow_set_relation_comp: lax, ..MathOptions::default() };
        judge(&gold, &response, &options);
        judge(&format!("${gold}$"), &format!("\\boxed{{{response}}}"), &options);
    }

    #[test]
    fn an_answer_is_equal_to_itself(formula in pieces()) {
        let parsed = extract(&format!("${formula}$"), &MathOptions::default());
        prop_assert!(parsed.text().unwrap_or_default().is_empty() || verify(&parsed, &parsed, &MathOptions::default()));
    }
}
