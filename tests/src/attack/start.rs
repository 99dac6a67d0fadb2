//! The policy that both networks start from.

use crate::network::section;
use anyhow::Context as _;
use echo_learner::config::RunConfig;
use echo_learner::prepare;
use std::path::Path;
use toml::{Table, Value};

/// Warms a policy up as `settings` ask for, and returns them with that policy in the place of their model and warm-up. It lies in `dir`,
/// an absolute path.
pub(super) fn shared(mut settings: Table, dir: &Path) -> anyhow::Result<Table> {
    let mut alone = settings.clone();
    let text = |path: &Path| {
        path.to_str().map(Value::from).with_context(|| format!("{} is not Unicode", path.display()))
    };
    section(&mut alone, "run")?.insert("dir".into(), text(dir)?);
    let config: RunConfig = toml::from_str(&toml::to_string(&alone)?)?;
    let founded = prepare::found(&config, |_, _| ())?;
    settings.remove("warmup");
    settings
        .insert("model".into(), Table::from_iter([("path".to_owned(), text(&founded.dir.start())?)]).into());
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::demo;

    #[test]
    fn both_start_from_one_policy_without_a_warm_up_of_their_own() {
        let dir = tempfile::tempdir().unwrap();
        let mut settings = demo::settings(1).unwrap();
        section(&mut settings, "warmup").unwrap().insert("updates".into(), 1.into());
        let shared = shared(settings, &dir.path().join("start")).unwrap();
        let [one, other] = ["one", "other"].map(|name| {
            let mut settings = shared.clone();
            section(&mut settings, "run")
                .unwrap()
                .insert("dir".into(), dir.path().join(name).to_str().unwrap().into());
            let config: RunConfig = toml::from_str(&toml::to_string(&settings).unwrap()).unwrap();
            let founded = prepare::found(&config, |_, _| panic!("no update is made")).unwrap();
            std::fs::read(founded.dir.start().join("model.safetensors")).unwrap()
        });
        assert_eq!(one, other);
    }
}
