//! `echo-node`: see `echo-node --help`.

use std::io::IsTerminal;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use echo_node::cli::{Cli, Command, Receipts};
use echo_node::config::{Config, Settings};
use echo_node::hardware::{self, Hardware};
use echo_node::ledger::show;
use echo_node::node::{self, Summary};
use echo_node::preflight::{self, Problem};
use echo_node::shutdown;
use echo_node::status::{Screen, line};
use echo_node::verify_server::{self, VerifyServer};
use echo_protocol::told::told;
use echo_protocol::{clock, keyfile, net};
use serde_json::json;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

// Every group of a snapshot is a handful of buffers of tens of KiB.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse();
    match act(&cli) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("echo-node: {}", told(&*error));
            leave(1)
        }
    }
}

fn act(cli: &Cli) -> anyhow::Result<ExitCode> {
    // Variables that are no text are nobody's settings.
    let env = std::env::vars_os().filter_map(|(k, v)| Some((k.into_string().ok()?, v.into_string().ok()?)));
    let config = Config::load(&cli.flags, env)?;
    match &cli.command {
        Command::Run => run(&config.settings),
        Command::Config { json: true } => print_json(&json!(config.report())),
        Command::Config { json: false } => {
            print!("{}", config.table());
            Ok(ExitCode::SUCCESS)
        }
        Command::Identity { json } => identity(&config.settings, *json),
        Command::Receipts(command) => receipts(&config.settings, command),
        Command::Preflight { json } => preflight(&config.settings, *json),
        Command::Hardware(options) => hardware(&config.settings, options),
        Command::VerifyServer(options) => verify_server(&config.settings, options),
    }
}

fn run(settings: &Settings) -> anyhow::Result<ExitCode> {
    let ready = preflight::check(settings, clock::wall())?;
    let screen = Screen::new();
    log(settings, screen.log_writer())?;
    // One thread for the network: waking a second one costs a volunteer more than it carries. Disk, hashes and generating have theirs.
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("no async runtime")?;
    let summary = runtime.block_on(async {
        let stop = shutdown::on_signals().context("cannot listen for signals")?;
        anyhow::Ok(node::run(ready, settings, screen, stop).await?)
    })?;
    println!("{}", farewell(&summary));
    drop(runtime);
    Ok(leave(0))
}

/// Ends the process, all of whose work is done, without what libraries do at an exit. NVIDIA's Vulkan driver takes itself down there, and crashes where
/// a device is given back at the same time (gfx-rs/wgpu, issue 8365): on an H100 a node on wgpu ended its run with SIGSEGV.
fn leave(code: u8) -> ExitCode {
    let _ = std::io::Write::flush(&mut std::io::stdout());
    #[cfg(unix)]
    // SAFETY: nothing is left to be done, and nobody is waited for.
    unsafe {
        libc::_exit(code.into());
    }
    #[cfg(not(unix))]
    ExitCode::from(code)
}

fn log<W>(settings: &Settings, to: W) -> anyhow::Result<()>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_new(&settings.log)?)
        .with_writer(to)
        .with_target(false)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    Ok(())
}

fn farewell(summary: &Summary) -> String {
    let why = if summary.run_ended { "the run has ended" } else { "stopped" };
    format!("{why} after {} rollouts: {}", summary.facts.rollouts, line(&summary.facts))
}

fn identity(settings: &Settings, json: bool) -> anyhow::Result<ExitCode> {
    let key = keyfile::load_or_create(&settings.data().identity())?;
    let (public, peer) = (key.public(), net::peer_id_of(key.secret()));
    if json {
        return print_json(&json!({ "public_key": public.to_string(), "peer_id": peer.to_string() }));
    }
    println!("public key  {public}\npeer id     {peer}");
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
        let runs: Vec<_> = shown.iter().map(show::Shown::json).collect();
        print_json(&json!({ "runs": runs, "wrong": wrong }))?;
    } else {
        shown.iter().for_each(|shown| println!("{}", shown.text()));
        match wrong {
            _ if shown.is_empty() => println!("there are no receipts yet"),
            0 => println!(
                "all receipts are sound and none is missing up to the last; later ones that were cut off cannot show"
            ),
            _ => println!("{wrong} findings"),
        }
    }
    Ok(if strict && wrong > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn preflight(settings: &Settings, json: bool) -> anyhow::Result<ExitCode> {
    let checked = preflight::check(settings, clock::wall());
    // Runs differ in what they need, so what cannot be judged is no problem yet.
    let programs = preflight::programs();
    if json {
        let problems = checked.as_ref().err().map_or(&[][..], |problems| &problems.0);
        let texts: Vec<String> = problems.iter().map(Problem::to_string).collect();
        print_json(&json!({ "ready": checked.is_ok(), "problems": texts, "programs": programs }))?;
    } else {
        match &checked {
            Ok(ready) => {
                println!("ready to join run {} of learner {}", ready.target.name, ready.target.learner)
            }
            Err(problems) => println!("{problems}"),
        }
        match programs.languages.as_slice() {
            [] => println!("runs whose task is code are not for this machine:"),
            languages => println!("programs can be judged in {}", languages.join(", ")),
        }
        programs.lacks.iter().for_each(|lack| println!("  - {lack}"));
        if let Some(isolation) = &programs.isolation {
            println!("programs are isolated: {isolation}");
        }
    }
    Ok(if checked.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn hardware(settings: &Settings, options: &Hardware) -> anyhow::Result<ExitCode> {
    log(settings, std::io::stderr)?;
    let mut report = hardware::Report::take(settings)?;
    if !options.json {
        print!("{}", report.devices());
    }
    if options.seconds > 0 {
        report.measure(settings, options, &|text| eprintln!("measuring: {text}"))?;
    }
    if options.json {
        return print_json(&json!(report));
    }
    if let Some(rates) = &report.measured {
        println!("{rates}");
    }
    Ok(ExitCode::SUCCESS)
}

fn verify_server(settings: &Settings, options: &VerifyServer) -> anyhow::Result<ExitCode> {
    log(settings, std::io::stderr)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().context("no async runtime")?;
    runtime.block_on(async {
        let stop = shutdown::on_signals().context("cannot listen for signals")?;
        verify_server::serve(options, &settings.data(), &stop).await
    })?;
    Ok(ExitCode::SUCCESS)
}

fn print_json(value: &serde_json::Value) -> anyhow::Result<ExitCode> {
    println!("{value}");
    Ok(ExitCode::SUCCESS)
}
