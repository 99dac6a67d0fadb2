//! What a program may use.

use std::time::Duration;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

/// What one run may use, its whole process tree together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunLimits {
    /// Processor time, user and system, summed over all processes of the run.
    pub cpu: Duration,
    /// Time on the clock, from the start of the program.
    pub wall: Duration,
    /// Bytes of memory: anonymous, tmpfs, page tables and swap together. Where only resource limits
    /// enforce it ([`super::IsolationReport::memory`]), bytes of address space of each process.
    pub memory: u64,
    /// Processes and threads at one time.
    pub processes: u32,
    /// File descriptors of each process.
    pub open_files: u32,
    /// Bytes of the writable `/work`, which count as memory too.
    pub scratch: u64,
    /// Bytes of standard output; one more ends the run.
    pub stdout: u64,
    /// Bytes of standard error; one more ends the run.
    pub stderr: u64,
}

impl RunLimits {
    /// For a program that answers one test.
    pub fn run() -> Self {
        Self {
            memory: 256 * MIB,
            processes: 16,
            open_files: 64,
            scratch: 16 * MIB,
            stdout: MIB,
            stderr: 64 * KIB,
            ..Self::within(Duration::from_secs(2))
        }
    }

    /// For a compiler, which needs more of everything than a test.
    pub fn compile() -> Self {
        Self {
            memory: 512 * MIB,
            processes: 64,
            open_files: 256,
            scratch: 128 * MIB,
            stdout: 64 * KIB,
            stderr: 64 * KIB,
            ..Self::within(Duration::from_secs(10))
        }
    }

    /// These limits with another bound on processor time, and the bound on the clock that goes with it.
    #[must_use]
    pub fn with_cpu(self, cpu: Duration) -> Self {
        let wall = cpu * WALL_PER_CPU + WALL_SLACK;
        Self { cpu, wall, ..self }
    }

    /// The least of everything but time.
    fn within(cpu: Duration) -> Self {
        let nothing =
            Self { cpu, wall: cpu, memory: 0, processes: 1, open_files: 0, scratch: 0, stdout: 0, stderr: 0 };
        nothing.with_cpu(cpu)
    }
}

/// A program that waits for the disk or the processor gets this many times its processor time on the clock,
const WALL_PER_CPU: u32 = 3;

/// and this much on top.
const WALL_SLACK: Duration = Duration::from_secs(1);
