//! Calls of `ip`, `tc` and `nft`.

use super::NetnsError;
use crate::harness::processes::succeeds;
use std::io::Write as _;
use std::process::{Command, Stdio};

/// Why namespaces cannot be used here, if they cannot.
pub(super) fn obstacle(nat: bool) -> Option<NetnsError> {
    if !cfg!(target_os = "linux") {
        return Some(NetnsError::NotLinux);
    }
    #[cfg(unix)]
    if !rustix::process::geteuid().is_root() {
        return Some(NetnsError::NotRoot);
    }
    let tools = [("ip", "iproute2"), ("tc", "iproute2"), ("nft", "nftables")];
    tools
        .into_iter()
        .filter(|(program, _)| nat || *program != "nft")
        .find(|(program, _)| !succeeds(Command::new(program).arg("-V")))
        .map(|(program, package)| NetnsError::NoTool { program, package })
}

/// Calls `ip` with the words of `line`; returns what it printed.
pub(super) fn ip(line: &str) -> Result<String, NetnsError> {
    run("ip", line, "")
}

/// Calls `tc` with the words of `line`.
pub(super) fn tc(line: &str) -> Result<(), NetnsError> {
    run("tc", line, "").map(drop)
}

/// Loads nftables rules in a namespace.
pub(super) fn nft(namespace: &str, rules: &str) -> Result<(), NetnsError> {
    run("ip", &format!("netns exec {namespace} nft -f -"), rules).map(drop)
}

fn run(program: &str, line: &str, input: &str) -> Result<String, NetnsError> {
    let failed = |said: String| NetnsError::Tool { line: format!("{program} {line}"), said };
    let mut command = Command::new(program);
    command.args(line.split_whitespace());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that reads nothing may be gone already; its exit status says how it fared.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
