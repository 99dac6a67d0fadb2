//! A filter that finds the number of a call by bisection.
//!
//! When a filter is installed, the kernel tries it on every call that there is, to remember which
//! are always allowed. A list that is gone through from its begin, as `seccompiler` makes it, took
//! a third of a short run for that. So a balanced search stands in front, and only calls whose
//! arguments matter go on to the list.

use std::collections::BTreeMap;

use seccompiler::{BpfProgram, SeccompAction, sock_filter};

/// What a number leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SyscallAction {
    Allow,
    /// The call succeeds without doing anything.
    Idle,
    /// The call fails as on a kernel without it.
    Refuse,
    /// The kernel kills the whole process by SIGSYS.
    Kill,
    /// The list of calls whose arguments matter decides.
    Inspect,
}

/// Where the kernel shows the number and the architecture of a call.
const NUMBER: u32 = 0;
const ARCHITECTURE: u32 = 4;

/// What the kernel calls this architecture.
#[cfg(target_arch = "x86_64")]
pub(super) const OURS: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
pub(super) const OURS: Option<u32> = Some(0xc000_00b7);
/// The tables of calls were not written for others.
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) const OURS: Option<u32> = None;

const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
const GO: u16 = (libc::BPF_JMP | libc::BPF_JA) as u16;
const IF_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
const IF_AT_LEAST: u16 = (libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K) as u16;
const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;

/// Puts a search for these numbers of an architecture in front of a list. All other numbers are refused.
pub(super) fn before(
    list: BpfProgram,
    architecture: u32,
    verdicts: &BTreeMap<u32, SyscallAction>,
) -> BpfProgram {
    let mut program = vec![
        instruction(LOAD, 0, 0, ARCHITECTURE),
        instruction(IF_EQUAL, 1, 0, architecture),
        give(SyscallAction::Kill),
        instruction(LOAD, 0, 0, NUMBER),
    ];
    bisect(&ranges(verdicts), &mut program);
    let end = program.len();
    for (place, instruction) in program.iter_mut().enumerate() {
        if *instruction == give(SyscallAction::Inspect) {
            instruction.k = (end - place - 1) as u32;
        }
    }
    program.extend(list);
    program
}

/// Where the verdict changes: the first number of each range, in order.
fn ranges(verdicts: &BTreeMap<u32, SyscallAction>) -> Vec<(u32, SyscallAction)> {
    let mut ranges = vec![(0, SyscallAction::Refuse)];
    for (&number, &verdict) in verdicts {
        // A gap was begun after the number before; if there is none, this range takes its place.
        ranges.pop_if(|(start, _)| *start == number);
        if ranges.last().is_none_or(|(_, before)| *before != verdict) {
            ranges.push((number, verdict));
        }
        ranges.push((number + 1, SyscallAction::Refuse));
    }
    ranges
}

fn bisect(ranges: &[(u32, SyscallAction)], program: &mut BpfProgram) {
    let (below, above) = ranges.split_at(ranges.len() / 2);
    match (below, above) {
        ([], [(_, verdict)]) => program.push(give(*verdict)),
        (_, [(start, _), ..]) => {
            // A conditional jump reaches 255 instructions, an unconditional one all.
            program.push(instruction(IF_AT_LEAST, 0, 1, *start));
            let jump = program.len();
            program.push(instruction(GO, 0, 0, 0));
            bisect(below, program);
            program[jump].k = (program.len() - jump - 1) as u32;
            bisect(above, program);
        }
        (_, []) => {}
    }
}

/// The instruction that ends the search.
fn give(verdict: SyscallAction) -> sock_filter {
    let action = match verdict {
        SyscallAction::Allow => SeccompAction::Allow,
        SyscallAction::Idle => super::IDLE,
        SyscallAction::Refuse => super::REFUSED,
        SyscallAction::Kill => SeccompAction::KillProcess,
        // How far is not known yet.
        SyscallAction::Inspect => return instruction(GO, 0, 0, u32::MAX),
    };
    instruction(RETURN, 0, 0, action.into())
}

fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt, jf, k }
}
