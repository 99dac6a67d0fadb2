//! A real store on a disk that runs full.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::worker::{self, PART, Witness, large};
use super::*;

/// What the processes are told: where the small disk is, and where they may write besides.
const DISK: &str = "ECHO_BUFFER_DISK";
const NOTES: &str = "ECHO_BUFFER_NOTES";
/// More groups than the disk holds.
const MOST: u64 = 2000;

/// A disk of four megabytes, part of which is taken; in a mount namespace of its own, so that
/// nothing is left behind.
const SMALL_DISK: &str = r#"
mount -t tmpfs -o size=4m none "$ECHO_BUFFER_DISK" &&
head -c 1000000 /dev/zero > "$ECHO_BUFFER_DISK/ballast" &&
ECHO_BUFFER_PART=fill "$@" && rm "$ECHO_BUFFER_DISK/ballast" && ECHO_BUFFER_PART=verify "$@""#;
/// Where mounting is not allowed: no file may grow above four megabytes, until it may again.
const SHORT_FILES: &str = r#"
trap '' XFSZ; ( ulimit -f 8192 && ECHO_BUFFER_PART=fill "$@" ) && ECHO_BUFFER_PART=verify "$@""#;

fn place(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap().into()
}

/// Takes groups in until the disk is full, and notes what was acknowledged.
fn fill() {
    let mut buffer = worker::open(&place(DISK).join("db")).unwrap();
    let mut acknowledged = 0;
    while acknowledged < MOST {
        buffer.stage(large(acknowledged, 0)).unwrap();
        if let Err(error) = buffer.flush() {
            assert!(matches!(error, BufferError::Store(_)), "{error}");
            assert_eq!(status(&buffer, acknowledged), Some(OrderStatus::Staged), "not durable");
            fs::write(place(NOTES).join("acknowledged"), acknowledged.to_string()).unwrap();
            return;
        }
        acknowledged += 1;
    }
    panic!("the disk never ran full");
}

/// The learner was started again after there was room.
fn verify() {
    let acknowledged = fs::read_to_string(place(NOTES).join("acknowledged")).unwrap().parse().unwrap();
    assert!(acknowledged > 10, "the disk was full at once");
    let mut buffer = worker::open(&place(DISK).join("db")).unwrap();
    let witness = Witness { acknowledged: (0..acknowledged).collect(), ..Witness::default() };
    witness.check(&buffer);
    // The one that was refused comes again: it is new, or became durable after all.
    match buffer.stage(large(acknowledged, 0)) {
        Ok(()) | Err(BufferError::Duplicate(_)) => buffer.flush().unwrap(),
        Err(error) => panic!("{error}"),
    }
    let batch = buffer.form_batch(PolicyVersion(0), &staleness(), 5).unwrap().unwrap();
    assert_eq!(counters(&batch), [0, 1, 2, 3, 4]);
    buffer.settle(PolicyVersion(1)).unwrap();
    witness.check(&buffer);
    fs::write(place(NOTES).join("verified"), "").unwrap();
}

/// Whether this user may mount in a namespace of their own, and how that is begun.
fn namespace() -> Option<Command> {
    let dir = tempfile::tempdir().unwrap();
    [vec!["--mount"], vec!["--mount", "--map-root-user"]].into_iter().find_map(|words| {
        let unshare = || {
            let mut command = Command::new("unshare");
            command.args(&words);
            command
        };
        let mut probe = unshare();
        probe.args(["mount", "-t", "tmpfs", "none"]).arg(dir.path());
        probe.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        probe.status().is_ok_and(|status| status.success()).then(unshare)
    })
}

fn run(mut shell: Command, script: &str) {
    let name = "full_disk::a_full_disk_loses_nothing_that_was_acknowledged";
    let (disk, notes) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let this = worker::command(name, "");
    shell.args(["-c", script, "sh"]).arg(this.get_program()).args(this.get_args());
    let output = shell.env(DISK, disk.path()).env(NOTES, notes.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{complained}");
    assert!(notes.path().join("verified").exists(), "{said}\n{complained}");
}

#[test]
fn a_full_disk_loses_nothing_that_was_acknowledged() {
    match std::env::var(PART).as_deref() {
        Ok("fill") => return fill(),
        Ok("verify") => return verify(),
        _ => {}
    }
    if let Some(mut unshare) = namespace() {
        unshare.arg("sh");
        run(unshare, SMALL_DISK);
    }
    run(Command::new("sh"), SHORT_FILES);
}
