//! `echo-learner`: founds, runs and resumes training runs.

// `println!` and its like panic where a line cannot be written; `echo_protocol::program::output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use anyhow::Context;
use clap::Parser;
use echo_learner::commands::cli::{Cli, LearnerCommand};
use echo_learner::commands::{bench, evaluate, export, prefilter, preflight, publish, warmup};
use echo_learner::config::RunConfig;
use echo_learner::founding;
use echo_learner::run::{capacity, daemon};
use echo_learner::storage::run_dir::RunDir;
use echo_learner::training::objective::{ObjectiveChoice, Preset};
use echo_protocol::net::peer_id_of;
use echo_protocol::program::error_chain::with_causes;
use echo_protocol::program::output::{note, print};
use echo_protocol::program::signals::Signals;
use echo_protocol::program::threads;
use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// mimalloc's `mi_option_purge_delay`, by its place in `mimalloc.h`.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;
/// How often memory that is free goes back to the system, in milliseconds; the allocator's own
/// second is shorter than most updates. Copies of the policy and of the optimizer's state are made
/// and freed again and again, and what comes from the system has to be cleared first.
const PURGE_EVERY_MS: std::ffi::c_long = 60_000;

fn main() -> ExitCode {
    threads::end_when_refused("echo-learner");
    // SAFETY: an option is a number of the allocator's own. One that the environment names stays as it is.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, PURGE_EVERY_MS) };
    match act(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            note(&format!("echo-learner: {}", with_causes(&*error)));
            ExitCode::FAILURE
        }
    }
}

fn act(cli: Cli) -> anyhow::Result<()> {
    let filter = EnvFilter::try_new(&cli.log).with_context(|| format!("--log {:?}", cli.log))?;
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_target(false)
        .with_ansi(colours)
        .with_writer(std::io::stderr)
        // It would say on standard error, with a panic, that standard error cannot be written.
        .log_internal_errors(false)
        .init();
    if matches!(
        cli.command,
        LearnerCommand::Run { .. } | LearnerCommand::Resume { .. } | LearnerCommand::Publish { .. }
    ) {
        preflight::threads()?;
    }
    match cli.command {
        LearnerCommand::Run { config: file } => {
            let signals = listen()?;
            let config = RunConfig::load(&file)?;
            warn(&capacity::warnings(&config, &config.staleness()?));
            work(found(&config, &file)?, &signals)
        }
        LearnerCommand::Resume { dir } => {
            let signals = listen()?;
            let founded = founding::find(&dir)?;
            warn(&capacity::warnings(&founded.config, &founded.workload.charter.staleness));
            warn(&founding::overruled(&founded.config, &founded.workload));
            preflight::resuming(&founded.config, &founded.dir.config())?;
            work(founded, &signals)
        }
        LearnerCommand::Export(plan) => export(&plan),
        LearnerCommand::Evaluate(plan) => evaluate(&plan),
        LearnerCommand::Warmup { config, output } => {
            listen()?;
            warmup::warm_up_only(&RunConfig::load(&config)?, &output, report_warmup)
        }
        LearnerCommand::Prefilter { config, plan } => {
            listen()?;
            prefilter::prefilter(&RunConfig::load(&config)?, &plan).map(drop)
        }
        LearnerCommand::Bench { config, plan } => {
            listen()?;
            bench::run(&RunConfig::load(&config)?, &plan)
        }
        LearnerCommand::Objectives { name } => objectives(name.as_deref()),
        LearnerCommand::Metrics => Ok(print(&echo_learner::telemetry::exporters::catalog::table())?),
        LearnerCommand::Peers(command) => echo_learner::commands::peers::run(&command),
        LearnerCommand::Identity { dir } => identity(&dir),
        LearnerCommand::Publish { config, plan } => publish(&config, &plan),
    }
}

/// Until somebody heeds them, as a run does once it works, signals end the process at once: what a warm-up
/// has come to is not kept.
fn listen() -> anyhow::Result<Signals> {
    Signals::listen().context("cannot listen for signals")
}

fn found(config: &RunConfig, file: &Path) -> anyhow::Result<founding::Founded> {
    let claim = founding::claim(config)?;
    tokio::runtime::Runtime::new()?.block_on(preflight::founding(config, file))?;
    Ok(claim.found(config, report_warmup)?)
}

fn work(founded: founding::Founded, signals: &Signals) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(daemon::work(founded, signals)).map(drop)
}

fn export(plan: &export::ExportPlan) -> anyhow::Result<()> {
    listen()?;
    let version = tokio::runtime::Runtime::new()?.block_on(export::export(plan))?;
    Ok(print(&format!("wrote the policy of {version} to {}\n", plan.output.display()))?)
}

fn evaluate(plan: &evaluate::EvaluatePlan) -> anyhow::Result<()> {
    let signals = listen()?;
    let evaluated = evaluate::evaluate(plan, &signals.stop())?;
    Ok(print(&if plan.json { format!("{}\n", evaluated.json()) } else { evaluated.text() })?)
}

fn publish(file: &Path, plan: &publish::RehearsalPlan) -> anyhow::Result<()> {
    let signals = listen()?;
    let config = RunConfig::load(file)?;
    let claim = founding::claim(&config)?;
    preflight::publishing(&config, file, &plan.policies)?;
    let founded = claim.rehearse(&config, plan.first())?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(publish::rehearse(founded, plan, &signals))
}

fn warn(texts: &[String]) {
    texts.iter().for_each(|text| tracing::warn!("{text}"));
}

fn report_warmup(update: u64, loss: f64) {
    if update.is_multiple_of(50) {
        tracing::info!("warm-up update {update} · loss {loss:.3}");
    }
}

fn objectives(name: Option<&str>) -> anyhow::Result<()> {
    let Some(name) = name else {
        let names: String = Preset::ALL.iter().map(|preset| format!("{}\n", preset.name())).collect();
        return Ok(print(&names)?);
    };
    let preset = Preset::named(name)
        .with_context(|| format!("no objective is called {name:?}: `echo-learner objectives` lists them"))?;
    Ok(print(&ObjectiveChoice::from(preset).expansion())?)
}

fn identity(dir: &Path) -> anyhow::Result<()> {
    let key = RunDir::new(dir).key()?;
    Ok(print(&format!("public key  {}\npeer id     {}\n", key.public(), peer_id_of(key.secret())))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_purge_delay_is_where_the_allocator_has_it() {
        assert_eq!(std::env::var_os("MIMALLOC_PURGE_DELAY"), None, "this test asks for the allocator's own");
        // No other option is a second by default.
        // SAFETY: reading an option changes nothing.
        assert_eq!(unsafe { libmimalloc_sys::mi_option_get(PURGE_DELAY) }, 1000);
    }
}
