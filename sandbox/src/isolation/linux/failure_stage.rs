//! What was being done when the system refused, said by codes that fit into a message.

use std::io;

/// A step of preparing or watching a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Stage {
    Channel,
    UserNamespace,
    UserMap,
    NetworkNamespace,
    MountNamespace,
    PidNamespace,
    OtherNamespaces,
    JoinGroup,
    RootTree,
    RootPivot,
    Proc,
    Scratch,
    JobMount,
    Capabilities,
    Landlock,
    Identity,
    Place,
    Descriptors,
    ResourceLimits,
    NoNewPrivileges,
    Seccomp,
    Exec,
    Wait,
}

impl Stage {
    const ALL: [Self; 23] = [
        Self::Channel,
        Self::UserNamespace,
        Self::UserMap,
        Self::NetworkNamespace,
        Self::MountNamespace,
        Self::PidNamespace,
        Self::OtherNamespaces,
        Self::JoinGroup,
        Self::RootTree,
        Self::RootPivot,
        Self::Proc,
        Self::Scratch,
        Self::JobMount,
        Self::Capabilities,
        Self::Landlock,
        Self::Identity,
        Self::Place,
        Self::Descriptors,
        Self::ResourceLimits,
        Self::NoNewPrivileges,
        Self::Seccomp,
        Self::Exec,
        Self::Wait,
    ];

    /// The stage with this code.
    pub(super) fn from_code(code: u64) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| *stage as u64 == code)
    }

    /// The stage with this text.
    pub(super) fn from_text(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.text() == text)
    }

    /// What is done in it, to follow "while".
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Channel => "speaking with the sandbox's keeper",
            Self::UserNamespace => "creating a user namespace",
            Self::UserMap => "mapping the user into its namespace",
            Self::NetworkNamespace => "creating a network namespace",
            Self::MountNamespace => "creating a mount namespace",
            Self::PidNamespace => "creating a process in a pid namespace",
            Self::OtherNamespaces => "creating the ipc, uts and cgroup namespaces",
            Self::JoinGroup => "joining a control group",
            Self::RootTree => "building the read-only root",
            Self::RootPivot => "changing to the read-only root",
            Self::Proc => "mounting /proc",
            Self::Scratch => "mounting the writable /work",
            Self::JobMount => "mounting what the job sees",
            Self::Capabilities => "dropping capabilities",
            Self::Landlock => "confining file access by Landlock",
            Self::Identity => "changing to the program's user",
            Self::Place => "placing the job's files",
            Self::Descriptors => "arranging descriptors",
            Self::ResourceLimits => "setting resource limits",
            Self::NoNewPrivileges => "giving up new privileges",
            Self::Seccomp => "filtering system calls",
            Self::Exec => "starting the program",
            Self::Wait => "waiting for the program",
        }
    }

    /// What an operator does when it fails.
    pub(super) fn mend(self) -> &'static str {
        match self {
            Self::UserNamespace | Self::UserMap => {
                "allow user namespaces (user.max_user_namespaces > 0, kernel.unprivileged_userns_clone = 1, \
                 kernel.apparmor_restrict_unprivileged_userns = 0)"
            }
            Self::NetworkNamespace | Self::MountNamespace | Self::PidNamespace | Self::OtherNamespaces => {
                "use a kernel of 5.12 or newer with all namespaces; in a container, allow clone3, unshare and mount"
            }
            Self::JoinGroup => {
                "start the program with `systemd-run --user --scope -p Delegate=yes`, so that its control group is its own"
            }
            Self::RootTree | Self::RootPivot | Self::Scratch | Self::Proc | Self::JobMount => {
                "use a kernel of 5.12 or newer with tmpfs; in a container, allow the mount system calls"
            }
            Self::Landlock => "use a kernel of 5.13 or newer with landlock in its lsm= list",
            Self::Seccomp => "use a kernel with CONFIG_SECCOMP_FILTER on x86-64 or 64-bit ARM",
            Self::Channel => "start through a program that links this release as a whole, with /proc mounted",
            _ => "in a container, allow this to its processes; else report it with the kernel's version",
        }
    }
}

/// A stage that failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StageFailure {
    pub(super) stage: Stage,
    /// What the system said.
    pub(super) errno: i32,
}

impl StageFailure {
    pub(super) fn error(self) -> io::Error {
        io::Error::from_raw_os_error(self.errno)
    }
}

/// Says in which stage something failed.
pub(super) trait At<T> {
    fn at(self, stage: Stage) -> Result<T, StageFailure>;
}

impl<T> At<T> for rustix::io::Result<T> {
    fn at(self, stage: Stage) -> Result<T, StageFailure> {
        self.map_err(|error| StageFailure { stage, errno: error.raw_os_error() })
    }
}

impl<T> At<T> for io::Result<T> {
    fn at(self, stage: Stage) -> Result<T, StageFailure> {
        self.map_err(|error| StageFailure { stage, errno: error.raw_os_error().unwrap_or(libc::EIO) })
    }
}
