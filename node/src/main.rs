//! `echo-node`: see `echo-node --help`.

// `println!` and its like panic where a line cannot be written; `echo_protocol::program::output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

use std::io::IsTerminal;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use clap::FromArgMatches as _;
use echo_node::cli;
use echo_node::cli::service::{InstallService, ServiceUnit};
use echo_node::cli::verify_server;
use echo_node::cli::verify_server::VerifyServer;
use echo_node::cli::{Cli, NodeCommand, Preflight, Receipts};
use echo_node::delivery::receipts::show;
use echo_node::devices::hardware;
use echo_node::devices::hardware::Hardware;
use echo_node::learner_link::look::{NetworkLook, look};
use echo_node::preflight::{self, Problem};
use echo_node::runtime;
use echo_node::runtime::NodeSummary;
use echo_node::settings::{Config, Settings};
use echo_node::status::node_state::Facts;
use echo_node::status::reporter::line;
use echo_node::status::screen::Screen;
use echo_node::status::show as status;
use echo_protocol::net;
use echo_protocol::program::error_chain::with_causes;
use echo_protocol::program::output::{self, note, print};
use echo_protocol::program::signals::Signals;
use echo_protocol::program::{clock, keyfile};
use echo_protocol::program::{leave, threads};
use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

// Every block of a snapshot is a handful of buffers of tens of KiB.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// How long a stopped node waits for its threads, which may be writing to the disk.
const LEAVE_WITHIN: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    threads::end_when_refused("echo-node");
    let matches = cli::command().get_matches();
    let cli = Cli::from_arg_matches(&matches).unwrap_or_else(|error| error.exit());
    match act(&cli) {
        Ok(code) => code,
        Err(error) => {
            note(&format!("echo-node: {}", with_causes(&*error)));
            leave(1)
        }
    }
}

fn act(cli: &Cli) -> anyhow::Result<ExitCode> {
    let config = Config::load(&cli.flags, std::env::vars_os())?;
    match &cli.command {
        NodeCommand::Run => run(&config.settings),
        NodeCommand::Config { json: true } => print_json(&json!(config.report())),
        NodeCommand::Config { json: false } => {
            print(&config.table().to_string())?;
            Ok(ExitCode::SUCCESS)
        }
        NodeCommand::Identity { json } => identity(&config.settings, *json),
        NodeCommand::Receipts(command) => receipts(&config.settings, command),
        NodeCommand::Preflight(options) => preflight(&config.settings, options),
        NodeCommand::Status { json } => status(&config.settings, *json),
        NodeCommand::InstallService(options) => {
            install_service(&config, cli.flags.config.as_deref(), options)
        }
        NodeCommand::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut cli::command(), "echo-node", &mut script);
            print(&String::from_utf8_lossy(&script))?;
            Ok(ExitCode::SUCCESS)
        }
        NodeCommand::Hardware(options) => hardware(&config.settings, options),
        NodeCommand::VerifyServer(options) => verify_server(&config.settings, options),
    }
}

fn run(settings: &Settings) -> anyhow::Result<ExitCode> {
    let signals = listen()?;
    let ready = preflight::check(settings, clock::wall())?;
    let screen = Screen::new();
    log(settings, screen.log_writer())?;
    // One thread for the network: waking a second one costs a volunteer more than it carries. Disk,
    // hashes and generating have theirs.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("no async runtime")?;
    let summary = runtime.block_on(runtime::run(ready, settings, screen, signals.stop()))?;
    output::line(&farewell(&summary));
    // What still computes on a thread may take a minute, and nobody needs it any more.
    runtime.shutdown_timeout(LEAVE_WITHIN);
    leave(0)
}

fn listen() -> anyhow::Result<Signals> {
    Signals::listen().context("cannot listen for signals")
}

fn log<W>(settings: &Settings, to: W) -> anyhow::Result<()>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .with_env_filter(settings.log_filter().map_err(|cause| Problem::log(settings, cause))?)
        .with_writer(to)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        // It would say on standard error, with a panic, that standard error cannot be written.
        .log_internal_errors(false)
        .init();
    Ok(())
}

fn farewell(summary: &NodeSummary) -> String {
    let why = if summary.run_ended { "the run has ended" } else { "stopped" };
    // It has left by now; that says nothing of the learner.
    let facts = Facts { learner: true, ..summary.facts.clone() };
    format!("{why} after {} rollouts: {}", facts.rollouts, line(&facts))
}

fn identity(settings: &Settings, json: bool) -> anyhow::Result<ExitCode> {
    let key = keyfile::load_or_create(&settings.data().identity())?;
    let (public, peer) = (key.public(), net::peer_id_of(key.secret()));
    if json {
        return print_json(&json!({ "public_key": public.to_string(), "peer_id": peer.to_string() }));
    }
    print(&format!("public key  {public}\npeer id     {peer}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn receipts(settings: &Settings, command: &Receipts) -> anyhow::Result<ExitCode> {
    let mine = || show::mine(&settings.data());
    let (shown, json, strict) = match command {
        Receipts::List { json } => (mine()?, *json, false),
        Receipts::Verify { file: Some(file), json } => (vec![show::one(file.clone(), None)?], *json, true),
        Receipts::Verify { file: None, json } => (mine()?, *json, true),
    };
    let wrong: u64 = shown.iter().map(|shown| shown.proof.wrong()).sum();
    if json {
        let runs: Vec<_> = shown.iter().map(show::ShownReceipts::json).collect();
        print_json(&json!({ "runs": runs, "wrong": wrong }))?;
    } else {
        let verdict = match wrong {
            _ if shown.is_empty() => "there are no receipts yet".to_owned(),
            0 => "all receipts are sound and none is missing up to the last; later ones that were cut off cannot show"
                .to_owned(),
            _ => format!("{wrong} findings"),
        };
        print_lines(shown.iter().map(show::ShownReceipts::text).chain([verdict]))?;
    }
    Ok(if strict && wrong > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn preflight(settings: &Settings, options: &Preflight) -> anyhow::Result<ExitCode> {
    let checked = preflight::check(settings, clock::wall());
    let network = match &checked {
        Ok(ready) if !options.offline => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            Some(runtime.context("no async runtime")?.block_on(look(ready, settings, runtime::AGENT))?)
        }
        _ => None,
    };
    // Runs differ in what they need, so what cannot be judged is no problem yet.
    let programs = preflight::programs();
    let mut problems: Vec<String> = checked
        .as_ref()
        .err()
        .map_or(&[][..], |problems| &problems.0)
        .iter()
        .map(Problem::to_string)
        .collect();
    problems.extend(network.iter().flat_map(NetworkLook::problems));
    let is_ready = problems.is_empty();
    if options.json {
        print_json(&json!({
            "ready": is_ready, "problems": problems, "network": network, "programs": programs,
        }))?;
    } else {
        let joins = match &checked {
            Ok(ready) if is_ready => {
                format!("ready to join run {} of learner {}", ready.target.name, ready.target.learner)
            }
            _ => preflight::numbered(&problems),
        };
        let judges = match programs.languages.as_slice() {
            [] => "runs whose task is code are not for this machine:".to_owned(),
            languages => format!("programs can be judged in {}", languages.join(", ")),
        };
        let lacks = programs.lacks.iter().map(|lack| format!("  - {lack}"));
        let isolation =
            programs.isolation.iter().map(|isolation| format!("programs are isolated: {isolation}"));
        let seen = network.iter().flat_map(NetworkLook::lines);
        print_lines([joins].into_iter().chain(seen).chain([judges]).chain(lacks).chain(isolation))?;
    }
    Ok(if is_ready { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn status(settings: &Settings, json: bool) -> anyhow::Result<ExitCode> {
    let data = settings.data();
    let found = status::read(&data, clock::wall())?;
    let found = found.with_context(|| {
        format!("no node has run in {}: name its directory with --data-dir", data.path().display())
    })?;
    if json {
        return print_json(&found.json());
    }
    print(&found.text())?;
    Ok(ExitCode::SUCCESS)
}

fn install_service(
    config: &Config,
    file: Option<&Path>,
    options: &InstallService,
) -> anyhow::Result<ExitCode> {
    let unit = ServiceUnit::of(config, file)?;
    if !options.print {
        unit.write()?;
    }
    if options.json {
        return print_json(&json!({ "path": unit.path, "written": !options.print, "unit": unit.text }));
    }
    print(&if options.print { unit.text } else { unit.summary() })?;
    Ok(ExitCode::SUCCESS)
}

fn hardware(settings: &Settings, options: &Hardware) -> anyhow::Result<ExitCode> {
    log(settings, std::io::stderr)?;
    let mut report = hardware::HardwareReport::take(settings)?;
    if !options.json {
        print(&report.devices().to_string())?;
    }
    if options.seconds > 0 {
        report.measure(settings, options, &|text| note(&format!("measuring: {text}")))?;
    }
    if options.json {
        return print_json(&json!(report));
    }
    if let Some(rates) = &report.measured {
        print(&format!("{rates}\n"))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn verify_server(settings: &Settings, options: &VerifyServer) -> anyhow::Result<ExitCode> {
    let signals = listen()?;
    log(settings, std::io::stderr)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("no async runtime")?;
    runtime.block_on(verify_server::serve(options, &settings.data(), &signals.stop()))?;
    Ok(ExitCode::SUCCESS)
}

fn print_json(value: &serde_json::Value) -> anyhow::Result<ExitCode> {
    print(&format!("{value}\n"))?;
    Ok(ExitCode::SUCCESS)
}

fn print_lines(lines: impl IntoIterator<Item = String>) -> anyhow::Result<()> {
    let text: String = lines.into_iter().map(|line| line + "\n").collect();
    Ok(print(&text)?)
}
