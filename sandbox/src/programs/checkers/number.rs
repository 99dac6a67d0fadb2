//! The forms of numbers.

/// Whether `token` is an integer in its only form: no plus sign, no leading zeros, no `-0`.
pub(super) fn is_integer(token: &[u8]) -> bool {
    match token.strip_prefix(b"-").unwrap_or(token) {
        [b'0'] => token.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// The 64-bit integer that `token` is the only form of.
pub(super) fn integer(token: &[u8]) -> Option<i64> {
    is_integer(token).then(|| str::from_utf8(token).ok()?.parse().ok()).flatten()
}

/// The most digits of an exponent that the standard library's parser reads exactly; it caps longer
/// ones before it adds the mantissa's length.
const EXACT_EXPONENT_DIGITS: usize = 5;
/// Beyond this decimal exponent of its first digit a double is infinite, and below its negative it is zero.
const EXTREME_EXPONENT: i64 = 400;

/// The double nearest to the decimal number `token`, as C's `scanf` reads it: signs, a bare point
/// on one side and an exponent without digits are allowed, hexadecimal forms and words (`inf`,
/// `nan`) are not. Infinite beyond the range.
pub(super) fn real(token: &[u8]) -> Option<f64> {
    let text = str::from_utf8(token).ok()?;
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = unsigned.split_once(['e', 'E']).unwrap_or((unsigned, ""));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent_digits = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    if whole.is_empty() && fraction.is_empty()
        || ![whole, fraction, exponent_digits].into_iter().all(all_digits)
    {
        return None;
    }
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    let magnitude = if exponent_digits.is_empty() {
        mantissa.parse().ok()?
    } else if exponent_digits.len() <= EXACT_EXPONENT_DIGITS {
        unsigned.parse().ok()?
    } else {
        far_real(whole, fraction, exponent)?
    };
    Some(sign * magnitude)
}

/// A number without sign whose exponent may be far from the range of a double, with digits
/// that bring it back.
fn far_real(whole: &str, fraction: &str, exponent: &str) -> Option<f64> {
    let digits = || whole.chars().chain(fraction.chars());
    let Some(zeros) = digits().position(|digit| digit != '0') else { return Some(0.0) };
    // All but absurdly long exponents fit; those are farther away than any digits reach.
    let exponent = exponent.parse().unwrap_or(if exponent.starts_with('-') { i64::MIN } else { i64::MAX });
    let scale = exponent.saturating_add(whole.len() as i64 - zeros as i64);
    if scale < -EXTREME_EXPONENT {
        return Some(0.0);
    }
    if scale > EXTREME_EXPONENT {
        return Some(f64::INFINITY);
    }
    let significant: String = digits().skip(zeros).collect();
    format!("0.{significant}e{scale}").parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_have_one_form() {
        for (token, value) in [("0", 0), ("-1", -1), ("10", 10), ("-9223372036854775808", i64::MIN)] {
            assert_eq!(integer(token.as_bytes()), Some(value));
        }
        for token in
            ["", "-", "-0", "00", "01", "-01", "+1", "1.", "1e5", "0x1", "--1", "1\0", "9223372036854775808"]
        {
            assert_eq!(integer(token.as_bytes()), None, "{token}");
        }
        assert!(is_integer(&[b'9'; 1000]));
    }

    #[test]
    fn reals_are_read_as_scanf_reads_them() {
        for (token, value) in [
            ("1", 1.0),
            ("+1", 1.0),
            ("007", 7.0),
            (".5", 0.5),
            ("5.", 5.0),
            ("-.5E1", -5.0),
            ("1.e2", 100.0),
            ("2e", 2.0),
            ("2E-", 2.0),
            ("1e0000002", 100.0),
            ("1e400", f64::INFINITY),
            ("-1e99999999999999999999", f64::NEG_INFINITY),
            ("1e-99999999999999999999", 0.0),
            ("0e99999999999999999999", 0.0),
        ] {
            assert_eq!(real(token.as_bytes()), Some(value), "{token}");
        }
        assert!(real(b"-0.0").unwrap().is_sign_negative());
        for token in [
            "", ".", "-", "+-1", "1-2", "1e5.", "1e+-5", ".e5", "e5", "1.2.3", "1e5e", "0x10", "nan", "inf",
            "1,5",
        ] {
            assert_eq!(real(token.as_bytes()), None, "{token}");
        }
    }

    #[test]
    fn digits_outweigh_far_exponents() {
        let zeros = "0".repeat(200_000);
        assert_eq!(real(format!("0.{zeros}25e200002").as_bytes()), Some(25.0));
        assert_eq!(real(format!("-25{zeros}e-200001").as_bytes()), Some(-2.5));
        assert_eq!(real(format!("1{zeros}e-000300000").as_bytes()), Some(0.0));
    }
}
