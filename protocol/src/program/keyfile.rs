//! Identity files: created once, readable by their owner only, never overwritten.

use crate::wire::identity::{IdentityError, NodeKey};
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

/// Why there is no identity.
#[derive(Debug, thiserror::Error)]
pub enum KeyfileError {
    /// The file holds something else.
    #[error(
        "{path} is not an identity file (64 hexadecimal digits): restore it from a backup, or move it away to start as a new peer"
    )]
    Malformed {
        /// The file that holds no secret of 64 hexadecimal digits.
        path: PathBuf,
    },
    /// The file could not be read or created.
    #[error("identity file {path}: {source}")]
    Io {
        /// The file that was read or created.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file system lacks what keeps an identity whole and secret.
    #[error(
        "{path}: this file system cannot hold an identity, as it has no {lacks}; choose a directory on another disk"
    )]
    FileSystem {
        /// The file that would hold the identity.
        path: PathBuf,
        /// The missing feature, in the words of the message.
        lacks: &'static str,
    },
    /// Others can read it.
    #[error("{path} can be read by other users (mode {mode:o}); run: chmod 600 {path}")]
    Exposed {
        /// The file that other users can read.
        path: PathBuf,
        /// Its permission bits, shown in octal.
        mode: u32,
    },
    /// No new identity could be made.
    #[error(transparent)]
    Identity(#[from] IdentityError),
}

/// Reads the identity at `path`, or creates one there if nothing exists.
pub fn load_or_create(path: &Path) -> Result<NodeKey, KeyfileError> {
    load(path)?.map_or_else(|| create(path), Ok)
}

/// Reads the identity at `path`; `None` if nothing exists there.
pub fn load(path: &Path) -> Result<Option<NodeKey>, KeyfileError> {
    match fs::read_to_string(path) {
        Ok(text) => parse(&text).map(Some).ok_or_else(|| KeyfileError::Malformed { path: path.to_owned() }),
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) if e.kind() == ErrorKind::InvalidData => {
            Err(KeyfileError::Malformed { path: path.to_owned() })
        }
        Err(source) => Err(KeyfileError::Io { path: path.to_owned(), source }),
    }
}

/// Refuses an identity that others than its owner can read, where the system knows who can.
///
/// # Errors
/// [`KeyfileError::Exposed`], or [`KeyfileError::FileSystem`] where that cannot be helped
pub fn check_private(path: &Path) -> Result<(), KeyfileError> {
    match shared_mode(path) {
        Some(_) if ignores_modes(path) => {
            Err(KeyfileError::FileSystem { path: path.to_owned(), lacks: "permissions" })
        }
        Some(mode) => Err(KeyfileError::Exposed { path: path.to_owned(), mode }),
        None => Ok(()),
    }
}

/// The file's permission bits if they let others than its owner read it.
fn shared_mode(path: &Path) -> Option<u32> {
    #[cfg(unix)]
    {
        let metadata = fs::metadata(path).ok()?;
        let mode = std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777;
        (mode & 0o077 != 0).then_some(mode)
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}

/// Whether a file that is made beside `path` for its owner alone is open to others all the same.
fn ignores_modes(path: &Path) -> bool {
    let probe = draft(path);
    let made = open_private(&probe).is_ok();
    let ignores = made && shared_mode(&probe).is_some();
    // It is empty, and the next draft takes its place.
    let _ = fs::remove_file(&probe);
    ignores
}

fn parse(text: &str) -> Option<NodeKey> {
    let mut secret = [0; 32];
    hex::decode_to_slice(text.trim(), &mut secret).ok()?;
    Some(NodeKey::from_secret(secret))
}

fn create(path: &Path) -> Result<NodeKey, KeyfileError> {
    let key = NodeKey::generate()?;
    write_new(path, &key, |from, to| fs::hard_link(from, to))?;
    Ok(key)
}

/// Writes beside the target and links it into place by `link`, so that no crash leaves half an identity and
/// no race overwrites one.
fn write_new(
    path: &Path,
    key: &NodeKey,
    link: impl Fn(&Path, &Path) -> io::Result<()>,
) -> Result<(), KeyfileError> {
    let failed = |source| KeyfileError::Io { path: path.to_owned(), source };
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(failed)?;
    }
    let draft = draft(path);
    let written = open_private(&draft).and_then(|mut file| {
        writeln!(file, "{}", hex::encode(key.secret()))?;
        file.sync_all()
    });
    // A hard link fails when the name is taken; a rename would replace it.
    let linked = written.map_err(failed).and_then(|()| match link(&draft, path) {
        // The draft could be written, so it is links that this file system does not have.
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => {
            Err(KeyfileError::FileSystem { path: path.to_owned(), lacks: "hard links" })
        }
        linked => linked.map_err(failed),
    });
    let removed = fs::remove_file(&draft).map_err(failed);
    linked.and(removed)
}

fn draft(path: &Path) -> PathBuf {
    path.with_extension(format!("draft-{}", std::process::id()))
}

/// A new and empty file that its owner alone can read.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn created_once_then_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/identity");
        assert!(load(&path).unwrap().is_none());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "to look makes nothing");
        let key = load_or_create(&path).unwrap();
        assert_eq!(load_or_create(&path).unwrap().public(), key.public());
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
            check_private(&path).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
            let refused = check_private(&path).unwrap_err().to_string();
            assert!(refused.contains("chmod 600"), "{refused}");
        }
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1, "no draft is left behind");
    }

    #[test]
    fn a_damaged_file_is_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity");
        fs::write(&path, "half an ident").unwrap();
        assert!(matches!(load_or_create(&path), Err(KeyfileError::Malformed { .. })));
        assert_eq!(fs::read_to_string(&path).unwrap(), "half an ident");
        assert!(write_new(&path, &NodeKey::from_secret([1; 32]), |a, b| fs::hard_link(a, b)).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "half an ident");
    }

    #[test]
    fn a_file_system_without_links_is_named_as_the_cause() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("identity");
        for kind in [ErrorKind::PermissionDenied, ErrorKind::Unsupported] {
            let refused = write_new(&path, &NodeKey::from_secret([1; 32]), |_, _| Err(kind.into()));
            let text = refused.unwrap_err().to_string();
            assert!(text.contains("no hard links; choose a directory on another disk"), "{text}");
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "no draft is left behind");
    }

    #[test]
    fn a_file_system_that_keeps_modes_is_not_blamed() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!ignores_modes(&dir.path().join("identity")));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "no probe is left behind");
    }
}
