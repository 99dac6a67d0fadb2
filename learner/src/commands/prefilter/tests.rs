use super::*;
use crate::config::WarmupSection;
use tempfile::TempDir;

const ROWS: [&str; 3] = [
    r#"{"question": "1+1?", "answer": "2"}"#,
    r#"{"question": "1+2?", "answer": "3", "source": "kept as it stands"}"#,
    r#"{"question": "2+2?", "answer": "4"}"#,
];

struct Fixture {
    dir: TempDir,
    config: RunConfig,
}

impl Fixture {
    /// A policy of random weights, which answers nothing right, and problems.
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("rows.jsonl"), ROWS.join("\n\n")).unwrap();
        let run = r#"
            task = { math = 1, chain_sum = 1 }
            [data]
            math = "rows.jsonl"
            [run]
            name = "filter"
            dir = "run"
            updates = 1
            [model.tiny]
            hidden = 16
            layers = 1
            heads = 2
            kv_heads = 1
            head_dim = 8
            intermediate = 24
            positions = 64
            [sampling]
            max_new_tokens = 4
        "#;
        std::fs::write(dir.path().join("run.toml"), run).unwrap();
        let config = RunConfig::load(&dir.path().join("run.toml")).unwrap();
        Self { dir, config }
    }

    fn plan(&self) -> PrefilterPlan {
        PrefilterPlan {
            task: Some("math".into()),
            responses: 4,
            min_pass_rate: 0.001,
            max_pass_rate: 0.999,
            output: self.dir.path().join("kept.jsonl"),
            json: false,
        }
    }

    fn run(&self, plan: &PrefilterPlan) -> Result<PrefilterOutcome, String> {
        prefilter(&self.config, plan).map_err(|error| format!("{error:#}"))
    }

    fn change_journal(&self, change: impl FnOnce(String) -> String) {
        let path = self.dir.path().join("kept.jsonl.measured.jsonl");
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::write(&path, change(text)).unwrap();
    }
}

#[test]
fn what_is_answered_right_now_and_then_remains_as_it_stood() {
    let fixture = Fixture::new();
    let nothing = fixture.run(&fixture.plan()).unwrap_err();
    assert!(nothing.contains("no row remains") && nothing.contains("measured.jsonl"), "{nothing}");
    assert!(!fixture.plan().output.exists());
    // As if the second had been right once in four, and the third always.
    let at = |row: usize| ContentId::of(ROWS[row].as_bytes());
    fixture.change_journal(|text| {
        let line = |row, right| serde_json::to_string(&Measured { row, right: Some(right) }).unwrap();
        text.replace(&line(at(1), 0), &line(at(1), 1)).replace(&line(at(2), 0), &line(at(2), 4))
    });
    let outcome = fixture.run(&fixture.plan()).unwrap();
    assert_eq!(outcome, PrefilterOutcome { kept: 1, too_hard: 1, too_easy: 1, unjudged: 0 });
    let kept = std::fs::read_to_string(fixture.plan().output).unwrap();
    assert_eq!(kept, format!("{}\n", ROWS[1]));
    assert!(fixture.run(&fixture.plan()).unwrap_err().contains("exists"), "nothing is overwritten");
}

#[test]
fn an_interrupted_measurement_goes_on_and_no_other_is_taken_for_it() {
    let fixture = Fixture::new();
    let all = PrefilterPlan { min_pass_rate: 0.0, ..fixture.plan() };
    assert_eq!(fixture.run(&all).unwrap().kept, 3);
    std::fs::remove_file(&all.output).unwrap();
    // A kill tore the last line.
    fixture.change_journal(|text| text[..text.len() - 9].to_owned());
    assert_eq!(fixture.run(&all).unwrap().kept, 3);
    fixture.change_journal(|text| {
        assert_eq!(text.lines().count(), 1 + ROWS.len(), "{text}");
        text
    });
    std::fs::remove_file(&all.output).unwrap();
    let other = fixture.run(&PrefilterPlan { responses: 8, ..all }).unwrap_err();
    assert!(other.contains("another policy, task or settings"), "{other}");
}

#[test]
fn only_tasks_made_of_rows_can_be_filtered() {
    let fixture = Fixture::new();
    let of = |task: Option<&str>| {
        fixture.run(&PrefilterPlan { task: task.map(str::to_owned), ..fixture.plan() }).unwrap_err()
    };
    assert!(of(None).contains("--task") && of(None).contains("math"), "{}", of(None));
    assert!(of(Some("chain_sum")).contains("not made of the rows"), "{}", of(Some("chain_sum")));
    assert!(of(Some("code")).contains("no task code"), "{}", of(Some("code")));
    let mut warm = Fixture::new();
    warm.config.warmup =
        Some(WarmupSection { updates: 1, batch: 1, learning_rate: 1e-3, until_accuracy: None });
    assert!(
        warm.run(&warm.plan()).unwrap_err().contains("echo-learner warmup"),
        "another policy for each run"
    );
    let upside_down = PrefilterPlan { min_pass_rate: 0.9, max_pass_rate: 0.1, ..fixture.plan() };
    assert!(fixture.run(&upside_down).unwrap_err().contains("between 0 and 1"));
}
