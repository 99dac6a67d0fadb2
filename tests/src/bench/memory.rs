//! What a process holds, as the system counts it.

use anyhow::Context;

/// Resident memory of this process, and the most that it ever held, in MB.
pub(super) fn resident() -> anyhow::Result<(f64, f64)> {
    let status = std::fs::read_to_string("/proc/self/status")
        .context("memory is read from /proc/self/status, which only Linux has")?;
    let field = |name: &str| -> anyhow::Result<f64> {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kibibytes =
            line.and_then(|rest| rest.trim_start_matches(':').split_whitespace().next()?.parse().ok());
        let kibibytes: f64 = kibibytes.with_context(|| format!("/proc/self/status has no {name}"))?;
        Ok(kibibytes * 1024.0 / 1e6)
    };
    Ok((field("VmRSS")?, field("VmHWM")?))
}
