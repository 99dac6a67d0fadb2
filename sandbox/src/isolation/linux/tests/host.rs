//! Hosts with many threads, and hosts that die.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::super::cgroups::Hierarchies;
use super::support::{Run, alone, limits, sandbox, shell, text};
use crate::isolation::{End, IsolateError, Job, Requirements, RunLimits, Sandbox};

#[test]
fn many_threads_run_at_once() {
    let runs = std::thread::scope(|scope| {
        let threads = (0..8).map(|number| {
            scope.spawn(move || {
                let limits =
                    RunLimits { wall: Duration::from_secs(20), ..limits().with_cpu(Duration::from_secs(5)) };
                let script = format!("sleep 0.2; echo {number}");
                (0..3)
                    .map(|_| {
                        let run = Run { limits: Some(limits), ..Run::default() };
                        text(&run.program("/bin/sh", &["-c", &script]))
                    })
                    .collect::<String>()
            })
        });
        let threads = threads.collect::<Vec<_>>();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    for (number, said) in runs.iter().enumerate() {
        assert_eq!(*said, format!("{number}\n").repeat(3));
    }
}

/// Zygotes whose environment has this in it.
fn zygotes_with(mark: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let environments = processes.filter_map(|process| std::fs::read(process.path().join("environ")).ok());
    let marked = environments.filter(|environment| String::from_utf8_lossy(environment).contains(mark));
    marked
        .filter(|environment| String::from_utf8_lossy(environment).contains(super::super::zygote::MARK))
        .count()
}

/// How many control groups a process has made.
fn groups_of(process: u32) -> usize {
    let named = |path: &Path| path.to_string_lossy().contains(&format!("/echo-sandbox-{process}-"));
    let places = Hierarchies::find().places();
    let entries = places.iter().filter_map(|place| std::fs::read_dir(place).ok()).flatten().flatten();
    entries.filter(|entry| named(&entry.path())).count()
}

#[test]
fn zygotes_that_are_killed_are_replaced() {
    const INNER: &str = "ECHO_SANDBOX_KILLED_KEEPERS";
    if std::env::var_os(INNER).is_none() {
        return alone(INNER);
    }
    let requirements = Requirements { rlimits_suffice: true, ..Requirements::default() };
    let sandbox = Sandbox::open(&requirements).unwrap();
    let sleep = |seconds: &str| {
        let args = [seconds.into()];
        let program = Path::new("/bin/sleep");
        let (env, mounts, files, collect, stdin) = (&[], &[], &[], &[], &[]);
        sandbox.run(&Job { program, args: &args, env, mounts, files, collect, stdin, limits: limits() })
    };
    let kill_zygotes = || {
        let own = format!("PPid:\t{}\n", std::process::id());
        let status = |path: &Path| std::fs::read_to_string(path.join("status")).unwrap_or_default();
        let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|process| process.path());
        for zygote in processes.filter(|path| status(path).contains(&own)) {
            let number = zygote.file_name().unwrap().to_str().unwrap().parse().unwrap();
            let pid = rustix::process::Pid::from_raw(number).unwrap();
            rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
            while zygote.exists() && !status(&zygote).contains("State:\tZ") {
                std::thread::yield_now();
            }
        }
    };
    kill_zygotes();
    // While they are idle nobody notices; a run that has begun is lost with its zygote, and the next is not.
    for _ in 0..4 {
        assert_eq!(sleep("0").unwrap().end, End::Exited(0));
    }
    std::thread::scope(|scope| {
        let lost = scope.spawn(|| sleep("1.5"));
        std::thread::sleep(Duration::from_millis(300));
        kill_zygotes();
        assert!(matches!(lost.join().unwrap(), Err(IsolateError::System { .. })));
    });
    assert_eq!(sleep("0").unwrap().end, End::Exited(0));
    drop(sandbox);
    assert_eq!(groups_of(std::process::id()), 0);
}

#[test]
fn a_host_that_is_killed_leaves_nothing_behind() {
    const INNER: &str = "ECHO_SANDBOX_KILLED_HOST";
    if std::env::var_os(INNER).is_some() {
        sandbox();
        println!("ready");
        let long = RunLimits { wall: Duration::from_secs(60), ..limits() };
        Run { limits: Some(long), ..Run::default() }.program("/bin/sleep", &["50"]);
        return;
    }
    let name = std::thread::current().name().unwrap().to_owned();
    let mark = format!("{INNER}=of-{}", std::process::id());
    let mut inner = Command::new(std::env::current_exe().unwrap());
    inner.args(["--exact", &name, "--nocapture"]).env(INNER, mark.split_once('=').unwrap().1);
    let mut inner = inner.stdout(Stdio::piped()).spawn().unwrap();
    let groups = || groups_of(inner.id());
    let started = Instant::now();
    while zygotes_with(&mark) < 2 {
        assert!(started.elapsed() < Duration::from_secs(20), "its keepers do not start");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The run itself starts.
    std::thread::sleep(Duration::from_millis(300));
    let groups_before = groups();
    assert_eq!(groups_before > 0, super::support::has_groups());
    let pid = rustix::process::Pid::from_child(&inner);
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    let killed = Instant::now();
    while zygotes_with(&mark) > 0 || groups() > 0 {
        assert!(
            killed.elapsed() < Duration::from_secs(1),
            "{} keepers, {} groups",
            zygotes_with(&mark),
            groups()
        );
        std::thread::sleep(Duration::from_millis(5));
    }
    inner.wait().unwrap();
}

#[test]
fn a_run_after_a_broken_one_is_whole() {
    for _ in 0..6 {
        let hog = Run { limits: Some(RunLimits { memory: 8 << 20, ..limits() }), ..Run::default() };
        hog.program("/bin/sh", &["-c", "x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done"]);
        let next = shell("echo whole");
        assert_eq!((next.end, text(&next).as_str()), (End::Exited(0), "whole\n"));
    }
}
