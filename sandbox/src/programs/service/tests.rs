use super::*;
use crate::programs::language::Language;
use crate::programs::testing::{judge, store, suite, verdicts};

const LIMITS: QueueLimits = QueueLimits { requests: 3, per_client: 2 };

fn service(limits: QueueLimits) -> Service {
    Service::start(judge(), store(), NonZeroUsize::new(2).unwrap(), limits)
}

fn echoing(tests: &[(&str, &str)]) -> JudgeRequest {
    let submission = Submission { language: Language::Python, source: "print(input())".into() };
    JudgeRequest::Program { submission, suite: suite(tests), options: JudgeOptions::default() }
}

#[test]
fn programs_and_functions_are_judged_side_by_side() {
    use ProgramVerdict::{Accepted, Internal, WrongAnswer};
    let service = service(QueueLimits::default());
    let task = |reference: &str| FunctionTask {
        reference: reference.into(),
        subjects: None,
        setup: String::new(),
        checks: vec!["assert f(1) == 2".into(), "assert f(2) == 3".into()],
    };
    let right = "def f(x): return x + 1";
    let functions =
        |source: &str, reference| JudgeRequest::Functions { source: source.into(), task: task(reference) };
    let submit = |client, request| service.submit(ClientId(client), request).unwrap();
    let reports = [
        submit(1, echoing(&[("1", "1"), ("2", "1"), ("3", "3")])),
        submit(2, functions(right, right)),
        submit(1, functions("def f(x): return 2", right)),
        submit(2, functions(right, "def f(x): return x")),
    ];
    let expected: [&[ProgramVerdict]; 4] =
        [&[Accepted, WrongAnswer, Accepted], &[Accepted, Accepted], &[Accepted, WrongAnswer], &[Internal]];
    assert_eq!(reports.map(verdicts), expected.map(<[_]>::to_vec));
}

#[test]
fn what_is_too_much_is_refused_and_what_is_not_heard_ends() {
    let service = service(LIMITS);
    let tests = vec![("1", "1"); 40];
    let submit = |client| service.submit(ClientId(client), echoing(&tests));
    let long = [submit(1).unwrap(), submit(1).unwrap()];
    assert_eq!(submit(1).unwrap_err(), RequestRefused::Full(Full::Client { limit: 2 }));
    let other = submit(2).unwrap();
    assert_eq!(submit(3).unwrap_err(), RequestRefused::Full(Full::Service { limit: 3 }));
    let empty = JudgeRequest::Program {
        submission: Submission { language: Language::Python, source: String::new() },
        suite: suite(&[]),
        options: JudgeOptions::default(),
    };
    assert_eq!(service.submit(ClientId(4), empty).unwrap_err(), RequestRefused::Suite(SuiteError::Empty));
    // Nobody listens to the first client's reports any longer: its requests give way, and the
    // other's are all made.
    drop(long);
    assert_eq!(other.count(), 40);
    submit(1).unwrap();
}

#[test]
fn a_short_request_does_not_wait_for_a_long_one() {
    let service = service(QueueLimits::default());
    let mut long = service.submit(ClientId(1), echoing(&[("1", "1"); 60])).unwrap();
    let short = service.submit(ClientId(2), echoing(&[("1", "1"); 2])).unwrap();
    assert_eq!(short.count(), 2);
    long.next().unwrap();
    // What had been reported of the long one when the short one was done is in its channel; it was
    // far from its end.
    drop(service);
    let verdicts = verdicts(long);
    assert_eq!(verdicts.last(), Some(&ProgramVerdict::Internal));
    assert!(verdicts.len() < 60, "{}", verdicts.len());
}

#[test]
fn a_closed_service_ends_what_waits_and_takes_no_more() {
    let service = service(QueueLimits::default());
    let submit = |client| service.submit(ClientId(client), echoing(&[("1", "1"); 40])).unwrap();
    let waiting: Vec<_> = (0..8).map(submit).collect();
    service.close();
    for reports in waiting {
        assert_eq!(verdicts(reports).last(), Some(&ProgramVerdict::Internal));
    }
    assert_eq!(verdicts(submit(9)), [ProgramVerdict::Internal]);
}
