//! The CUDA backend without a GPU: its kernels, compiled for the processor, run in an emulator
//! behind the driver's trait.
//!
//! Where there is no C++ compiler, or no NVRTC, the trials that need it are reported as ignored.

#![allow(clippy::unwrap_used, reason = "clippy knows the tests of the built-in harness alone")]

#[path = "nvidia/agreement.rs"]
mod agreement;
#[path = "nvidia/caches.rs"]
mod caches;
#[path = "common/checks.rs"]
mod checks;
#[path = "nvidia/draws.rs"]
mod draws;
#[path = "nvidia/emulator.rs"]
mod emulator;
#[path = "nvidia/generation.rs"]
mod generation;
#[path = "common/models.rs"]
mod models;
#[path = "nvidia/nvrtc.rs"]
mod nvrtc;
#[path = "nvidia/prompts.rs"]
mod prompts;
#[path = "nvidia/ptx.rs"]
mod ptx;
#[path = "nvidia/trouble.rs"]
mod trouble;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Trial};

use emulator::{Emulator, Program};

/// A test of the backend.
type Test = fn(&Arc<Program>);

fn main() -> ExitCode {
    let program = Program::compile();
    let trial = |name: &str, test: Test, lacking: Option<&str>| match &program {
        Ok(program) if lacking.is_none() => {
            let program = Arc::clone(program);
            Trial::test(name, move || {
                test(&program);
                Ok(())
            })
        }
        program => {
            let lacking = lacking.or(program.as_ref().err().map(|missing| missing.0)).unwrap_or_default();
            Trial::test(format!("{name}: {lacking}"), || Ok(())).with_ignored_flag(true)
        }
    };
    let no_vectors = checks::vectors().is_none().then_some("no vectors at $ECHO_VECTORS or ../shared/data");
    let vectors = trial("the model vectors hold", agreement::the_model_vectors_hold, no_vectors);
    let tests =
        [agreement::TESTS, caches::TESTS, draws::TESTS, generation::TESTS, prompts::TESTS, trouble::TESTS]
            .concat();
    let trials = tests.into_iter().map(|(name, test)| trial(name, test, None)).collect::<Vec<_>>();
    let trials = trials.into_iter().chain([vectors]).chain(ptx::trials()).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
