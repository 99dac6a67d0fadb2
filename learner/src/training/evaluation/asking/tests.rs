use super::*;
use crate::common::testing;
use crate::training::evaluation::journal::Pinned;
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;
use echo_protocol::run::charter::TaskSpec;
use echo_sandbox::task::files::TaskFiles;
use std::path::Path;

const SAMPLES: u32 = 3;

struct Fixture {
    workload: Workload,
    weights: Weights,
    questions: Questions,
}

impl Fixture {
    fn new(
        (workload, weights): (Workload, Weights),
        spec: &TaskSpec,
        files: &TaskFiles,
        rows: Option<usize>,
    ) -> Self {
        let questions = Questions::new(spec, files, 3, rows).unwrap();
        Self { workload, weights, questions }
    }

    fn sums() -> Self {
        let spec = TaskSpec::new("chain_sum").with("digits", 1);
        Self::new(testing::workload(), &spec, &TaskFiles::none(), Some(5))
    }

    fn asking(&self) -> Asking<'_> {
        Asking {
            workload: &self.workload,
            questions: &self.questions,
            samples: SAMPLES,
            params: SamplingParams { top_p: 0.95, ..SamplingParams::unbiased(4) },
            keep_texts: true,
        }
    }

    fn pinned(&self) -> Pinned {
        let asking = self.asking();
        Pinned {
            evaluation: Pinned::FORM,
            model: ContentId::of(b"model"),
            prompt: asking.prompt_id(),
            data: None,
            task: self.questions.task().name().to_owned(),
            params: BTreeMap::new(),
            samples: SAMPLES,
            temperature: asking.params.temperature,
            top_p: asking.params.top_p,
            top_k: asking.params.top_k,
            max_new_tokens: asking.params.max_new_tokens,
            precision: Precision::F32,
            seed: 3,
            texts: true,
        }
    }

    /// Goes on with the file until it has been called after so many rows.
    fn go_on(&self, path: &Path, rows: usize) -> Asked {
        let policy = Arc::new(Policy::load(0, &self.workload.model, &self.weights).unwrap());
        let mut journal = Journal::open(path, &self.pinned()).unwrap();
        let (stop, mut answered) = (CancellationToken::new(), 0);
        let each = |_: &Journal, _: &AnsweredRow| {
            answered += 1;
            if answered == rows {
                stop.cancel();
            }
        };
        self.asking().ask(policy, &mut journal, &stop, each).unwrap()
    }
}

#[test]
fn an_evaluation_that_is_cut_anywhere_goes_on_and_gives_the_same_rows() {
    let (dir, fixture) = (tempfile::tempdir().unwrap(), Fixture::sums());
    let path = dir.path().join("rows.jsonl");
    let asked = fixture.go_on(&path, usize::MAX);
    assert_eq!(asked, Asked { finished: true, unanswered: Vec::new() });
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(whole.iter().filter(|byte| **byte == b'\n').count(), 6);
    // Every byte of the last line, and some of the others.
    let ends: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] == b'\n').collect();
    let cuts = (0..ends[4]).step_by(61).chain(ends[4]..=whole.len());
    for cut in cuts {
        std::fs::write(&path, &whole[..cut]).unwrap();
        assert!(fixture.go_on(&path, usize::MAX).finished);
        assert_eq!(std::fs::read(&path).unwrap(), whole, "cut at {cut}");
    }
}

#[test]
fn an_evaluation_that_is_stopped_between_rows_goes_on_and_gives_the_same_rows() {
    let (dir, fixture) = (tempfile::tempdir().unwrap(), Fixture::sums());
    let (path, other) = (dir.path().join("rows.jsonl"), dir.path().join("whole.jsonl"));
    let mut goes = 0;
    while !fixture.go_on(&path, 1).finished {
        goes += 1;
        assert!(goes < 10, "every time at least one row is answered");
    }
    fixture.go_on(&other, usize::MAX);
    assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(&other).unwrap());
}

#[test]
fn a_row_has_what_its_samples_are_worth_and_what_they_say() {
    let (dir, fixture) = (tempfile::tempdir().unwrap(), Fixture::sums());
    let path = dir.path().join("rows.jsonl");
    fixture.go_on(&path, usize::MAX);
    let journal = Journal::open(&path, &fixture.pinned()).unwrap();
    for (row, answered) in journal.rows() {
        assert_eq!(answered.content, fixture.questions.content(*row));
        assert_eq!(answered.samples.len(), SAMPLES as usize);
        for sample in &answered.samples {
            assert_eq!(sample.correct, sample.reward == 1.0);
            assert!((1..=4).contains(&sample.tokens) && sample.text.len() == 1);
        }
    }
    let texts: std::collections::BTreeSet<&str> =
        journal.rows().values().flat_map(|row| &row.samples).map(|sample| sample.text[0].as_str()).collect();
    assert!(texts.len() > 8, "random weights at temperature 1: {texts:?}");
}

#[test]
fn rows_that_do_not_fit_the_model_are_named_and_the_others_answered() {
    let mut files = TaskFiles::none();
    let long = "1+".repeat(40);
    let rows = format!(
        "{{\"question\": \"1+1?\", \"answer\": \"2\"}}\n{{\"question\": \"{long}1?\", \"answer\": \"41\"}}\n"
    );
    let data = Some(files.add(rows.as_bytes()));
    let spec = TaskSpec { data, ..TaskSpec::new("math") };
    let fixture =
        Fixture::new(testing::problems("{\"question\": \"1+1?\", \"answer\": \"2\"}"), &spec, &files, None);
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.jsonl");
    let asked = fixture.go_on(&path, usize::MAX);
    assert!(asked.finished && asked.unanswered.len() == 1 && asked.unanswered[0].row == 1, "{asked:?}");
    assert!(asked.unanswered[0].why.contains("positions"), "{asked:?}");
    let journal = Journal::open(&path, &fixture.pinned()).unwrap();
    assert_eq!(journal.rows().keys().copied().collect::<Vec<_>>(), [0]);
}

#[test]
fn episodes_of_several_turns_are_played_to_their_end() {
    let spec = TaskSpec::new("guess_number").with("numbers", 3).with("turns", 2).with("largest", 20);
    let fixture = Fixture::new(testing::two_turns(), &spec, &TaskFiles::none(), Some(12));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("rows.jsonl");
    assert!(fixture.go_on(&path, usize::MAX).finished);
    let journal = Journal::open(&path, &fixture.pinned()).unwrap();
    let samples: Vec<&SampleRow> = journal.rows().values().flat_map(|row| &row.samples).collect();
    assert_eq!(samples.len(), 12 * SAMPLES as usize);
    assert!(samples.iter().all(|sample| (1..=2).contains(&sample.text.len())));
}

#[test]
fn rows_of_a_policy_with_other_end_tokens_are_others() {
    let mut fixture = Fixture::sums();
    let usual = fixture.asking().prompt_id();
    fixture.workload.charter.prompt.end_tokens = vec![1];
    let one = fixture.asking().prompt_id();
    fixture.workload.charter.prompt.end_tokens = vec![1, 2];
    let prompts = [usual, one, fixture.asking().prompt_id()];
    assert_eq!(prompts.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{prompts:?}");
}

#[test]
fn that_part_of_a_response_is_judged_that_the_run_judges() {
    const RIGHT: &str = "2";
    let judging = |judged: JudgedPart| {
        let rows = format!("{{\"question\": \"1+1?\", \"answer\": \"{RIGHT}\"}}");
        let mut files = TaskFiles::none();
        let spec = TaskSpec { data: Some(files.add(rows.as_bytes())), ..TaskSpec::new("math") };
        let (mut workload, weights) = testing::problems(&rows);
        let mix = Arc::into_inner(workload.mix).unwrap().judging(judged);
        workload.mix = Arc::new(mix);
        Fixture::new((workload, weights), &spec, &files, None)
    };
    // An episode as `begin` makes it, and a response of one turn.
    let earns = |fixture: &Fixture, text: &str| {
        let asking = fixture.asking();
        let mut episode = Episode::begin(asking.workload, asking.assignment(0));
        let tokens = asking.workload.encode(text).unwrap();
        let turn = EndedTurn { ticket: Ticket(0), sample: 0, tokens: &tokens, stopped: true, left: 0 };
        assert!(episode.hear(turn).unwrap().is_none(), "it is over");
        episode.answer(Completion::default()).unwrap().verdict.correct
    };
    let plain = judging(JudgedPart::default());
    assert!(earns(&plain, RIGHT));
    let open = judging(JudgedPart { thinking_is_open: true, ..JudgedPart::default() });
    assert!(!earns(&open, RIGHT), "a response is thinking until that ends");
    assert_ne!(plain.asking().prompt_id(), open.asking().prompt_id(), "such rows are others");
    let assignment = |fixture: &Fixture, text: &str| {
        let response = echo_sandbox::task::Response { text, finished: true };
        fixture.asking().assignment(0).reward(&response).unwrap().correct
    };
    assert!(assignment(&open, "So it is 3.</think> It is 2."));
    let tags = judging(JudgedPart { answer_tags: true, ..JudgedPart::default() });
    assert!(!assignment(&tags, RIGHT) && assignment(&tags, "<answer>2</answer>"));
    assert_eq!(tags.asking().assignment(0).solution(), "<answer>2</answer>");
}
