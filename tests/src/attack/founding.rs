//! The run that both networks work on.

use crate::harness::directory;
use crate::harness::network::{NetworkLayout, section};
use anyhow::Context as _;
use echo_learner::config::RunConfig;
use echo_learner::founding;
use std::path::Path;
use toml::{Table, Value};

/// Founds a run with these settings in the directory of one network, and copies it into that of
/// another: key, charter and starting policy are the same, and so are all prompts.
pub(super) fn found(settings: &Table, one: &Path, other: &Path) -> anyhow::Result<()> {
    let [one, other] = [NetworkLayout::create(one)?.run_dir(), NetworkLayout::create(other)?.run_dir()];
    let mut settings = settings.clone();
    let dir = one.to_str().with_context(|| format!("{} is not Unicode", one.display()))?;
    section(&mut settings, "run")?.insert("dir".into(), Value::from(dir));
    let config: RunConfig = toml::from_str(&toml::to_string(&settings)?)?;
    founding::found(&config, |_, _| ())?;
    directory::copy(&one, &other)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo;
    use echo_learner::storage::run_dir::RunDir;

    #[test]
    fn both_networks_find_the_same_run() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = demo::settings(1).unwrap();
        section(&mut settings, "warmup").unwrap().insert("updates".into(), 1.into());
        let networks = ["one", "other"].map(|name| dir.path().join(name));
        found(&settings, &networks[0], &networks[1]).unwrap();
        let [one, other] = networks.map(|network| {
            let run = founding::find(&NetworkLayout::create(&network).unwrap().run_dir()).unwrap();
            let start = RunDir::new(run.dir.path()).start().join("model.safetensors");
            (run.workload.run, run.key.public(), std::fs::read(start).unwrap())
        });
        assert_eq!(one, other);
    }
}
