//! Where a model or a data set lies that a setting names: a path of this machine, or a name on the Hub,
//! whose files are got first.

use crate::config::RunConfig;
use crate::storage::hub::{self, HubEnvironment, HubError, HubName, Pin, is_hub_name};
use anyhow::{Context as _, bail};
use echo_sandbox::task::data_set::as_lines;
use std::path::{Path, PathBuf};

/// Reads what the environment says of the Hub, once a name of the Hub asks for it.
pub(super) type Read<'a> = &'a dyn Fn() -> Result<HubEnvironment, HubError>;

/// Gets what a run file names on the Hub, and has the run file name the files on this machine instead.
/// `base` is the directory that its relative paths start from.
///
/// # Errors
/// When something cannot be got, or `[model] path` names nothing that is there.
pub fn fetch(config: &mut RunConfig, base: &Path) -> anyhow::Result<()> {
    fetch_from(&HubEnvironment::read, config, base)
}

/// The same, and what does not come is no end of it.
///
/// Returns what is missing as the run file names it, and why it did not come.
pub(super) fn fetch_all(hub: Read<'_>, config: &mut RunConfig, base: &Path) -> Vec<(PathBuf, anyhow::Error)> {
    let mut missing = Vec::new();
    if let Some(path) = config.model.path.clone()
        && let Err(error) = fetch_model_from(hub, config, base)
    {
        missing.push((path, error));
    }
    missing.extend(fetch_files_from(hub, config));
    missing
}

/// The same for the files of its tasks alone.
///
/// # Errors
/// When something cannot be got.
pub fn fetch_data(config: &mut RunConfig) -> anyhow::Result<()> {
    fetch_data_from(&HubEnvironment::read, config)
}

/// The directory of a model that a command names.
///
/// # Errors
/// When it cannot be got, or nothing is there.
pub fn local_model(path: &Path) -> anyhow::Result<PathBuf> {
    model(&HubEnvironment::read, path, Path::new("")).map(|(local, _)| local)
}

/// The file of a data set that a command names.
///
/// # Errors
/// When it cannot be got.
pub fn local_data(path: &Path) -> anyhow::Result<PathBuf> {
    match is_hub_name(path) {
        true => data(&HubEnvironment::read, path).map(|pin| pin.local),
        false => Ok(path.to_owned()),
    }
}

pub(super) fn fetch_from(hub: Read<'_>, config: &mut RunConfig, base: &Path) -> anyhow::Result<()> {
    fetch_model_from(hub, config, base)?;
    fetch_data_from(hub, config)
}

fn fetch_model_from(hub: Read<'_>, config: &mut RunConfig, base: &Path) -> anyhow::Result<()> {
    if let Some(path) = config.model.path.clone() {
        let (local, pin) = model(hub, &path, base).context("[model] path")?;
        config.model.path = Some(local);
        config.pins.extend(pin);
    }
    Ok(())
}

fn fetch_data_from(hub: Read<'_>, config: &mut RunConfig) -> anyhow::Result<()> {
    fetch_files_from(hub, config).into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
}

/// Gets all files that can be had, and returns the names of others, and why they cannot.
fn fetch_files_from(hub: Read<'_>, config: &mut RunConfig) -> Vec<(PathBuf, anyhow::Error)> {
    let mut pins = Vec::new();
    let mut missing: Vec<(PathBuf, anyhow::Error)> = Vec::new();
    for path in config.task_files().filter(|path| is_hub_name(path)) {
        // Tasks and evaluations may name the same file.
        if missing.iter().any(|(named, _)| *named == *path) {
            continue;
        }
        match data(hub, path).with_context(|| format!("[data] {}", path.display())) {
            Ok(pin) => {
                path.clone_from(&pin.local);
                pins.push(pin);
            }
            Err(error) => missing.push((path.clone(), error)),
        }
    }
    config.pins.extend(pins);
    missing
}

fn model(hub: Read<'_>, path: &Path, base: &Path) -> anyhow::Result<(PathBuf, Option<Pin>)> {
    if is_hub_name(path) {
        let pin = hub::model(&hub()?, &name(path)?)?;
        tracing::info!("{} is in {}", pin.name, pin.local.display());
        return Ok((pin.local.clone(), Some(pin)));
    }
    match missing(path, base) {
        Some(words) => bail!(words),
        None => Ok((path.to_owned(), None)),
    }
}

/// What is said of a model's directory that is not there; relative paths start from `base`.
pub(super) fn missing(path: &Path, base: &Path) -> Option<String> {
    if is_hub_name(path) || path.exists() {
        return None;
    }
    let place = path.display();
    let meant = path.strip_prefix(base).ok().and_then(Path::to_str);
    let meant = meant.filter(|meant| meant.contains('/') && HubName::of_repository(meant).is_some());
    Some(match meant {
        Some(meant) => format!(
            "there is no directory {place}: for the model {meant} on the Hub, write hf:{meant}; else \
             `hf download OWNER/NAME --local-dir {place}` gets a model there"
        ),
        None => format!(
            "there is no directory {place}; `hf download OWNER/NAME --local-dir {place}` gets a model there, \
             or write hf:OWNER/NAME"
        ),
    })
}

fn data(hub: Read<'_>, path: &Path) -> anyhow::Result<Pin> {
    let lines = |bytes| as_lines(bytes).map_err(|error| error.to_string());
    let pin = hub::data(&hub()?, &name(path)?, lines)?;
    tracing::info!("{} is in {}", pin.name, pin.local.display());
    Ok(pin)
}

fn name(path: &Path) -> anyhow::Result<HubName> {
    Ok(path.to_string_lossy().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::testing;

    #[test]
    fn a_missing_directory_that_looks_like_a_name_is_proposed_as_one() {
        let home = tempfile::tempdir().unwrap();
        let mut config = testing::run_config(home.path().join("run"));
        config.model.tiny = None;
        config.model.path = Some(home.path().join("Qwen/Qwen3-0.6B"));
        let refused = format!("{:#}", fetch(&mut config, home.path()).unwrap_err());
        assert!(refused.contains("write hf:Qwen/Qwen3-0.6B; else `hf download OWNER/NAME"), "{refused}");
        // One that is there is taken.
        std::fs::create_dir_all(home.path().join("Qwen/Qwen3-0.6B")).unwrap();
        fetch(&mut config, home.path()).unwrap();
        assert!(config.pins.is_empty());
        // What can be no name is a directory that a model has to be put into.
        for other in ["models/a/b", "policy", "../no-such-policy"] {
            let place = home.path().join(other);
            config.model.path = Some(place.clone());
            let refused = format!("{:#}", fetch(&mut config, home.path()).unwrap_err());
            let mend = format!("hf download OWNER/NAME --local-dir {}`", place.display());
            assert!(refused.starts_with("[model] path: there is no directory"), "{refused}");
            assert!(refused.contains(&mend) && refused.contains("write hf:OWNER/NAME"), "{refused}");
        }
        for (named, mend) in [("no/such", "write hf:no/such"), ("no-such", "--local-dir no-such`")] {
            let refused = local_model(Path::new(named)).unwrap_err().to_string();
            assert!(refused.contains(mend), "{refused}");
        }
        assert_eq!(local_data(Path::new("rows.jsonl")).unwrap(), Path::new("rows.jsonl"));
    }

    #[test]
    fn a_wrong_name_is_refused_with_its_setting() {
        let home = tempfile::tempdir().unwrap();
        let mut config = testing::run_config(home.path().join("run"));
        config.data.insert("math".into(), "hf:a/b/c".into());
        let refused = format!("{:#}", fetch(&mut config, home.path()).unwrap_err());
        assert!(refused.contains("[data] hf:a/b/c") && refused.contains("OWNER/NAME"), "{refused}");

        // A check names all that does not come.
        (config.model.tiny, config.model.path) = (None, Some(home.path().join("Qwen/Qwen3-0.6B")));
        config.data.insert("code".into(), "hf:a/b:../c".into());
        let missing = fetch_all(&HubEnvironment::read, &mut config, home.path());
        let errors: Vec<String> = missing.iter().map(|(_, error)| format!("{error:#}")).collect();
        for named in ["[model] path", "[data] hf:a/b/c", "[data] hf:a/b:../c"] {
            assert!(errors.iter().any(|error| error.contains(named)), "{named}: {errors:?}");
        }
    }
}
