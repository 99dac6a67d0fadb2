//! The engine that compiles and runs modules, configured so that a module means the same everywhere.

use std::fmt::{self, Debug, Formatter};
use std::sync::Arc;
use std::thread;

use parking_lot::{Condvar, Mutex};
use wasmtime::{
    Config, Engine, EngineWeak, InstanceAllocationStrategy, PoolingAllocationConfig, Store, StoreLimits,
    StoreLimitsBuilder, WasmFeatures,
};

use super::limits::{
    GUARD_BYTES, MAX_FUEL, MAX_INSTANCES, MAX_MEMORY_BYTES, MAX_STACK_BYTES, MAX_TABLE_ELEMENTS, MAX_TICKS,
    TICK,
};

/// An engine that could not be started.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeError {
    /// The engine does not work on this machine, or there are not enough addresses for its instances.
    #[error(
        "WebAssembly cannot be run here: {0}; allow the process more address space, or leave wasm tasks out"
    )]
    Engine(String),
    /// There is no thread to move the backstop's clock.
    #[error("the thread that stops endless modules cannot be started: {0}; allow the process more threads")]
    Watch(#[from] std::io::Error),
}

/// WebAssembly 2.0 without vectors and without references to what the host has: what compilers of C
/// and Rust emit unasked.
const FEATURES: WasmFeatures =
    WasmFeatures::WASM2.difference(WasmFeatures::SIMD).difference(WasmFeatures::GC_TYPES);

/// Compiles and runs verifiers. A process needs one; clones share it.
#[derive(Clone)]
pub struct Runtime {
    pub(super) engine: Engine,
    pub(super) budget: InstanceBudget,
    pub(super) places: Places,
}

/// Places for instances. Whoever finds none waits for one: a machine of many cores wants more at once than
/// there are, and a prompt that failed for that would be another prompt than the one that was answered.
#[derive(Clone)]
pub(super) struct Places(Arc<(Mutex<u32>, Condvar)>);

/// A place, until it is dropped.
pub(super) struct Place(Places);

impl Places {
    fn new(free: u32) -> Self {
        Self(Arc::new((Mutex::new(free), Condvar::new())))
    }

    fn take(&self) -> Place {
        let (free, freed) = &*self.0;
        let mut free = free.lock();
        freed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        Place(self.clone())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let (free, freed) = &*self.0.0;
        *free.lock() += 1;
        freed.notify_one();
    }
}

/// How long one instance may run.
#[derive(Debug, Clone, Copy)]
pub(super) struct InstanceBudget {
    pub(super) fuel: u64,
    pub(super) ticks: u64,
}

impl Runtime {
    /// Starts the engine, and a thread that wakes once a [`TICK`] for as long as the runtime or one
    /// of its verifiers lives.
    ///
    /// # Errors
    /// When this machine cannot run WebAssembly or gives no thread.
    pub fn new() -> Result<Self, RuntimeError> {
        let engine = Engine::new(&config()).map_err(|error| RuntimeError::Engine(format!("{error:#}")))?;
        let clock = engine.weak();
        thread::Builder::new().name("wasm-ticks".into()).spawn(move || tick(&clock))?;
        let budget = InstanceBudget { fuel: MAX_FUEL, ticks: MAX_TICKS };
        Ok(Self { engine, budget, places: Places::new(MAX_INSTANCES) })
    }

    /// A place for one instance. Waits until there is one, for as long as others' calls take.
    pub(super) fn place(&self) -> Place {
        self.places.take()
    }

    /// The state that one instance lives in.
    pub(super) fn store(&self) -> Result<Store<StoreLimits>, wasmtime::Error> {
        // A growth that fails on one machine for lack of memory must not change a reward there: no
        // module ever sees one fail.
        let limits = StoreLimitsBuilder::new()
            .memory_size(MAX_MEMORY_BYTES)
            .table_elements(MAX_TABLE_ELEMENTS)
            .instances(1)
            .memories(1)
            .tables(1)
            .trap_on_grow_failure(true)
            .build();
        let mut store = Store::new(&self.engine, limits);
        store.limiter(|limits| limits);
        store.set_fuel(self.budget.fuel)?;
        store.set_epoch_deadline(self.budget.ticks);
        Ok(store)
    }
}

impl Debug for Runtime {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("budget", &self.budget).finish_non_exhaustive()
    }
}

/// Moves the engine's epoch until the engine is gone.
fn tick(clock: &EngineWeak) {
    loop {
        thread::sleep(TICK);
        let Some(engine) = clock.upgrade() else { return };
        engine.increment_epoch();
    }
}

fn config() -> Config {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_core_instances(MAX_INSTANCES)
        .total_memories(MAX_INSTANCES)
        .total_tables(MAX_INSTANCES)
        .max_memories_per_module(1)
        .max_tables_per_module(1)
        .max_memory_size(MAX_MEMORY_BYTES)
        .table_elements(MAX_TABLE_ELEMENTS);
    let mut config = Config::new();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        // Bounds are checked in code rather than by 4 GiB of guarded addresses an instance, which a
        // process may not be allowed.
        .memory_reservation(MAX_MEMORY_BYTES as u64)
        .memory_guard_size(GUARD_BYTES)
        .max_wasm_stack(MAX_STACK_BYTES)
        .consume_fuel(true)
        .epoch_interruption(true)
        .wasm_backtrace_max_frames(None)
        .cranelift_nan_canonicalization(true)
        .wasm_features(WasmFeatures::all(), false)
        .wasm_features(FEATURES, true);
    config
}
