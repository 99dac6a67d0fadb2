//! Pages: shared, returned, kept from one version to the next, and run out of.

use echo_policy::generation::wgpu::{GpuCache, WgpuBackend};
use echo_policy::generation::{Backend, EngineError, Feed, Want};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::weights::Weights;

use crate::models::{self, Model, tokens};
use crate::{Opener, Test};

pub(crate) const TESTS: &[(&str, Test)] = &[
    ("copies share whole pages and give them back", copies_share_whole_pages_and_give_them_back),
    ("without room nothing is changed and it goes on later", without_room_nothing_is_changed),
    ("caches go on under another version of their shape", caches_go_on_under_another_version),
    ("a call that is refused changes nothing", a_call_that_is_refused_changes_nothing),
];

fn feed(backend: &WgpuBackend, cache: &mut GpuCache, tokens: &[u32]) -> Result<Vec<f32>, EngineError> {
    let logits = backend.forward(&mut [Feed { tokens, cache }], Want::Last)?;
    Ok(logits.rows().next().expect("one row").to_vec())
}

/// A backend with room for so many pages of the first model.
fn with_pages(opener: &Opener, pages: usize) -> (ModelConfig, WgpuBackend) {
    let Model { config, weights, .. } = models::one();
    let bytes = 32 * config.key_value_bytes_per_token() as usize;
    let gpu = opener.open_with(|options| options.cache_bytes = Some((pages * bytes) as u64));
    let backend = WgpuBackend::load(&gpu, &config, &weights).unwrap();
    assert_eq!(backend.free_cache_bytes(), pages * bytes);
    assert_eq!(backend.cache_bytes_per_token() * backend.cache_granule(), bytes);
    (config, backend)
}

fn copies_share_whole_pages_and_give_them_back(opener: &Opener) {
    let (config, backend) = with_pages(opener, 40);
    let page = backend.cache_bytes_per_token() * backend.cache_granule();
    let free = || backend.free_cache_bytes() / page;
    let mut first = backend.new_cache();
    feed(&backend, &mut first, &tokens(1, 70, &config)).unwrap();
    assert_eq!(free(), 37);
    let mut second = first.clone();
    assert_eq!(free(), 37);
    let expected = feed(&backend, &mut first.clone(), &[7]).unwrap();
    assert_eq!(free(), 37);
    // The page that both would write to is copied, and the copy has its tokens.
    assert_eq!(feed(&backend, &mut second, &[7]).unwrap(), expected);
    assert_eq!(free(), 36);
    assert_eq!(feed(&backend, &mut first, &[7]).unwrap(), expected);
    // Now each has its own.
    let expected = feed(&backend, &mut first, &[8]).unwrap();
    assert_eq!(feed(&backend, &mut second, &[8]).unwrap(), expected);
    assert_eq!(free(), 36);
    drop(first);
    assert_eq!(free(), 37);
    feed(&backend, &mut second, &[9]).unwrap();
    drop(second);
    assert_eq!(free(), 40);
}

fn without_room_nothing_is_changed(opener: &Opener) {
    // More than are made first, so that the buffers grow in between.
    let (config, backend) = with_pages(opener, 20);
    let long = tokens(2, 500, &config);
    let mut first = backend.new_cache();
    feed(&backend, &mut first, &long[..300]).unwrap();
    let mut second = backend.new_cache();
    feed(&backend, &mut second, &long[..300]).unwrap();
    let lacking = feed(&backend, &mut second, &long[300..]);
    let page = backend.cache_bytes_per_token() * 32;
    let Err(EngineError::Memory { wanted, free }) = lacking else { panic!("{lacking:?}") };
    assert_eq!((wanted, free), (6 * page, 0));
    assert_eq!((backend.cached_tokens(&second), backend.free_cache_bytes()), (300, 0));
    drop(first);
    let later = feed(&backend, &mut second, &long[300..]).unwrap();
    drop(second);
    // As if nothing had happened.
    assert_eq!(feed(&backend, &mut backend.new_cache(), &long).unwrap(), later);
    assert_eq!(backend.free_cache_bytes(), 20 * page);
}

fn caches_go_on_under_another_version(opener: &Opener) {
    let gpu = opener.open();
    let Model { config, weights, .. } = models::one();
    let old = WgpuBackend::load(&gpu, &config, &weights).unwrap();
    let mut cache = old.new_cache();
    let prompt = tokens(3, 40, &config);
    feed(&old, &mut cache, &prompt).unwrap();
    let expected = feed(&old, &mut cache.clone(), &[5]).unwrap();
    let new = WgpuBackend::load(&gpu, &config, &Weights::random(&config, 99)).unwrap();
    let same = WgpuBackend::load(&gpu, &config, &weights).unwrap();
    drop(old);
    assert!(new.accepts(&cache) && same.accepts(&cache));
    assert_eq!(feed(&same, &mut cache.clone(), &[5]).unwrap(), expected);
    assert_ne!(feed(&new, &mut cache.clone(), &[5]).unwrap(), expected);
    let elsewhere = WgpuBackend::load(&opener.open_with(|_| ()), &config, &weights).unwrap();
    assert!(!elsewhere.accepts(&cache));
    let Model { config, weights, .. } = models::tiny();
    let other = WgpuBackend::load(&gpu, &config, &weights).unwrap();
    assert!(!other.accepts(&cache));
    assert!(matches!(feed(&other, &mut cache, &[5]), Err(EngineError::ForeignCache)));
}

fn a_call_that_is_refused_changes_nothing(opener: &Opener) {
    let (config, backend) = with_pages(opener, 40);
    let mut cache = backend.new_cache();
    let free = backend.free_cache_bytes();
    let long = tokens(1, 400, &config);
    for tokens in [&[][..], &[1, 1201], &[1; 513]] {
        assert!(feed(&backend, &mut cache, tokens).is_err());
        assert_eq!((backend.cached_tokens(&cache), backend.free_cache_bytes()), (0, free));
    }
    feed(&backend, &mut cache, &long).unwrap();
    let outgrown = feed(&backend, &mut cache, &long);
    assert!(matches!(outgrown, Err(EngineError::TooLong { tokens: 800, limit: 700 })), "{outgrown:?}");
    assert_eq!(backend.cached_tokens(&cache), 400);
}
