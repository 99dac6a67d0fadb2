//! The CUDA backend without a GPU: its kernels, compiled for the processor, run in an emulator behind the driver's trait.
//!
//! Where there is no C++ compiler, or no NVRTC, the trials that need it are reported as ignored.

#[path = "nvidia/agreement.rs"]
mod agreement;
#[path = "nvidia/caches.rs"]
mod caches;
#[path = "nvidia/draws.rs"]
mod draws;
#[path = "nvidia/emulator.rs"]
mod emulator;
#[path = "nvidia/generation.rs"]
mod generation;
#[path = "nvidia/models.rs"]
mod models;
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
    let tests = [agreement::TESTS, caches::TESTS, draws::TESTS, generation::TESTS, trouble::TESTS].concat();
    let program = Program::compile();
    let trials = tests.into_iter().map(|(name, test)| match &program {
        Ok(program) => {
            let program = Arc::clone(program);
            Trial::test(name, move || {
                test(&program);
                Ok(())
            })
        }
        Err(emulator::Missing(why)) => {
            Trial::test(format!("{name}: {why}"), || Ok(())).with_ignored_flag(true)
        }
    });
    let trials = trials.chain(ptx::trials()).collect();
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
