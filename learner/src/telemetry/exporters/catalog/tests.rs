use super::*;
use crate::fleet::capacity::CapacityReport;
use crate::publishing::snapshots::PublicationRow;
use crate::telemetry::metrics::{UpdateRow, WeightRow};
use crate::training::evaluation::EvaluationRow;
use crate::training::evaluation::sets::SetRow;
use crate::training::optimizer::SkipCause;
use crate::training::trainer::Gap;
use serde_json::json;
use std::collections::BTreeSet;

/// A row of each kind, with something everywhere.
fn rows() -> [Value; 4] {
    let map = || [("1".to_owned(), 2)].into();
    let update = UpdateRow {
        loss: Some(0.5),
        grad_norm: Some(1.0),
        clip_shares: Some([0.1, 0.2]),
        clip_share: Some(0.3),
        weight: Some(WeightRow::default()),
        kl: Some(0.1),
        kl_reference: Some(0.1),
        entropy: Some(1.0),
        logp_gap: Some(Gap::default()),
        logp_gap_by_precision: [("f32".to_owned(), 0.1)].into(),
        logp_gap_by_lag: [(0, 0.1)].into(),
        logp_gap_recomputed: Some(Gap::default()),
        staleness: [(0, 5), (2, 3)].into(),
        mfu: Some(0.4),
        eta_s: Some(60.0),
        skip_cause: Some(SkipCause::Logp),
        nodes: [(4, 2), (6, 1)].into(),
        t_bcast_ms: [Some(1), Some(2)],
        rotten_peers: [("x".to_owned(), 1)].into(),
        degraded: map(),
        refused: map(),
        dropped: map(),
        stale_by_length: [(8, 2)].into(),
        stale_by_node: map(),
        work_ahead: Some(24),
        capacity: CapacityReport {
            required: Some(1.0),
            target: Some(1.1),
            train_s: Some(2.0),
            broadcast_s: Some(0.5),
            ..CapacityReport::default()
        },
        ..UpdateRow::default()
    };
    let mut rows = [
        serde_json::to_value(update).unwrap(),
        serde_json::to_value(EvaluationRow {
            held_out_accuracy: Some(0.5),
            held_out_reward: Some(0.5),
            ..EvaluationRow::default()
        })
        .unwrap(),
        serde_json::to_value(PublicationRow::default()).unwrap(),
        serde_json::to_value(SetRow {
            evaluated: 3,
            evaluation: [("gsm8k".to_owned(), [("avg".to_owned(), json!(0.5))].into_iter().collect())].into(),
        })
        .unwrap(),
    ];
    rows.iter_mut().for_each(|row| row["time"] = json!(1.5));
    rows
}

/// Pointers to everything in `value` that is a number, true or false.
fn leaves(value: &Value, at: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| leaves(value, &format!("{at}/{key}"), into));
        }
        Value::Array(list) => {
            list.iter().enumerate().for_each(|(i, value)| leaves(value, &format!("{at}/{i}"), into));
        }
        Value::Number(_) | Value::Bool(_) => drop(into.insert(at.to_owned())),
        Value::Null | Value::String(_) => {}
    }
}

#[test]
fn every_number_of_every_row_is_a_metric_and_every_metric_is_in_a_row() {
    let mut leaves_of_all = BTreeSet::new();
    rows().iter().for_each(|row| leaves(row, "", &mut leaves_of_all));
    for leaf in &leaves_of_all {
        let known = |m: &&Metric| *leaf == m.key || leaf.starts_with(&format!("{}/", m.key));
        assert_eq!(METRICS.iter().filter(known).count(), 1, "{leaf}");
    }
    let read: BTreeSet<usize> = rows().iter().flat_map(readings).map(|reading| reading.index).collect();
    let unread: Vec<&str> =
        (0..METRICS.len()).filter(|i| !read.contains(i)).map(|i| METRICS[i].key).collect();
    assert!(unread.is_empty(), "{unread:?}");
    assert!(rows().iter().flat_map(readings).all(|reading| !reading.values.is_empty()));
}

#[test]
fn names_are_unique_and_fit_prometheus() {
    let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), METRICS.len());
    assert!(
        names
            .iter()
            .all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'))
    );
}

#[test]
fn what_is_null_has_no_value_and_what_is_absent_is_not_read() {
    let of = |row: &Value, name: &str| {
        readings(row).find(|reading| reading.metric().name == name).map(|reading| reading.values)
    };
    let row = serde_json::to_value(UpdateRow::default()).unwrap();
    for of_nothing in ["mfu", "loss", "kl", "entropy", "clip_share_low", "weight_ess", "logp_gap_mean"] {
        assert_eq!(of(&row, of_nothing), Some(vec![]), "{of_nothing}");
    }
    assert_eq!(of(&row, "logp_gap_recomputed_p95"), Some(vec![]));
    assert_eq!(of(&row, "skipped"), Some(vec![(String::new(), 0.0)]));
    assert_eq!(of(&row, "held_out_accuracy"), None);
    let [full, ..] = rows();
    assert_eq!(of(&full, "nodes"), Some(vec![(String::new(), 3.0)]));
    assert_eq!(of(&full, "staleness_tokens"), Some(vec![("0".into(), 5.0), ("2".into(), 3.0)]));
    let [.., set] = rows();
    assert_eq!(of(&set, "evaluation"), Some(vec![("gsm8k.avg".into(), 0.5)]));
}

/// The page that describes the metrics.
const PAGE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/metrics.md"));

#[test]
fn the_reference_names_all_counters() {
    let sentence = PAGE.split("end in `_total`: these are ").nth(1).unwrap().split('.').next().unwrap();
    let named: BTreeSet<&str> = sentence.split('`').skip(1).step_by(2).collect();
    let is_counter = |metric: &&Metric| matches!(metric.shape, Counter | Counters(_));
    let counters: BTreeSet<&str> = METRICS.iter().filter(is_counter).map(|metric| metric.name).collect();
    assert_eq!(named, counters);
}

#[test]
fn the_reference_has_the_table() {
    assert!(
        PAGE.contains(&table()),
        "`echo-learner metrics` prints the table: copy it into docs/reference/metrics.md"
    );
}
