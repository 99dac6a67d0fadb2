//! Counting, tolerance and malformed lines.

use std::io::Write;

use super::*;

/// Two one-token responses of one group: E = (q₀² + q₁²)/(q₀ + q₁), no clip, so the loss is
/// -(p₀A₀ + p₁A₁)/(2E) and its gradient -p_i A_i/(2E).
fn hand_worked(grad0: f64) -> String {
    let (q, p): ([f64; 2], [f64; 2]) = ([0.5, 0.25], [0.6, 0.2]);
    let e = (q[0] * q[0] + q[1] * q[1]) / (q[0] + q[1]);
    let g = [-p[0] * 0.5 / (2.0 * e) + grad0, p[1] * 0.5 / (2.0 * e)];
    serde_json::json!({
        "objective": "gepo", "params": {"clip": false}, "groups": [0, 0], "mask": [[1], [1]],
        "logp": [[p[0].ln()], [p[1].ln()]], "behav_logp": [[q[0].ln()], [q[1].ln()]],
        "advantages": [0.5, -0.5], "loss": -(p[0] * 0.5 - p[1] * 0.5) / (2.0 * e),
        "grad_logp": [[g[0]], [g[1]]],
    })
    .to_string()
}

fn check(
    lines: &[String],
    precision: CheckArithmetic,
) -> Result<ObjectiveVectorReport, ObjectiveVectorError> {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(lines.join("\n").as_bytes()).unwrap();
    check_file(file.path(), precision)
}

#[test]
fn counts_what_agrees_disagrees_and_does_not_exist() {
    let unknown = hand_worked(0.0).replace("\"gepo\"", "\"other\"");
    for precision in [CheckArithmetic::F32, CheckArithmetic::F64] {
        let report = check(&[hand_worked(0.0), hand_worked(1e-3), unknown.clone()], precision).unwrap();
        assert_eq!((report.cases, report.passed, report.failed, report.skipped), (3, 1, 1, 1));
        assert!(report.failures[0].starts_with("line 2 (gepo)"), "{:?}", report.failures);
        assert!(report.worst > 1e-3);
    }
}

#[test]
fn rewards_must_become_the_recorded_advantages() {
    let with = |rewards: &str| hand_worked(0.0).replacen('{', &format!("{{\"rewards\":{rewards},"), 1);
    for precision in [CheckArithmetic::F32, CheckArithmetic::F64] {
        // The advantages are ±.5: half the distance of two rewards, which GEPO does not scale.
        let report = check(&[with("[1.0, 0.0]"), with("[1.0, 0.5]")], precision).unwrap();
        assert_eq!((report.passed, report.failed), (1, 1), "{:?}", report.failures);
        assert!(report.failures[0].contains("of the advantages 5.000e-1"), "{:?}", report.failures);
        // Alone in its group, a response may have any advantage.
        let alone = with("[9.0, 4.0]").replace("\"groups\":[0,0]", "\"groups\":[0,1]");
        let report = check(&[alone], precision).unwrap();
        assert!(report.failures[0].contains("of the advantages 0.000e0"), "{:?}", report.failures);
    }
}

#[test]
fn names_the_line_that_is_not_a_vector() {
    let ragged = hand_worked(0.0).replace("\"mask\":[[1],[1]]", "\"mask\":[[1],[1,0]]");
    assert!(matches!(
        check(&[hand_worked(0.0), ragged], CheckArithmetic::F64),
        Err(ObjectiveVectorError::Malformed { line: 2, .. })
    ));
    let short = hand_worked(0.0).replacen('{', "{\"rewards\":[1.0],", 1);
    assert!(matches!(
        check(&[short], CheckArithmetic::F64),
        Err(ObjectiveVectorError::Malformed { line: 1, .. })
    ));
    assert!(matches!(
        check(&["{}".into()], CheckArithmetic::F64),
        Err(ObjectiveVectorError::Malformed { line: 1, .. })
    ));
}
