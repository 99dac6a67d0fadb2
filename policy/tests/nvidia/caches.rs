//! Pages are shared until somebody writes.

use std::sync::Arc;

use echo_policy::generation::cuda::{CudaBackend, CudaCache, CudaDevice};
use echo_policy::generation::{Backend, EngineError, Feed, Want};
use echo_policy::model::precision::Precision;

use crate::emulator::Program;
use crate::models::{self, tokens};
use crate::{Emulator, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("clones share whole pages", clones_share_whole_pages),
    ("a cache of another device or shape is foreign", other_caches_are_foreign),
    ("free bytes are what pages can still take", free_bytes_are_what_pages_can_take),
];

fn load(device: &Arc<CudaDevice>, precision: Precision) -> CudaBackend {
    let model = models::one();
    CudaBackend::load(device, &model.config, &model.weights, precision).unwrap()
}

fn feed(backend: &CudaBackend, cache: &mut CudaCache, tokens: &[u32]) -> Vec<f32> {
    let logits = backend.forward(&mut [Feed { tokens, cache }], Want::Last).unwrap();
    logits.rows().next().unwrap().to_vec()
}

fn clones_share_whole_pages(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    for precision in [Precision::F32, Precision::Bf16] {
        let backend = load(&device, precision);
        // Two layers, two heads for keys and values, 40 dimensions, in f32.
        assert_eq!(backend.cache_bytes_per_token(), 2 * 2 * 2 * 40 * 4);
        let page = backend.cache_bytes_per_token() * backend.cache_granule();
        let (a, b, c) = (tokens(1, 40, backend.config()), tokens(2, 5, backend.config()), [7, 8, 9]);
        let mut first = backend.new_cache();
        feed(&backend, &mut first, &a);
        // The largest call of this test, so that the workspace grows no more.
        let after = |a: &[u32], b: &[u32]| {
            let mut cache = backend.new_cache();
            feed(&backend, &mut cache, &[a, b].concat())
        };
        let expected = [after(&a, &b), after(&a, &c)];
        let mut pages = vec![backend.new_cache(); 6];
        for cache in &mut pages {
            feed(&backend, cache, &[1]);
        }
        drop(pages);
        let before = (device.used_bytes(), backend.free_cache_bytes());
        let mut second = first.clone();
        assert_eq!(backend.cached_tokens(&second), 40);
        // Each goes on from the same second page: one of them has to copy it.
        let found = [feed(&backend, &mut first, &b), feed(&backend, &mut second, &c)];
        assert_eq!(found, expected);
        assert_eq!(device.used_bytes(), before.0, "pages come from those that others gave back");
        assert_eq!(before.1 - backend.free_cache_bytes(), page);
        // And again from there, now with a page of its own each.
        assert_eq!(feed(&backend, &mut first, &[3]), after(&a, &[&b[..], &[3]].concat()));
    }
}

fn other_caches_are_foreign(program: &Arc<Program>) {
    let device = Emulator::new(program).device();
    let (one, other) = (load(&device, Precision::F32), load(&device, Precision::F32));
    assert!(one.accepts(&other.new_cache()), "another version of the same shape");
    assert!(
        one.accepts(&load(&device, Precision::Bf16).new_cache()),
        "keys and values are f32 in every precision"
    );
    let elsewhere = load(&Emulator::new(program).device(), Precision::F32);
    let model = models::tiny();
    let small = CudaBackend::load(&device, &model.config, &model.weights, Precision::F32).unwrap();
    for foreign in [elsewhere.new_cache(), small.new_cache()] {
        let mut cache = foreign;
        assert!(!one.accepts(&cache));
        let fed = one.forward(&mut [Feed { tokens: &[1], cache: &mut cache }], Want::Last);
        assert!(matches!(fed, Err(EngineError::ForeignCache)));
    }
}

fn free_bytes_are_what_pages_can_take(program: &Arc<Program>) {
    let total = 64 << 20;
    let (device, emulator) = Emulator::new(program).with(|emulator| emulator.total = total).shared_device();
    let backend = load(&device, Precision::F32);
    let mut caches = vec![backend.new_cache(); 3];
    for cache in &mut caches {
        feed(&backend, cache, &tokens(1, 33, backend.config()));
    }
    let page = backend.cache_bytes_per_token() * backend.cache_granule();
    let free = backend.free_cache_bytes();
    // An eighth is left to others.
    assert_eq!(free, total - total / 8 - emulator.taken());
    drop(caches);
    assert_eq!(backend.free_cache_bytes(), free + 6 * page);
}
