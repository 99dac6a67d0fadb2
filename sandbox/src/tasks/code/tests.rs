use super::*;

const ROWS: &str = r#"
{"task_id": "one", "prompt": "def more(x):\n    '''One more.'''\n", "entry_point": "more", "canonical_solution": "    return x + 1\n", "test": "def check(candidate):\n    assert candidate(1) == 2\n    assert candidate(-1) == 0\n"}
{"task_id": 2, "text": "Write a function that doubles.", "code": "def double(x):\r\n    return 2 * x", "test_list": ["assert double(1) == 2", "assert double(3) == 6", "assert double(0) == 0"]}
{"prompt": "Print the sum of two numbers.", "tests": [{"input": "1 2", "output": "3"}, {"input": "5 5", "output": "10"}, {"input": "0 7", "output": "7"}, {"input": "1 1", "output": "2"}], "solution": "print(sum(map(int, input().split())))"}
{"prompt": "Print a third.", "tests": [{"input": "", "output": "0.333333333"}], "checker": "rcmp6", "cpu_s": 1, "memory_mb": 128, "solution": "print(1 / 3)"}
"#;

fn build(config: CodeConfig) -> CodeTask {
    CodeTask::new(config, ROWS.as_bytes()).unwrap()
}

/// A seed of the problem whose prompt begins so.
fn seed(task: &CodeTask, start: &str) -> TaskSeed {
    let seeds = (0..=u8::MAX).map(|byte| TaskSeed([byte; 32]));
    seeds.into_iter().find(|seed| task.prompt(*seed).text.starts_with(start)).unwrap()
}

fn judged(task: &CodeTask, start: &str, text: &str) -> Verdict {
    task.reward(seed(task, start), &Response { text, finished: true }).unwrap()
}

fn verdict_name(verdict: &Verdict) -> &str {
    match &verdict.metadata[VERDICT] {
        MetaValue::Text(text) => text,
        other => panic!("{other:?}"),
    }
}

#[test]
fn solutions_of_every_form_are_right_and_others_are_not() {
    let task = build(CodeConfig::default());
    for start in ["def more", "Write", "Print the sum", "Print a third"] {
        let verdict = judged(&task, start, &task.solution(seed(&task, start)));
        assert_eq!((verdict.reward, verdict.correct, verdict_name(&verdict)), (1.0, true, "AC"), "{start}");
    }
    let answered = [
        ("def more", "    return x + 2", "WA"),
        ("def more", "It is:\n```python\ndef more(x):\n    return x - -1\n```", "AC"),
        ("def more", "    return x +", "CE"),
        ("Write", "def double(x): return 2", "WA"),
        ("Write", "```python\ndef double(x): return x + x\n```", "AC"),
        ("Write", "def double(x): return {1: 2}[x]", "RE(1)"),
        ("Print the sum", "print(3)", "WA"),
        ("Print the sum", "I think that it is three.", "CE"),
        ("Print the sum", "1 / 0", "RE(1)"),
        ("Print a third", "print(0.33333334)", "AC"),
        ("Print a third", "x = bytearray(1 << 28)", "MLE"),
    ];
    for (start, text, expected) in answered {
        let verdict = judged(&task, start, text);
        assert_eq!(verdict_name(&verdict), expected, "{text}");
        assert_eq!(
            (verdict.reward, verdict.correct),
            (f32::from(expected == "AC"), expected == "AC"),
            "{text}"
        );
    }
}

#[test]
fn an_author_may_bring_a_checker_and_name_files() {
    let row = r#"{"prompt": "Write two numbers with the sum of the input.", "tests": [{"input": "10", "output": ""}], "input_file": "sum.in", "output_file": "sum.out", "checker_program": {"source": "import sys\ntotal, found = (list(map(int, open(name).read().split())) for name in sys.argv[1:3])\nsys.exit(int(len(found) != 2 or sum(found) != total[0]))"}, "solution": "a = int(open('sum.in').read())\nprint(a - 3, 3, file=open('sum.out', 'w'))"}"#;
    let task = CodeTask::new(CodeConfig::default(), row.as_bytes()).unwrap();
    task.try_solutions().unwrap();
    for (text, expected) in [
        ("print(4, 6, file=open('sum.out', 'w'))", "AC"),
        ("print(4, 4, file=open('sum.out', 'w'))", "WA"),
        ("print(4, 6)", "PE"),
    ] {
        assert_eq!(verdict_name(&judged(&task, "Write two", text)), expected, "{text}");
    }
}

#[test]
fn it_says_how_many_rows_are_held_out() {
    let held_out =
        |held_out_percent| build(CodeConfig { held_out_percent, ..CodeConfig::default() }).held_out_rows();
    assert_eq!(held_out(10), Some(0), "four rows are too few for a tenth");
    assert_eq!(held_out(50), Some(2));
}

#[test]
fn a_cut_response_is_not_run() {
    let task = build(CodeConfig::default());
    let cut = Response { text: "print(1 / 3)", finished: false };
    assert_eq!(task.reward(seed(&task, "Print a third"), &cut).unwrap(), Verdict::wrong(Miss::Cut));
}

#[test]
fn a_share_of_the_tests_earns_a_share_where_that_is_asked_for() {
    let task = build(CodeConfig { partial: 1, ..CodeConfig::default() });
    let verdict =
        judged(&task, "Print the sum", "a, b = map(int, input().split())\nprint(max(3, a + b) if a else 8)");
    assert_eq!((verdict.reward, verdict.correct, verdict_name(&verdict)), (0.5, false, "WA"));
    assert_eq!(judged(&task, "Write", "def double(x): return 2 if x == 1 else 0").reward, 2.0 / 3.0);
    assert_eq!(judged(&task, "Print the sum", "print(").reward, 0.0);
}

#[test]
fn no_claim_is_a_lie_as_programs_are_run() {
    let task = build(CodeConfig::default());
    assert!(task.runs_programs() && task.held_out().is_some_and(Task::runs_programs));
    let slow = judged(&task, "Print a third", "while True: pass");
    // On a machine that is busy with something else, the clock is first.
    assert!(["TLE(cpu)", "TLE(wall)"].contains(&verdict_name(&slow)), "{slow:?}");
}

#[test]
fn tests_that_take_too_long_together_are_not_all_run() {
    let task = build(CodeConfig { partial: 1, ..CodeConfig::default() });
    let row = task.rows.pick(seed(&task, "Print the sum"));
    let JudgingMethod::Tests { language, suite, .. } = &row.judged else { panic!("it has tests") };
    let source = row.solution.clone().unwrap();
    let at_once = |tests: usize| {
        let suite = Suite { tests: suite.tests[..tests].to_vec(), ..suite.clone() };
        let submission = Submission { language: *language, source: source.clone() };
        let data = task.shared.data.clone();
        let judging = Judge::judge(&task.shared.judge, submission, suite, data, JudgeOptions::default());
        within(Duration::ZERO, judging.unwrap())
    };
    let verdicts = |tests: usize| at_once(tests).iter().map(|report| report.verdict).collect::<Vec<_>>();
    assert_eq!(verdicts(1), [ProgramVerdict::Accepted]);
    assert_eq!(verdicts(4), [ProgramVerdict::Accepted, ProgramVerdict::WallLimit]);
    let verdict = task.shared.verdict(&at_once(4), 4).unwrap();
    assert_eq!((verdict.reward, verdict_name(&verdict)), (0.25, "TLE(wall)"));
}

#[test]
fn an_authors_mistake_is_no_reward_and_names_the_line() {
    let broken = r#"{"task_id": 1, "text": "Write f.", "code": "def f(): return 1", "test_list": ["assert f() == 2"]}"#;
    let task = CodeTask::new(CodeConfig::default(), format!("\n{broken}").as_bytes()).unwrap();
    let response = Response { text: "def f(): return 2", finished: true };
    let TaskError::Internal { reason, .. } = task.reward(TaskSeed([0; 32]), &response).unwrap_err();
    assert!(reason.contains("row 2") && reason.contains("WA"), "{reason}");
}

#[test]
fn whoever_founds_a_run_learns_of_a_solution_that_is_wrong() {
    build(CodeConfig::default()).try_solutions().unwrap();
    let wrong = r#"{"prompt": "?", "tests": [{"input": "", "output": "1"}], "solution": "print(2)"}"#;
    let task = CodeTask::new(CodeConfig::default(), format!("{ROWS}{wrong}\n{wrong}").as_bytes()).unwrap();
    let refused = task.try_solutions().unwrap_err();
    let SpecError::Data { reason: DataError::Rows(rows), .. } = &refused else { panic!("{refused}") };
    assert_eq!(rows.iter().map(|(row, _)| row).collect::<Vec<_>>(), [6, 7], "all of them are named");
    assert!(refused.to_string().contains("its own solution gets WA"), "{refused}");
}

#[test]
fn authors_are_told_in_their_own_words() {
    let refused = |row: &str| {
        let task = CodeTask::new(CodeConfig::default(), row.as_bytes()).unwrap();
        task.try_solutions().unwrap_err().to_string()
    };
    let wrong = refused(
        r#"{"task_id": 1, "text": "f.", "code": "def f(): return 1", "test_list": ["assert f() == 2"]}"#,
    );
    assert!(wrong.contains("row 1: its own solution gets WA"), "{wrong}");
    let nothing =
        refused(r#"{"task_id": 1, "text": "f.", "code": "def f(): return 1", "test_list": ["assert True"]}"#);
    assert!(nothing.contains("every program would pass"), "{nothing}");
    for words in ["trajectory", "lease", "`subjects`"] {
        assert!(!wrong.contains(words) && !nothing.contains(words), "{wrong} {nothing}");
    }
}

#[test]
fn tests_that_call_a_function_are_judged_by_what_it_returns() {
    let row = r#"{"question": "Add.", "input_output": {"fn_name": "add", "inputs": [[1, [2]], [5, [7, 1]]], "outputs": [[3], [13]]}, "solutions": "[\"class Solution:\\n    def add(self, a, b):\\n        return a + sum(b)\"]"}"#;
    let task = CodeTask::new(CodeConfig::default(), row.as_bytes()).unwrap();
    task.try_solutions().unwrap();
    for (text, expected) in [
        ("def add(a: int, b: List[int]):\n    print('some words')\n    return a + sum(b)", "AC"),
        ("class Solution:\n    def add(self, a, b): return [a + sum(b)]", "AC"),
        ("def add(a, b): return a", "WA"),
        ("def sub(a, b): return a", "RE(1)"),
        ("print('[3]')\nimport os\nos._exit(0)", "PE"),
    ] {
        assert_eq!(verdict_name(&judged(&task, "Add", text)), expected, "{text}");
    }
}

#[test]
fn internal_verdicts_are_never_scored() {
    let means = |partial| {
        let judge = judge().unwrap();
        Means { exams: Exams::new(Arc::clone(&judge)), judge, data: Arc::default(), partial }
    };
    let report = |verdict| TestReport { verdict, message: "why".into(), cpu_us: 0, memory_peak: 0 };
    let [right, wrong, ours] =
        [ProgramVerdict::Accepted, ProgramVerdict::WrongAnswer, ProgramVerdict::Internal].map(report);
    for partial in [false, true] {
        assert!(means(partial).verdict(&[right.clone(), ours.clone()], 2).is_err());
    }
    // No failure of ours makes a wrong answer right; but what share would have been is not known.
    assert_eq!(means(false).verdict(&[wrong.clone(), ours.clone()], 2).unwrap().reward, 0.0);
    assert!(means(true).verdict(&[wrong, ours], 2).is_err());
}

#[test]
fn the_prompt_of_mbpp_shows_one_assert_alone() {
    let task = build(CodeConfig::default());
    let prompt = task.prompt(seed(&task, "Write")).text;
    assert_eq!(
        prompt,
        "Write a function that doubles.\nYour code should pass this test:\nassert double(1) == 2\n"
    );
}

#[test]
fn rows_and_parameters_that_make_no_task_are_refused() {
    let refused = |config, text: &str| CodeTask::new(config, text.as_bytes()).unwrap_err();
    let nothing = refused(CodeConfig::default(), "{}");
    assert!(
        matches!(&nothing, SpecError::Data { reason: DataError::Rows(rows), .. } if rows.count() == 1),
        "{nothing}"
    );
    let share = refused(CodeConfig { partial: 2, ..CodeConfig::default() }, ROWS);
    assert!(share.to_string().contains("partial"), "{share}");
}

#[test]
fn budgets_and_the_alphabet_cover_every_row_and_solutions_may_be_unknown() {
    let task = build(CodeConfig::default());
    assert!(task.knows_solutions());
    let alphabet = task.alphabet();
    for byte in 0..=u8::MAX {
        let seed = TaskSeed([byte; 32]);
        let (prompt, solution) = (task.prompt(seed).text, task.solution(seed));
        assert!(prompt.len() <= task.longest_prompt() && solution.len() <= task.longest_response());
        assert!(prompt.chars().chain(solution.chars()).all(|c| alphabet.contains(&c)));
    }
    let unknown = r#"{"prompt": "?", "tests": [{"input": "", "output": "1"}]}"#;
    let task = CodeTask::new(CodeConfig::default(), unknown.as_bytes()).unwrap();
    assert!(!task.knows_solutions());
    assert_eq!(task.longest_response(), UNKNOWN_RESPONSE_BYTES);
}
