//! What `--version` says.

/// The version of a program, the commit of a release build, and what it was built to compute on,
/// such as `cpu, cuda`. The commit is `ECHO_COMMIT` as the build script `commit.rs` sets it.
#[must_use]
pub fn version(number: &str, commit: Option<&str>, backends: Option<&str>) -> String {
    let build = commit.map_or_else(|| "development build".to_owned(), |commit| format!("commit {commit}"));
    match backends {
        Some(backends) => format!("{number} ({build}; {backends})"),
        None => format!("{number} ({build})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_names_its_commit_and_its_backends() {
        assert_eq!(
            version("0.1.0", Some("1a2b3c"), Some("trains on: cpu")),
            "0.1.0 (commit 1a2b3c; trains on: cpu)"
        );
        assert_eq!(version("0.1.0", None, None), "0.1.0 (development build)");
    }
}
