use super::*;
use std::path::Path;

const PATIENCE: Duration = Duration::from_secs(60);

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// Whether a process with this id exists, even as a zombie.
fn exists(pid: u32) -> bool {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::test_kill_process(pid).is_ok()
}

async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !condition() {
        assert!(begun.elapsed() < PATIENCE, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn line_of(log: &Path) -> String {
    until("a line in the log", || std::fs::read_to_string(log).is_ok_and(|text| text.contains('\n'))).await;
    std::fs::read_to_string(log).unwrap().trim().to_owned()
}

#[tokio::test]
async fn a_dropped_guard_leaves_neither_child_nor_grandchild_nor_zombie() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("logs/sleeper.log");
    // The shell waits for a child of its own and tells that child's id.
    let process =
        Process::start("sleeper", shell("sleep 1000 & echo $!; wait"), ProcessOutput::Log(log.clone()))
            .unwrap();
    let (child, grandchild) = (process.pid().unwrap(), line_of(&log).await.parse().unwrap());
    assert!(exists(child) && exists(grandchild));
    drop(process);
    assert!(!exists(child), "killed but not reaped");
    // The grandchild is reaped by whoever inherits orphans; where nobody does, it stays as a dead entry.
    until("the grandchild's end", || !exists(grandchild) || is_zombie(grandchild)).await;
}

fn is_zombie(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('Z'))
}

#[tokio::test]
async fn stop_asks_first_and_kill_does_not() {
    let dir = tempfile::tempdir().unwrap();
    let polite = "trap 'echo bye; exit 7' TERM; echo ready; while :; do sleep 0.01; done";
    for (name, kill) in [("asked", false), ("killed", true)] {
        let log = dir.path().join(name);
        let mut process = Process::start(name, shell(polite), ProcessOutput::Log(log.clone())).unwrap();
        line_of(&log).await;
        process.must_run().unwrap();
        if kill {
            process.kill().await.unwrap();
            assert!(!std::fs::read_to_string(&log).unwrap().contains("bye"));
        } else {
            assert_eq!(process.stop(PATIENCE).await.unwrap().code(), Some(7));
            assert!(process.log_tail().contains("bye"));
        }
        assert!(matches!(process.must_run(), Err(ProcessError::Ended { .. })));
        assert_eq!(process.pid(), None);
    }
}

#[tokio::test]
async fn who_does_not_listen_is_killed_after_the_grace_and_waits_have_deadlines() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("deaf");
    let deaf = "trap '' TERM; echo ready; while :; do sleep 0.01; done";
    let mut process = Process::start("deaf", shell(deaf), ProcessOutput::Log(log.clone())).unwrap();
    line_of(&log).await;
    let short = Duration::from_millis(50);
    let error = process.wait(short).await.unwrap_err();
    assert!(matches!(&error, ProcessError::StillRunning { log_tail, .. } if log_tail.contains("ready")));
    assert!(!process.stop(short).await.unwrap().success());
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_named() {
    let error =
        Process::start("ghost", Command::new("/no/such/program"), ProcessOutput::Inherit).unwrap_err();
    assert!(error.to_string().contains("/no/such/program"), "{error}");
}
