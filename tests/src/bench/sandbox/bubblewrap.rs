//! Bubblewrap, asked for what ours does as far as it can.

use super::Program;
use anyhow::{Context as _, ensure};
use echo_sandbox::isolation::{Requirements, RunLimits, WORK};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The program that is called, found on the path.
const PROGRAM: &str = "bwrap";
/// Devices that ours has.
const DEVICES: [&str; 4] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/urandom"];

/// An installed bubblewrap, and how it is called.
pub(super) struct Bubblewrap {
    version: String,
    flags: Vec<String>,
}

impl Bubblewrap {
    /// Finds it, to run programs in a root of what `requirements` show.
    pub(super) fn find(requirements: &Requirements) -> anyhow::Result<Self> {
        let asked = Command::new(PROGRAM).arg("--version").stdin(Stdio::null()).output();
        let asked = asked.with_context(|| {
            format!("cannot run {PROGRAM}: install bubblewrap (on Debian and Ubuntu: apt install bubblewrap)")
        })?;
        ensure!(asked.status.success(), "{PROGRAM} --version failed ({})", asked.status);
        let version = String::from_utf8_lossy(&asked.stdout).trim().to_owned();
        Ok(Self { version, flags: flags(requirements)? })
    }

    /// What it says it is.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Its arguments in front of the program.
    pub(super) fn flags(&self) -> &[String] {
        &self.flags
    }

    /// Runs the program once to its end, and returns how long that took.
    pub(super) fn run(&self, program: &Program) -> anyhow::Result<Duration> {
        let mut command = Command::new(PROGRAM);
        command.args(&self.flags).arg("--").arg(program.path).args(program.args).stdin(Stdio::null());
        let since = Instant::now();
        let output = command.output()?;
        let taken = since.elapsed();
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{PROGRAM} {} ({}): {said}", program.path, output.status);
        Ok(taken)
    }
}

fn flags(requirements: &Requirements) -> anyhow::Result<Vec<String>> {
    let kind = ["--unshare-all", "--die-with-parent", "--new-session", "--clearenv"];
    let mut flags = Vec::from(kind.map(str::to_owned));
    let mut flag = |words: &[&str]| flags.extend(words.iter().map(|word| (*word).to_owned()));
    for path in &requirements.system {
        let place = path.to_str().with_context(|| format!("{} is not Unicode", path.display()))?;
        // Symbolic links stay links, and what does not exist is left out, as in ours.
        match fs::read_link(path) {
            Ok(target) => flag(&["--symlink", &target.to_string_lossy(), place]),
            Err(_) if Path::new(place).exists() => flag(&["--ro-bind", place, place]),
            Err(_) => {}
        }
    }
    DEVICES.iter().for_each(|device| flag(&["--dev-bind", device, device]));
    let scratch = RunLimits::run().scratch.to_string();
    flag(&["--proc", "/proc", "--size", &scratch, "--tmpfs", WORK, "--chdir", WORK, "--remount-ro", "/"]);
    Ok(flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_is_that_of_ours() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        fs::create_dir(place("there")).unwrap();
        let system = vec![place("there"), place("missing")];
        let flags = flags(&Requirements { system, rlimits_suffice: true }).unwrap();
        let there = place("there").display().to_string();
        assert!(flags.windows(3).any(|words| words == ["--ro-bind", &*there, &*there]), "{flags:?}");
        assert!(!flags.iter().any(|word| word.contains("missing")), "{flags:?}");
        assert!(flags.windows(2).any(|words| words == ["--tmpfs", "/work"]), "{flags:?}");
    }
}
