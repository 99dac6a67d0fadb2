//! What an attack did to those that it was meant for.

use super::Course;
use super::attackers::addresses::DIALLED;
use super::kind::AttackKind;
use super::tally::{Counts, SLEEPERS};
use crate::attack::account::{FrameOutcome, named};
use crate::output::console::{CommandReport, Console};
use crate::study::statistics::{binomial_lower_95, binomial_upper_95};
use serde_json::{Value, json};
use std::time::Duration;

/// The share of its pace that a network has to keep.
const KEPT: f64 = 0.9;
/// Seconds within which a newcomer joins.
const JOIN_S: f64 = 10.0;
/// The learner's peak stays below so many times that of peace.
const MEMORY: f64 = 2.0;
/// How much faster the busiest log may grow: a line for each of 1,200 peers and minute is 200 kB.
const LOG_KB_PER_MINUTE: f64 = 256.0;
/// The share of lies that may be accepted, where the sample can show it.
const ACCEPTED: f64 = 0.001;

/// Judges a network under attack by itself in peace.
pub(super) fn judge(kind: AttackKind, course: &Course, wall: Duration) -> CommandReport {
    let Course { peace, attack, counts, .. } = course;
    let updates = ratio(attack.updates_per_s, peace.updates_per_s);
    let groups = ratio(attack.honest_groups_per_s, peace.honest_groups_per_s);
    let sum = |rates: &[f64]| rates.iter().sum::<f64>();
    let versions = ratio(sum(&attack.versions_per_s), sum(&peace.versions_per_s));
    let nodes = attack.versions_per_s.iter().zip(&peace.versions_per_s);
    let slowest = nodes.map(|(attack, peace)| ratio(*attack, *peace)).fold(f64::INFINITY, f64::min);
    let memory = ratio(attack.learner_peak_mb, peace.learner_peak_mb);
    // What sleepers deliver before they are found is work too, and missing afterwards: fewer updates then
    // leave fewer versions to install.
    let pace = if kind == AttackKind::Sleepers { updates.min(1.0) } else { 1.0 };
    let mut claims = vec![
        ("honest members keep 90 % of their updates/s", groups >= KEPT && updates >= KEPT * pace),
        ("honest nodes keep 90 % of their installations", versions.min(slowest) >= KEPT * pace),
        ("a newcomer joins within 10 s", attack.join_s.is_some_and(|seconds| seconds <= JOIN_S)),
        ("the learner's memory stays below twice its honest peak", memory > 0.0 && memory < MEMORY),
        ("nothing exits", attack.failure.is_none()),
        ("no honest member is suspended", course.honest_suspended == 0),
        ("no log is filled", attack.log_kb_per_minute <= peace.log_kb_per_minute + LOG_KB_PER_MINUTE),
    ];
    claims.extend(own_claim(kind, course));
    let refused = counts.lies.keys().any(|outcome| matches!(outcome, FrameOutcome::Refused(_)));
    let are_named = course.suspended > 0 || course.logged > 0 || refused;
    let are_harmless = claims.iter().all(|(_, holds)| *holds);
    claims.push(("attackers are named or have no effect", are_named || are_harmless));
    let (heard, accepted) = counts.heard_and_accepted();
    if heard > 0 && binomial_upper_95(accepted, heard) <= ACCEPTED {
        claims.push(("at most 0.1 % of lies are accepted", true));
    }
    let passed = claims.iter().all(|(_, holds)| *holds);
    let claims: Vec<Value> =
        claims.iter().map(|(claim, holds)| json!({"claim": claim, "holds": holds})).collect();
    let json = json!({
        "kind": kind.name(),
        "phase_s": [peace.seconds, attack.seconds],
        "updates_per_s": [peace.updates_per_s, attack.updates_per_s],
        "updates_kept": updates,
        "honest_groups_per_s": [peace.honest_groups_per_s, attack.honest_groups_per_s],
        "honest_groups_kept": groups,
        "versions_per_s": [peace.versions_per_s, attack.versions_per_s],
        "installations_kept": versions,
        "slowest_node_kept": slowest,
        "join_s": [peace.join_s, attack.join_s],
        "learner_peak_mb": [peace.learner_peak_mb, attack.learner_peak_mb],
        "memory_ratio": memory,
        "log_kb_per_minute": [peace.log_kb_per_minute, attack.log_kb_per_minute],
        "lab_processor_s": [peace.lab_processor_s, attack.lab_processor_s],
        "failure": attack.failure,
        "honest_suspended": course.honest_suspended,
        "attackers": attackers(course),
        "lies": lies(counts),
        "wall_s": wall.as_secs_f64(),
        "claims": claims,
        "passed": passed,
    });
    CommandReport { passed, json }
}

/// What only one kind of attack is asked.
fn own_claim(kind: AttackKind, course: &Course) -> Option<(&'static str, bool)> {
    match kind {
        AttackKind::Addresses => {
            Some(("nobody dials an address that was only claimed", !course.counts.done.contains_key(DIALLED)))
        }
        AttackKind::Droppers => Some(("no order is given up", !course.given_up)),
        AttackKind::Sleepers => Some(("every sleeper is suspended", course.suspended == SLEEPERS)),
        AttackKind::Heartbeats
        | AttackKind::Silent
        | AttackKind::Connections
        | AttackKind::Omega
        | AttackKind::Gossip => None,
    }
}

fn attackers(course: &Course) -> Value {
    json!({
        "keys": course.counts.keys.len(),
        "done": course.counts.done,
        "suspended": course.suspended,
        "in_logs": course.logged,
        "given_up": course.given_up,
        "honest_first": course.counts.rested.values().collect::<Vec<_>>(),
    })
}

/// False groups, and the share of them that was accepted, with bounds of 95 % (Clopper and Pearson,
/// one-sided each). Null where nobody sent any that was looked at.
fn lies(counts: &Counts) -> Value {
    let (heard, accepted) = counts.heard_and_accepted();
    if heard == 0 {
        return Value::Null;
    }
    json!({
        "heard": heard,
        "accepted": accepted,
        "share": accepted as f64 / heard as f64,
        "low": binomial_lower_95(accepted, heard),
        "high": binomial_upper_95(accepted, heard),
        "answers": named(&counts.lies),
    })
}

/// 0 where there was nothing to keep.
fn ratio(attack: f64, peace: f64) -> f64 {
    if peace > 0.0 { attack / peace } else { 0.0 }
}

/// Says the outcome in a few lines.
pub(super) fn tell(console: &Console, report: &CommandReport) {
    let json = &report.json;
    for (name, figure) in [
        ("updates/s", "updates_per_s"),
        ("honest groups/s", "honest_groups_per_s"),
        ("join, s", "join_s"),
        ("learner, MB", "learner_peak_mb"),
    ] {
        let text = |index: usize| {
            json[figure][index].as_f64().map_or_else(|| "none".to_owned(), |figure| format!("{figure:.1}"))
        };
        console.say(format!("{name:<16} {} in peace, {} under attack", text(0), text(1)));
    }
    console.say(format!("attackers        {}", json["attackers"]));
    if let (Some(share), Some(high)) = (json["lies"]["share"].as_f64(), json["lies"]["high"].as_f64()) {
        console.say(format!("lies             {share:.4} accepted, at most {high:.4} with 95 % confidence"));
    }
    for claim in json["claims"].as_array().into_iter().flatten() {
        let holds = if claim["holds"] == true { "holds " } else { "MISSED" };
        console.say(format!("{holds}           {}", claim["claim"].as_str().unwrap_or_default()));
    }
}

#[cfg(test)]
mod tests {
    use super::super::measure::Phase;
    use super::*;
    use echo_protocol::work::submission::RefuseReason;

    fn phase() -> Phase {
        Phase {
            seconds: 60.0,
            updates_per_s: 5.0,
            honest_groups_per_s: 40.0,
            versions_per_s: vec![0.7; 3],
            join_s: Some(2.0),
            learner_peak_mb: 100.0,
            log_kb_per_minute: 4.0,
            lab_processor_s: 1.0,
            failure: None,
        }
    }

    fn missed(kind: AttackKind, change: impl FnOnce(&mut Course)) -> Vec<String> {
        let mut course = Course {
            peace: phase(),
            attack: phase(),
            counts: Counts::default(),
            honest_suspended: 0,
            suspended: 0,
            logged: 0,
            given_up: false,
        };
        change(&mut course);
        let report = judge(kind, &course, Duration::from_secs(150));
        let claims = report.json["claims"].as_array().unwrap().clone();
        let missed = claims.iter().filter(|claim| claim["holds"] == false);
        let missed: Vec<String> = missed.map(|claim| claim["claim"].as_str().unwrap().to_owned()).collect();
        assert_eq!(report.passed, missed.is_empty());
        missed
    }

    #[test]
    fn every_goal_counts() {
        let missed = |change: fn(&mut Course)| missed(AttackKind::Silent, change);
        let nameless = "attackers are named or have no effect";
        type Change = fn(&mut Course);
        let cases: [(&str, Change); 7] = [
            ("honest members keep 90 % of their updates/s", |course| course.attack.updates_per_s = 4.4),
            ("honest nodes keep 90 % of their installations", |course| course.attack.versions_per_s[1] = 0.1),
            ("a newcomer joins within 10 s", |course| course.attack.join_s = None),
            ("the learner's memory stays below twice its honest peak", |course| {
                course.attack.learner_peak_mb = 200.0;
            }),
            ("nothing exits", |course| course.attack.failure = Some("learner ended".to_owned())),
            ("no honest member is suspended", |course| course.honest_suspended = 1),
            ("no log is filled", |course| course.attack.log_kb_per_minute = 300.0),
        ];
        assert!(missed(|_| ()).is_empty());
        for (claim, change) in cases {
            assert_eq!(missed(change), [claim, nameless]);
        }
        let named = |course: &mut Course| (course.attack.join_s, course.logged) = (None, 1);
        assert_eq!(missed(named), ["a newcomer joins within 10 s"]);
    }

    #[test]
    fn each_kind_is_asked_its_own() {
        let dialled = |course: &mut Course| course.counts.done.extend([(DIALLED, 1)]);
        assert_eq!(
            missed(AttackKind::Addresses, dialled)[0],
            "nobody dials an address that was only claimed"
        );
        assert_eq!(missed(AttackKind::Droppers, |course| course.given_up = true)[0], "no order is given up");
        assert_eq!(missed(AttackKind::Sleepers, |_| ())[0], "every sleeper is suspended");
        let caught = |course: &mut Course| {
            course.suspended = SLEEPERS;
            course.attack.updates_per_s = 3.0;
            course.attack.versions_per_s = vec![0.42; 3];
        };
        assert!(missed(AttackKind::Sleepers, caught).is_empty(), "their own work is missing");
        let behind = |course: &mut Course| {
            caught(course);
            course.attack.versions_per_s[2] = 0.3;
        };
        assert_eq!(missed(AttackKind::Sleepers, behind)[0], "honest nodes keep 90 % of their installations");
    }

    #[test]
    fn a_small_share_is_claimed_only_where_the_sample_shows_it() {
        let claims = |refused| {
            let mut counts = Counts::default();
            counts.lies.insert(FrameOutcome::Refused(RefuseReason::Sampling), refused);
            let (peace, attack) = (phase(), phase());
            let course = Course {
                peace,
                attack,
                counts,
                honest_suspended: 0,
                suspended: 0,
                logged: 0,
                given_up: false,
            };
            let report = judge(AttackKind::Omega, &course, Duration::from_secs(150));
            assert!(report.passed);
            report.json["claims"].as_array().unwrap().len()
        };
        // 1 − 0.05^(1/2995) is the first below one in a thousand.
        assert_eq!(claims(2996), claims(2000) + 1);
    }
}
