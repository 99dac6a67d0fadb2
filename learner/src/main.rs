//! `echo-learner`: founds, runs and resumes training runs.

// `println!` and its like panic where a line cannot be written; `echo_protocol::program::output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use anyhow::Context;
use clap::{CommandFactory as _, Parser as _};
use echo_learner::commands::cli::{Cli, LearnerCommand};
use echo_learner::commands::run_file::RunFile;
use echo_learner::commands::settings::SettingsArgs;
use echo_learner::commands::{
    bench, check, evaluate, export, init, plan, prefilter, preflight, publish, push, samples, show, sources,
    task_try, warmup,
};
use echo_learner::config::{RunConfig, Setting};
use echo_learner::founding;
use echo_learner::founding::examination::examine;
use echo_learner::run::{capacity, daemon};
use echo_learner::storage::run_dir::RunDir;
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
        // The report has said it.
        Err(error) if error.is::<check::Unsound>() || error.is::<plan::NothingFits>() => ExitCode::from(2),
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
        LearnerCommand::Init(plan) => init::init(&plan),
        LearnerCommand::Check(plan) => {
            listen()?;
            check::check(&plan)
        }
        LearnerCommand::Task(command) => {
            listen()?;
            task_try::run(&command)
        }
        LearnerCommand::Run { config } => {
            let signals = listen()?;
            let mut read = config.read()?;
            sources::fetch(&mut read, config.base())?;
            work(found(&read, config.path())?, &signals)
        }
        LearnerCommand::Resume { dir, updates, mut settings } => {
            let signals = listen()?;
            settings.settings.extend(updates.map(|updates| Setting::new(&["run", "updates"], updates)));
            let founded = founding::find_with(&dir, &settings.settings)?;
            say_settings(&settings, &founded.dir);
            warn(&capacity::warnings(&founded.config, &founded.workload.charter.staleness));
            warn(&founding::overruled(&founded.config, &founded.workload));
            warn(founding::sanity::of_rule(&founded.config, &founded.workload).as_slice());
            preflight::resuming(&founded.config, &founded.dir.config())?;
            work(founded, &signals)
        }
        LearnerCommand::Export(plan) => export(&plan),
        LearnerCommand::Evaluate(plan) => evaluate(&plan),
        LearnerCommand::Warmup { config, output, json } => {
            listen()?;
            let mut last = None;
            warmup::warm_up_only(&run_file(&config)?, &output, |update, loss| {
                last = Some((update, loss));
                report_warmup(update, loss);
            })?;
            show::warmed_up(&output, last, json)
        }
        LearnerCommand::Prefilter { config, plan } => {
            listen()?;
            let outcome = prefilter::prefilter(&run_file(&config)?, &plan)?;
            show::filtered(&plan.output, &outcome, plan.json)
        }
        LearnerCommand::Bench { config, plan } => {
            listen()?;
            bench::run(&run_file(&config)?, &plan)
        }
        LearnerCommand::Plan(plan) => {
            listen()?;
            plan::plan(&plan)
        }
        LearnerCommand::Objectives { name, json } => show::objectives(name.as_deref(), json),
        LearnerCommand::Metrics { dir, json } => show::metrics(dir.as_deref(), json),
        LearnerCommand::Samples(plan) => samples::run(&plan),
        LearnerCommand::Peers(command) => echo_learner::commands::peers::run(&command),
        LearnerCommand::Identity { dir, json } => show::identity(&dir, json),
        LearnerCommand::Publish { config, plan } => publish(&config, plan),
        LearnerCommand::Completions { shell } => completions(shell),
        LearnerCommand::Push(plan) => {
            listen()?;
            Ok(print(&format!("{}\n", push::push(&plan)?))?)
        }
    }
}

/// Until somebody heeds them, as a run does once it works, signals end the process at once: what a warm-up
/// has come to is not kept.
fn listen() -> anyhow::Result<Signals> {
    Signals::listen().context("cannot listen for signals")
}

/// Founds a run when everything that can be examined is right: a warm-up takes minutes to hours.
fn found(config: &RunConfig, file: &Path) -> anyhow::Result<founding::Founded> {
    // A directory that has a run is reported at once. Where settings are wrong, none is made.
    let claim = match config.validate() {
        Ok(()) => Some(founding::claim(config)?),
        Err(_) => None,
    };
    let examined = examine(config, claim.as_ref(), true);
    warn(&examined.warnings);
    if let Ok(staleness) = config.staleness() {
        warn(&capacity::warnings(config, &staleness));
    }
    tokio::runtime::Runtime::new()?.block_on(preflight::founding(config, file, examined.problems))?;
    let claim = claim.map_or_else(|| founding::claim(config), Ok)?;
    Ok(claim.found_examined(config, report_warmup)?)
}

/// Settings of the command line do not change the run file, and the next `resume` does not know them.
fn say_settings(settings: &SettingsArgs, dir: &RunDir) {
    let set: Vec<String> = settings.settings.iter().map(ToString::to_string).collect();
    if !set.is_empty() {
        let file = dir.config();
        tracing::info!(
            "until this process ends: {}. To keep it, write it into {}",
            set.join(", "),
            file.display()
        );
    }
}

fn work(founded: founding::Founded, signals: &Signals) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(daemon::work(founded, signals)).map(drop)
}

fn export(plan: &export::ExportPlan) -> anyhow::Result<()> {
    listen()?;
    let version = tokio::runtime::Runtime::new()?.block_on(export::export(plan))?;
    show::exported(&plan.output, &version.to_string(), plan.json)
}

fn evaluate(plan: &evaluate::EvaluatePlan) -> anyhow::Result<()> {
    let signals = listen()?;
    let evaluated = evaluate::evaluate(plan, &signals.stop())?;
    Ok(print(&if plan.json { format!("{}\n", evaluated.json()) } else { evaluated.text() })?)
}

fn completions(shell: clap_complete::Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "echo-learner", &mut script);
    Ok(print(&String::from_utf8_lossy(&script))?)
}

/// A run file whose names of the Hub are files on this machine.
fn run_file(file: &RunFile) -> anyhow::Result<RunConfig> {
    let mut config = file.load()?;
    sources::fetch(&mut config, file.base())?;
    Ok(config)
}

fn publish(file: &RunFile, mut plan: publish::RehearsalPlan) -> anyhow::Result<()> {
    let signals = listen()?;
    let mut config = file.load()?;
    sources::fetch_data(&mut config)?;
    for policy in &mut plan.policies {
        *policy = sources::local_model(policy)?;
    }
    let claim = founding::claim(&config)?;
    preflight::publishing(&config, file.path(), &plan.policies)?;
    let founded = claim.rehearse(&config, plan.first())?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(publish::rehearse(founded, &plan, &signals))
}

fn warn(texts: &[String]) {
    texts.iter().for_each(|text| tracing::warn!("{text}"));
}

fn report_warmup(update: u64, loss: f64) {
    if update.is_multiple_of(50) {
        tracing::info!("warm-up update {update} · loss {loss:.3}");
    }
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
