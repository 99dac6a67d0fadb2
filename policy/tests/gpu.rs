//! The wgpu backend on a software adapter (Mesa's, or whatever else there is), with reductions
//! by subgroups and without.
//!
//! Where there is no adapter, every trial is reported as ignored.

#![allow(clippy::unwrap_used, reason = "clippy knows the tests of the built-in harness alone")]

#[path = "gpu/agreement.rs"]
mod agreement;
#[path = "gpu/caches.rs"]
mod caches;
#[path = "common/checks.rs"]
mod checks;
#[path = "gpu/draws.rs"]
mod draws;
#[path = "gpu/generation.rs"]
mod generation;
#[path = "common/models.rs"]
mod models;
#[path = "gpu/prompts.rs"]
mod prompts;
#[path = "gpu/trouble.rs"]
mod trouble;

use std::process::ExitCode;
use std::sync::{Arc, OnceLock};

use echo_policy::generation::wgpu::{AdapterChoice, AdapterKind, Gpu, GpuOptions, adapters};
use libtest_mimic::{Arguments, Trial};

/// How the missing adapter gets onto the machine.
const MISSING: &str = "no Vulkan adapter: apt-get install mesa-vulkan-drivers libvulkan1 (Debian, Ubuntu) brings one in software";

/// A test of a device, opened as it wants.
type Test = fn(&Opener);

/// Opens the adapter that is tested.
struct Opener {
    adapter: AdapterChoice,
    without_subgroups: bool,
}

/// By reductions: with subgroups and without.
static SHARED: [OnceLock<Arc<Gpu>>; 2] = [const { OnceLock::new() }; 2];

impl Opener {
    /// A device of its own.
    fn open_with(&self, change: impl FnOnce(&mut GpuOptions)) -> Arc<Gpu> {
        let mut options = GpuOptions {
            adapter: self.adapter.clone(),
            without_subgroups: self.without_subgroups,
            ..GpuOptions::default()
        };
        change(&mut options);
        Gpu::open(options).expect("the adapter was listed")
    }

    /// One that other tests use too, and that has compiled most kernels.
    fn open(&self) -> Arc<Gpu> {
        Arc::clone(SHARED[usize::from(self.without_subgroups)].get_or_init(|| self.open_with(|_| ())))
    }
}

fn main() -> ExitCode {
    // Numbers depend on how threads reduce; what becomes of caches and errors does not.
    let twice = [agreement::TESTS, draws::TESTS, prompts::TESTS].concat();
    let once = [caches::TESTS, generation::TESTS, trouble::TESTS].concat();
    let mut adapters = adapters();
    // Software is the same everywhere; a card is better than nothing.
    adapters.sort_by_key(|adapter| adapter.kind != AdapterKind::Software);
    let adapter = adapters.into_iter().next();
    let trial = |name: &str, without_subgroups: bool, test: Test, lacking: Option<&str>| {
        let kind = if without_subgroups { "workgroup memory" } else { "subgroups" };
        let lacking = lacking.or(match &adapter {
            None => Some(MISSING),
            Some(adapter) if !(adapter.subgroups || without_subgroups) => {
                Some("the adapter has no subgroups")
            }
            Some(_) => None,
        });
        if let Some(lacking) = lacking {
            return Trial::test(format!("{name} ({kind}): {lacking}"), || Ok(())).with_ignored_flag(true);
        }
        let adapter =
            adapter.as_ref().map_or(AdapterChoice::Best, |adapter| AdapterChoice::Index(adapter.index));
        Trial::test(format!("{name} ({kind})"), move || {
            test(&Opener { adapter, without_subgroups });
            Ok(())
        })
    };
    let no_vectors = checks::vectors().is_none().then_some("no vectors at $ECHO_VECTORS or ../shared/data");
    let subgroups = adapter.as_ref().is_none_or(|adapter| adapter.subgroups);
    let mut trials: Vec<_> = once.iter().map(|(name, test)| trial(name, !subgroups, *test, None)).collect();
    for without_subgroups in [false, true] {
        trials.extend(twice.iter().map(|(name, test)| trial(name, without_subgroups, *test, None)));
        let vectors: Test = agreement::the_model_vectors_hold;
        trials.push(trial("the model vectors hold", without_subgroups, vectors, no_vectors));
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}
