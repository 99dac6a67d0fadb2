//! Attacks on the machine, the kernel and other processes.

use std::time::{Duration, Instant};

use super::support::{Run, attack, has_groups, limits, sandbox, shell, text};
use crate::isolation::{End, LimitEnforcer, RunLimits, RunOutcome};

fn exits(outcome: &RunOutcome, said: &str) {
    assert_eq!((outcome.end, text(outcome).as_str()), (End::Exited(0), said), "{outcome:?}");
}

/// Ended by a limit: bombs do not end themselves. Each fork that fails takes memory of the
/// kernel for a moment.
fn goes_out(outcome: &RunOutcome) {
    assert!(matches!(outcome.end, End::CpuLimit | End::WallLimit | End::MemoryLimit), "{outcome:?}");
}

/// Ended by a limit on time.
fn out_of_time(outcome: &RunOutcome) {
    assert!(matches!(outcome.end, End::CpuLimit | End::WallLimit), "{outcome:?}");
}

#[test]
fn bombs_of_processes_go_out() {
    goes_out(&attack(&["fork_bomb"]));
    goes_out(&attack(&["vfork_bomb"]));
    let threads = attack(&["threads"]);
    let made: u32 = text(&threads).trim().parse().unwrap();
    assert!(threads.end == End::Exited(0) && made < 24, "{threads:?}");
    exits(&attack(&["call", &libc::SYS_clone3.to_string()]), "ENOSYS\n");
}

#[test]
fn a_run_has_its_processes_for_itself() {
    let limit =
        |limits: &str| limits.lines().find(|line| line.starts_with("Max processes")).map(str::to_owned);
    let host = limit(&std::fs::read_to_string("/proc/self/limits").unwrap());
    let outcome = shell("cat /proc/self/limits");
    if sandbox().report().proc {
        // A resource limit would count what other runs of the same user have. What counts one
        // run alone needs none.
        assert_eq!(limit(&text(&outcome)) == host, has_groups(), "{outcome:?}");
    }
}

#[test]
fn memory_of_every_kind_is_counted() {
    let kinds = ["malloc", "mmap", "shared", "memfd", "children_memory"];
    for kind in kinds {
        // The processor time that the kernel takes to clear pages is no part of this.
        let limits = limits().with_cpu(Duration::from_secs(3));
        let outcome = Run { limits: Some(limits), ..Run::default() }.attack(&[kind]);
        if has_groups() {
            assert_eq!(outcome.end, End::MemoryLimit, "{kind}: {outcome:?}");
            assert!(outcome.usage.memory_peak <= limits.memory + (1 << 20), "{kind}: {outcome:?}");
        } else if kind != "children_memory" {
            // The kernel refuses; what the program does then is its own affair.
            assert_ne!(outcome.end, End::MemoryLimit, "{kind}: {outcome:?}");
        }
    }
    exits(&attack(&["huge_pages"]), "ENOSYS\n");
    let stack = attack(&["stack"]);
    assert!(matches!(stack.end, End::Signalled(libc::SIGSEGV) | End::MemoryLimit), "{stack:?}");
}

#[test]
fn the_scratch_directory_is_small_and_all_there_is() {
    let limits = RunLimits { scratch: 4 << 20, ..limits() };
    let run = |mode| Run { limits: Some(limits), ..Run::default() }.attack(&[mode]);
    let filled = run("fill");
    let (written, why) = text(&filled)
        .trim()
        .split_once(' ')
        .map(|(n, why)| (n.parse::<u64>().unwrap(), why.to_owned()))
        .unwrap();
    assert!(written <= limits.scratch && why == "ENOSPC", "{filled:?}");
    exits(&run("fallocate"), "EFBIG\n");
    exits(&run("sparse"), "EFBIG\n");
    let inodes = run("inodes");
    assert!(text(&inodes).contains("ENOSPC") || inodes.end == End::CpuLimit, "{inodes:?}");
    exits(&run("elsewhere"), "");
    // Nothing is left for the next run, in this slot or any.
    for _ in 0..4 {
        exits(&shell("echo left > /work/left && echo left > /tmp/left2"), "");
    }
    exits(&shell("ls -A /work /tmp/"), "/tmp/:\n\n/work:\n");
}

#[test]
fn there_is_no_network() {
    exits(&attack(&["sockets"]), "");
    // Its namespace has the loopback alone, which is down.
    let devices = "cat /proc/net/dev 2>/dev/null; tail -n +3 /proc/self/net/dev | grep -v lo:; ls /sys 2>/dev/null; true";
    exits(&shell(devices), "");
}

#[test]
fn calls_of_attackers_end_the_program() {
    let calls = [
        libc::SYS_ptrace,
        libc::SYS_process_vm_readv,
        libc::SYS_process_vm_writev,
        libc::SYS_pidfd_getfd,
        libc::SYS_mount,
        libc::SYS_umount2,
        libc::SYS_pivot_root,
        libc::SYS_fsopen,
        libc::SYS_open_tree,
        libc::SYS_move_mount,
        libc::SYS_unshare,
        libc::SYS_setns,
        libc::SYS_bpf,
        libc::SYS_perf_event_open,
        libc::SYS_userfaultfd,
        libc::SYS_keyctl,
        libc::SYS_add_key,
        libc::SYS_kexec_load,
        libc::SYS_init_module,
        libc::SYS_reboot,
        libc::SYS_open_by_handle_at,
    ];
    for call in calls {
        assert_eq!(attack(&["call", &call.to_string()]).end, End::Signalled(libc::SIGSYS), "call {call}");
    }
    #[cfg(target_arch = "x86_64")]
    assert_eq!(attack(&["i386"]).end, End::Signalled(libc::SIGSYS));
}

#[test]
fn calls_that_programs_probe_are_refused() {
    let calls = [
        libc::SYS_io_uring_setup,
        libc::SYS_shmget,
        libc::SYS_semget,
        libc::SYS_msgget,
        libc::SYS_mq_open,
        libc::SYS_inotify_init1,
        libc::SYS_splice,
        libc::SYS_setuid,
        libc::SYS_seccomp,
        libc::SYS_personality,
        // The 32-bit addresses of x86-64.
        libc::SYS_getpid | 0x4000_0000,
    ];
    for call in calls {
        exits(&attack(&["call", &call.to_string()]), "ENOSYS\n");
    }
    for flag in [libc::CLONE_NEWUSER, libc::CLONE_NEWPID, libc::CLONE_NEWNET, libc::CLONE_NEWNS] {
        exits(&attack(&["clone", &flag.to_string()]), "ENOSYS\n");
    }
    exits(&attack(&["clone", "0"]), "allowed\n");
    exits(&attack(&["type_for_user"]), "-1\n");
}

#[test]
fn the_host_cannot_be_seen() {
    let paths = [
        "/proc/1/environ",
        "/proc/1/root/etc/passwd",
        "/proc/1/mem",
        "/proc/sys/kernel/hostname",
        "/proc/kcore",
        "/proc/version",
        "/sys/kernel/notes",
        "/etc/passwd",
        "/etc/shadow",
        "/root/.profile",
        "/dev/mem",
        "/dev/vda",
        "/dev/tty",
        "/work/../etc/passwd",
    ];
    for path in paths {
        let outcome = attack(&["read", path]);
        assert!(outcome.end == End::Exited(0) && text(&outcome) != "read\n", "{path}: {outcome:?}");
    }
    exits(
        &shell("cat /proc/self/root/etc/passwd 2>/dev/null; hostname; env | grep -v PWD; true"),
        "sandbox\n",
    );
    exits(&attack(&["descriptors"]), "0 1 2 ");
}

#[test]
fn mounts_of_the_host_have_no_names() {
    let tables = "cd /proc/self 2>/dev/null && cat mountinfo mounts mountstats | wc -c; true";
    let seen = text(&shell(tables));
    assert!(seen.is_empty() || seen == "0\n", "{seen}");
    exits(&shell("echo kept > /work/file && cat /work/file && test -x /usr && pwd"), "kept\n/work\n");
}

#[test]
fn what_the_host_does_with_its_files_cannot_be_watched() {
    exits(&attack(&["watch"]), &format!("{}works\n", "ENOSYS\n".repeat(6)));
}

#[test]
fn the_caches_of_the_hosts_disk_are_not_emptied() {
    // Of a pipe, the kernel itself would say that this cannot be done.
    for call in [libc::SYS_fsync, libc::SYS_fdatasync] {
        exits(&attack(&["call", &call.to_string()]), "allowed\n");
    }
}

#[test]
fn signals_stay_inside() {
    exits(&attack(&["kill_all"]), "alive\n");
    exits(&attack(&["limit_first"]), &"ENOSYS\n".repeat(4));
    out_of_time(&attack(&["ignore"]));
    assert_eq!(attack(&["stop"]).end, End::WallLimit);
    assert_eq!(attack(&["abort"]).end, End::Signalled(libc::SIGABRT));
    assert_eq!(attack(&["segv"]).end, End::Signalled(libc::SIGSEGV));
    assert_eq!(attack(&["terminate"]).end, End::Signalled(libc::SIGTERM));
    assert_eq!(shell("exit 7").end, End::Exited(7));
}

#[test]
fn output_is_bounded_and_exact() {
    let flood = attack(&["flood", "1"]);
    assert_eq!((flood.end, flood.stdout.len() as u64), (End::OutputLimit, limits().stdout));
    let flood = attack(&["flood", "2"]);
    assert_eq!((flood.end, flood.stderr.len() as u64), (End::OutputLimit, limits().stderr));
    let just_enough = format!("head -c {} /dev/zero", limits().stdout);
    let outcome = shell(&just_enough);
    assert_eq!((outcome.end, outcome.stdout.len() as u64), (End::Exited(0), limits().stdout));
    assert_eq!(attack(&["bytes"]).stdout, b"\0\xff\xfe\r\n\xc0\0");
    let input = vec![b'x'; 4 << 20];
    let run = |args: &[&str]| Run { stdin: &input, ..Run::default() }.attack(args);
    exits(&run(&["deaf"]), "");
    let patient = RunLimits { wall: Duration::from_secs(20), ..limits().with_cpu(Duration::from_secs(20)) };
    let counted =
        Run { stdin: &input, limits: Some(patient), ..Run::default() }.program("/usr/bin/wc", &["-c"]);
    exits(&counted, "4194304\n");
    let short = Run { stdin: &input[..1000], ..Run::default() }.attack(&["mute"]);
    exits(&short, "");
}

#[test]
fn time_is_that_of_the_tree() {
    let started = Instant::now();
    assert_eq!(attack(&["sleep"]).end, End::WallLimit);
    assert!(started.elapsed() >= limits().wall);
    let patient = RunLimits { wall: Duration::from_secs(20), ..limits() };
    for mode in ["relay", "unwaited", "ignore"] {
        let outcome = Run { limits: Some(patient), ..Run::default() }.attack(&[mode]);
        assert_eq!(outcome.end, End::CpuLimit, "{mode}: {outcome:?}");
        assert!(outcome.usage.cpu < Duration::from_secs(1), "{mode}: {outcome:?}");
    }
}

#[test]
fn what_is_left_behind_ends_with_the_program() {
    let started = Instant::now();
    exits(&attack(&["daemon"]), "left one behind\n");
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[test]
fn runs_at_once_see_nothing_of_each_other() {
    std::thread::scope(|scope| {
        let one = scope.spawn(|| shell("echo secret > /work/secret; exec sleep 0.5"));
        std::thread::sleep(Duration::from_millis(200));
        let look =
            "ls -A /work; for f in /proc/[0-9]*; do tr '\\0' ' ' < $f/cmdline; done; kill -9 -1; id -u";
        let other = shell(look);
        let one = one.join().unwrap();
        assert_eq!(one.end, End::Exited(0), "{one:?}");
        assert!(!text(&other).contains("secret") && !text(&other).contains("sleep"), "{other:?}");
    });
}

#[test]
fn the_report_says_what_enforces() {
    let report = sandbox().report();
    assert!(report.landlock_abi >= 1);
    assert_eq!(report.memory == LimitEnforcer::Rlimits, report.cpu == LimitEnforcer::Rlimits);
}
