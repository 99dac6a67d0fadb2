//! Why an NVIDIA GPU cannot be opened.

/// An NVIDIA GPU that cannot be opened.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CudaError {
    /// There is no driver, or one without a GPU.
    #[error("no NVIDIA driver found; install it (525 or newer), or generate on the CPU")]
    NoDriver,
    /// The driver does not read the kernels.
    #[error(
        "the NVIDIA driver is of CUDA {major}.{minor}, and 12.0 (driver 525) is needed; update the driver"
    )]
    OldDriver {
        /// The version of CUDA that it brings.
        major: i32,
        /// The part after the point.
        minor: i32,
    },
    /// There are fewer GPUs.
    #[error("there is no NVIDIA GPU {index}: {count} were found, and counting begins with 0; choose another")]
    NoSuchDevice {
        /// The one asked for.
        index: usize,
        /// How many there are.
        count: usize,
    },
    /// The GPU is too old.
    #[error("{device} has compute capability {major}.{minor}, and 8.0 is needed; choose another device")]
    Capability {
        /// Name that the driver gives it.
        device: String,
        /// Major number of its compute capability.
        major: i32,
        /// The part after the point.
        minor: i32,
    },
    /// The driver does not open it.
    #[error("{device} cannot be used: {why}; update the driver, or choose another device")]
    Refused {
        /// Name that the driver gives it.
        device: String,
        /// What the driver says.
        why: String,
    },
}
