//! `echo-learner push`: a policy and its card go to the Hugging Face Hub.

mod card;

use crate::commands::export::{ExportPlan, export};
use crate::founding;
use crate::storage::hub::{self, HubEnvironment, HubName, PushedFile, PushedPolicy};
use crate::storage::run_dir::RunDir;
use anyhow::{Context as _, bail};
use card::Card;
use clap::Args;
use echo_protocol::run::version::PolicyVersion;
use std::fs;
use std::path::{Path, PathBuf};

/// What is uploaded, and where to.
#[derive(Args, Clone, Debug)]
pub struct PushPlan {
    /// The run directory, or a policy's Hugging Face directory.
    pub dir: PathBuf,
    /// The model on the Hub; it is made if it is not there.
    #[arg(value_name = "hf:OWNER/NAME")]
    pub name: HubName,
    /// The version to upload, which needs a checkpoint [default: the newest]. Of a run directory only.
    #[arg(long, value_name = "N", value_parser = crate::commands::export::version)]
    pub version: Option<PolicyVersion>,
    /// Only the owner sees the model, where it has to be made.
    #[arg(long)]
    pub private: bool,
    /// What the commit says of itself.
    #[arg(long, value_name = "TEXT")]
    pub message: Option<String>,
    /// The policy's licence, as the Hub writes it, such as apache-2.0 [default: that of the model that it was
    /// trained from].
    #[arg(long, value_name = "NAME", value_parser = card::license)]
    pub license: Option<String>,
}

/// Uploads a policy, and returns the address of the commit.
///
/// # Errors
/// When there is no such policy, no licence is known, or the Hub refuses it.
pub fn push(plan: &PushPlan) -> anyhow::Result<String> {
    let environment = HubEnvironment::read()?;
    let run = RunDir::new(&plan.dir);
    if run.charter().exists() {
        return push_run(&environment, plan, &run);
    }
    if !plan.dir.join("config.json").is_file() {
        bail!("{} is no run directory, and no policy's either: it has no config.json", plan.dir.display());
    }
    if plan.version.is_some() {
        bail!("--version: {} is a policy, which has no versions; name the run directory", plan.dir.display());
    }
    let card = Card { license: plan.license.clone(), ..Card::default() };
    let message = plan.message.clone().unwrap_or_else(|| "Policy trained with Echo".to_owned());
    send(&environment, plan, &plan.dir, &card, message)
}

fn push_run(environment: &HubEnvironment, plan: &PushPlan, run: &RunDir) -> anyhow::Result<String> {
    let founded = founding::read(run.path())?;
    let mut card = Card::of(&founded)?;
    card.license = plan.license.clone().or(card.license);
    // Before the export, which takes a while.
    card.check()?;
    let scratch = founding::scratch_beside(&run.policy())?;
    let output = scratch.path().join("policy");
    let exported =
        ExportPlan { dir: plan.dir.clone(), version: plan.version, output: output.clone(), json: false };
    let version = tokio::runtime::Runtime::new()?.block_on(export(&exported))?;
    card.version = Some(version);
    let named = || format!("{version} of the run {}", founded.workload.charter.name);
    let message = plan.message.clone().unwrap_or_else(named);
    send(environment, plan, &output, &card, message)
}

fn send(
    environment: &HubEnvironment,
    plan: &PushPlan,
    dir: &Path,
    card: &Card,
    message: String,
) -> anyhow::Result<String> {
    card.check()?;
    let files = files(dir)?;
    let policy = PushedPolicy { files, card: card.text(&plan.name), is_private: plan.private, message };
    Ok(hub::push(environment, &plan.name, &policy)?)
}

/// The files of a policy, by name; everything else of the directory stays here.
fn files(dir: &Path) -> anyhow::Result<Vec<PushedFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let source = entry?.path();
        let name = source.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if hub::is_part_of_a_model(name) && !name.starts_with('.') && source.is_file() {
            files.push(PushedFile { path: name.to_owned(), source });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    if !files.iter().any(|file| file.path.ends_with(".safetensors")) {
        bail!("{} has no weights: it needs model.safetensors", dir.display());
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::sources::fetch_from;
    use crate::common::testing;
    use crate::config::{RunConfig, TrainSection};
    use crate::publishing::checkpoint::{Checkpoints, state_at};
    use crate::storage::hub::testing::{Held, TestHub, is_file};
    use crate::training::trainer::Trainer;
    use echo_policy::model::weights::Weights;
    use serde_json::json;

    /// A Hub with a one-layer model that its card gives a licence.
    fn hub_with_a_model(home: &Path) -> TestHub {
        let hub = TestHub::start();
        let founded = founding::found(&testing::run_config(home.join("first")), |_, _| ()).unwrap();
        let files = files(&founded.dir.start()).unwrap();
        let read = |file: &PushedFile| (file.path.clone(), fs::read(&file.source).unwrap());
        let files: Vec<(String, Vec<u8>)> = files.iter().map(read).collect();
        let borrowed: Vec<(&str, &[u8])> =
            files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
        let mut held = Held::of(&borrowed);
        held.card = json!({"license": "apache-2.0"});
        hub.put("models/o/m", held);
        hub
    }

    /// Writes the checkpoint of a version that no update has made.
    fn checkpoint(founded: &founding::Founded, version: u64) {
        let (workload, dir) = (&founded.workload, &founded.dir);
        let start = Weights::load_dir(&dir.start(), &workload.model).unwrap();
        let trainer = Trainer::new(&workload.model, &start, &TrainSection::default()).unwrap();
        let optimizer = trainer.optimizer().state().unwrap();
        let checkpoints = Checkpoints::open(dir, &founded.config.checkpoints).unwrap();
        let written = checkpoints.write(state_at(workload.run, version), trainer.decoder(), &optimizer);
        tokio::runtime::Runtime::new().unwrap().block_on(written).unwrap();
    }

    #[test]
    fn a_run_of_a_model_on_the_hub_needs_it_once_and_its_policy_is_pushed_with_a_card() {
        let home = tempfile::tempdir().unwrap();
        let hub = hub_with_a_model(home.path());
        hub.state().token = Some("hf_right");
        let environment = HubEnvironment {
            endpoint: hub.endpoint.clone(),
            cache: home.path().join("cache"),
            token: Some("hf_right".into()),
            is_offline: false,
        };
        let mut config: RunConfig = testing::run_config(home.path().join("run"));
        (config.model.tiny, config.model.path) = (None, Some("hf:o/m".into()));
        fetch_from(&|| Ok(environment.clone()), &mut config, home.path()).unwrap();
        let founded = founding::found(&config, |_, _| ()).unwrap();
        checkpoint(&founded, 2);
        drop(founded);

        // The cache may go: the run has copies of its own.
        fs::remove_dir_all(&environment.cache).unwrap();
        let found = founding::find(&config.run.dir).unwrap();
        let kept = found.config.model.path.clone().unwrap();
        assert_eq!(kept, PathBuf::from(&config.pins[0].name));
        assert_eq!(founding::overruled(&found.config, &found.workload), [""; 0]);
        drop(found);

        let plan = PushPlan {
            dir: config.run.dir.clone(),
            name: "hf:o/trained".parse().unwrap(),
            version: None,
            private: true,
            message: None,
            license: None,
        };
        push_run(&environment, &plan, &RunDir::new(&plan.dir)).unwrap();
        let card = {
            let state = hub.state();
            let held = &state.repositories["models/o/trained"];
            assert_eq!(held.message, "v2 of the run test");
            String::from_utf8(held.files["README.md"].clone()).unwrap()
        };
        for part in ["license: apache-2.0\n", "base_model: o/m\n", "| tasks | chain_sum |", "v2 of its run"] {
            assert!(card.contains(part), "{part}: {card}");
        }
        let pin = hub::model(&environment, &plan.name).unwrap();
        let weights = hub.state().repositories["models/o/trained"].files["model.safetensors"].clone();
        assert!(is_file(&pin.local.join("model.safetensors"), &weights));
        assert!(Weights::load_dir(&pin.local, &founding::read(&plan.dir).unwrap().workload.model).is_ok());
    }

    #[test]
    fn only_what_makes_a_policy_leaves_the_machine() {
        let home = tempfile::tempdir().unwrap();
        let all = ["config.json", "model.safetensors", "chat_template.jinja", "merges.txt"];
        for name in all.iter().chain(&["token.json", "notes.txt", "trainer_state.json", ".a.safetensors"]) {
            fs::write(home.path().join(name), "x").unwrap();
        }
        let found = files(home.path()).unwrap();
        let names: Vec<&str> = found.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(names, ["chat_template.jinja", "config.json", "merges.txt", "model.safetensors"]);
    }

    #[test]
    fn what_is_no_policy_or_has_no_licence_is_not_pushed() {
        let home = tempfile::tempdir().unwrap();
        let environment = HubEnvironment {
            endpoint: "http://127.0.0.1:1".into(),
            cache: home.path().to_owned(),
            token: None,
            is_offline: true,
        };
        assert!(files(home.path()).unwrap_err().to_string().contains("no weights"));
        let founded = founding::found(&testing::run_config(home.path().join("run")), |_, _| ()).unwrap();
        let plan = PushPlan {
            dir: founded.dir.path().to_owned(),
            name: "hf:o/trained".parse().unwrap(),
            version: None,
            private: false,
            message: None,
            license: None,
        };
        let refused = push_run(&environment, &plan, &founded.dir).unwrap_err().to_string();
        assert!(refused.contains("--license"), "{refused}");
    }
}
