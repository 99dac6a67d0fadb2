//! Finds out what the system gives, all of it before anything is refused.

use std::fs;
use std::time::Duration;

use rustix::thread::{CapabilitySet, capabilities};

use super::cgroups;
use super::cgroups::{Hierarchies, Version};
use super::failure_stage::{At, Stage, StageFailure};
use super::message::PreparedJob;
use super::zygote_client::{SlotPlan, ZygoteSlot};
use super::{supervisor, zygote};
use crate::isolation::{IsolateError, IsolationReport, Lack, LimitEnforcer, Requirements, RunLimits, Unfit};

/// How many zygotes are started at once: while one cleans up, the other runs.
const FIRST_SLOTS: usize = 2;

/// No such program exists inside, so that a trial goes through every step but the last.
const NO_PROGRAM: &std::ffi::CStr = c"/no/program";

/// What root needs so that it can do without a user namespace.
const ROOT_CAPABILITIES: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::CHOWN);

/// Makes a plan and its first slots.
pub(super) fn open(
    requirements: &Requirements,
) -> Result<(SlotPlan, Vec<ZygoteSlot>, IsolationReport), Unfit> {
    let mut lacks = Vec::new();
    if !zygote::is_linked() {
        lacks.push(lack(StageFailure { stage: Stage::Channel, errno: libc::ENOEXEC }));
    }
    let landlock_abi = landlock_abi();
    if landlock_abi == 0 {
        lacks.push(lack(StageFailure { stage: Stage::Landlock, errno: libc::EOPNOTSUPP }));
    }
    if fs::metadata("/proc/self/ns/mnt").is_err() {
        let what = "/proc is not mounted, or shows nothing of this process".to_owned();
        lacks.push(Lack { what, mend: "mount /proc".into() });
    }
    let hierarchies = group(requirements, &mut lacks);
    let root = capabilities(None).is_ok_and(|sets| sets.effective.contains(ROOT_CAPABILITIES));
    let user_namespace = !(rustix::process::geteuid().is_root() && root);
    let plan = SlotPlan { system: requirements.system.clone(), user_namespace, hierarchies };
    // A zygote says more than any file does. It is not asked where it could not even begin.
    let slots = match lacks.iter().any(|lack| lack.mend == Stage::Channel.mend()) {
        true => Vec::new(),
        false => slots(&plan).unwrap_or_else(|failure| {
            let mut failures = missing_namespaces(user_namespace);
            failures.retain(|missing| missing.stage != failure.stage);
            failures.insert(0, failure);
            let new = failures.into_iter().map(lack).filter(|new| !lacks.contains(new)).collect::<Vec<_>>();
            lacks.extend(new);
            Vec::new()
        }),
    };
    if !lacks.is_empty() {
        return Err(Unfit { lacks });
    }
    let group = slots.first().and_then(|slot| slot.group.as_ref());
    let bound = match group.map(|group| group.version()) {
        Some(Version::V2) => LimitEnforcer::CgroupV2,
        Some(Version::V1) => LimitEnforcer::CgroupV1,
        None => LimitEnforcer::Rlimits,
    };
    let report = IsolationReport {
        user_namespace,
        landlock_abi,
        memory: bound,
        processes: bound,
        cpu: bound,
        swap_counted: group.map_or_else(|| !cgroups::has_swap(), |group| group.swap_counted()),
        proc: slots.iter().all(|slot| slot.proc),
    };
    Ok((plan, slots, report))
}

/// What gives a user a control group of their own. Nobody has to be root for it.
const DELEGATE: &str = "start the program with `systemd-run --user --scope -p Delegate=yes PROGRAM`, or as a \
                        service with Delegate=yes (`echo-node install-service` makes one)";

/// Where control groups can be made, if anywhere.
fn group(requirements: &Requirements, lacks: &mut Vec<Lack>) -> Option<Hierarchies> {
    let hierarchies = Hierarchies::find();
    match cgroups::ControlGroup::create(&hierarchies) {
        Ok(group) => {
            lacks.extend(uncounted_swap(group.swap_counted(), requirements));
            group.remove();
            Some(hierarchies)
        }
        Err(_) if requirements.rlimits_suffice => None,
        Err(error) => {
            lacks
                .push(Lack { what: format!("no control group can be made: {error}"), mend: DELEGATE.into() });
            None
        }
    }
}

/// What is missing where a group bounds memory, and what is swapped out goes beyond.
fn uncounted_swap(counted: bool, requirements: &Requirements) -> Option<Lack> {
    (!counted && !requirements.rlimits_suffice).then(|| Lack {
        what: "this machine swaps, and its control groups do not count that".into(),
        mend: "boot with swapaccount=1, use control groups of version 2, or turn swap off".into(),
    })
}

/// Starts the first zygotes, and tries one with a program that does not exist.
fn slots(plan: &SlotPlan) -> Result<Vec<ZygoteSlot>, StageFailure> {
    let mut slots = (0..FIRST_SLOTS).map(|_| ZygoteSlot::start(plan)).collect::<Result<Vec<_>, _>>()?;
    for slot in &mut slots {
        let task = PreparedJob {
            program: NO_PROGRAM.to_owned(),
            args: vec![NO_PROGRAM.to_owned()],
            env: Vec::new(),
            mounts: Vec::new(),
            files: Vec::new(),
            collects: true,
            limits: RunLimits::run().with_cpu(Duration::from_secs(10)),
        };
        match supervisor::run(slot, &task, &[], &[], 1) {
            Err(IsolateError::Program { .. }) => slot.rest().at(Stage::Channel)?,
            Err(IsolateError::System { stage, source }) => {
                let stage = Stage::from_text(stage).unwrap_or(Stage::Channel);
                return Err(StageFailure { stage, errno: source.raw_os_error().unwrap_or(libc::EIO) });
            }
            _ => return Err(StageFailure { stage: Stage::Exec, errno: libc::EIO }),
        }
    }
    Ok(slots)
}

/// Which namespaces this system refuses, each tried alone.
fn missing_namespaces(user_namespace: bool) -> Vec<StageFailure> {
    let kinds = [
        (Stage::UserNamespace, libc::CLONE_NEWUSER),
        (Stage::NetworkNamespace, libc::CLONE_NEWNET),
        (Stage::MountNamespace, libc::CLONE_NEWNS),
        (Stage::PidNamespace, libc::CLONE_NEWPID),
        (Stage::OtherNamespaces, libc::CLONE_NEWIPC | libc::CLONE_NEWUTS | libc::CLONE_NEWCGROUP),
    ];
    let user = if user_namespace { libc::CLONE_NEWUSER } else { 0 };
    let tried = kinds.into_iter().filter(|(stage, _)| user_namespace || *stage != Stage::UserNamespace);
    let failed = tried.filter_map(|(stage, flags)| {
        let errno = try_namespaces(flags | user);
        (errno != 0).then_some(StageFailure { stage, errno })
    });
    failed.collect()
}

/// Makes a process in such namespaces that ends at once. Returns the error, 0 for none.
fn try_namespaces(flags: libc::c_int) -> i32 {
    // SAFETY: without CLONE_VM this is a fork, whose child only ends.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags | libc::SIGCHLD, 0, 0, 0, 0) };
    match pid {
        -1 => std::io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO),
        // SAFETY: the child ends without touching anything.
        0 => unsafe { libc::_exit(0) },
        pid => {
            // SAFETY: waits for the child just made; no status is asked for.
            unsafe { libc::waitpid(pid as libc::pid_t, std::ptr::null_mut(), 0) };
            0
        }
    }
}

/// The version of Landlock's interface, 0 for none.
fn landlock_abi() -> u32 {
    const ASK_VERSION: libc::c_ulong = 1;
    // SAFETY: asking for the version passes no structure.
    let abi = unsafe {
        libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<u8>(), 0usize, ASK_VERSION)
    };
    u32::try_from(abi).unwrap_or(0)
}

fn lack(failure: StageFailure) -> Lack {
    let StageFailure { stage, .. } = failure;
    Lack { what: format!("{} fails: {}", stage.text(), failure.error()), mend: stage.mend().into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swap_that_is_not_counted_is_refused_unless_less_suffices() {
        let full = Requirements::default();
        let less = Requirements { rlimits_suffice: true, ..Requirements::default() };
        assert!(uncounted_swap(false, &full).is_some_and(|lack| lack.mend.contains("swapaccount")));
        assert_eq!([uncounted_swap(true, &full), uncounted_swap(false, &less)], [None, None]);
    }
}
