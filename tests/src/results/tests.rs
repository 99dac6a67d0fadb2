use super::goals_and_records::Book;
use super::provenance::{Stamp, date, machine_of};
use super::record::{JudgedBy, Measurement, append_lines};
use super::*;
use serde_json::Value;
use std::path::PathBuf;
use tempfile::TempDir;

const GOALS: &str = r#"
[[machine]]
id = "old"
text = "an old machine"
cpu = "AMD EPYC"
lacks = ["avx512f"]

[[machine]]
id = "new"
text = "a new machine"
cpu = "AMD EPYC"
has = ["avx512f"]

[[section]]
id = "speed"
title = "Speed, first"
intro = "How fast it is."

[[section]]
id = "truth"
title = "Truth"
intro = "Whether it is right."

[[goal]]
id = "time"
section = "speed"
goal = "time of |a|"
unit = "s"
better = "lower"
bound = 300

[[goal]]
id = "right"
section = "truth"
goal = "the answer is right"
unit = ""
better = "holds"
"#;

/// A record of the goal `time`, with some of its fields set otherwise.
fn time(fields: &[(&str, Value)]) -> String {
    let mut record = json!({
        "goal": "time", "figure": 226, "unit": "s", "held": true, "command": "cargo lab demo --json",
        "commit": "4e071cd", "date": "2026-11-22", "machine": "old", "runs": 1, "low": null, "high": null,
        "leaves_out": "",
    });
    for (name, value) in fields {
        record[*name] = value.clone();
    }
    record.to_string()
}

fn right(held: bool) -> String {
    let fields =
        [("goal", json!("right")), ("unit", json!("")), ("figure", json!(held)), ("held", json!(held))];
    time(&fields)
}

fn page(records: &[String]) -> anyhow::Result<String> {
    let book = Book::parse(GOALS, &records.join("\n"))?;
    page::render(&book.goals, &book.newest()?)
}

fn error(outcome: anyhow::Result<impl std::fmt::Debug>) -> String {
    format!("{:#}", outcome.unwrap_err())
}

/// A workspace with these records.
fn workspace(records: &[String]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("docs/results")).unwrap();
    fs::write(dir.path().join(goals::FILE), GOALS).unwrap();
    fs::write(dir.path().join(records::FILE), records.join("\n") + "\n").unwrap();
    dir
}

#[test]
fn the_newest_record_counts_and_of_one_day_the_last_line() {
    let day = |date: &str, figure: u64| time(&[("date", json!(date)), ("figure", json!(figure))]);
    let records =
        [day("2026-11-23", 1), day("2026-11-24", 2), day("2026-11-24", 3), day("2026-11-22", 4), right(true)];
    let page = page(&records).unwrap();
    assert!(
        page.contains("| 3 s | held: ≤ 300 s | `cargo lab demo --json` | 2026-11-24 | `old` |"),
        "{page}"
    );
    assert!(!page.contains("| 2 s |") && !page.contains("| 4 s |"));
}

#[test]
fn misses_stand_on_top_with_a_link_to_their_section() {
    let missed = page(&[time(&[("figure", json!(301)), ("held", json!(false))]), right(true)]).unwrap();
    let row = r"| [Speed, first](#speed-first): time of \|a\| | 301 s | missed: ≤ 300 s |";
    let [on_top, section] = [row, "## Speed, first"].map(|text| missed.find(text).unwrap());
    assert!(missed.find("## Missed").unwrap() < on_top && on_top < section);
    let open = page(&[time(&[("held", json!(null))]), right(true)]).unwrap();
    assert!(open.contains("## Not shown") && open.contains("| not shown: ≤ 300 s |"));
    let held = page(&[time(&[]), right(true)]).unwrap();
    assert!(!held.contains("## Missed") && !held.contains("## Not shown"));
}

#[test]
fn figures_have_units_ranges_and_notes() {
    let page_of = |note: &str| {
        let range = [("runs", json!(3)), ("low", json!(0.000_05)), ("high", json!(1_234.5))];
        let note = ("leaves_out", json!(note));
        page(&[time(&[range.as_slice(), &[note]].concat()), right(true)]).unwrap()
    };
    let of_runs = page_of("of two");
    assert!(of_runs.contains("| 226 s (5e-5 to 1,234.5, 3 runs) [1] |") && of_runs.contains("\n1. of two\n"));
    let drawn = page_of("95 % interval over 3 seeds: ± 1; drawn again");
    assert!(drawn.contains("(95 %: 5e-5 to 1,234.5, 3 runs) [1] |") && drawn.contains("\n1. drawn again\n"));
    let interval = page_of("95 % interval over 3 seeds: ± 1");
    assert!(interval.contains("(95 %: 5e-5 to 1,234.5, 3 runs) |") && !interval.contains("\n1. "));
}

#[test]
fn a_note_of_several_figures_stands_below_their_table_once() {
    let goals = format!("{GOALS}{}", GOALS[GOALS.rfind("[[goal]]").unwrap()..].replace("right", "also"));
    let held = |goal: &str| {
        let note = ("leaves_out", json!("5 tests"));
        time(&[("goal", json!(goal)), ("unit", json!("")), ("figure", json!(true)), note])
    };
    let book = Book::parse(&goals, &[time(&[]), held("right"), held("also")].join("\n")).unwrap();
    let text = page::render(&book.goals, &book.newest().unwrap()).unwrap();
    assert_eq!((text.matches("holds [1]").count(), text.matches("5 tests").count()), (2, 1));
}

#[test]
fn lines_are_short_and_no_cell_is_long() {
    let long = json!("word ".repeat(40).trim());
    let page_of = |note: &Value| page(&[time(&[("leaves_out", note.clone())]), right(true)]);
    let text = page_of(&long).unwrap();
    assert!(text.lines().filter(|line| !line.starts_with('|')).all(|line| line.chars().count() <= 110));
    assert!(error(page_of(&json!("word ".repeat(41)))).contains("goal `time`: `leaves_out` has 41 words"));
    let command = json!(format!("cargo{}", " word".repeat(40)));
    let error = error(page(&[time(&[("command", command)]), right(true)]));
    assert!(error.contains("goal `time` makes a cell of 41 words"), "{error}");
}

#[test]
fn goals_without_a_command_or_a_record_are_named() {
    let without = time(&[("command", json!(null))]);
    assert!(error(page(&[right(true), without])).ends_with("goal `time` (line 2)"));
    assert!(error(page(&[time(&[])])).contains("no record for goal `right`"));
}

#[test]
fn a_goal_that_waits_for_its_first_command_is_not_on_the_page() {
    let waiting = r#"
[[section]]
id = "later"
title = "Later"
intro = "Not measured yet."

[[goal]]
id = "soon"
section = "later"
goal = "time of b"
unit = "s"
better = "lower"
at = "/wall_s"
first = "cargo lab demo --model smollm2 --json"
"#;
    let goals = format!("{GOALS}{waiting}");
    let render = |records: &[String]| {
        let book = Book::parse(&goals, &records.join("\n")).unwrap();
        page::render(&book.goals, &book.newest().unwrap()).unwrap()
    };
    let text = render(&[time(&[]), right(true)]);
    assert_eq!(text, page(&[time(&[]), right(true)]).unwrap());
    let measured = time(&[("goal", json!("soon")), ("held", json!(null))]);
    let text = render(&[time(&[]), right(true), measured]);
    assert!(text.contains("## Later") && text.contains("time of b"), "{text}");
    let without = goals.replace("at = \"/wall_s\"\nfirst", "first");
    assert!(error(Book::parse(&without, "")).contains("`soon` is not measured yet, and has no `at`"));
}

#[test]
fn what_is_wrong_with_a_record_is_said_with_its_line() {
    let with = |name: &'static str, value: Value| time(&[(name, value)]);
    for (line, reason) in [
        (with("goal", json!("tim")), "goal `tim` is unknown"),
        (with("machine", json!("mine")), "machine `mine` is unknown"),
        (with("figure", json!(null)), "goal `time` has no figure"),
        (with("figure", json!("fast")), "a figure is a number, true or false"),
        (with("figure", json!(true)), "figure of another kind"),
        (with("figure", json!(301)), "not held by its figure"),
        (with("unit", json!("ms")), "is in `s`, not in `ms`"),
        (with("date", json!("22.11.2026")), "no date"),
        (with("low", json!(227)), "not between"),
        (with("colour", json!("red")), "unknown field `colour`"),
        ("{\"goal\": \"time\"".to_owned(), "column 15: EOF"),
        (String::new(), "column 0: EOF"),
    ] {
        let error = error(Book::parse(GOALS, &[right(true), line, right(true)].join("\n")));
        assert!(error.starts_with("docs/results/records.jsonl, line 2: "), "{error}");
        assert!(error.contains(reason), "{reason}: {error}");
    }
}

#[test]
fn what_is_wrong_with_a_goal_is_said_with_its_line() {
    let goal = "[[goal]]\nid = \"time\"\nsection = \"speed\"\ngoal = \"\"\nunit = \"\"\nbetter = \"lower\"\n";
    let lines = GOALS.lines().count();
    let first = 1 + GOALS.lines().position(|line| line == "id = \"time\"").unwrap();
    let with = |more: &str| goal.replace("time", "t") + more;
    for (more, reason) in [
        (goal.to_owned(), format!("goal `time` is there already, in line {first}")),
        (goal.replace("time", "t").replace("speed", "spee"), "section `spee`, which is unknown".to_owned()),
        (goal.replace("time", "t").replace("lower", "holds") + "bound = 1\n", "but has a bound".to_owned()),
        (with("runs_at = \"/runs\"\n"), "there is no `at`".to_owned()),
        (with("at = \"wall_s\"\n"), "`wall_s` is no JSON pointer".to_owned()),
        (with("at = \"/a\"\ninterval_at = \"/b\"\n"), "which `runs_at` has to count".to_owned()),
        (with("at = \"/a\"\ntimes = 0\n"), "`times` has to be above 0".to_owned()),
    ] {
        let error = error(Book::parse(&format!("{GOALS}{more}"), ""));
        assert!(error.starts_with(&format!("docs/results/goals.toml, line {}: ", lines + 2)), "{error}");
        assert!(error.contains(&reason), "{reason}: {error}");
    }
    let unknown = error(Book::parse(&GOALS.replace("text =", "txet ="), ""));
    assert!(unknown.starts_with("docs/results/goals.toml: ") && unknown.contains("line 4"), "{unknown}");
}

#[test]
fn a_check_tells_drift_from_what_is_written() {
    let console = Console::new(true);
    let dir = workspace(&[time(&[]), right(false)]);
    let path = dir.path().join(PAGE);
    assert!(!run_in(dir.path(), true, &console).unwrap().passed, "there is no page yet");
    assert!(!path.exists(), "a check writes nothing");
    let written = run_in(dir.path(), false, &console).unwrap();
    assert_eq!((written.passed, &written.json["missed"]), (true, &json!(["right"])));
    let checked = run_in(dir.path(), true, &console).unwrap();
    assert_eq!((checked.passed, &checked.json["differing"]), (true, &json!(0)));

    let text = fs::read_to_string(&path).unwrap();
    let line = 1 + text.lines().position(|line| line.contains("226 s")).unwrap();
    fs::write(&path, text.replace("226 s", "225 s")).unwrap();
    let drifted = run_in(dir.path(), true, &console).unwrap();
    assert!(!drifted.passed && drifted.json["claims"][0]["holds"] == false);
    let said: Vec<_> = drifted.json["lines"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(said[0].starts_with(&format!("{line} has: ")) && said[0].contains("225 s"), "{said:?}");
    assert!(said[1].starts_with(&format!("{line} misses: ")) && said[1].contains("226 s"), "{said:?}");
    assert_eq!(said.len(), 2);
}

#[test]
fn drift_names_only_the_lines_that_differ() {
    assert!(line_diff::lines("a\nb\n", "a\nb\n").is_empty());
    assert_eq!(line_diff::lines("a\nb\nc\n", "a\nx\nb\nc\n"), ["2 misses: x"]);
    assert_eq!(line_diff::lines("a\nb\nc\nd\n", "b\nc\ne\n"), ["1 has: a", "4 has: d", "3 misses: e"]);
    assert_eq!(line_diff::lines("a", "a\n").len(), 1, "the end of the last line counts");
}

#[test]
fn what_is_recorded_is_read_again() {
    let dir = workspace(&[time(&[]), right(true)]);
    let stamp =
        Stamp { commit: "abc-dirty".to_owned(), date: "2026-11-29".to_owned(), machine: "new".to_owned() };
    let append = |root: &Path, stamp: &Stamp, measurement: &Measurement<'_>| {
        append_lines(root, &[measurement.checked_line(stamp, &Book::read(root)?.goals)?])
    };
    let (runs, low, high) = (Some(3), Some(299.5), Some(320.0));
    let once = Measurement::new("time", 310.0, "s", "cargo lab demo --json");
    let measured = Measurement { runs, low, high, ..once };
    append(dir.path(), &stamp, &measured).unwrap();
    let text = fs::read_to_string(dir.path().join(records::FILE)).unwrap();
    let expected = "{\"goal\":\"time\",\"figure\":310,\"unit\":\"s\",\"held\":false,\
                    \"command\":\"cargo lab demo --json\",\"commit\":\"abc-dirty\",\"date\":\"2026-11-29\",\
                    \"machine\":\"new\",\"runs\":3,\"low\":299.5,\"high\":320,\"leaves_out\":\"\"}";
    assert_eq!(text.lines().last(), Some(expected));
    let book = Book::read(dir.path()).unwrap();
    assert_eq!(book.newest().unwrap()[0].held, HeldOrMissed::Missed);

    let open = Measurement { judged: JudgedBy::Nobody, ..measured.clone() };
    append(dir.path(), &stamp, &open).unwrap();
    assert_eq!(Book::read(dir.path()).unwrap().newest().unwrap()[0].held, HeldOrMissed::NotShown);
    for wrong in [
        Measurement { goal: "tim", ..measured.clone() },
        Measurement { unit: "ms", ..measured.clone() },
        Measurement { command: " ", ..measured.clone() },
        Measurement { judged: JudgedBy::Bench(true), ..measured.clone() },
    ] {
        append(dir.path(), &stamp, &wrong).unwrap_err();
    }
    assert_eq!(Book::read(dir.path()).unwrap().records.len(), 4);
}

#[test]
fn a_machine_is_recognised_or_named() {
    let goals = goals::GoalsFile::parse(GOALS).unwrap();
    let of = |named: Option<&str>, cpu: &str, avx: bool| {
        machine_of(&goals.machines, named, &json!({"cpu": cpu, "cores": 2, "avx512f": avx}))
    };
    assert_eq!(of(None, "AMD EPYC", false).unwrap(), "old");
    assert_eq!(of(None, "AMD EPYC 9R14", true).unwrap(), "new");
    assert_eq!(of(Some("old"), "Intel", true).unwrap(), "old");
    assert!(error(of(None, "Intel", true)).contains("name one of old, new in ECHO_MACHINE"));
    assert!(error(of(Some("older"), "AMD EPYC", true)).contains("has only old, new"));
    assert_eq!(date(1_795_824_000_000), "2026-11-28");
}

#[test]
fn goals_that_say_where_their_figure_is_are_measured_by_the_lab() {
    let book = Book::read(&workspace_root()).unwrap();
    let newest = book.newest().unwrap();
    let mut pointing = newest.iter().filter(|figure| figure.goal.at.is_some()).peekable();
    assert!(pointing.peek().is_some());
    for figure in pointing {
        assert!(command::LabCommand::read(figure.command).is_some(), "{}", figure.goal.id());
    }
}

#[test]
fn the_page_of_this_repository_has_no_long_cell_or_line() {
    let root: PathBuf = workspace_root();
    let book = Book::read(&root).unwrap();
    let text = page::render(&book.goals, &book.newest().unwrap()).unwrap();
    let table = |line: &&str| line.starts_with('|');
    assert!(text.lines().filter(|line| !table(line)).all(|line| line.chars().count() <= 110));
    let cells = text.lines().filter(table).flat_map(|line| line.split(" | "));
    assert!(cells.map(words).all(|words| words <= MAX_WORDS));
}
