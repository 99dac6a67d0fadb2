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

/// What makes a policy; everything else of a directory stays here.
const SUFFIXES: [&str; 4] = [".json", ".safetensors", ".jinja", ".txt"];

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
    let exported = ExportPlan { dir: plan.dir.clone(), version: plan.version, output: output.clone() };
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

/// The files of a policy, by name.
fn files(dir: &Path) -> anyhow::Result<Vec<PushedFile>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
        let source = entry?.path();
        let name = source.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let is_part = SUFFIXES.iter().any(|suffix| name.ends_with(suffix)) && !name.starts_with('.');
        if is_part && source.is_file() {
            files.push(PushedFile { path: name.to_owned(), source });
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    if !files.iter().any(|file| file.path.ends_with(".safetensors")) {
        bail!("{} has no weights: it needs model.safetensors", dir.display());
    }
    Ok(files)
}
