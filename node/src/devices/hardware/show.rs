//! The report as text.

use std::fmt::{self, Write as _};

use echo_policy::generation::device::About;

use super::{DeviceRates, HardwareReport, Listed};

impl HardwareReport {
    /// The devices, two lines each, and why others are absent.
    pub fn devices(&self) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        for Listed { device, found, used, why } in &self.devices {
            let _ = writeln!(text, "{device}: {}, {}", found.name, what(&found.about, self.threads));
            let _ = writeln!(text, "    {}: {why}", if *used { "used" } else { "not used" });
        }
        for why in &self.absent {
            let _ = writeln!(text, "{why}");
        }
        text
    }
}

/// What there is to be said of a device.
fn what(about: &About, threads: usize) -> String {
    match about {
        About::Cuda { memory_bytes, capability: (major, minor), driver, .. } => format!(
            "{:.1} GiB, compute capability {major}.{minor}, driver of CUDA {}.{}",
            *memory_bytes as f64 / f64::from(1 << 30),
            driver.0,
            driver.1
        ),
        About::Wgpu { adapter, api, driver, .. } => format!("{adapter}, {api}, driver {driver}"),
        About::Cpu { instructions, cores } => {
            format!("{instructions}, {cores} cores, of which {threads} generate (threads)")
        }
    }
}

impl fmt::Display for DeviceRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes.div_ceil(1 << 20);
        writeln!(f, "{}, a model of {} parameters in {}:", self.device, self.size, self.precision)?;
        let mut row = |what: &str, figure: String| writeln!(f, "  {what:<18} {figure}");
        row("one response", format!("{:.1} tokens/s", self.single_tok_s))?;
        row(&format!("{} responses", self.batch), format!("{:.1} tokens/s", self.batch_tok_s))?;
        row("prompts", format!("{:.1} tokens/s", self.prefill_tok_s))?;
        row("weights", format!("{} MiB", mib(self.weights_bytes)))?;
        match self.cache_tokens {
            Some(tokens) => {
                let bytes = tokens * self.cache_bytes_per_token;
                row("room for caches", format!("{} MiB, {tokens} tokens", mib(bytes)))?;
            }
            None => row(
                "room for caches",
                format!("the system's memory, {} bytes a token", self.cache_bytes_per_token),
            )?,
        }
        write!(
            f,
            "μ: {:.1} tokens/s. Before its first groups, a node tells the learner the rollouts/s that this makes of its run's longest responses",
            self.batch_tok_s
        )
    }
}
