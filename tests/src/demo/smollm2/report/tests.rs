use super::*;
use crate::demo::DemoFaults;
use crate::demo::smollm2::UPDATES;
use crate::harness::cargo::workspace_root;
use echo_learner::training::trainer::Gap;

fn average(avg: f64) -> Average {
    Average { avg, low: avg - 0.04, high: avg + 0.04 }
}

fn row(update: u64, reward: f64) -> UpdateRow {
    let logp_gap = Some(Gap { mean: 0.02, p95: 0.1 });
    UpdateRow { update, reward, lag_max: 1, logp_gap, update_s: 20.0, ..UpdateRow::default() }
}

/// The report of a run that reached everything, after a change.
fn reported(updates: u64, change: impl FnOnce(&mut Outcome<'_>)) -> CommandReport {
    let demo = Demo { nodes: 2, updates, dir: "x".into(), faults: DemoFaults::default(), build: true };
    let summary = RunSummary {
        updates,
        accuracy_before: Some(0.1),
        accuracy_after: Some(0.5),
        evaluation_orders: 128,
        max_staleness: 2,
        acknowledged: 10,
        trained: 8,
        dropped: [("stale".to_owned(), 2)].into(),
        ..RunSummary::default()
    };
    let mut outcome = Outcome {
        demo: &demo,
        size: RunSize::of(updates),
        summary,
        accepted_by_nodes: 10,
        before: HeldOut { sums: average(0.1), words: average(0.05) },
        after: HeldOut { sums: average(0.5), words: average(0.2) },
        updates: (1..=updates).map(|update| row(update, if update % 2 == 0 { 0.5 } else { 0.55 })).collect(),
        publications: Vec::new(),
        samples: Samples { samples: Vec::new(), gap: 1e-5 },
        memory: [("learner".to_owned(), 5_400)].into(),
        wall_s: 2_000.0,
        common: [(0, 0); 2],
    };
    change(&mut outcome);
    outcome.report().unwrap()
}

/// How many claims do not hold.
fn missed(updates: u64, change: impl FnOnce(&mut Outcome<'_>)) -> usize {
    let report = reported(updates, change);
    let claims = report.json["claims"].as_array().unwrap();
    let missed = claims.iter().filter(|claim| claim["holds"] == false).count();
    assert_eq!(report.passed, missed == 0);
    missed
}

#[test]
fn every_claim_can_be_missed() {
    assert_eq!(missed(UPDATES, |_| ()), 0);
    let changes: [fn(&mut Outcome<'_>); 10] = [
        |o| o.summary.updates -= 1,
        |o| o.common[1].1 = 1,
        |o| o.summary.max_staleness = 3,
        |o| o.summary.trained = 7,
        |o| o.accepted_by_nodes = 11,
        |o| o.samples.gap = 0.01,
        |o| o.updates[50].lag_max = 0,
        |o| o.after.sums = average(0.39),
        |o| o.after.words = Average { low: 0.05, ..average(0.2) },
        |o| o.summary.accuracy_after = Some(0.3),
    ];
    for (index, change) in changes.into_iter().enumerate() {
        assert_eq!(missed(UPDATES, change), 1, "change {index}");
    }
}

#[test]
fn what_a_short_run_learns_is_not_judged() {
    assert_eq!(missed(5, |o| (o.after, o.summary.accuracy_after) = (o.before, None)), 0);
    assert_eq!(missed(5, |o| o.summary.max_staleness = 3), 1);
}

#[test]
fn the_figures_have_the_names_by_which_they_are_recorded() {
    let json = reported(UPDATES, |o| {
        let publication =
            |delta_bytes| PublicationRow { full_bytes: 271, delta_bytes, ..PublicationRow::default() };
        o.publications = [0, 2, 4].map(publication).to_vec();
    })
    .json;
    for name in [
        "avg4_before",
        "avg4_after",
        "word_avg4_before",
        "word_avg4_after",
        "updates",
        "wall_s",
        "max_staleness",
        "bubble_ratio",
        "logp_gap",
        "logp_gap_lag_0",
        "publication_bytes",
        "reward_last",
    ] {
        assert!(json[name].is_number(), "{name}: {}", json[name]);
    }
    assert_eq!((&json["publication_bytes"], &json["snapshot_bytes"]), (&json!(3), &json!(271)));
    assert_eq!(json["avg4_after_interval"], json!([average(0.5).low, average(0.5).high]));
    assert_eq!(json["curve"].as_array().unwrap().len() as u64, UPDATES);
    assert_eq!(json["memory_mb"]["learner"], 5_400);
}

#[test]
fn the_goals_name_claims_that_a_report_has() {
    let path = workspace_root().join("docs/results/goals.toml");
    let goals: toml::Table = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let pointers =
        goals["goal"].as_array().unwrap().iter().filter(|goal| goal["section"].as_str() == Some("smollm2"));
    let wanted: Vec<&str> = pointers
        .filter_map(|goal| goal["at"].as_str()?.strip_prefix("/claims/claim=")?.strip_suffix("/holds"))
        .collect();
    assert_eq!(wanted.len(), 3);
    let json = reported(UPDATES, |_| ()).json;
    let claims = json["claims"].as_array().unwrap();
    for claim in wanted {
        assert!(claims.iter().any(|had| had["claim"] == claim), "{claim}");
    }
}
