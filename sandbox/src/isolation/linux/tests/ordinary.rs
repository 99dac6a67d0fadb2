//! The same as an ordinary user, which needs a user namespace.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};

use super::support::{Run, attack, limits, sandbox, shell, text};
use crate::isolation::{End, LimitEnforcer, Requirements, RunLimits, Sandbox};

/// The user that nothing belongs to.
const NOBODY: u32 = 65534;

/// The variable of a process that is such a user by now.
const INNER: &str = "ECHO_SANDBOX_ORDINARY";

#[test]
fn an_ordinary_user_is_isolated_as_well() {
    match std::env::var_os(INNER) {
        Some(_) => as_ordinary_user(),
        None => again(None),
    }
}

#[test]
fn all_that_a_system_lacks_is_listed() {
    if std::env::var_os(INNER).is_some() {
        let unfit = Sandbox::open(&Requirements::default()).unwrap_err();
        let said = unfit.to_string();
        assert!(["user namespace", "Landlock"].iter().all(|lack| said.contains(lack)), "{said}");
        assert!(unfit.lacks.iter().all(|lack| !lack.mend.is_empty()));
        return;
    }
    // As in a container whose rules forbid both.
    let lacking = [libc::SYS_unshare, libc::SYS_landlock_create_ruleset];
    let lacking = lacking.into_iter().map(|call| (call, Vec::new())).collect();
    let (refuse, arch) =
        (SeccompAction::Errno(libc::EPERM as u32), std::env::consts::ARCH.try_into().unwrap());
    let filter = SeccompFilter::new(lacking, SeccompAction::Allow, refuse, arch).unwrap();
    again(Some(filter.try_into().unwrap()));
}

/// Runs the test that this is in a copy of this executable: as another user where this one is root,
/// and with a filter of system calls.
fn again(filter: Option<BpfProgram>) {
    // The executable may lie where that user cannot go. Another process copies it: what this one
    // has open for writing, a child of another test may have too, and then it cannot be executed.
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let copy = dir.path().join("tests");
    let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&copy).status().unwrap();
    assert!(copied.success());
    let name = std::thread::current().name().unwrap().to_owned();
    let mut inner = Command::new(copy);
    inner.args(["--exact", &name, "--nocapture"]).env(INNER, "1").env("TMPDIR", "/tmp").current_dir("/");
    if rustix::process::geteuid().is_root() {
        inner.uid(NOBODY).gid(NOBODY);
    }
    if let Some(filter) = filter {
        let apply = move || seccompiler::apply_filter(&filter).map_err(|_| io::ErrorKind::Other.into());
        // SAFETY: two system calls, which allocate nothing and take no lock.
        unsafe { inner.pre_exec(apply) };
    }
    let output = inner.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{complaint}");
}

fn as_ordinary_user() {
    let report = sandbox().report();
    assert!(report.user_namespace);
    if report.memory == LimitEnforcer::Rlimits {
        // Less than what is asked for by default, so that it is refused.
        let unfit = Sandbox::open(&Requirements::default()).unwrap_err();
        assert_eq!(unfit.lacks.len(), 1, "{unfit}");
        assert!(
            unfit.to_string().contains("control group") && unfit.lacks[0].mend.contains("Delegate"),
            "{unfit}"
        );
    }
    let outcome = shell("id -u; cat /etc/passwd 2>/dev/null; ls -A /work");
    assert_eq!((outcome.end, text(&outcome).as_str()), (End::Exited(0), "1000\n"), "{outcome:?}");
    assert_eq!(text(&attack(&["sockets"])), "");
    assert_eq!(text(&attack(&["kill_all"])), "alive\n");
    let limit = attack(&["limit_first"]);
    assert_eq!((limit.end, text(&limit)), (End::Exited(0), "ENOSYS\n".repeat(4)), "{limit:?}");
    assert_eq!(attack(&["call", &libc::SYS_mount.to_string()]).end, End::Signalled(libc::SIGSYS));
    assert_eq!(attack(&["stop"]).end, End::WallLimit);
    // On a busy machine the clock would be first.
    let patient = RunLimits { wall: Duration::from_secs(20), ..limits() };
    assert_eq!(Run { limits: Some(patient), ..Run::default() }.attack(&["relay"]).end, End::CpuLimit);
    assert_eq!(attack(&["daemon"]).end, End::Exited(0));
    assert_ne!(attack(&["malloc"]).end, End::Exited(0));
    let bomb = attack(&["fork_bomb"]);
    assert!(matches!(bomb.end, End::CpuLimit | End::WallLimit), "{bomb:?}");
    if report.memory == LimitEnforcer::Rlimits {
        // Memory outside of the address space would be bounded by nothing.
        assert_eq!(text(&attack(&["call", &libc::SYS_memfd_create.to_string()])), "ENOSYS\n");
    }
}
