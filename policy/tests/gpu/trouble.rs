//! Devices that are lost, and adapters that are not there.

use echo_policy::generation::wgpu::{AdapterChoice, Gpu, GpuError, GpuOptions, WgpuBackend};
use echo_policy::generation::{Backend, EngineError, Feed, Want};

use crate::models::{self, Model};
use crate::{Opener, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("a lost device is an error and another can be opened", a_lost_device_is_an_error),
    ("an adapter that is not there is named", an_adapter_that_is_not_there_is_named),
];

fn a_lost_device_is_an_error(opener: &Opener) {
    let gpu = opener.open_with(|_| ());
    let Model { config, weights, .. } = models::tiny();
    let backend = WgpuBackend::load(&gpu, &config, &weights).unwrap();
    let mut cache = backend.new_cache();
    let feed = |backend: &WgpuBackend, cache: &mut _| {
        backend.forward(&mut [Feed { tokens: &[1, 2, 3], cache }], Want::Last).map(|_| ())
    };
    feed(&backend, &mut cache).unwrap();
    gpu.give_up();
    for _ in 0..2 {
        let lost = feed(&backend, &mut cache);
        assert!(matches!(lost, Err(EngineError::DeviceLost { .. })), "{lost:?}");
        assert_eq!(backend.cached_tokens(&cache), 3);
    }
    let load = WgpuBackend::load(&gpu, &config, &weights).err();
    assert!(matches!(load, Some(EngineError::DeviceLost { .. })), "{load:?}");
    drop((cache, backend, gpu));
    let again = WgpuBackend::load(&opener.open(), &config, &weights).unwrap();
    let mut cache = again.new_cache();
    feed(&again, &mut cache).unwrap();
}

fn an_adapter_that_is_not_there_is_named(opener: &Opener) {
    let options = GpuOptions { adapter: AdapterChoice::Name("no such card".into()), ..GpuOptions::default() };
    let error = Gpu::open(options).err();
    let there = opener.open().info().name.clone();
    assert!(
        matches!(&error, Some(GpuError::NoSuchAdapter { found, .. }) if found.contains(&there)),
        "{error:?}"
    );
}
