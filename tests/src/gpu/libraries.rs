//! Where NVIDIA's libraries lie that the learner needs: in the system, or inside an installed
//! PyTorch. They are too large to be packed.

use crate::gpu::kit::{CUBLAS, CUBLAS_LT, CURAND};
use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Those that training calls, each in the files that will do; the driver comes with the card.
const WANTED: [&[&str]; 3] = [&CUBLAS, &CUBLAS_LT, &CURAND];
/// Where toolkits put them.
const USUAL: [&str; 4] = [
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/targets/x86_64-linux/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
];
/// Where `LD_LIBRARY_PATH` is kept as it was: PyTorch brings libraries of its own.
pub(crate) const OF_OTHERS: &str = "GPU_CHECK_LD_LIBRARY_PATH";
/// Prints where Python would import torch from, without importing it.
const TORCH: &str = "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s else '')";

/// Where the wanted libraries are, and which were not found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Libraries {
    dirs: Vec<PathBuf>,
    /// Those that are nowhere.
    missing: Vec<&'static str>,
}

/// Looks in the loader's path, the usual places, and PyTorch's.
pub(crate) fn find() -> Libraries {
    let named = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let home = env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("lib64"));
    let known: Vec<PathBuf> = env::split_paths(&named).chain(home).chain(USUAL.map(PathBuf::from)).collect();
    let found = among(&known);
    if found.missing.is_empty() { found } else { among(&[known, of_torch()].concat()) }
}

/// The first directory that has each of them.
fn among(places: &[PathBuf]) -> Libraries {
    let mut found = Libraries::default();
    for files in WANTED {
        let holds = |place: &&PathBuf| files.iter().any(|file| place.join(file).exists());
        match places.iter().find(holds) {
            Some(place) if !found.dirs.contains(place) => found.dirs.push(place.clone()),
            Some(_) => {}
            None => found.missing.push(files[0]),
        }
    }
    found
}

/// Libraries that were installed with PyTorch: `nvidia/*/lib` beside it, and its own.
fn of_torch() -> Vec<PathBuf> {
    let mut python = Command::new("python3");
    python.args(["-c", TORCH]).stdin(Stdio::null()).stderr(Stdio::null());
    let Ok(output) = python.output() else { return Vec::new() };
    let origin = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
    let Some(torch) = origin.parent().filter(|_| origin.is_file()) else { return Vec::new() };
    let nvidia = torch.parent().map(|site| site.join("nvidia")).and_then(|nvidia| fs::read_dir(nvidia).ok());
    let mut dirs: Vec<PathBuf> = nvidia
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("lib"))
        .filter(|dir| dir.is_dir())
        .collect();
    dirs.sort();
    dirs.push(torch.join("lib"));
    dirs
}

impl Libraries {
    /// Has a program find them.
    pub(crate) fn pass_to(&self, command: &mut Command) {
        if self.dirs.is_empty() {
            return;
        }
        let before = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let all = self
            .dirs
            .iter()
            .cloned()
            .chain(env::split_paths(&before).filter(|dir| !dir.as_os_str().is_empty()));
        let joined: OsString = env::join_paths(all).unwrap_or_else(|_| before.clone());
        command.env("LD_LIBRARY_PATH", joined).env(OF_OTHERS, before);
    }
}

impl fmt::Display for Libraries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dirs: Vec<String> = self.dirs.iter().map(|dir| dir.display().to_string()).collect();
        if self.missing.is_empty() {
            return write!(f, "CUDA's libraries: {}", dirs.join(", "));
        }
        write!(
            f,
            "CUDA's libraries: {} not found; training on a GPU needs them from the CUDA toolkit or an installed PyTorch, in a directory that \
             LD_LIBRARY_PATH names",
            self.missing.join(", ")
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_library_is_taken_from_the_first_place_that_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str, files: &[&str]| {
            let dir = dir.path().join(name);
            fs::create_dir(&dir).unwrap();
            files.iter().for_each(|file| fs::write(dir.join(file), "").unwrap());
            dir
        };
        let some = place("some", &["libcublas.so.12", "libcublasLt.so.12", "libcurand.so.9"]);
        let rest = place("rest", &["libcurand.so.10", "libcublas.so.13"]);
        let found = among(&[some.clone(), rest.clone()]);
        assert_eq!(found, Libraries { dirs: vec![some.clone(), rest], missing: Vec::new() });
        let found = among(&[dir.path().join("nowhere"), some]);
        assert_eq!(found.missing, ["libcurand.so.10"]);
        assert!(found.to_string().contains("libcurand.so.10 not found"), "{found}");
    }
}
