//! Many runs of mixed kinds, and what they leave behind.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::{
    Collect, Collected, End, Job, Mount, MountSource, Placed, Requirements, RunLimits, RunOutcome, Sandbox,
    Unfit,
};

/// The most surprises that are described.
const MAX_SURPRISES: usize = 16;

/// Time on the clock of what may use all of it, and of what may not.
const SHORT: Duration = Duration::from_millis(400);
const PATIENT: Duration = Duration::from_secs(20);

/// What became of the runs.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SoakOutcome {
    /// How many came to an end.
    pub runs: u32,
    /// How often each kind of end came about.
    pub ends: BTreeMap<String, u32>,
    /// Runs that ended in another way than they had to, and failures of the sandbox; at most 16.
    pub surprises: Vec<String>,
    /// What is there that was not there before: processes, mounts, control groups, files and descriptors.
    pub left: Vec<String>,
}

/// A script, and whether it may end so.
type Kind = (&'static str, fn(End) -> bool);

/// What programs do, well or badly.
const KINDS: [Kind; 10] = [
    ("exit 0", |end| end == End::Exited(0)),
    ("exit 3", |end| end == End::Exited(3)),
    ("kill -9 $$", |end| end == End::Signalled(9)),
    ("f() { f | f & }; f; while :; do :; done", |end| {
        // The shell gives up, or goes on; forks that fail take memory of the kernel for a moment.
        matches!(end, End::Exited(2) | End::CpuLimit | End::WallLimit | End::MemoryLimit)
    }),
    ("x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done", |end| {
        // Without control groups the shell is told that there is no more memory.
        matches!(end, End::MemoryLimit | End::Exited(2) | End::Signalled(_) | End::CpuLimit | End::WallLimit)
    }),
    ("head -c 100000000 /dev/zero > file; ln -s /etc/passwd link; mkfifo fifo; exit 0", |end| {
        matches!(end, End::Exited(0) | End::CpuLimit | End::WallLimit)
    }),
    ("sleep 100 & sleep 100 & exit 0", |end| end == End::Exited(0)),
    ("while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", |end| {
        matches!(end, End::OutputLimit | End::CpuLimit | End::WallLimit)
    }),
    ("kill -STOP $$", |end| end == End::WallLimit),
    ("while :; do :; done", |end| matches!(end, End::CpuLimit | End::WallLimit)),
];

/// A script that exits with 0, and what it may leave.
type Leaving = (&'static str, fn(&Collected) -> bool);

/// What lies in the work directory of every run, and what is collected of it.
const PLACED: Placed<'static> = Placed { name: "placed/file", bytes: b"placed\n", executable: false };
const LEFT: Collect<'static> = Collect { name: "left", limit: 1000 };

/// Where those of [`LEAVING`] see the host's programs once more.
const MOUNTED: &str = "/data/programs";

/// What programs do with files that are placed, collected and mounted.
const LEAVING: [Leaving; 5] = [
    ("read -r word < placed/file; echo more >> placed/file; echo $word > left", |left| {
        *left == Collected::Bytes(PLACED.bytes.into())
    }),
    ("ln -s placed/file left", |left| *left == Collected::Absent),
    ("mkdir left; echo more > left/file", |left| *left == Collected::NotRegular),
    ("printf %04096d 0 > left", |left| *left == Collected::TooLarge { bytes: 4096 }),
    ("cd /data/programs && ! echo new > new && [ -e env ] && echo placed > /work/left", |left| {
        *left == Collected::Bytes(PLACED.bytes.into())
    }),
];

/// Runs that many programs, so many at a time, in a sandbox of their own, and looks at what is
/// left when it is closed. The process should do nothing else meanwhile: what that makes would be
/// taken for left behind.
///
/// # Errors
/// When the system is not fit.
pub fn soak(requirements: &Requirements, runs: u32, at_once: u32) -> Result<SoakOutcome, Unfit> {
    let before = Traces::now();
    let sandbox = Sandbox::open(requirements)?;
    let (next, soak) = (AtomicU32::new(0), Mutex::new(SoakOutcome::default()));
    let limits = RunLimits {
        memory: 32 << 20,
        scratch: 4 << 20,
        ..RunLimits::run().with_cpu(Duration::from_millis(100))
    };
    std::thread::scope(|scope| {
        for _ in 0..at_once.max(1) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= runs {
                        return;
                    }
                    let kind = number as usize % (KINDS.len() + LEAVING.len());
                    // What has to end by itself has time for that on a busy machine too.
                    let wall = match KINDS.get(kind) {
                        Some((_, may_end)) if may_end(End::WallLimit) => SHORT,
                        _ => PATIENT,
                    };
                    let leaving = kind.checked_sub(KINDS.len()).map(|kind| LEAVING[kind]);
                    let script = leaving.map_or_else(|| KINDS[kind].0, |(script, _)| script);
                    let may_be = |outcome: &RunOutcome| match leaving {
                        Some((_, may_leave)) => {
                            outcome.end == End::Exited(0) && may_leave(&outcome.collected[0])
                        }
                        None => KINDS[kind].1(outcome.end),
                    };
                    let programs =
                        Mount { source: MountSource::Path("/usr/bin".as_ref()), target: MOUNTED.as_ref() };
                    let args = [OsString::from("-c"), OsString::from(script)];
                    let job = Job {
                        program: Path::new("/bin/sh"),
                        args: &args,
                        env: &[],
                        mounts: if leaving.is_some() { &[programs] } else { &[] },
                        files: &[PLACED],
                        collect: &[LEFT],
                        stdin: &[],
                        limits: RunLimits { wall, ..limits },
                    };
                    let outcome = sandbox.run(&job);
                    let mut soak = soak.lock();
                    let surprise = match outcome {
                        Ok(outcome) => {
                            soak.runs += 1;
                            *soak.ends.entry(format!("{:?}", outcome.end)).or_default() += 1;
                            (!may_be(&outcome))
                                .then(|| format!("{script}: {:?}, {:?}", outcome.end, outcome.collected))
                        }
                        Err(error) => Some(format!("{script}: {error}")),
                    };
                    if soak.surprises.len() < MAX_SURPRISES {
                        soak.surprises.extend(surprise);
                    }
                }
            });
        }
    });
    drop(sandbox);
    let mut soak = soak.into_inner();
    soak.left = Traces::now().0.difference(&before.0).cloned().collect();
    Ok(soak)
}

/// What a process and its sandboxes have on the system.
struct Traces(BTreeSet<String>);

impl Traces {
    fn now() -> Self {
        let mut traces = BTreeSet::new();
        let list = |path: &Path| {
            fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>()
        };
        let named = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let ours = format!("echo-sandbox-{}-", std::process::id());
        for process in list(Path::new("/proc")).iter().filter(|path| named(path).parse::<u32>().is_ok()) {
            let status = fs::read_to_string(process.join("status")).unwrap_or_default();
            let parent = format!("PPid:\t{}\n", std::process::id());
            // As root, programs run as users that nothing else has.
            let field = |line: &str| line.strip_prefix("Uid:\t")?.split('\t').next()?.parse::<u32>().ok();
            let program = status.lines().find_map(field).is_some_and(super::linux::is_user_of_programs);
            if status.contains(&parent) || program {
                traces.insert(format!("process {}", named(process)));
            }
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        traces.extend(mounts.lines().map(|line| format!("mount {line}")));
        for file in list(Path::new("/proc/self/fd")) {
            let leads_to = fs::read_link(&file).unwrap_or_default();
            // The directory that is being listed is open itself.
            if !leads_to.ends_with("fd") {
                traces.insert(format!("descriptor {} {}", named(&file), leads_to.display()));
            }
        }
        for place in [std::env::temp_dir(), PathBuf::from("/dev/shm"), PathBuf::from("/var/tmp")] {
            let owner = |path: &PathBuf| fs::symlink_metadata(path).map_or(0, |found| found.uid());
            let files = list(&place);
            let files = files.iter().filter(|path| super::linux::is_user_of_programs(owner(path)));
            traces.extend(files.map(|path| format!("file {}", path.display())));
        }
        // Groups are below this process's own, or beside it.
        let mut groups = super::linux::group_places();
        groups.retain(|place| place.is_dir());
        for group in groups.iter().flat_map(|place| list(place)).filter(|path| named(path).starts_with(&ours))
        {
            traces.insert(format!("control group {}", group.display()));
        }
        Self(traces)
    }
}
