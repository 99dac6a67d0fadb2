//! What the sandbox asks of the system, what the system gives, and what is missing.

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

/// What the sandbox asks of the system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirements {
    /// Directories and files of the host that every job sees read-only at the same place. Those
    /// that do not exist are left out; symbolic links stay links.
    pub system: Vec<PathBuf>,
    /// Whether resource limits of each process suffice where no control group can be used. They do
    /// not bound a tree of processes together: the wall clock and [`super::RunLimits::processes`]
    /// times the limit of one process do. Where it is true, a control group that does not count
    /// swap suffices as well.
    pub rlimits_suffice: bool,
}

impl Default for Requirements {
    /// What the languages need, and control groups.
    fn default() -> Self {
        let system = [
            "/bin",
            "/lib",
            "/lib32",
            "/lib64",
            "/usr/bin",
            "/usr/include",
            "/usr/lib",
            "/usr/lib32",
            "/usr/lib64",
            "/usr/libexec",
            "/usr/share",
            "/etc/alternatives",
            "/etc/ld.so.cache",
        ];
        Self { system: system.map(PathBuf::from).into(), rlimits_suffice: false }
    }
}

/// What enforces the limits of a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct IsolationReport {
    /// Whether runs have a user namespace, which an ordinary user needs and root does without.
    pub user_namespace: bool,
    /// The version of Landlock's interface.
    pub landlock_abi: u32,
    /// What bounds memory: of the whole tree, or of each process.
    pub memory: LimitEnforcer,
    /// What bounds the number of processes.
    pub processes: LimitEnforcer,
    /// What sums processor time over the process tree.
    pub cpu: LimitEnforcer,
    /// Whether swap counts as memory, or there is none.
    pub swap_counted: bool,
    /// Whether programs have a `/proc`, which shows their own processes alone. Some systems forbid
    /// it to ordinary users.
    pub proc: bool,
}

impl fmt::Display for IsolationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { user_namespace, landlock_abi, memory, processes, cpu, swap_counted, proc } = self;
        let user = if *user_namespace { "user namespaces" } else { "started as root" };
        let swap = if *swap_counted { "swap counted or absent" } else { "swap not counted" };
        let proc = if *proc { "/proc of their own" } else { "no /proc" };
        write!(
            f,
            "memory bounded by {memory}, processes by {processes}, processor time by {cpu}; {swap}; \
             Landlock ABI {landlock_abi}; {user}; {proc}"
        )
    }
}

/// What enforces a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LimitEnforcer {
    /// A control group of version 2.
    CgroupV2,
    /// A control group of version 1.
    CgroupV1,
    /// Resource limits of each process.
    Rlimits,
}

impl fmt::Display for LimitEnforcer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::CgroupV2 => "control groups v2",
            Self::CgroupV1 => "control groups v1",
            Self::Rlimits => "resource limits of each process",
        })
    }
}

/// A system on which nothing may be run: all that is missing at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct Unfit {
    /// What is missing; never empty.
    pub lacks: Vec<Lack>,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "programs cannot be isolated here:")?;
        self.lacks.iter().try_for_each(|lack| write!(f, "\n- {}: {}", lack.what, lack.mend))
    }
}

/// Something that is missing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lack {
    /// What, and what the system says about it.
    pub what: String,
    /// What to do about it.
    pub mend: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_is_told_to_people_and_to_scripts() {
        let report = IsolationReport {
            user_namespace: true,
            landlock_abi: 5,
            memory: LimitEnforcer::CgroupV2,
            processes: LimitEnforcer::CgroupV1,
            cpu: LimitEnforcer::Rlimits,
            swap_counted: false,
            proc: true,
        };
        let expected = "memory bounded by control groups v2, processes by control groups v1, processor time by resource limits of \
                    each process; swap not counted; Landlock ABI 5; user namespaces; /proc of their own";
        assert_eq!(report.to_string(), expected);
        let json = serde_json::to_value(&report).unwrap();
        let bounds = ["memory", "processes", "cpu"].map(|name| json[name].as_str());
        assert_eq!(bounds, [Some("cgroup_v2"), Some("cgroup_v1"), Some("rlimits")]);
        assert_eq!((json["landlock_abi"].as_u64(), json["swap_counted"].as_bool()), (Some(5), Some(false)));
    }
}
