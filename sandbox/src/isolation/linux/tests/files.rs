//! Files that go in and come out.

use std::ffi::OsString;
use std::fs::File;
use std::path::Path;

use super::support::{Run, limits, sandbox, shell, text};
use crate::isolation::{Collect, Collected, End, IsolateError, Job, Mount, MountSource, Placed, RunLimits};

#[test]
fn links_and_devices_are_not_collected() {
    let names = [
        "plain",
        "hard",
        "renamed/file",
        "link",
        "near",
        "directory/file",
        "real",
        "fifo",
        "renamed",
        "device",
        "large",
        "absent",
        "magic/etc/passwd",
    ];
    let collect = names.map(|name| Collect { name, limit: 1000 });
    let outcome = Run { collect: &collect, ..Run::default() }.attack(&["leave"]);
    assert_eq!(outcome.end, End::Exited(0), "{outcome:?}");
    let plain = || Collected::Bytes(b"plain".to_vec());
    let expected = [
        plain(),
        plain(),
        Collected::Bytes(Vec::new()),
        Collected::Absent,
        Collected::Absent,
        Collected::Absent,
        Collected::Absent,
        Collected::NotRegular,
        Collected::NotRegular,
        Collected::Absent,
        Collected::TooLarge { bytes: 4096 },
        Collected::Absent,
        Collected::Absent,
    ];
    for ((name, is), expected) in names.iter().zip(&outcome.collected).zip(&expected) {
        assert_eq!(is, expected, "{name}");
    }
}

#[test]
fn placed_files_and_mounts_are_there_and_mounts_stay_as_they_are() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("input"), "given").unwrap();
    open_to_all(dir.path());
    let (open, single) = (File::open(dir.path()).unwrap(), dir.path().join("input"));
    let mounts = [
        Mount { source: MountSource::Open(&open), target: Path::new("/data/tests") },
        Mount { source: MountSource::Path(&single), target: Path::new("/data/single") },
    ];
    let files = vec![
        Placed {
            name: "src/main.sh",
            bytes: b"cat /data/tests/input /data/single; echo x > /data/tests/new",
            executable: false,
        },
        Placed { name: "tool", bytes: b"#!/bin/sh\necho tool", executable: true },
    ];
    let script = "/bin/sh src/main.sh; rm -f /data/tests/input; echo x > /data/single; ./tool; ls -A /data /data/tests";
    let outcome = Run { mounts: &mounts, files, ..Run::default() }.program("/bin/sh", &["-c", script]);
    assert_eq!(
        text(&outcome),
        "givengiventool\n/data:\nsingle\ntests\n\n/data/tests:\ninput\n",
        "{outcome:?}"
    );
    assert_eq!(std::fs::read(single).unwrap(), b"given");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
}

fn open_to_all(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn the_environment_is_what_the_job_says() {
    let env = vec![(OsString::from("NAME"), OsString::from("a value"))];
    let outcome = Run { env, ..Run::default() }.program("/usr/bin/env", &[]);
    assert_eq!(text(&outcome), "NAME=a value\n");
    let outcome = Run::default().program("/usr/bin/env", &[]);
    assert_eq!(text(&outcome), "");
}

#[test]
fn a_program_that_cannot_be_started_is_no_verdict() {
    let try_program = |program: &str, files: &[Placed<'_>]| {
        let job = Job {
            program: Path::new(program),
            args: &[],
            env: &[],
            mounts: &[],
            files,
            collect: &[],
            stdin: &[],
            limits: limits(),
        };
        sandbox().run(&job)
    };
    for _ in 0..3 {
        let missing = try_program("/work/none", &[]);
        assert!(matches!(missing, Err(IsolateError::Program { .. })), "{missing:?}");
    }
    let garbage = [Placed { name: "garbage", bytes: b"\x7fELF nothing", executable: true }];
    let garbage = try_program("/work/garbage", &garbage);
    assert!(matches!(garbage, Err(IsolateError::Program { .. })), "{garbage:?}");
    assert_eq!(shell("exit 0").end, End::Exited(0));
}

#[test]
fn malformed_jobs_are_refused_before_anything_runs() {
    let good = Job {
        program: Path::new("/bin/true"),
        args: &[],
        env: &[],
        mounts: &[],
        files: &[],
        collect: &[],
        stdin: &[],
        limits: limits(),
    };
    let refused = |job: Job<'_>| {
        let run = sandbox().run(&job);
        assert!(matches!(run, Err(IsolateError::Job { .. })), "{job:?}: {run:?}");
    };
    for program in ["true", "/", "/usr/../bin/true", ""] {
        refused(Job { program: Path::new(program), ..good });
    }
    for name in ["", "/etc/passwd", "../out", "a/../../b", "."] {
        refused(Job { files: &[Placed { name, bytes: b"", executable: false }], ..good });
        refused(Job { collect: &[Collect { name, limit: 1 }], ..good });
    }
    for target in ["/", "/work/x", "/usr", "/usr/bin/x", "/dev", "/proc/1", "relative", "/a/../usr"] {
        let mount = Mount { source: MountSource::Path(Path::new("/etc")), target: Path::new(target) };
        refused(Job { mounts: &[mount], ..good });
    }
    let nested = ["/a", "/a/b"]
        .map(|target| Mount { source: MountSource::Path(Path::new("/etc")), target: Path::new(target) });
    refused(Job { mounts: &nested, ..good });
    refused(Job { args: &[OsString::from("nul\0")], ..good });
    refused(Job { env: &[(OsString::from("a=b"), OsString::new())], ..good });
    let large = vec![0; 1 << 20];
    let limits = RunLimits { scratch: 1 << 10, ..good.limits };
    refused(Job { files: &[Placed { name: "large", bytes: &large, executable: false }], limits, ..good });
}
