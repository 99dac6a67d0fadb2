//! What a bench ran on.

use serde_json::{Value, json};

/// Programs that run or want to, as the system averaged them over the last minute; 0 where it does not say.
pub(crate) fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_default()
}

/// Processor, cores and system of this machine.
pub(crate) fn describe() -> Value {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let line = cpu.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map_or("unknown", |(_, value)| value.trim()).to_owned()
    };
    let flags = field("flags");
    let has = |flag: &str| flags.split(' ').any(|found| found == flag);
    json!({
        "cpu": field("model name"),
        "cores": std::thread::available_parallelism().map_or(1, usize::from),
        "avx2": has("avx2"),
        "avx512f": has("avx512f"),
        "avx512_vnni": has("avx512_vnni"),
        "avx512_bf16": has("avx512_bf16"),
        "amx_bf16": has("amx_bf16"),
        "system": std::env::consts::OS,
    })
}
