//! NVIDIA's compiler for kernels, with which tests compile those of the CUDA backend. It needs no GPU.

use crate::harness::wheels;
use crate::output::console::Console;
use std::env;
use std::time::Duration;

/// The Python package that brings the version whose output is shipped.
const PACKAGE: &str = "nvidia-cuda-nvrtc-cu12==12.0.140";
/// Where it goes in the user's cache.
const PLACE: &str = "echo-lab/nvrtc-12.0.140";
/// The library in there, where tests look for it.
const LIBRARY: &str = "nvidia/cuda_nvrtc/lib/libnvrtc.so.12";
/// It is 22 MiB.
const FETCH_LIMIT: Duration = Duration::from_secs(300);

/// Fetches it into the user's cache, unless it is there or `$ECHO_NVRTC` names another. Without it,
/// tests are skipped, and that is said.
pub(super) async fn fetch(console: &Console) {
    let linux = cfg!(all(target_os = "linux", target_arch = "x86_64"));
    if !linux || env::var_os("ECHO_NVRTC").is_some() {
        return;
    }
    let Some(cache) = wheels::cache() else { return };
    let place = cache.join(PLACE);
    if place.join(LIBRARY).is_file() {
        return;
    }
    console.say(format!("fetching {PACKAGE} into {}", place.display()));
    if let Err(error) = wheels::install(&[PACKAGE], &place, LIBRARY, FETCH_LIMIT).await {
        console.say(format!("{error:#}; tests that compile kernels for GPUs are skipped"));
    }
}
