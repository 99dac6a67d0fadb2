//! Whether a network under attack learned what an honest one learns.

use super::Course;
use super::acceptance_times::FloodDelay;
use super::account::{AttackAccount, named};
use super::kind::LieKind;
use crate::output::console::{CommandReport, Console};
use echo_protocol::work::submission::RefuseReason;
use serde_json::{Map, Value, json};

/// What lies may cost in accuracy.
const COST: f64 = 0.03;
/// The share of lies that may be accepted, of those that were looked at: so also of all that were told.
const SHARE: f64 = 0.001;
/// How many times as long somebody else's groups may take during a flood.
const DELAY: f64 = 1.1;

/// Judges two courses of `updates` updates: with honest members only, and under attack.
pub(super) fn judge(updates: u64, honest: &Course, attacked: &Course) -> CommandReport {
    let account = &attacked.account;
    let (lies_told, accepted) = (account.lies_told(), account.accepted());
    let accuracy = [honest, attacked].map(|course| course.summary.accuracy_after);
    let silenced = [honest, attacked].map(Course::honest_silenced);
    let unanswered: Vec<&str> = account.unanswered().into_iter().map(LieKind::name).collect();
    let checks = [
        ("accuracy_attacked", accuracy[1] >= accuracy[0].map(|honest| honest - COST)),
        ("lies", lies_told > 0),
        ("lies_accepted", accepted as f64 <= account.heard() as f64 * SHARE),
        ("honest_banned", silenced == [0, 0]),
        ("reasons", unanswered.is_empty()),
        ("delay", is_undelayed(account)),
        ("colluders", account.collusion.denounced == 0 || attacked.standings.false_verdicts > 0),
        ("updates", [honest, attacked].iter().all(|course| course.summary.updates == updates)),
    ];
    let missed: Vec<&str> = checks.iter().filter(|(_, holds)| !holds).map(|(name, _)| *name).collect();
    let json = json!({
        "accuracy_honest": accuracy[0],
        "accuracy_attacked": accuracy[1],
        "accuracy_before": [honest.summary.accuracy_before, attacked.summary.accuracy_before],
        "evaluation_orders": attacked.summary.evaluation_orders,
        "lies": lies_told,
        "lies_heard": account.heard(),
        "lies_accepted": accepted,
        "honest_banned": silenced[0] + silenced[1],
        "reasons": reasons(attacked),
        "unanswered": unanswered,
        "liars": {
            "keys": account.identities,
            "suspended": attacked.standings.suspended.len(),
            "banned": attacked.standings.banned.len(),
            "feigned": named(&account.feigned),
        },
        "colluders": account.collusion,
        "verified": [honest.volunteers.checked, attacked.volunteers.checked],
        "flood": {"frames": account.flooded, "answers": named(&account.flood)},
        "slow_loris": account.held,
        "delay": delays(&honest.account, account),
        "honest_refused": [&honest.volunteers.refused, &attacked.volunteers.refused],
        "honest_member": [named(&honest.account.honest), named(&account.honest)],
        "updates": updates,
        "wall_s": [honest.wall_s, attacked.wall_s],
        "missed": missed,
    });
    CommandReport { passed: missed.is_empty(), json }
}

/// Kind → outcome → how often; floods are a kind here, and so are verifiers that collude.
fn reasons(attacked: &Course) -> Value {
    let account = &attacked.account;
    let kinds = account.lies.iter().map(|(kind, outcomes)| (kind.name().to_owned(), json!(named(outcomes))));
    let flood = ("flood".to_owned(), json!(named(&account.flood)));
    let reason = RefuseReason::FalseVerdict.name();
    let collusion = ("colluding_verifier".to_owned(), json!({reason: attacked.standings.false_verdicts}));
    Value::Object(kinds.chain([flood, collusion]).collect::<Map<_, _>>())
}

/// Whether floods leave the volunteers' groups as fast as they are around them. Where too few
/// floods can be compared, nothing is said against it.
fn is_undelayed(account: &AttackAccount) -> bool {
    account.waits.delay().is_none_or(|delay| delay.starved == 0 && delay.ratio() <= DELAY)
}

/// Mean times until a group of a volunteer is accepted, and what floods make of them.
fn delays(honest: &AttackAccount, attacked: &AttackAccount) -> Value {
    let delay = attacked.waits.delay();
    json!({
        "honest_ms": honest.waits.mean_ms(false),
        "between_floods_ms": attacked.waits.mean_ms(false),
        "in_floods_ms": attacked.waits.mean_ms(true),
        "ratio": delay.as_ref().map(FloodDelay::ratio),
        "ratios": delay.as_ref().map(|delay| &delay.ratios),
        "starved": delay.as_ref().map(|delay| delay.starved),
    })
}

/// Says the outcome in a few lines.
pub(super) fn tell(console: &Console, report: &CommandReport) {
    let json = &report.json;
    let number = |value: &Value| value.as_f64().unwrap_or_default();
    console.say(format!(
        "accuracy     {:.3} among honest members, {:.3} under attack",
        number(&json["accuracy_honest"]),
        number(&json["accuracy_attacked"])
    ));
    console.say(format!(
        "lies         {} told, {} looked at, {} accepted",
        json["lies"], json["lies_heard"], json["lies_accepted"]
    ));
    for (kind, outcomes) in json["reasons"].as_object().into_iter().flatten() {
        let outcomes: Vec<String> = outcomes
            .as_object()
            .into_iter()
            .flatten()
            .map(|(reason, count)| format!("{reason} {count}"))
            .collect();
        console.say(format!("  {kind:<22} {}", outcomes.join(", ")));
    }
    console.say(format!(
        "liars        {} keys suspended, {} banned; honest members suspended or banned: {}",
        json["liars"]["suspended"], json["liars"]["banned"], json["honest_banned"]
    ));
    console.say(format!(
        "verifiers    {} groups checked by volunteers; colluders vouched for {} groups of liars and denounced {} others",
        json["verified"][1], json["colluders"]["vouched"], json["colluders"]["denounced"]
    ));
    let delay = |name: &str| number(&json["delay"][name]);
    let floods = json["delay"]["ratios"].as_array().map_or_else(
        || "too few floods to compare".to_owned(),
        |ratios| format!("{:.2} times what is around them, over {} floods", delay("ratio"), ratios.len()),
    );
    console.say(format!(
        "delay        mean ms of an honest group: {:.1} among honest members, {:.1} between floods, {:.1} in floods, {floods}",
        delay("honest_ms"),
        delay("between_floods_ms"),
        delay("in_floods_ms")
    ));
    if !report.passed {
        console.say(format!("missed       {}", json["missed"]));
    }
}

#[cfg(test)]
mod tests {
    use super::super::acceptance_times::Waits;
    use super::super::account::FrameOutcome;
    use super::super::standing::{Standings, Volunteers};
    use super::*;
    use echo_learner::telemetry::summary::RunSummary;
    use echo_protocol::wire::identity::NodeKey;
    use echo_protocol::work::submission::RefuseReason;

    fn course(accuracy_after: f64) -> Course {
        Course {
            summary: RunSummary {
                updates: 600,
                accuracy_after: Some(accuracy_after),
                ..RunSummary::default()
            },
            account: AttackAccount::default(),
            standings: Standings::default(),
            volunteers: Volunteers::default(),
            wall_s: 1.0,
        }
    }

    fn missed(change: impl FnOnce(&mut Course)) -> Value {
        let mut attacked = course(0.72);
        for kind in LieKind::ALL {
            attacked.account.lies.entry(kind).or_default().insert(FrameOutcome::Refused(kind.reason()), 100);
        }
        change(&mut attacked);
        judge(600, &course(0.74), &attacked).json["missed"].clone()
    }

    #[test]
    fn every_goal_counts() {
        assert_eq!(missed(|_| ()), json!([]));
        assert_eq!(missed(|course| course.summary.accuracy_after = Some(0.70)), json!(["accuracy_attacked"]));
        assert_eq!(missed(|course| course.summary.updates = 599), json!(["updates"]));
        let accept = |count| {
            move |course: &mut Course| {
                course.account.flood.insert(FrameOutcome::Accepted, count);
            }
        };
        assert_eq!(missed(accept(2)), json!([]));
        assert_eq!(missed(accept(3)), json!(["lies_accepted"]));
        let unheard = |course: &mut Course| {
            accept(1)(course);
            for outcomes in course.account.lies.values_mut() {
                let heard = outcomes.values_mut().next().unwrap();
                *heard = 10;
                outcomes.insert(FrameOutcome::Refused(RefuseReason::Suspended), 90);
            }
        };
        assert_eq!(missed(unheard), json!(["lies_accepted"]), "only what is looked at can be accepted");
        let flood =
            |ms, groups| move |course: &mut Course| course.account.waits = Waits::of_floods(&[ms; 5], groups);
        assert_eq!(missed(flood(109, 20)), json!([]));
        assert_eq!(missed(flood(111, 20)), json!(["delay"]));
        assert_eq!(missed(flood(100, 9)), json!(["delay"]), "who comes through is as fast, but few do");
        let silence = |course: &mut Course| {
            let outcome = FrameOutcome::Refused(RefuseReason::Suspended);
            course.account.lies.insert(LieKind::Replay, [(outcome, 100)].into());
        };
        assert_eq!(missed(silence), json!(["reasons"]), "who is not heard is given no reason");
        let key = NodeKey::from_secret([7; 32]).public();
        let fallen = |course: &mut Course| {
            course.volunteers.keys.insert(key);
            course.standings.suspended.insert(key);
        };
        assert_eq!(missed(fallen), json!(["honest_banned"]));
        assert_eq!(missed(|course| course.account.collusion.denounced = 9), json!(["colluders"]));
        assert_eq!(missed(|course| course.account.lies.clear()), json!(["lies", "reasons"]));
    }
}
