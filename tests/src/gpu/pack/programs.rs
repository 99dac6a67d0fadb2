//! Whether a program starts on other machines: which libraries it asks for, and of what age.

use anyhow::{Context as _, bail, ensure};
use std::fmt;
use std::path::Path;
use std::process::Command;

/// Libraries that every system has, also a bare Debian.
const EVERYWHERE: [&str; 7] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "ld-linux-x86-64.so.2",
];
/// The newest glibc that a program may ask for: that of Ubuntu 22.04.
const NEWEST: Glibc = Glibc { major: 2, minor: 35 };

/// A version of glibc.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Glibc {
    major: u32,
    minor: u32,
}

impl fmt::Display for Glibc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Drops symbols that only debuggers read.
pub(super) fn strip(program: &Path) -> anyhow::Result<()> {
    tool("strip", &["--strip-all"], program).map(drop)
}

/// The newest glibc that a program asks for.
/// Fails when that is too new, or it asks for a library that not every system has.
pub(super) fn inspect(program: &Path) -> anyhow::Result<Glibc> {
    let text = tool("readelf", &["--wide", "--dynamic", "--version-info"], program)?;
    let strange: Vec<&str> = needed(&text).filter(|library| !EVERYWHERE.contains(library)).collect();
    ensure!(strange.is_empty(), "{} would not start without {}", program.display(), strange.join(", "));
    let newest = glibc(&text).context("it asks for no version of glibc")?;
    ensure!(
        newest <= NEWEST,
        "{} needs glibc {newest}, and {NEWEST} is all that is asked of a machine: build it on an older system",
        program.display()
    );
    Ok(newest)
}

fn needed(text: &str) -> impl Iterator<Item = &str> {
    text.lines()
        .filter(|line| line.contains("(NEEDED)"))
        .filter_map(|line| line.split_once('[')?.1.split(']').next())
}

fn glibc(text: &str) -> Option<Glibc> {
    let versions = text.split("GLIBC_").skip(1).filter_map(|rest| {
        let mut numbers = rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.split('.');
        Some(Glibc { major: numbers.next()?.parse().ok()?, minor: numbers.next()?.parse().ok()? })
    });
    versions.max()
}

fn tool(name: &str, words: &[&str], program: &Path) -> anyhow::Result<String> {
    let output = Command::new(name).args(words).arg(program).env("LC_ALL", "C").output();
    let output = output.with_context(|| format!("cannot start {name}, which comes with binutils"))?;
    if !output.status.success() {
        bail!("{name} {}: {}", program.display(), String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_versions_are_read() {
        let text = " 0x1 (NEEDED)             Shared library: [libcublas.so.13]\n 0x1 (NEEDED) Shared library: [libc.so.6]\n\
                    0x00b0:   Name: GLIBC_2.9  Flags: none\n  Name: GLIBC_2.34  Flags: none\n GLIBC_PRIVATE GLIBC_2.2.5";
        assert_eq!(needed(text).collect::<Vec<_>>(), ["libcublas.so.13", "libc.so.6"]);
        assert_eq!(glibc(text), Some(Glibc { major: 2, minor: 34 }));
        assert!(Glibc { major: 2, minor: 36 } > NEWEST && glibc("none").is_none());
    }
}
