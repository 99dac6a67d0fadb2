//! The binary `echo-bootstrap`.

// `println!` and its like panic where a line cannot be written; `echo_protocol::program::output` does not.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;

use clap::Parser as _;
use cli::Cli;
use echo_protocol::program::output::note;
use echo_protocol::program::threads;
use std::io::IsTerminal as _;
use std::process::ExitCode;
use tracing_subscriber::EnvFilter;

/// What is logged unless `RUST_LOG` says otherwise. A first node that knows no other peer yet is
/// nothing to warn of.
const LOG: &str = "warn,libp2p_kad::behaviour=error";

fn main() -> ExitCode {
    threads::end_when_refused("echo-bootstrap");
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(LOG));
    let colours = std::io::stderr().is_terminal();
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours)
        .with_writer(std::io::stderr)
        // It would say on standard error, with a panic, that standard error cannot be written.
        .log_internal_errors(false)
        .init();
    match Cli::parse().execute() {
        Ok(code) => code,
        Err(error) => {
            note(&format!("echo-bootstrap: {error}"));
            ExitCode::from(2)
        }
    }
}
