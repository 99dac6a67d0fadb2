//! The build script of the programs: a release build gets its commit in `ECHO_COMMIT`.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=../commit.rs");
    // A development build would be made anew for each commit, and cargo knows that it is current.
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    // Without git, as in an unpacked archive, a program says its version alone.
    let (Some(commit), Some(log)) =
        (git(&["rev-parse", "--short=12", "HEAD"]), git(&["rev-parse", "--git-path", "logs/HEAD"]))
    else {
        return;
    };
    // Git writes a line there whenever HEAD moves.
    println!("cargo::rerun-if-changed={log}");
    println!("cargo::rustc-env=ECHO_COMMIT={commit}");
}

fn git(words: &[&str]) -> Option<String> {
    let output = Command::new("git").args(words).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8(output.stdout).ok()?.trim().to_owned())
}
