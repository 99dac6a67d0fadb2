//! The CUDA compiler, its headers and the names of its libraries' functions: an installed
//! toolkit's, or those of NVIDIA's packages on PyPI.

use crate::harness::wheels;
use crate::output::console::Console;
use anyhow::Context as _;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What is fetched where no toolkit is installed: 1.2 GB.
const PACKAGES: [&str; 8] = [
    "nvidia-cuda-nvcc==13.0.*",
    "nvidia-cuda-crt==13.0.*",
    "nvidia-nvvm==13.0.*",
    "nvidia-cuda-runtime==13.0.*",
    "nvidia-cuda-cccl==13.0.*",
    "nvidia-cuda-nvrtc==13.0.*",
    "nvidia-cublas==13.1.*",
    "nvidia-curand==10.4.*",
];
/// Where it goes in the user's cache, and where the toolkit lies in there.
const PLACE: &str = "echo-lab/cuda-13.0";
const INSIDE: &str = "nvidia/cu13";

/// The compiler, in a toolkit.
const NVCC: &str = "bin/nvcc";
/// On 10 Mbit/s it takes twenty minutes.
const FETCH_LIMIT: Duration = Duration::from_secs(3600);

/// A CUDA toolkit with compiler and headers.
#[derive(Clone, Debug)]
pub(super) struct Toolkit {
    /// Holds `bin/nvcc` and `include`.
    pub(super) home: PathBuf,
    /// Its release, such as 13.0.
    pub(super) release: String,
}

impl Toolkit {
    /// The toolkit that `$CUDA_HOME` or the path names, or that lies where its installer puts it;
    /// else one that is fetched. Fails when none is there and none can be fetched.
    pub(super) async fn find_or_fetch(console: &Console) -> anyhow::Result<Self> {
        let on_path = env::split_paths(&env::var_os("PATH").unwrap_or_default())
            .find(|dir| dir.join("nvcc").is_file())
            .and_then(|dir| dir.parent().map(Path::to_owned));
        let named = env::var_os("CUDA_HOME").map(PathBuf::from);
        let cache = wheels::cache()
            .context("neither XDG_CACHE_HOME nor HOME says where to keep CUDA's compiler")?
            .join(PLACE);
        let fetched = cache.join(INSIDE);
        let places = [named, on_path, Some("/usr/local/cuda".into()), Some(fetched.clone())];
        if let Some(home) = places.into_iter().flatten().find(|home| home.join(NVCC).is_file()) {
            return Self::at(home);
        }
        console.say(format!("fetching CUDA's compiler and libraries (1.2 GB) into {}", cache.display()));
        let advice = "CUDA's compiler is not there and cannot be fetched: install the CUDA toolkit and set CUDA_HOME, or install python3-pip";
        let file = Path::new(INSIDE).join(NVCC);
        wheels::install(&PACKAGES, &cache, &file.to_string_lossy(), FETCH_LIMIT).await.context(advice)?;
        Self::at(fetched)
    }

    fn at(home: PathBuf) -> anyhow::Result<Self> {
        let nvcc = home.join(NVCC);
        let output =
            Command::new(&nvcc).arg("--version").output().with_context(|| nvcc.display().to_string())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let release =
            release(&text).with_context(|| format!("{} does not say its release: {text}", nvcc.display()))?;
        Ok(Self { home, release })
    }

    /// Has a build find it.
    pub(super) fn pass_to(&self, command: &mut Command) {
        let path = env::var_os("PATH").unwrap_or_default();
        let path = env::join_paths([self.home.join("bin")].into_iter().chain(env::split_paths(&path)));
        command.env("PATH", path.unwrap_or_default());
        for name in ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"] {
            command.env(name, &self.home);
        }
    }

    /// The library whose file name begins so.
    pub(super) fn library(&self, name: &str) -> Option<PathBuf> {
        let dirs = ["lib", "lib64", "targets/x86_64-linux/lib"].map(|dir| self.home.join(dir));
        let entries = dirs.iter().filter_map(|dir| std::fs::read_dir(dir).ok()).flatten().flatten();
        entries
            .map(|entry| entry.path())
            .find(|path| path.file_name().is_some_and(|file| file.to_string_lossy().starts_with(name)))
    }
}

fn release(text: &str) -> Option<String> {
    Some(text.split_once("release ")?.1.split(',').next()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_read_from_what_the_compiler_says() {
        let text = "Copyright (c) 2005-2025 NVIDIA Corporation\nCuda compilation tools, release 13.0, V13.0.88\nBuild x";
        assert_eq!(release(text).as_deref(), Some("13.0"));
        assert_eq!(release("nothing"), None);
    }
}
