//! The same as an ordinary user, which needs a user namespace.

use std::os::unix::process::CommandExt;
use std::process::Command;

use super::support::{attack, sandbox, shell, text};
use crate::isolate::{Bound, End, Requirements, Sandbox};

/// The user that nothing belongs to.
const NOBODY: u32 = 65534;

/// Runs a part of these tests in a copy of this executable, as another user where this one is root.
#[test]
fn an_ordinary_user_is_isolated_as_well() {
    const INNER: &str = "ECHO_SANDBOX_ORDINARY";
    if std::env::var_os(INNER).is_some() {
        return as_ordinary_user();
    }
    if !rustix::process::geteuid().is_root() {
        return as_ordinary_user();
    }
    // The executable may lie where that user cannot go.
    let dir = tempfile::tempdir().unwrap();
    std::fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let copy = dir.path().join("tests");
    std::fs::copy(std::env::current_exe().unwrap(), &copy).unwrap();
    let name = std::thread::current().name().unwrap().to_owned();
    let mut inner = Command::new(copy);
    inner.args(["--exact", &name, "--nocapture"]).env(INNER, "1").env("TMPDIR", "/tmp").current_dir("/");
    let output = inner.uid(NOBODY).gid(NOBODY).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn as_ordinary_user() {
    let report = sandbox().report();
    assert!(report.user_namespace);
    if report.memory == Bound::Rlimits {
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
    assert_eq!(attack(&["call", &libc::SYS_mount.to_string()]).end, End::Signalled(libc::SIGSYS));
    assert_eq!(attack(&["stop"]).end, End::WallLimit);
    assert_eq!(attack(&["relay"]).end, End::CpuLimit);
    assert_eq!(attack(&["daemon"]).end, End::Exited(0));
    assert_ne!(attack(&["malloc"]).end, End::Exited(0));
    let bomb = attack(&["fork_bomb"]);
    assert!(matches!(bomb.end, End::CpuLimit | End::WallLimit), "{bomb:?}");
    if report.memory == Bound::Rlimits {
        // Memory outside of the address space would be bounded by nothing.
        assert_eq!(text(&attack(&["call", &libc::SYS_memfd_create.to_string()])), "ENOSYS\n");
    }
}
