//! Which system calls a program may make.
//!
//! An allow-list: any other call fails with `ENOSYS`, as on a kernel without it, which is what
//! programs are written to cope with. `clone3` is among those, because its flags lie in memory
//! where no filter can look; the C library falls back to `clone`, whose flags are looked at. Calls
//! that only an attack makes end the program, and so do all calls of another architecture (the
//! 32-bit one of x86).

mod calls;
mod search;

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use self::search::SyscallAction;
use super::super::failure_stage::{Stage, StageFailure};

/// What a call that is not allowed gets.
const REFUSED: SeccompAction = SeccompAction::Errno(libc::ENOSYS as u32);

/// What a call gets that has nothing to do: success.
const IDLE: SeccompAction = SeccompAction::Errno(0);

/// Flags of `clone` that make namespaces.
const NAMESPACES: u64 = (libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET) as u64;

/// What terminals, pipes and files are asked by ordinary programs. Not `TIOCSTI`, which types for the user.
const IOCTLS: [u64; 8] = [
    libc::TCGETS,
    libc::TIOCGPGRP,
    libc::TIOCGWINSZ,
    libc::FIONREAD,
    libc::FIONBIO,
    libc::FIOCLEX,
    libc::FIONCLEX,
    // TCGETS2, which newer C libraries ask instead.
    0x802c_542a,
];

/// What `fcntl` may do: descriptors, their flags, pipes' sizes and locks. Not `F_NOTIFY`, which tells
/// of every read of a host's directory, nor owners and signals of descriptors.
///
/// `fadvise` and `readahead` are not allowed at all: on files of the host they act on the host's memory.
const FCNTLS: [libc::c_int; 13] = [
    libc::F_DUPFD,
    libc::F_DUPFD_CLOEXEC,
    libc::F_GETFD,
    libc::F_SETFD,
    libc::F_GETFL,
    libc::F_SETFL,
    libc::F_GETPIPE_SZ,
    libc::F_GETLK,
    libc::F_SETLK,
    libc::F_SETLKW,
    libc::F_OFD_GETLK,
    libc::F_OFD_SETLK,
    libc::F_OFD_SETLKW,
];

/// What a process may ask about and set for itself.
const PRCTLS: [libc::c_int; 15] = [
    libc::PR_SET_PDEATHSIG,
    libc::PR_GET_PDEATHSIG,
    libc::PR_GET_DUMPABLE,
    libc::PR_SET_DUMPABLE,
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_CAPBSET_READ,
    libc::PR_GET_SECCOMP,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_SET_THP_DISABLE,
    libc::PR_GET_THP_DISABLE,
    libc::PR_SET_VMA,
];

/// `personality` that asks and sets nothing.
const ASK_PERSONALITY: u64 = 0xffff_ffff;

/// The number by which a process names itself.
const ITSELF: u64 = 0;

/// The number of a run's first process, which is ours.
const FIRST_PROCESS: u64 = 1;

/// Compiles the filter. Without a control group a program gets no memory outside of its address space.
pub(super) fn compile(address_space_only: bool) -> Result<BpfProgram, StageFailure> {
    let list_of_inspected = || -> Result<_, seccompiler::BackendError> {
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        let mut rules = inspected()?;
        if address_space_only {
            rules.remove(&libc::SYS_memfd_create);
        }
        let numbers = rules.keys().copied().collect::<Vec<_>>();
        let list = SeccompFilter::new(rules, REFUSED, SeccompAction::Allow, arch)?;
        Ok((BpfProgram::try_from(list)?, numbers))
    };
    let unknown = StageFailure { stage: Stage::Seccomp, errno: libc::ENOSYS };
    let (list, numbers) = list_of_inspected().map_err(|_| unknown)?;
    let architecture = search::OURS.ok_or(unknown)?;
    let verdicts = [
        (calls::ALLOWED, SyscallAction::Allow),
        (calls::IDLE, SyscallAction::Idle),
        (calls::ATTACKS, SyscallAction::Kill),
        (&numbers, SyscallAction::Inspect),
    ];
    let verdicts =
        verdicts.iter().flat_map(|(calls, verdict)| calls.iter().map(|call| (*call as u32, *verdict)));
    Ok(search::before(list, architecture, &verdicts.collect()))
}

/// Filters this process and what it becomes.
pub(super) fn apply(filter: &BpfProgram) -> Result<(), StageFailure> {
    seccompiler::apply_filter(filter).map_err(|_| StageFailure { stage: Stage::Seccomp, errno: libc::EINVAL })
}

/// The calls that are allowed with some arguments alone. The kernel takes the lower half of these
/// arguments, so that is what is compared.
fn inspected() -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let equals = |argument, value| condition(argument, SeccompCmpOp::Eq, value);
    let ioctls = IOCTLS.into_iter().map(|ioctl| equals(1, ioctl)).collect::<Result<_, _>>()?;
    let fcntls = FCNTLS.into_iter().map(|command| equals(1, command as u64)).collect::<Result<_, _>>()?;
    let prctls = PRCTLS.into_iter().map(|prctl| equals(0, prctl as u64)).collect::<Result<_, _>>()?;
    let without = |argument, flags| condition(argument, SeccompCmpOp::MaskedEq(flags), 0);
    let no_namespace = without(0, NAMESPACES)?;
    // Two connected ends, which Rust's and Python's libraries speak to their own children through.
    // They get no address.
    let pair = equals(0, libc::AF_UNIX as u64)?;
    Ok(BTreeMap::from([
        (libc::SYS_clone, vec![no_namespace]),
        // Huge pages come out of a pool of the machine, which no limit on memory counts.
        (libc::SYS_mmap, vec![without(3, libc::MAP_HUGETLB as u64)?]),
        (libc::SYS_memfd_create, vec![without(1, u64::from(libc::MFD_HUGETLB))?]),
        // Where the kernel merges equal pages, the time that a write takes tells what others have in memory.
        (libc::SYS_madvise, vec![condition(2, SeccompCmpOp::Ne, libc::MADV_MERGEABLE as u64)?]),
        (libc::SYS_ioctl, ioctls),
        (libc::SYS_fcntl, fcntls),
        (libc::SYS_prctl, prctls),
        (libc::SYS_socketpair, vec![pair]),
        (libc::SYS_personality, vec![equals(0, ASK_PERSONALITY)?]),
        // A program may limit only itself. In a user namespace the run's first process, which is ours, has
        // the same user, and the kernel would end it at a limit of processor time.
        (libc::SYS_prlimit64, vec![equals(0, ITSELF)?]),
        (libc::SYS_setpriority, vec![rule(&[(0, libc::PRIO_PROCESS.into()), (1, ITSELF)])?]),
        // The C library names the thread here even when it is the caller.
        (libc::SYS_sched_setaffinity, vec![condition(0, SeccompCmpOp::Ne, FIRST_PROCESS)?]),
    ]))
}

fn condition(
    argument: u8,
    compare: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, value)?])
}

/// Several arguments that all have to equal these values.
fn rule(arguments: &[(u8, u64)]) -> Result<SeccompRule, seccompiler::BackendError> {
    let equals = |&(argument, value): &(u8, u64)| {
        SeccompCondition::new(argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value)
    };
    SeccompRule::new(arguments.iter().map(equals).collect::<Result<_, _>>()?)
}

#[cfg(test)]
mod tests;
