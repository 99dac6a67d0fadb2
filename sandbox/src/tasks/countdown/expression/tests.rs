use proptest::prelude::*;

use super::*;

fn value(text: &str) -> Option<Ratio<i128>> {
    Expression::parse(text).unwrap().value()
}

fn ratio(numerator: i128, denominator: i128) -> Option<Ratio<i128>> {
    Some(Ratio::new(numerator, denominator))
}

#[test]
fn operators_bind_and_group_as_in_school() {
    for (text, numerator, denominator) in [
        ("7", 7, 1),
        ("0", 0, 1),
        ("2+3*4", 14, 1),
        ("(2+3)*4", 20, 1),
        ("9-3-2", 4, 1),
        ("9-(3-2)", 8, 1),
        ("8/4/2", 1, 1),
        ("8/(4/2)", 4, 1),
        ("8/3*3", 8, 1),
        ("1/3", 1, 3),
        ("1-4", -3, 1),
        ("1/(1-4)", -1, 3),
        ("8/(3-8/3)", 24, 1),
        (" ( 1 + 2 ) * 3 ", 9, 1),
        ("((((5))))", 5, 1),
    ] {
        assert_eq!(value(text), ratio(numerator, denominator), "{text}");
    }
}

#[test]
fn division_by_zero_has_no_value() {
    for text in ["1/0", "0/0", "1/(2-2)", "1/(3/3-1)", "0*(1/0)"] {
        assert_eq!(value(text), None, "{text}");
    }
}

#[test]
fn everything_else_is_refused() {
    for (text, at) in [
        ("", 0),
        ("  ", 2),
        ("-3", 0),
        ("+3", 0),
        ("3--3", 2),
        ("3+-3", 2),
        ("3 8", 2),
        ("(3)(8)", 3),
        ("3(8)", 1),
        ("3*8=24", 3),
        ("3**8", 2),
        ("3//8", 2),
        ("3.0", 1),
        ("3e2", 1),
        ("(3", 2),
        ("3)", 1),
        ("()", 1),
        ("3+", 2),
        ("3\t+8", 1),
        ("３", 0),
        ("3×8", 1),
    ] {
        assert_eq!(Expression::parse(text), Err(ExpressionError::Unexpected { at }), "{text}");
    }
    for text in ["03", "00", "12345", "99999999999999999999999999999999999999999"] {
        assert_eq!(Expression::parse(text), Err(ExpressionError::BadNumber { at: 0 }), "{text}");
    }
}

#[test]
fn limits_are_exact() {
    let nested = |levels: usize| format!("{}1{}", "(".repeat(levels), ")".repeat(levels));
    assert!(Expression::parse(&nested(MAX_NESTING)).is_ok());
    let refused = Expression::parse(&nested(MAX_NESTING + 1));
    assert_eq!(refused, Err(ExpressionError::TooDeep { at: MAX_NESTING }));
    assert!(Expression::parse("((1))+((1))*((1))").is_ok(), "closing a group gives its levels back");

    let many = |count: usize| vec!["1"; count].join("+");
    assert!(Expression::parse(&many(MAX_LITERALS)).is_ok());
    let refused = Expression::parse(&many(MAX_LITERALS + 1));
    assert_eq!(refused, Err(ExpressionError::TooManyNumbers { at: 2 * MAX_LITERALS }));

    let padded = |bytes: usize| format!("{:1$}", 1, bytes);
    assert!(Expression::parse(&padded(MAX_EXPRESSION_BYTES)).is_ok());
    let refused = Expression::parse(&"(".repeat(1_000_000));
    assert_eq!(refused, Err(ExpressionError::TooLong { bytes: 1_000_000 }));
}

#[test]
fn the_largest_values_do_not_overflow() {
    let largest = ["9999"; MAX_LITERALS].join("*");
    assert_eq!(value(&largest), ratio(9_999_i128.pow(MAX_LITERALS as u32), 1));
    // Denominators that share no factor make the largest sums of fractions.
    assert!(value("9998/9997+9996/9995+9994/9993+9992/9991").is_some());
}

/// A tree that prints itself with every parenthesis and knows its value.
#[derive(Debug, Clone)]
enum Tree {
    Leaf(i64),
    Node(Box<Tree>, char, Box<Tree>),
}

impl Tree {
    fn text(&self) -> String {
        match self {
            Self::Leaf(number) => number.to_string(),
            Self::Node(left, sign, right) => format!("({}{sign}{})", left.text(), right.text()),
        }
    }

    fn value(&self) -> Option<Ratio<i128>> {
        match self {
            Self::Leaf(number) => ratio(i128::from(*number), 1),
            Self::Node(left, sign, right) => {
                let (left, right) = (left.value()?, right.value()?);
                match sign {
                    '+' => Some(left + right),
                    '-' => Some(left - right),
                    '*' => Some(left * right),
                    _ => (right != Ratio::from_integer(0)).then(|| left / right),
                }
            }
        }
    }
}

fn trees() -> impl Strategy<Value = Tree> {
    let sign = prop_oneof![Just('+'), Just('-'), Just('*'), Just('/')];
    (0..=9_999_i64).prop_map(Tree::Leaf).prop_recursive(3, MAX_LITERALS as u32, 2, move |inner| {
        (inner.clone(), sign.clone(), inner)
            .prop_map(|(left, sign, right)| Tree::Node(Box::new(left), sign, Box::new(right)))
    })
}

proptest! {
    #[test]
    fn trees_keep_their_value(tree in trees()) {
        prop_assert_eq!(value(&tree.text()), tree.value());
    }

    #[test]
    fn expression_like_noise_never_panics(text in "[0-9 +*/()-]{0,300}") {
        if let Ok(expression) = Expression::parse(&text) {
            prop_assert!(expression.literals().count() <= MAX_LITERALS);
            let _ = expression.value();
        }
    }

    #[test]
    fn any_text_never_panics(text in any::<String>()) {
        let _ = Expression::parse(&text);
    }
}
