//! `[checkpoints]`

use crate::common::option_error::OptionError;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// Checkpoints that are kept unless the run file says otherwise.
pub const DEFAULT_KEEP: usize = 3;
/// Most checkpoints that may be kept.
pub const MAX_KEEP: usize = 1000;

/// `[checkpoints]`: where checkpoints are kept, and how many.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CheckpointsSection {
    /// A directory (relative paths are relative to the run file), or `s3://BUCKET/PREFIX`; left
    /// out, `checkpoints` in the run directory.
    pub store: Option<String>,
    /// How many are kept.
    pub keep: usize,
}

impl Default for CheckpointsSection {
    fn default() -> Self {
        Self { store: None, keep: DEFAULT_KEEP }
    }
}

impl CheckpointsSection {
    pub(crate) fn validate(&self) -> Result<(), OptionError> {
        if (1..=MAX_KEEP).contains(&self.keep) {
            return Ok(());
        }
        let (field, found) = ("checkpoints.keep", self.keep as u64);
        Err(OptionError::Number { field, found, rule: "it has to be 1 to 1000" })
    }

    /// Replaces a directory by what `change` makes of it; URLs stay.
    pub(crate) fn resolve<E: From<OptionError>>(
        &mut self,
        change: impl FnOnce(&Path) -> Result<PathBuf, E>,
    ) -> Result<(), E> {
        let Some(store) = self.store.as_mut().filter(|store| !store.contains("://")) else { return Ok(()) };
        let refused = |found: String, rule| OptionError::Setting { field: "checkpoints.store", found, rule };
        if is_meant_as_url(store) {
            let rule =
                "use s3://BUCKET/PREFIX for a bucket, and ./NAME for a directory whose name looks like that";
            return Err(refused(format!("{store:?}"), rule).into());
        }
        let path = change(Path::new(store))?.into_os_string();
        let rule = "this path is not valid UTF-8, so run.toml could not name it; choose another one";
        *store = path.into_string().map_err(|path| refused(format!("{path:?}"), rule))?;
        Ok(())
    }
}

/// Whether a store that is no URL was meant as one, as in `s3:/bucket`.
fn is_meant_as_url(store: &str) -> bool {
    // A scheme of one letter would be a drive of Windows.
    let is_scheme = |name: &str| name.len() > 1 && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
    store.split_once(':').is_some_and(|(name, _)| is_scheme(name)) || store.starts_with("s3//")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(store: &str) -> Result<String, OptionError> {
        let mut section = CheckpointsSection { store: Some(store.to_owned()), keep: 1 };
        section.resolve(|path| Ok::<_, OptionError>(Path::new("/base").join(path)))?;
        Ok(section.store.unwrap())
    }

    #[test]
    fn a_misspelt_url_is_no_directory() {
        for store in ["s3:/bucket/run", "s3:bucket", "s3//bucket", "S3:/bucket", "gs:/bucket", "file:/disk"] {
            let refused = resolved(store).unwrap_err().to_string();
            assert!(refused.contains(store) && refused.contains("s3://BUCKET/PREFIX"), "{refused}");
        }
        assert_eq!(resolved("s3://bucket/run").unwrap(), "s3://bucket/run");
        assert_eq!(resolved("s3/run").unwrap(), "/base/s3/run");
        assert_eq!(resolved("./s3:/run").unwrap(), "/base/./s3:/run");
        assert_eq!(resolved("/disk/a:b").unwrap(), "/disk/a:b");
        assert_eq!(resolved("c:/runs").unwrap(), "/base/c:/runs", "a drive, elsewhere");
    }

    #[cfg(unix)]
    #[test]
    fn a_path_that_is_no_text_is_refused() {
        use std::os::unix::ffi::OsStrExt as _;
        let mut section = CheckpointsSection { store: Some("checkpoints".into()), keep: 1 };
        let base = Path::new(std::ffi::OsStr::from_bytes(b"/r\xff"));
        let resolved = section.resolve(|path| Ok::<_, OptionError>(base.join(path)));
        assert!(matches!(resolved, Err(OptionError::Setting { field: "checkpoints.store", .. })));
    }
}
