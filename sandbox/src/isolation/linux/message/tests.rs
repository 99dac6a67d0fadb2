//! Messages arrive as they were sent, and cut ones are refused.

use std::io::Write;
use std::os::fd::AsFd;

use super::*;

fn task() -> PreparedJob {
    let texts = |texts: &[&str]| texts.iter().map(|text| CString::new(*text).unwrap()).collect::<Vec<_>>();
    let bind = Bind { source: "/host".into(), identity: (1, u64::MAX), target: "/inside".into() };
    let file = File { name: "a/b".into(), executable: true, bytes: vec![0, 255, 7] };
    PreparedJob {
        program: CString::new("/bin/true").unwrap(),
        args: texts(&["/bin/true", "", "x"]),
        env: texts(&["A=b"]),
        mounts: vec![bind],
        files: vec![file],
        collects: true,
        limits: RunLimits::compile(),
    }
}

#[test]
fn orders_arrive_with_their_descriptors() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let setup = ZygoteSetup {
        user_namespace: true,
        user: 7,
        join: vec!["/a/tasks".into(), "/b/tasks".into()],
        born_in: Some("/c".into()),
        remove: vec!["/a".into()],
        system: vec!["/usr/bin".into()],
        rlimits_only: true,
    };
    send_setup(&ours, &setup).unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    // Larger than what the socket holds at once.
    let mut large = task();
    large.files[0].bytes = vec![3; 4 << 20];
    std::thread::scope(|scope| {
        scope.spawn(|| {
            send_task(&ours, &large, [null.as_fd(); 3]).unwrap();
            send_kill(&ours).unwrap();
        });
        assert!(
            matches!(ZygoteCommand::receive(&theirs).unwrap(), Some(ZygoteCommand::Setup(got)) if got == setup)
        );
        assert!(
            matches!(ZygoteCommand::receive(&theirs).unwrap(), Some(ZygoteCommand::Run(got, _)) if got == large)
        );
        assert!(matches!(ZygoteCommand::receive(&theirs).unwrap(), Some(ZygoteCommand::Kill)));
    });
    drop(ours);
    assert!(ZygoteCommand::receive(&theirs).unwrap().is_none());
}

#[test]
fn answers_arrive_from_several_senders() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let time = Duration::from_micros(1234);
    let exit = Exit { status: -3, wall: time, cpu: time * 2, resident: 5 };
    let failure = StageFailure { stage: Stage::Seccomp, errno: 22 };
    answer(&ours, &ZygoteReply::Exited(exit)).unwrap();
    answer_failure(ours.as_fd(), failure).unwrap();
    answer(&ours, &ZygoteReply::Work(std::fs::File::open("/dev/null").unwrap().into())).unwrap();
    answer(&ours, &ZygoteReply::Ready { proc: true }).unwrap();
    answer(&ours, &ZygoteReply::Born(9)).unwrap();
    answer(&ours, &ZygoteReply::Over).unwrap();
    let next = || ZygoteReply::receive(&theirs).unwrap().unwrap();
    assert!(matches!(next(), ZygoteReply::Exited(got) if got == exit));
    assert!(matches!(next(), ZygoteReply::Failed(got) if got == failure));
    assert!(matches!(next(), ZygoteReply::Work(_)));
    assert!(matches!(next(), ZygoteReply::Ready { proc: true }));
    assert!(matches!(next(), ZygoteReply::Born(9)));
    assert!(matches!(next(), ZygoteReply::Over));
}

#[test]
fn cut_and_foreign_messages_are_refused() {
    let (mut ours, theirs) = UnixStream::pair().unwrap();
    let null = std::fs::File::open("/dev/null").unwrap();
    send_task(&ours, &task(), [null.as_fd(); 3]).unwrap();
    let whole = channel::receive(&theirs).unwrap().unwrap().body;
    for length in 0..whole.len() {
        channel::send(&ours, RUN, &whole[..length], &[null.as_fd(); 3]).unwrap();
        assert!(ZygoteCommand::receive(&theirs).is_err(), "{length}");
    }
    // Descriptors are missing, the kind is unknown, the stage is.
    channel::send(&ours, RUN, &whole, &[]).unwrap();
    assert!(ZygoteCommand::receive(&theirs).is_err());
    channel::send(&ours, 99, &[], &[]).unwrap();
    assert!(ZygoteReply::receive(&theirs).is_err());
    channel::send(&ours, FAILED, &[200; 16], &[]).unwrap();
    assert!(ZygoteReply::receive(&theirs).is_err());
    // A length that nothing has.
    ours.write_all(&[OVER, 255, 255, 255, 255, 255, 255, 255, 255]).unwrap();
    assert!(ZygoteReply::receive(&theirs).is_err());
}

#[test]
fn every_stage_has_a_code_and_a_text_of_its_own() {
    let mut texts = std::collections::BTreeSet::new();
    for code in 0.. {
        let Some(stage) = Stage::from_code(code) else { break };
        assert_eq!(Stage::from_text(stage.text()), Some(stage));
        assert!(texts.insert(stage.text()) && !stage.mend().is_empty());
    }
    assert!(texts.len() > 20);
}
