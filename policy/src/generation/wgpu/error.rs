//! Why an adapter cannot be opened.

/// A GPU that cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum GpuError {
    /// There is none, or none that is not software.
    #[error(
        "no adapter found: no GPU with a driver for Vulkan, Metal or DX12 is on this machine; install its driver, or generate on the CPU"
    )]
    NoAdapter,
    /// None is the one asked for.
    #[error("no adapter is called {wanted:?}; there are: {}", if found.is_empty() { "none" } else { found })]
    NoSuchAdapter {
        /// Its number, or a part of its name.
        wanted: String,
        /// The names of those that there are.
        found: String,
    },
    /// It is too small for the kernels.
    #[error("{adapter} has a limit of {found} {what}, {needed} are needed; choose another adapter")]
    Lacks {
        /// Name, kind, API and driver of the adapter.
        adapter: String,
        /// Of what it has too little.
        what: &'static str,
        /// How much it has.
        found: u64,
        /// How much it has to have.
        needed: u64,
    },
    /// Its driver does not open it.
    #[error("{adapter} cannot be opened: {why}; update its driver, or choose another adapter")]
    Refused {
        /// Name, kind, API and driver of the adapter.
        adapter: String,
        /// What the driver says.
        why: String,
    },
}
