//! What lies in the archive, as the packer writes it and the check finds it.

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::env;
use std::fs;
use std::path::{Path, PathBuf};

/// Files of cuBLAS and cuRAND that the learner can use, the first that is there. All have every
/// function that we call, with the same arguments.
pub(super) const CUBLAS: [&str; 2] = ["libcublas.so.13", "libcublas.so.12"];
pub(super) const CUBLAS_LT: [&str; 2] = ["libcublasLt.so.13", "libcublasLt.so.12"];
pub(super) const CURAND: [&str; 1] = ["libcurand.so.10"];
/// The program that an operator starts.
pub const CHECK: &str = "gpu-check";
/// What the archive says of itself.
pub(super) const ABOUT: &str = "kit.json";
/// Reference models, in the archive and in the directory of reference data.
pub(super) const MODELS: &str = "models";

/// Where a kit was made, and of what.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Kit {
    /// The commit of the programs, with `-dirty` after it where the tree had changes.
    pub commit: String,
    /// The compute capability that the learner's kernels are built for; 90 is an H100's.
    pub capability: u32,
    /// The CUDA release of the compiler.
    pub cuda: String,
    /// Newest glibc that a program asks for.
    pub glibc: String,
    /// What was left out, and why.
    pub left_out: Vec<String>,
}

impl Kit {
    /// The kit that the running program belongs to; one that says nothing of itself where there is
    /// none, as in a checkout.
    ///
    /// # Errors
    /// When it is there and cannot be read.
    pub fn beside_this_program() -> anyhow::Result<Self> {
        let path = home()?.join(ABOUT);
        let Ok(text) = fs::read_to_string(&path) else { return Ok(Self::default()) };
        serde_json::from_str(&text).with_context(|| path.display().to_string())
    }
}

/// The directory of the running program, where its companions lie.
pub(super) fn home() -> anyhow::Result<PathBuf> {
    let this = env::current_exe().context("cannot tell where this program lies")?;
    Ok(this.parent().unwrap_or(Path::new(".")).to_owned())
}

/// The reference models: those of the kit, or in a checkout those of the reference data.
pub(super) fn models() -> anyhow::Result<Option<PathBuf>> {
    let home = home()?;
    let dir = if home.join(ABOUT).is_file() { home.join(MODELS) } else { reference_data().join(MODELS) };
    Ok(dir.is_dir().then_some(dir))
}

/// The directory of reference data, as the tests find it.
pub(super) fn reference_data() -> PathBuf {
    let beside = || crate::harness::cargo::workspace_root().join("../shared/data");
    env::var_os("ECHO_VECTORS").map_or_else(beside, PathBuf::from)
}
