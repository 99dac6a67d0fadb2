//! What clients and judged programs say to those who judge: calls and replies, the channel of
//! functions, messages of zygotes. Readers stay within what they were given, what was written is
//! read as it was, and a suite that passes its checks is within its limits.
#![no_main]

use std::fmt::Debug;
use std::sync::OnceLock;

use echo_fuzz::{Edit, edited, suite};
use echo_protocol::wire::content_id::ContentId;
use echo_sandbox::fuzzing::{function_frames, server_messages, server_stream, zygote_message};
use echo_sandbox::programs::checkers::Checker;
use echo_sandbox::programs::functions::FunctionTask;
use echo_sandbox::programs::judge::JudgeOptions;
use echo_sandbox::programs::language::Language;
use echo_sandbox::programs::program::Submission;
use echo_sandbox::programs::server::{ClientCall, PROTOCOL, ServerReply};
use echo_sandbox::programs::service::JudgeRequest;
use echo_sandbox::programs::suite::{Checking, FileNames, Suite, Test};
use echo_sandbox::programs::verdict::{ProgramVerdict, TestReport};
use libfuzzer_sys::fuzz_target;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Kinds of messages of zygotes, and some numbers that are no kind.
const ZYGOTE_KINDS: u8 = 12;

fuzz_target!(|input: (u8, u8, Vec<Edit>, &[u8])| {
    let (kind, sample, edits, stream) = input;
    let samples = samples();
    let made = edited(&samples[usize::from(sample) % samples.len()], &edits);
    let stream = if stream.is_empty() { &made } else { stream };
    match kind % 8 {
        0 => {
            for call in read_messages::<ClientCall>(stream) {
                check_call(&call);
            }
        }
        1 => drop(read_messages::<ServerReply>(stream)),
        2 => read_channel(stream),
        3 => read_language(stream),
        // Most of the others are orders with texts and lists.
        other => zygote_message(other.wrapping_add(sample) % ZYGOTE_KINDS, stream),
    }
});

fn read_messages<T: Serialize + DeserializeOwned + PartialEq + Debug>(stream: &[u8]) -> Vec<T> {
    let messages: Vec<T> = server_messages(stream);
    assert!(messages.len() <= stream.len() / 4);
    if let Some(written) = server_stream(&messages) {
        assert_eq!(server_messages::<T>(&written), messages);
    }
    messages
}

fn check_call(call: &ClientCall) {
    let ClientCall::Judge(request) = call else { return };
    let JudgeRequest::Program { suite, .. } = &**request else { return };
    if suite.check().is_ok() {
        suite::check(suite);
    }
}

/// Frames lie one after the other, from the channel's first byte on.
fn read_channel(channel: &[u8]) {
    let mut end = channel.as_ptr() as usize;
    for frame in function_frames(channel) {
        let begin = frame.as_ptr() as usize;
        assert!(begin >= end + "0:".len());
        end = begin + frame.len();
    }
    assert!(end <= channel.as_ptr() as usize + channel.len());
}

fn read_language(name: &[u8]) {
    let name = String::from_utf8_lossy(name);
    if let Ok(language) = name.parse::<Language>() {
        assert_eq!(language.name(), name);
    }
    if let Ok(checker) = name.parse::<Checker>() {
        assert_eq!(checker.name(), name);
    }
}

fn samples() -> &'static [Vec<u8>] {
    static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let calls = calls();
        let id = ContentId::of(b"test");
        let replies = [
            ServerReply::Welcome {
                languages: vec![Language::Python, Language::Go],
                lacks: vec!["rust: install it".into()],
            },
            ServerReply::Missing(vec![id]),
            ServerReply::Stored(id),
            ServerReply::Report(TestReport {
                verdict: ProgramVerdict::RuntimeError(1),
                message: "x".into(),
                cpu_us: 7,
                memory_peak: 9,
            }),
            ServerReply::Done,
            ServerReply::Refused { reason: "too much".into() },
        ];
        let mut samples: Vec<_> = calls.chunks(1).filter_map(server_stream).collect();
        samples.extend(replies.chunks(1).filter_map(server_stream));
        samples.extend(server_stream(&replies));
        samples.push(b"2:ab0:11:hello world".to_vec());
        samples.push(b"c++17".to_vec());
        samples.push(orders());
        samples
    })
}

fn calls() -> [ClientCall; 5] {
    let id = ContentId::of(b"test");
    let submission = Submission { language: Language::Python, source: "print(1)".into() };
    let files = FileNames { input: "sums.in".into(), output: "sums.out".into() };
    let test = Test { input: id, answer: id };
    let suite = Suite { files: Some(files), ..Suite::new(vec![test, test], Checking::Stock(Checker::Wcmp)) };
    let task = FunctionTask {
        reference: "def f(): return 1".into(),
        subjects: Some(vec!["f".into()]),
        setup: String::new(),
        checks: vec!["assert f() == 1".into()],
    };
    let options = JudgeOptions { stop_early: true };
    [
        ClientCall::Hello { protocol: PROTOCOL.into() },
        ClientCall::Missing(vec![id, id]),
        ClientCall::Put(b"1 2\n".to_vec().into()),
        ClientCall::Judge(Box::new(JudgeRequest::Program { submission, suite, options })),
        ClientCall::Judge(Box::new(JudgeRequest::Functions { source: "def f(): return 2".into(), task })),
    ]
}

/// Numbers and counted texts, of which messages of zygotes consist: enough for any.
fn orders() -> Vec<u8> {
    let number = |number: u64| number.to_le_bytes().to_vec();
    let text = |text: &str| [number(text.len() as u64), text.as_bytes().to_vec()].concat();
    [
        text("/bin/true"),
        number(1),
        text("true"),
        number(1),
        text("A=b"),
        number(0),
        number(1),
        text("a"),
        number(1),
        text("x"),
    ]
    .into_iter()
    .chain((1..=9).map(number))
    .flatten()
    .collect()
}
