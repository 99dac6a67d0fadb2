use super::*;
use crate::common::testing;
use crate::config::TrainSection;
use crate::founding::export_policy;
use crate::publishing::checkpoint::state_at;
use crate::training::trainer::Trainer;
use clap::Parser;
use std::fs;

const ROWS: &str =
    "{\"question\": \"1+1?\", \"answer\": \"2\"}\n{\"question\": \"1+2?\", \"answer\": \"3\"}\n";

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    plan: EvaluatePlan,
}

fn run(home: &Path, words: &str) -> anyhow::Result<Evaluated> {
    let at = |word: &str| word.replace("HOME", &home.display().to_string());
    let words = ["evaluate".to_owned()].into_iter().chain(words.split(' ').map(at));
    let plan = Line::try_parse_from(words)?.plan;
    evaluate(&plan, &CancellationToken::new())
}

/// A model, and rows.
fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::write(home.path().join("rows.jsonl"), ROWS).unwrap();
    let (workload, weights) = testing::problems(ROWS);
    export_policy(&home.path().join("model"), &workload, &weights, None).unwrap();
    home
}

const MODEL: &str =
    "HOME/model --data HOME/rows.jsonl --device cpu --max-new-tokens 4 --output HOME/out.jsonl";

#[test]
fn a_model_is_evaluated_and_the_same_command_goes_on() {
    let home = home();
    let evaluated = run(home.path(), &format!("{MODEL} --samples 3 --keep-texts")).unwrap();
    let line = evaluated.json();
    assert_eq!(
        (line["rows"].clone(), line["passed"].clone(), line["version"].clone()),
        (json!(2), json!(true), json!(0))
    );
    assert!(line["avg_low"].is_f64() && line["pass@2"].is_f64() && line["pass@4"].is_null(), "{line}");
    assert!(
        evaluated.text().contains("avg@3") && evaluated.text().contains("out.jsonl"),
        "{}",
        evaluated.text()
    );
    let file = home.path().join("out.jsonl");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 9]).unwrap();
    assert_eq!(run(home.path(), &format!("{MODEL} --samples 3 --keep-texts")).unwrap().json(), line);
    assert_eq!(fs::read(&file).unwrap(), whole);
    let other =
        run(home.path(), &format!("{MODEL} --samples 3 --keep-texts --seed 1")).unwrap_err().to_string();
    assert!(other.contains("seed"), "{other}");
}

#[test]
fn a_limit_can_be_raised_and_its_rows_stay() {
    let home = home();
    let one = run(home.path(), &format!("{MODEL} --limit 1")).unwrap();
    let both = run(home.path(), MODEL).unwrap();
    assert_eq!((one.json()["rows"].clone(), both.json()["rows"].clone()), (json!(1), json!(2)));
    let again = run(home.path(), &format!("{MODEL} --limit 1")).unwrap();
    assert_eq!(again.json(), one.json(), "rows beyond the limit do not count");
}

#[tokio::test]
async fn a_version_of_a_run_is_evaluated_beside_its_learner() {
    let home = tempfile::tempdir().unwrap();
    let config = testing::run_config(home.path().join("run"));
    // It holds the directory's lock until the end.
    let founded = founding::found(&config, |_, _| ()).unwrap();
    let start = Weights::load_dir(&founded.dir.start(), &founded.workload.model).unwrap();
    let trainer = Trainer::new(&founded.workload.model, &start, &TrainSection::default()).unwrap();
    let checkpoints = Checkpoints::open(&founded.dir, &config.checkpoints).unwrap();
    let state = state_at(founded.workload.run, 2);
    checkpoints.write(state, trainer.decoder(), &trainer.optimizer().state().unwrap()).await.unwrap();
    let path = home.path().to_owned();
    let of_run = "HOME/run --task chain_sum --param digits=1 --limit 3 --device cpu --output HOME/out.jsonl";
    let evaluated = move |more: &str| run(&path, &format!("{of_run}{more}"));
    // A runtime may not be started on a thread of another.
    let tried =
        tokio::task::spawn_blocking(move || [evaluated(""), evaluated(" --version v3")]).await.unwrap();
    let [evaluated, missing] = tried;
    let line = evaluated.unwrap().json();
    assert_eq!((line["version"].clone(), line["rows"].clone()), (json!(2), json!(3)));
    assert!(missing.unwrap_err().to_string().contains("no checkpoint of v3"));
}

#[test]
fn what_cannot_be_evaluated_is_named() {
    let home = home();
    let refused = |words: &str| format!("{:#}", run(home.path(), words).unwrap_err());
    for (words, named) in [
        ("HOME/model --data HOME/rows.jsonl", "--max-new-tokens"),
        ("HOME --data HOME/rows.jsonl --max-new-tokens 4", "config.json"),
        ("HOME/nothing --data HOME/rows.jsonl --max-new-tokens 4", "there is no directory"),
        ("HOME/model --max-new-tokens 4", "needs data"),
        ("HOME/model --max-new-tokens 4 --task chain_sum", "limit"),
        ("HOME/model --max-new-tokens 4 --data HOME/rows.jsonl --task maths", "no such task"),
        ("HOME/model --max-new-tokens 4 --data HOME/no.jsonl", "no.jsonl"),
        ("HOME/model --max-new-tokens 4 --data HOME/rows.jsonl --top-p 0", "top_p"),
        ("HOME/model --max-new-tokens 4 --data HOME/rows.jsonl --version 3", "--version is for runs"),
        ("HOME/model --max-new-tokens 4 --data HOME/rows.jsonl --set run.seed=1", "--set changes a run file"),
        ("HOME/run --set run.seed=1", "--set changes a run file"),
        ("HOME/model --max-new-tokens 4 --data HOME/rows.jsonl --samples 1025", "1024"),
        ("HOME/model --max-new-tokens 4 --data HOME/rows.jsonl --param digits", "KEY=NUMBER"),
    ] {
        assert!(refused(words).contains(named), "{words}: {}", refused(words));
    }
    let long = run(home.path(), &MODEL.replace("-tokens 4", "-tokens 64")).unwrap();
    assert!(!long.is_whole() && long.asked.unanswered.len() == 2, "32 positions have no room for that");
}
