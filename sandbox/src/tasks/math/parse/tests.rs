use super::*;
use crate::tasks::math::expr::Constant;

fn read(formula: &str) -> Option<SharedExpr> {
    parse(formula, &StepBudget::new(100_000))
}

fn is(formula: &str, same: &str) {
    assert_eq!(read(formula), read(same), "{formula}");
    assert!(read(formula).is_some(), "{formula}");
}

#[test]
fn factors_side_by_side_bind_before_division() {
    is("1/2x", "\\frac{1}{2x}");
    is("1/2 \\cdot x", "\\frac{1}{2} \\cdot x");
    is("2\\frac{1}{2}", "\\frac{5}{2}");
    is("-2\\frac{1}{2}", "-\\frac{5}{2}");
}

#[test]
fn functions_take_what_follows_but_no_further_function() {
    is("\\sin 2x \\cos y", "\\sin(2x) \\cos(y)");
    is("\\sin^{-1} x", "\\arcsin x");
    is("\\ln x", "\\log_{e} x");
    is("f(x+1)", "f \\cdot (x+1)");
    assert!(matches!(&*read("f(x)").unwrap(), Expr::Call(name, _) if name == "f"));
}

#[test]
fn names_keep_their_case_and_pi_is_a_number() {
    is("\\text{C}", "C");
    assert_ne!(read("C"), read("c"));
    is("x_{1}", "x_1");
    is("\\mbox{a b}", "\\text{AB}");
    is("π", "\\pi");
    assert_ne!(*read("\\Pi").unwrap(), Expr::Constant(Constant::Pi));
    assert_ne!(read("\\vec{v}"), read("v"));
}

#[test]
fn lists_sets_tuples_and_intervals_differ() {
    assert!(matches!(&*read("1,2").unwrap(), Expr::List(all) if all.len() == 2));
    assert!(matches!(&*read("(1,2)").unwrap(), Expr::Interval(_)));
    assert!(matches!(&*read("(2,1)").unwrap(), Expr::Tuple(_)));
    assert!(matches!(&*read("(1,2,3)").unwrap(), Expr::Tuple(_)));
    assert!(matches!(&*read("\\{1\\}").unwrap(), Expr::Set(_)));
    assert!(matches!(&*read("1,2;3,4").unwrap(), Expr::List(all) if matches!(&*all[0], Expr::Tuple(_))));
    assert!(matches!(&*read("3 \\pm 1").unwrap(), Expr::List(all) if all.len() == 2));
    is("(5)", "5");
}

#[test]
fn commas_may_group_digits() {
    is("7,425,000", "7425000");
    assert!(matches!(&*read("7, 425").unwrap(), Expr::List(_)));
    is("0,111", "0.111");
}

#[test]
fn of_a_chain_that_is_not_understood_the_last_part_is_read() {
    is("1 = \\zzz = x = 0", "0");
    assert_eq!(read("\\zzz = 0"), None);
}

#[test]
fn what_is_no_formula_is_refused() {
    for formula in
        ["", "+", "2+", "(1", "1)", "x^", "\\frac{1}", "\\begin{pmatrix}1&2\\\\3\\end{pmatrix}", "a,,b"]
    {
        assert_eq!(read(formula), None, "{formula}");
    }
    let deep = |depth: usize| format!("{}1{}", "(".repeat(depth), ")".repeat(depth));
    assert!(read(&deep(10)).is_some());
    assert_eq!(read(&deep(1_000)), None);
}

#[test]
fn long_rows_are_flat_whoever_shares_their_beginning() {
    let parts = |formula: &str| read(formula).map(|read| read.children().len());
    assert_eq!(parts(&["x"; 900].join("+")), Some(900));
    assert_eq!(parts(&"x".repeat(900)), Some(900));
    assert_eq!(parts(&["x"; 250].join("\\cdot ")), Some(250));
    assert_eq!(parts(&["x"; 900].join("<")), Some(2 * 899));
    is("(a+b)+c+(d+e)", "a+b+c+d+e");
    is("(pq)(rs) \\cdot (tu)", "p q r s t u");
    is("1 2 \\frac{1}{2}", "\\frac{7}{2}");
    is("x 2 \\frac{1}{2}", "x (\\frac{5}{2})");
}

#[test]
fn of_what_is_nearly_the_same_names_give_way() {
    is("x = y \\approx 3", "3");
    is("x = 2 \\approx 3", "x = 2");
    is("x \\approx y = z \\approx 3 < 4", "3 < 4");
    assert_eq!(read("x < y = 3").unwrap().relations().len(), 2);
    assert_eq!(read("x < y = 3").unwrap().relations()[0].right, read("y").unwrap());
}

#[test]
fn long_numbers_have_their_price_where_they_are_read() {
    for formula in ["1E-800+".repeat(250), format!("x{}+", "+1E800".repeat(200))] {
        let budget = StepBudget::new(100_000);
        assert_eq!(parse(&(formula + "1"), &budget), None);
        assert_eq!(budget.left(), 0);
    }
    let digits = "7".repeat(390);
    let budget = StepBudget::new(10_000);
    assert!(parse(&format!("\\frac{{{digits}}}{{{digits}1}}"), &budget).is_some());
    assert!(budget.left() < 10_000 - 1_600);
}

#[test]
fn rows_of_exponents_and_subscripts_are_no_deeper_than_groups() {
    fn depth(node: &SharedExpr) -> u32 {
        1 + node.children().into_iter().map(depth).max().unwrap_or_default()
    }
    for nested in ["x^", "2^", "x_", "2_", "x_1^"] {
        let read = read(&format!("{}x", nested.repeat(500)));
        assert!(read.is_none_or(|read| depth(&read) <= 2 * MAX_DEPTH + 2), "{nested}");
    }
    is("x_1^2_3", "x_1^2");
}
