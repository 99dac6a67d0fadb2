//! Where the tests find reference data.

use crate::harness::cargo::workspace_root;
use std::env;
use std::path::PathBuf;

/// The environment variable that names the directory of reference data.
pub const SOURCES_VARIABLE: &str = "ECHO_VECTORS";
/// Within it: a directory of model directories.
pub const MODELS: &str = "models";
/// Within it: encodings and rendered chats, beside their tokenizer.
pub const TOKENIZER: &str = "qwen3/token_vectors_dev.jsonl";
/// Within it: losses and gradients.
pub const OBJECTIVES: &str = "objective_vectors_dev.jsonl";
/// Within it: grade-school problems with their solutions.
pub const GSM8K: &str = "gsm8k_dev.jsonl";

/// A directory of reference data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sources {
    dir: PathBuf,
}

impl Sources {
    /// `$ECHO_VECTORS`, or `../shared/data` beside the workspace. `Err` says in a few words
    /// why there is none.
    ///
    /// # Errors
    /// When neither is a directory.
    pub fn find() -> Result<Self, String> {
        Self::choose(
            env::var_os(SOURCES_VARIABLE).map(PathBuf::from),
            workspace_root().join("../shared/data"),
        )
    }

    fn choose(named: Option<PathBuf>, default: PathBuf) -> Result<Self, String> {
        match named {
            // Named but missing is not replaced by the default: the numbers would be of something else.
            Some(dir) if dir.is_dir() => Ok(Self { dir }),
            Some(dir) => Err(format!("no vectors at ${SOURCES_VARIABLE} = {}", dir.display())),
            None if default.is_dir() => Ok(Self { dir: default }),
            None => Err(format!("no vectors at ${SOURCES_VARIABLE} or ../shared/data")),
        }
    }

    /// A file or directory of the reference data. `Err` says in a few words that it is not there.
    ///
    /// # Errors
    /// When it does not exist.
    pub fn path(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.dir.join(name);
        if path.exists() { Ok(path) } else { Err(format!("no {name} in {}", self.dir.display())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_named_comes_first_and_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        let (here, missing) = (dir.path().to_owned(), dir.path().join("missing"));
        assert_eq!(Sources::choose(None, here.clone()), Ok(Sources { dir: here.clone() }));
        assert_eq!(Sources::choose(Some(here.clone()), missing.clone()), Ok(Sources { dir: here.clone() }));
        assert!(Sources::choose(Some(missing.clone()), here.clone()).unwrap_err().contains("missing"));
        assert!(Sources::choose(None, missing).is_err());
        assert!(Sources { dir: here }.path("nothing").unwrap_err().contains("no nothing in"));
    }
}
