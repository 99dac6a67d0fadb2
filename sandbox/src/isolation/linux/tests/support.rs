//! A sandbox for all tests, the program that attacks, and runs that are timed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::isolation::{Collect, Job, Mount, Placed, Requirements, RunLimits, RunOutcome, Sandbox};

/// How much later than its limit a run may be over.
const CLEAN_UP: Duration = Duration::from_secs(1);

/// The sandbox of all tests. The machine that runs them must be fit.
pub(super) fn sandbox() -> &'static Sandbox {
    static SANDBOX: OnceLock<Sandbox> = OnceLock::new();
    // Without control groups some ends are others, and tests say so; they look at the report.
    let requirements = Requirements { rlimits_suffice: true, ..Requirements::default() };
    SANDBOX.get_or_init(|| Sandbox::open(&requirements).unwrap_or_else(|unfit| panic!("{unfit}")))
}

/// Whether control groups bound and count here.
pub(super) fn has_groups() -> bool {
    sandbox().report().memory != crate::isolation::LimitEnforcer::Rlimits
}

/// The program of `attacks.c`.
pub(super) fn attacks() -> &'static [u8] {
    static PROGRAM: OnceLock<Vec<u8>> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        let dir = tempfile::tempdir().unwrap();
        let (source, program) = (dir.path().join("attacks.c"), dir.path().join("attacks"));
        std::fs::write(&source, include_str!("attacks.c")).unwrap();
        let compiled =
            Command::new("cc").args(["-w", "-O1", "-pthread", "-o"]).arg(&program).arg(&source).output();
        let compiled =
            compiled.unwrap_or_else(|error| panic!("these tests need a C compiler named cc: {error}"));
        assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
        std::fs::read(program).unwrap()
    })
}

/// Small limits, so that tests are short.
pub(super) fn limits() -> RunLimits {
    let base = RunLimits { memory: 64 << 20, stdout: 64 << 10, ..RunLimits::run() };
    RunLimits { wall: Duration::from_secs(2), ..base.with_cpu(Duration::from_millis(300)) }
}

/// A run with something around it.
#[derive(Default)]
pub(super) struct Run<'a> {
    pub(super) stdin: &'a [u8],
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) mounts: &'a [Mount<'a>],
    pub(super) files: Vec<Placed<'a>>,
    pub(super) collect: &'a [Collect<'a>],
    pub(super) limits: Option<RunLimits>,
}

impl Run<'_> {
    /// Runs `attacks` in one of its modes.
    pub(super) fn attack(mut self, args: &[&str]) -> RunOutcome {
        self.files.push(Placed { name: "attacks", bytes: attacks(), executable: true });
        self.program("/work/attacks", args)
    }

    /// Runs a program, and sees that it is over in time.
    pub(super) fn program(self, program: &str, args: &[&str]) -> RunOutcome {
        let limits = self.limits.unwrap_or_else(limits);
        let args = args.iter().map(OsString::from).collect::<Vec<_>>();
        let job = Job {
            program: Path::new(program),
            args: &args,
            env: &self.env,
            mounts: self.mounts,
            files: &self.files,
            collect: self.collect,
            stdin: self.stdin,
            limits,
        };
        let started = Instant::now();
        let outcome = sandbox().run(&job).unwrap();
        let late = started.elapsed().saturating_sub(limits.wall);
        assert!(late < CLEAN_UP, "{late:?} late: {outcome:?}");
        outcome
    }
}

/// Runs `attacks` in one of its modes with small limits.
pub(super) fn attack(args: &[&str]) -> RunOutcome {
    Run::default().attack(args)
}

/// Runs a shell script with small limits.
pub(super) fn shell(script: &str) -> RunOutcome {
    Run::default().program("/bin/sh", &["-c", script])
}

/// What a run wrote.
pub(super) fn text(outcome: &RunOutcome) -> String {
    String::from_utf8_lossy(&outcome.stdout).into_owned()
}

/// Runs the test that this is in a process of its own, with this variable set, and sees that it passes.
pub(super) fn alone(variable: &str) {
    let name = std::thread::current().name().unwrap().to_owned();
    let mut inner = Command::new(std::env::current_exe().unwrap());
    let output = inner.args(["--exact", &name, "--nocapture"]).env(variable, "1").output().unwrap();
    let (said, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && said.contains("1 passed"), "{said}{complaint}");
}

/// Where a program of the host is.
pub(super) fn find(program: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join(program)).find(|path| path.is_file());
    found.unwrap_or_else(|| panic!("these tests need {program} on the PATH"))
}
