//! The filter as a program, run here as the kernel runs it.

use seccompiler::{BpfProgram, SeccompAction};

use super::search::OURS;
use super::{IDLE, REFUSED, calls, compile};

/// The longest program that the kernel takes.
const MAX_INSTRUCTIONS: usize = 4096;

/// The most steps from a call to a verdict without arguments: what the kernel does for every
/// call at every start.
const MAX_STEPS: usize = 24;

/// What the program returns for a call, and after how many steps.
fn run(program: &BpfProgram, arch: u32, number: i64, args: [u64; 6]) -> (u32, usize) {
    let mut data = Vec::new();
    data.extend_from_slice(&(number as u32).to_le_bytes());
    data.extend_from_slice(&arch.to_le_bytes());
    data.extend_from_slice(&[0; 8]);
    args.iter().for_each(|arg| data.extend_from_slice(&arg.to_le_bytes()));
    let (mut place, mut value, mut steps) = (0, 0u32, 0);
    loop {
        let now = &program[place];
        place += 1;
        steps += 1;
        let branch = |holds: bool| usize::from(if holds { now.jt } else { now.jf });
        match now.code {
            0x20 => value = u32::from_le_bytes(data[now.k as usize..][..4].try_into().unwrap()),
            0x54 => value &= now.k,
            0x05 => place += now.k as usize,
            0x15 => place += branch(value == now.k),
            0x25 => place += branch(value > now.k),
            0x35 => place += branch(value >= now.k),
            0x06 => return (now.k, steps),
            code => panic!("instruction {code:#x}"),
        }
    }
}

fn allow() -> u32 {
    SeccompAction::Allow.into()
}

fn refuse() -> u32 {
    REFUSED.into()
}

fn kill() -> u32 {
    SeccompAction::KillProcess.into()
}

#[test]
fn every_call_gets_what_its_table_says() {
    let program = compile(false).unwrap();
    assert!(program.len() < MAX_INSTRUCTIONS);
    let inspected = super::inspected().unwrap();
    for number in (0..1024).chain(0x4000_0000..0x4000_0400).chain([u32::MAX.into()]) {
        if inspected.contains_key(&number) {
            continue;
        }
        let allowed = calls::ALLOWED.contains(&number);
        let attack = calls::ATTACKS.contains(&number);
        let idle = calls::IDLE.contains(&number);
        assert!(u32::from(allowed) + u32::from(attack) + u32::from(idle) <= 1, "{number}");
        let expected = if allowed {
            allow()
        } else if idle {
            IDLE.into()
        } else if attack {
            kill()
        } else {
            refuse()
        };
        let (verdict, steps) = run(&program, OURS.unwrap(), number, [0; 6]);
        assert_eq!(verdict, expected, "{number}");
        assert!(steps <= MAX_STEPS, "{number}: {steps}");
        // The 32-bit calls of x86.
        assert_eq!(run(&program, 0x4000_0003, number, [0; 6]).0, kill());
    }
}

#[test]
fn arguments_decide_where_they_matter() {
    let program = compile(false).unwrap();
    let call = |number, args| run(&program, OURS.unwrap(), number, args).0;
    let first = |value: u64| [value, 0, 0, 0, 0, 0];
    let second = |value: u64| [0, value, 0, 0, 0, 0];
    let thread = libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND | libc::SIGCHLD;
    assert_eq!(call(libc::SYS_clone, first(thread as u64)), allow());
    for flag in [
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWCGROUP,
    ] {
        assert_eq!(call(libc::SYS_clone, first(flag as u64)), refuse());
        assert_eq!(call(libc::SYS_clone, first((flag | libc::CLONE_VM) as u64)), refuse());
    }
    assert_eq!(call(libc::SYS_ioctl, second(libc::TCGETS)), allow());
    assert_eq!(call(libc::SYS_ioctl, second(libc::TIOCSTI)), refuse());
    // The kernel looks at the lower half.
    assert_eq!(call(libc::SYS_ioctl, second(libc::TIOCSTI | 1 << 32)), refuse());
    assert_eq!(call(libc::SYS_ioctl, second(libc::TIOCLINUX)), refuse());
    for command in [libc::F_DUPFD_CLOEXEC, libc::F_SETFL, libc::F_SETLKW, libc::F_OFD_SETLK] {
        assert_eq!(call(libc::SYS_fcntl, second(command as u64)), allow());
    }
    for command in [libc::F_NOTIFY, libc::F_SETOWN, libc::F_SETLEASE, libc::F_SETPIPE_SZ] {
        assert_eq!(call(libc::SYS_fcntl, second(command as u64)), refuse());
        assert_eq!(call(libc::SYS_fcntl, second(command as u64 | 1 << 32)), refuse());
    }
    assert_eq!(call(libc::SYS_fadvise64, [0; 6]), refuse());
    assert_eq!(call(libc::SYS_readahead, [0; 6]), refuse());
    assert_eq!(call(libc::SYS_prctl, first(libc::PR_SET_NAME as u64)), allow());
    assert_eq!(call(libc::SYS_prctl, first(libc::PR_SET_SECCOMP as u64)), refuse());
    assert_eq!(call(libc::SYS_socketpair, first(libc::AF_UNIX as u64)), allow());
    assert_eq!(call(libc::SYS_socketpair, first(libc::AF_INET as u64)), refuse());
    let mapping = |flags: libc::c_int| [0, 4096, 3, flags as u64, u64::MAX, 0];
    assert_eq!(call(libc::SYS_mmap, mapping(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS)), allow());
    assert_eq!(
        call(libc::SYS_mmap, mapping(libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_HUGETLB)),
        refuse()
    );
    assert_eq!(call(libc::SYS_memfd_create, second(libc::MFD_CLOEXEC.into())), allow());
    assert_eq!(call(libc::SYS_memfd_create, second(libc::MFD_HUGETLB.into())), refuse());
    assert_eq!(call(libc::SYS_personality, first(0x0040_0000)), refuse());
    let advice = |advice: libc::c_int| [0, 4096, advice as u64, 0, 0, 0];
    for allowed in [libc::MADV_DONTNEED, libc::MADV_FREE, libc::MADV_HUGEPAGE] {
        assert_eq!(call(libc::SYS_madvise, advice(allowed)), allow());
    }
    assert_eq!(call(libc::SYS_madvise, advice(libc::MADV_MERGEABLE)), refuse());
}

#[test]
fn the_first_process_is_out_of_reach() {
    let program = compile(false).unwrap();
    let call = |number, args| run(&program, OURS.unwrap(), number, args).0;
    let limit = |process| call(libc::SYS_prlimit64, [process, libc::RLIMIT_CPU.into(), 1, 1, 0, 0]);
    // The kernel looks at the lower half.
    assert_eq!([0, 1, 2, 1 << 32 | 1].map(limit), [allow(), refuse(), refuse(), refuse()]);
    let affinity = |process| call(libc::SYS_sched_setaffinity, [process, 8, 1, 0, 0, 0]);
    assert_eq!([0, 1, 2, 1 << 32 | 1].map(affinity), [allow(), refuse(), allow(), refuse()]);
    let priority = |which: u32, who| call(libc::SYS_setpriority, [which.into(), who, 19, 0, 0, 0]);
    assert_eq!(priority(libc::PRIO_PROCESS, 0), allow());
    assert_eq!(priority(libc::PRIO_PROCESS, 1), refuse());
    assert_eq!(priority(libc::PRIO_PGRP, 0), refuse());
    assert_eq!(priority(libc::PRIO_USER, 0), refuse());
}

#[test]
fn what_must_be_refused_is_in_no_table() {
    let program = compile(true).unwrap();
    for number in [libc::SYS_clone3, libc::SYS_socket, libc::SYS_io_uring_setup, libc::SYS_memfd_create] {
        assert_eq!(run(&program, OURS.unwrap(), number, [0; 6]).0, refuse());
    }
}
