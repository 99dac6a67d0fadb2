//! A checkpoint that rots on the disk, so that a learner has to fall back past it.

use anyhow::Context as _;
use echo_learner::storage::run_dir::RunDir;
use std::collections::BTreeSet;
use std::fs;

/// The weights of a checkpoint.
const WEIGHTS: &str = "model.safetensors";
/// What is written last: with it there is a checkpoint.
const STATE: &str = "state.json";

/// Damages the newest checkpoint of a run of `updates` updates that nobody works on, and says which
/// that is. Leaves everything as it is and says `None` where there is no other to fall back on, and
/// where the run is over: its last checkpoint is what is compared.
pub(super) fn newest(dir: &RunDir, updates: u64) -> anyhow::Result<Option<u64>> {
    let versions = versions(dir)?;
    let Some(newest) = versions.last().copied().filter(|newest| versions.len() > 1 && *newest < updates)
    else {
        return Ok(None);
    };
    let path = dir.checkpoints().join(format!("{newest:012}")).join(WEIGHTS);
    let mut bytes = fs::read(&path).with_context(|| path.display().to_string())?;
    // The last byte belongs to a number: a learner that did not look at hashes would go on from
    // a slightly different policy.
    let last = bytes.last_mut().with_context(|| format!("{} is empty", path.display()))?;
    *last ^= 1;
    fs::write(&path, bytes).with_context(|| path.display().to_string())?;
    Ok(Some(newest))
}

/// The checkpoints of a run that were finished.
fn versions(dir: &RunDir) -> anyhow::Result<BTreeSet<u64>> {
    let mut versions = BTreeSet::new();
    let checkpoints = dir.checkpoints();
    if !checkpoints.is_dir() {
        // It was killed before its first one.
        return Ok(versions);
    }
    for entry in fs::read_dir(&checkpoints).with_context(|| checkpoints.display().to_string())? {
        let entry = entry?;
        let version = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
        versions.extend(version.filter(|_| entry.path().join(STATE).is_file()));
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_damaged_unless_nothing_else_is_whole_or_the_run_is_over() {
        let scratch = tempfile::tempdir().unwrap();
        let dir = RunDir::new(scratch.path());
        let file = |version: u64, name: &str| dir.checkpoints().join(format!("{version:012}")).join(name);
        let write = |version: u64, name: &str| {
            fs::create_dir_all(file(version, name).parent().unwrap()).unwrap();
            fs::write(file(version, name), [7u8, 7]).unwrap();
        };
        assert_eq!(newest(&dir, 9).unwrap(), None);
        write(2, WEIGHTS);
        write(2, STATE);
        // Never finished.
        write(4, WEIGHTS);
        assert_eq!(newest(&dir, 9).unwrap(), None);
        write(4, STATE);
        write(6, WEIGHTS);
        assert_eq!(newest(&dir, 4).unwrap(), None);
        assert_eq!(newest(&dir, 9).unwrap(), Some(4));
        let found = [2, 4, 6].map(|version| fs::read(file(version, WEIGHTS)).unwrap());
        assert_eq!(found, [[7u8, 7], [7, 6], [7, 7]]);
    }
}
