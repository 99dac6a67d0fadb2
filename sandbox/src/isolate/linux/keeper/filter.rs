//! Which system calls a program may make.
//!
//! An allow-list: any other call fails with `ENOSYS`, as on a kernel without it, which is what programs are written to
//! cope with. `clone3` is among those, because its flags lie in memory where no filter can look; the C library falls
//! back to `clone`, whose flags are looked at. A second filter ends the program at calls that only an attack makes, and
//! both end it at calls of another architecture (the 32-bit one of x86).

mod calls;

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use super::super::stage::{Failure, Stage};

/// The filters of a program.
pub(super) struct Filters {
    attacks: BpfProgram,
    allowed: BpfProgram,
}

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

/// Compiles the filters. Without a control group a program gets no memory outside of its address space.
pub(super) fn compile(address_space_only: bool) -> Result<Filters, Failure> {
    let compile = || -> Result<Filters, seccompiler::BackendError> {
        let arch = TargetArch::try_from(std::env::consts::ARCH)?;
        let attacks = calls::ATTACKS.iter().map(|call| (*call, Vec::new())).collect();
        let attacks = SeccompFilter::new(attacks, SeccompAction::Allow, SeccompAction::KillProcess, arch)?;
        let refused = SeccompAction::Errno(libc::ENOSYS as u32);
        let allowed = SeccompFilter::new(allowed(address_space_only)?, refused, SeccompAction::Allow, arch)?;
        Ok(Filters { attacks: attacks.try_into()?, allowed: allowed.try_into()? })
    };
    compile().map_err(|_| Failure { stage: Stage::Seccomp, errno: libc::ENOSYS })
}

impl Filters {
    /// Filters this process and what it becomes.
    pub(super) fn apply(&self) -> Result<(), Failure> {
        let apply = |program| seccompiler::apply_filter(program);
        apply(&self.attacks)
            .and_then(|()| apply(&self.allowed))
            .map_err(|_| Failure { stage: Stage::Seccomp, errno: libc::EINVAL })
    }
}

fn allowed(address_space_only: bool) -> Result<BTreeMap<i64, Vec<SeccompRule>>, seccompiler::BackendError> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        calls::ALLOWED.iter().map(|call| (*call, Vec::new())).collect();
    let equals = |argument, value| condition(argument, SeccompCmpOp::Eq, value);
    // The kernel takes the lower half of these arguments alone, so that is what is compared.
    rules.insert(libc::SYS_clone, vec![condition(0, SeccompCmpOp::MaskedEq(NAMESPACES), 0)?]);
    rules
        .insert(libc::SYS_ioctl, IOCTLS.into_iter().map(|ioctl| equals(1, ioctl)).collect::<Result<_, _>>()?);
    rules.insert(
        libc::SYS_prctl,
        PRCTLS.into_iter().map(|prctl| equals(0, prctl as u64)).collect::<Result<_, _>>()?,
    );
    // Two connected ends, which Rust's and Python's libraries speak to their own children through. They get no address.
    rules.insert(libc::SYS_socketpair, vec![equals(0, libc::AF_UNIX as u64)?]);
    rules.insert(libc::SYS_personality, vec![equals(0, ASK_PERSONALITY)?]);
    if !address_space_only {
        rules.insert(libc::SYS_memfd_create, Vec::new());
    }
    Ok(rules)
}

fn condition(
    argument: u8,
    compare: SeccompCmpOp,
    value: u64,
) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![SeccompCondition::new(argument, SeccompCmpArgLen::Dword, compare, value)?])
}

#[cfg(test)]
mod tests;
