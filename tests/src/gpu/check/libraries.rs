//! Where NVIDIA's libraries lie that the learner needs: in the system, or inside an installed PyTorch. They are too large to be packed.

use std::env;
use std::ffi::OsString;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Those that training calls; the driver comes with the card. Whatever release of them is there.
const WANTED: [&str; 3] = ["libcublas.so.", "libcublasLt.so.", "libcurand.so."];
/// Where toolkits put them.
const USUAL: [&str; 4] = [
    "/usr/local/cuda/lib64",
    "/usr/local/cuda/targets/x86_64-linux/lib",
    "/usr/lib/x86_64-linux-gnu",
    "/usr/lib64",
];
/// Prints where Python would import torch from, without importing it.
const TORCH: &str = "import importlib.util as u; s = u.find_spec('torch'); print(s.origin if s else '')";

/// Directories of libraries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Libraries {
    dirs: Vec<PathBuf>,
    /// Those that are nowhere.
    missing: Vec<&'static str>,
}

/// Looks in the loader's path, the usual places, and PyTorch's.
pub(super) fn find() -> Libraries {
    let named = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let home = env::var_os("CUDA_HOME").map(|home| PathBuf::from(home).join("lib64"));
    let known: Vec<PathBuf> = env::split_paths(&named).chain(home).chain(USUAL.map(PathBuf::from)).collect();
    let found = among(&known);
    if found.missing.is_empty() { found } else { among(&[known, of_torch()].concat()) }
}

/// The first directory that has each of them.
fn among(places: &[PathBuf]) -> Libraries {
    let mut found = Libraries::default();
    for library in WANTED {
        match places.iter().find(|place| holds(place, library)) {
            Some(place) if !found.dirs.contains(place) => found.dirs.push(place.clone()),
            Some(_) => {}
            None => found.missing.push(library),
        }
    }
    found
}

fn holds(dir: &Path, library: &str) -> bool {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.file_name().to_string_lossy().starts_with(library))
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
    pub(super) fn pass_to(&self, command: &mut Command) {
        if self.dirs.is_empty() {
            return;
        }
        let before = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
        let all = self
            .dirs
            .iter()
            .cloned()
            .chain(env::split_paths(&before).filter(|dir| !dir.as_os_str().is_empty()));
        let joined: OsString = env::join_paths(all).unwrap_or(before);
        command.env("LD_LIBRARY_PATH", joined);
    }
}

impl fmt::Display for Libraries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dirs: Vec<String> = self.dirs.iter().map(|dir| dir.display().to_string()).collect();
        if self.missing.is_empty() {
            return write!(f, "CUDA's libraries: {}", dirs.join(", "));
        }
        let names: Vec<&str> = self.missing.iter().map(|name| name.trim_end_matches('.')).collect();
        write!(
            f,
            "CUDA's libraries: {} not found; training on a GPU needs them from the CUDA toolkit or an installed PyTorch, in a directory that \
             LD_LIBRARY_PATH names",
            names.join(", ")
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
        let some = place("some", &["libcublas.so.12", "libcublasLt.so.12"]);
        let rest = place("rest", &["libcurand.so.10", "libcublas.so.13"]);
        let found = among(&[some.clone(), rest.clone()]);
        assert_eq!(found, Libraries { dirs: vec![some.clone(), rest], missing: Vec::new() });
        let found = among(&[dir.path().join("nowhere"), some]);
        assert_eq!(found.missing, ["libcurand.so."]);
        assert!(found.to_string().contains("libcurand.so not found"), "{found}");
    }
}
