use super::*;
use crate::results::figure::Figure;
use crate::results::manual;
use crate::results::manual::GivenFigure;
use std::fs;
use tempfile::TempDir;

const GOALS: &str = r#"
[[machine]]
id = "here"
text = "this machine"

[[section]]
id = "all"
title = "All"
intro = ""

[[goal]]
id = "time"
section = "all"
goal = "time"
unit = "s"
better = "lower"
bound = 300
at = "/wall_s"
low_at = "/each/0"
high_at = "/each/1"
runs_at = "/runs"

[[goal]]
id = "above"
section = "all"
goal = "accuracy above that of others, by seed (interval above 0)"
unit = "share"
better = "higher"
bound = 0
at = "/results/algo=gepo&delay=4/mean"
interval_at = "/results/algo=gepo&delay=4/ci95"
runs_at = "/runs"
held_at = "/claims/0/holds"

[[goal]]
id = "added"
section = "all"
goal = "added time"
unit = "%"
better = "lower"
bound = 2
at = "/ratio"
times = 100
plus = -100
only_passed = true

[[goal]]
id = "right"
section = "all"
goal = "the answer is right"
unit = ""
better = "holds"
at = "/claims/0/holds"

[[goal]]
id = "silent"
section = "all"
goal = "what the output does not say"
unit = "s"
better = "lower"

[[goal]]
id = "fuzz"
section = "all"
goal = "inputs"
unit = "inputs"
better = "higher"

[[goal]]
id = "new"
section = "all"
goal = "was never measured"
unit = "s"
better = "lower"
at = "/wall_s"

[[goal]]
id = "first"
section = "all"
goal = "waits for its command"
unit = "s"
better = "lower"
at = "/wall_s"
first = "cargo lab demo --model smollm2 --json"
"#;

const DEMO: &str = "cargo lab demo --nodes 4 --json";

fn record(goal: &str, figure: impl Into<Value>, unit: &str, command: &str, date: &str) -> String {
    json!({
        "goal": goal, "figure": figure.into(), "unit": unit, "held": null, "command": command, "commit": null,
        "date": date, "machine": "here", "runs": null, "low": null, "high": null, "leaves_out": "",
    })
    .to_string()
}

/// A workspace with a record of each goal but `new` and `first`.
fn workspace() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("docs/results")).unwrap();
    fs::write(dir.path().join(goals::FILE), GOALS).unwrap();
    let old = "2026-11-20";
    let records = [
        record("time", 1, "s", "TMPDIR=/dev/shm cargo lab demo --nodes 4", old),
        record("time", 2, "s", DEMO, "2026-11-21"),
        record("above", 0, "share", DEMO, old),
        record("added", 0, "%", DEMO, old),
        record("right", true, "", DEMO, old),
        record("silent", 1, "s", DEMO, old),
        record("fuzz", 1, "inputs", "JOBS=2 fuzz/run 600", old),
    ];
    fs::write(dir.path().join(FILE), records.join("\n")).unwrap();
    dir
}

fn stamp() -> Stamp {
    let [commit, date, machine] = ["abc-dirty", "2026-11-29", "here"].map(str::to_owned);
    Stamp { commit, date, machine }
}

fn goals(dir: &TempDir, line: &str) -> anyhow::Result<Vec<(GoalEntry, String)>> {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    goals_of(&Book::read(dir.path()).unwrap(), &words, |_| None)
}

fn recorder(dir: &TempDir) -> Recorder {
    let goals = goals(dir, "demo --nodes 4 --record").unwrap();
    Recorder { root: dir.path().to_owned(), stamp: stamp(), goals }
}

fn report() -> Value {
    json!({
        "wall_s": 182.345_678, "each": [180, 190.123_456], "runs": 8, "ratio": 1.002,
        "results": [
            {"algo": "gepo", "delay": 0, "mean": 1, "ci95": 0.5},
            {"algo": "gepo", "delay": 4, "mean": 0.016_234_56, "ci95": 0.028},
        ],
        "claims": [{"claim": "GEPO ends above others", "holds": false}],
    })
}

/// The records that were appended to a [`workspace`].
fn appended(dir: &TempDir) -> Vec<Value> {
    Book::read(dir.path()).unwrap();
    let text = fs::read_to_string(dir.path().join(FILE)).unwrap();
    text.lines().skip(7).map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn figures_are_recorded_as_their_goals_say() {
    let dir = workspace();
    let report = CommandReport { passed: true, json: report() };
    let recorded = recorder(&dir).record(report, &Console::new(true)).unwrap();
    assert_eq!(
        (recorded.passed, &recorded.json["recorded"], &recorded.json["runs"]),
        (true, &json!(4), &json!(8))
    );
    let expected = [
        ("time", json!(182.3), json!(true), json!(8), json!([180, 190.1]), ""),
        // The bound is reached, but the claim does not hold.
        ("above", json!(0.01623), json!(false), json!(8), json!([-0.01177, 0.04423]), "± 0.028"),
        ("added", json!(0.2), json!(true), json!(null), json!([null, null]), ""),
        ("right", json!(false), json!(false), json!(null), json!([null, null]), ""),
    ];
    let appended = appended(&dir);
    assert_eq!(appended.len(), expected.len());
    for (record, (goal, figure, held, runs, range, note)) in appended.iter().zip(expected) {
        assert_eq!(record["goal"], goal);
        assert_eq!((&record["figure"], &record["held"], &record["runs"]), (&figure, &held, &runs), "{goal}");
        assert_eq!(json!([record["low"], record["high"]]), range, "{goal}");
        assert!(record["leaves_out"].as_str().unwrap().ends_with(note), "{record}");
        assert_eq!((&record["command"], &record["commit"]), (&json!(DEMO), &json!("abc-dirty")));
    }
    assert_eq!(appended[1]["leaves_out"], "95 % interval over 8 seeds: ± 0.028");
}

#[test]
fn what_is_not_found_is_named_and_the_rest_is_written() {
    let dir = workspace();
    let mut json = report();
    json["results"][1]["delay"] = json!(8);
    json["each"][1] = json!(null);
    json["claims"][0]["holds"] = json!("no");
    let outcome = recorder(&dir).record(CommandReport { passed: true, json }, &Console::new(true));
    let NotRecorded(recorded) = outcome.unwrap_err().downcast().unwrap();
    assert_eq!(
        (&recorded["recorded"], &recorded["wall_s"]),
        (&json!(1), &json!(182.345_678)),
        "nothing is lost"
    );
    let error = recorded["error"].as_str().unwrap();
    for part in [
        "goal `time`: the output has nothing at `/each/1`",
        "goal `above`: the output has nothing at `/results/algo=gepo&delay=4/mean`",
        "goal `right`: the output has no figure at `/claims/0/holds`",
    ] {
        assert!(error.contains(part), "{error}");
    }
    let goals: Vec<Value> = appended(&dir).into_iter().map(|record| record["goal"].clone()).collect();
    assert_eq!(goals, ["added"]);
}

#[test]
fn a_command_that_did_not_pass_gives_all_but_the_figures_that_need_it() {
    let dir = workspace();
    let report = CommandReport { passed: false, json: report() };
    let recorded = recorder(&dir).record(report, &Console::new(true)).unwrap();
    assert_eq!((recorded.passed, &recorded.json["recorded"]), (false, &json!(3)));
    assert!(appended(&dir).iter().all(|record| record["goal"] != "added"));
}

#[test]
fn goals_belong_to_the_command_of_their_newest_record() {
    let dir = workspace();
    let found = goals(&dir, "demo --nodes 4").unwrap();
    let ids: Vec<&str> = found.iter().map(|(goal, _)| goal.id()).collect();
    assert_eq!(ids, ["time", "above", "added", "right", "silent"]);
    let waiting = goals(&dir, "demo --model smollm2 --record").unwrap();
    assert_eq!(waiting.iter().map(|(goal, _)| goal.id()).collect::<Vec<_>>(), ["first"]);
    let refused = |line: &str| goals(&dir, line).unwrap_err().to_string();
    assert!(refused("demo --nodes 5").contains("has the command `cargo lab demo --nodes 5`"));
    let all = fs::read_to_string(dir.path().join(FILE)).unwrap();
    let silent: Vec<&str> = all.lines().filter(|line| line.contains("silent")).collect();
    fs::write(dir.path().join(FILE), silent.join("\n")).unwrap();
    assert!(refused("demo --nodes 4").contains("goals.toml does not say where the figures"));
    fs::write(dir.path().join(FILE), all.lines().next().unwrap()).unwrap();
    let variables = refused("demo --nodes 4");
    assert!(variables.ends_with("other variables: TMPDIR=/dev/shm cargo lab demo --nodes 4"), "{variables}");
}

#[test]
fn given_figures_are_all_recorded_or_none() {
    let dir = workspace();
    let book = Book::read(dir.path()).unwrap();
    let give = |figures: &[(&str, Figure)], command: Option<&str>| {
        let given =
            |(goal, figure): &(&str, Figure)| GivenFigure { goal: (*goal).to_owned(), figure: *figure };
        let figures: Vec<GivenFigure> = figures.iter().map(given).collect();
        manual::append(dir.path(), &book, &stamp(), &figures, command)
    };
    let number = Figure::Number;
    give(&[("fuzz", number(1_234_567.0)), ("time", number(301.25))], None).unwrap();
    let records = appended(&dir);
    assert_eq!((&records[0]["figure"], &records[1]["figure"]), (&json!(1_234_567), &json!(301.25)));
    assert_eq!(records[0]["command"], "JOBS=2 fuzz/run 600");
    assert_eq!((&records[1]["held"], &records[1]["runs"]), (&json!(false), &json!(null)));
    let failing = [
        (give(&[("fuzz", number(1.0)), ("fuz", number(1.0))], None), "goal `fuz` is unknown"),
        (give(&[("fuzz", number(1.0)), ("new", number(1.0))], None), "goal `new` has no command yet"),
        (give(&[("fuzz", Figure::Holds(true))], None), "goal `fuzz` has a figure of another kind"),
    ];
    for (outcome, reason) in failing {
        let error = format!("{:#}", outcome.unwrap_err());
        assert!(error.contains(reason), "{error}");
    }
    give(&[("new", number(1.0)), ("above", number(1.0))], Some("cargo bench new")).unwrap();
    let records = appended(&dir);
    let commands: Vec<&Value> = records.iter().map(|record| &record["command"]).collect();
    assert_eq!(commands, ["JOBS=2 fuzz/run 600", DEMO, "cargo bench new", "cargo bench new"]);
    assert_eq!(records[3]["held"], json!(null), "more than the bound decides");
}
