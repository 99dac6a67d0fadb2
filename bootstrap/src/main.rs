//! The binary `echo-bootstrap`.

mod cli;

use clap::Parser as _;
use cli::Cli;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// What is logged unless `RUST_LOG` says otherwise. A first node that knows no other peer yet is nothing to warn of.
const LOG: &str = "warn,libp2p_kad::behaviour=error";

fn main() -> ExitCode {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(filter).with_ansi(colours).with_writer(std::io::stderr).init();
    match Cli::parse().execute() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("echo-bootstrap: {error}");
            ExitCode::from(2)
        }
    }
}
