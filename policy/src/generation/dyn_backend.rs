//! One type over all backends, so that a program takes whichever device it finds.
//!
//! What is behind it is known to itself alone. A call costs a list of references more than one
//! to the backend itself.

use std::any::Any;

use super::EngineError;
use super::backend::{Backend, Feed, Logits, Pick, TokenClaim, Want};
use crate::model::config::ModelConfig;
use crate::model::precision::Precision;
use crate::sampling::{Interval, Sampled};

/// A model on some device.
pub struct AnyBackend(Box<dyn Backend<Cache = AnyCache>>);

/// The cache of some backend. Other backends do not accept it.
pub struct AnyCache(Box<dyn Cache>);

/// What every cache can.
trait Cache: Any + Send {
    fn copied(&self) -> AnyCache;
}

impl<C: Clone + Send + 'static> Cache for C {
    fn copied(&self) -> AnyCache {
        AnyCache(Box::new(self.clone()))
    }
}

impl AnyCache {
    fn of<C: 'static>(&self) -> Option<&C> {
        (&*self.0 as &dyn Any).downcast_ref()
    }

    fn of_mut<C: 'static>(&mut self) -> Option<&mut C> {
        (&mut *self.0 as &mut dyn Any).downcast_mut()
    }
}

impl Clone for AnyCache {
    fn clone(&self) -> Self {
        self.0.copied()
    }
}

impl AnyBackend {
    /// Hides which backend it is.
    pub fn new<B: Backend<Cache: 'static> + 'static>(backend: B) -> Self {
        Self(Box::new(Hidden(backend)))
    }
}

/// A backend whose caches are as any other's to look at.
struct Hidden<B>(B);

/// The feeds, with caches as the backend itself knows them.
fn own<'a, C: 'static>(feeds: &'a mut [Feed<'_, AnyCache>]) -> Result<Vec<Feed<'a, C>>, EngineError> {
    let own = |feed: &'a mut Feed<'_, AnyCache>| {
        let cache = feed.cache.of_mut().ok_or(EngineError::ForeignCache)?;
        Ok(Feed { tokens: feed.tokens, cache })
    };
    feeds.iter_mut().map(own).collect()
}

impl<B: Backend<Cache: 'static>> Backend for Hidden<B> {
    type Cache = AnyCache;

    fn config(&self) -> &ModelConfig {
        self.0.config()
    }

    fn precision(&self) -> Precision {
        self.0.precision()
    }

    fn new_cache(&self) -> AnyCache {
        AnyCache(Box::new(self.0.new_cache()))
    }

    fn cached_tokens(&self, cache: &AnyCache) -> usize {
        cache.of().map_or(0, |cache| self.0.cached_tokens(cache))
    }

    fn cache_bytes_per_token(&self) -> usize {
        self.0.cache_bytes_per_token()
    }

    fn cache_granule(&self) -> usize {
        self.0.cache_granule()
    }

    fn free_cache_bytes(&self) -> usize {
        self.0.free_cache_bytes()
    }

    fn accepts(&self, cache: &AnyCache) -> bool {
        cache.of().is_some_and(|cache| self.0.accepts(cache))
    }

    fn forward(&self, feeds: &mut [Feed<'_, AnyCache>], want: Want) -> Result<Logits, EngineError> {
        self.0.forward(&mut own(feeds)?, want)
    }

    fn forward_beside(&self, feeds: &mut [Feed<'_, AnyCache>]) -> Result<(), EngineError> {
        self.0.forward_beside(&mut own(feeds)?)
    }

    fn draw(
        &self,
        feeds: &mut [Feed<'_, AnyCache>],
        picks: &[Pick<'_>],
    ) -> Result<Vec<Sampled>, EngineError> {
        self.0.draw(&mut own(feeds)?, picks)
    }

    fn place(
        &self,
        feeds: &mut [Feed<'_, AnyCache>],
        claims: &[TokenClaim<'_>],
    ) -> Result<Vec<Interval>, EngineError> {
        self.0.place(&mut own(feeds)?, claims)
    }
}

impl Backend for AnyBackend {
    type Cache = AnyCache;

    fn config(&self) -> &ModelConfig {
        self.0.config()
    }

    fn precision(&self) -> Precision {
        self.0.precision()
    }

    fn new_cache(&self) -> AnyCache {
        self.0.new_cache()
    }

    /// None in a cache of another kind of backend.
    fn cached_tokens(&self, cache: &AnyCache) -> usize {
        self.0.cached_tokens(cache)
    }

    fn cache_bytes_per_token(&self) -> usize {
        self.0.cache_bytes_per_token()
    }

    fn cache_granule(&self) -> usize {
        self.0.cache_granule()
    }

    fn free_cache_bytes(&self) -> usize {
        self.0.free_cache_bytes()
    }

    fn accepts(&self, cache: &AnyCache) -> bool {
        self.0.accepts(cache)
    }

    fn forward(&self, feeds: &mut [Feed<'_, AnyCache>], want: Want) -> Result<Logits, EngineError> {
        self.0.forward(feeds, want)
    }

    fn forward_beside(&self, feeds: &mut [Feed<'_, AnyCache>]) -> Result<(), EngineError> {
        self.0.forward_beside(feeds)
    }

    fn draw(
        &self,
        feeds: &mut [Feed<'_, AnyCache>],
        picks: &[Pick<'_>],
    ) -> Result<Vec<Sampled>, EngineError> {
        self.0.draw(feeds, picks)
    }

    fn place(
        &self,
        feeds: &mut [Feed<'_, AnyCache>],
        claims: &[TokenClaim<'_>],
    ) -> Result<Vec<Interval>, EngineError> {
        self.0.place(feeds, claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generation::{CpuBackend, Generation, Policy, SampleRequest, score};
    use crate::model::config::TinySizes;
    use crate::model::weights::Weights;
    use crate::sampling::SamplingParams;
    use std::sync::Arc;

    /// The CPU backend, under another name.
    struct Other(CpuBackend);

    #[derive(Clone)]
    struct OtherCache;

    impl Backend for Other {
        type Cache = OtherCache;

        fn config(&self) -> &ModelConfig {
            self.0.config()
        }

        fn new_cache(&self) -> OtherCache {
            OtherCache
        }

        fn cached_tokens(&self, _: &OtherCache) -> usize {
            7
        }

        fn cache_bytes_per_token(&self) -> usize {
            1
        }

        fn accepts(&self, _: &OtherCache) -> bool {
            true
        }

        fn forward(&self, _: &mut [Feed<'_, OtherCache>], _: Want) -> Result<Logits, EngineError> {
            Ok(Logits::new(1, Vec::new()))
        }
    }

    fn config(vocab: usize) -> ModelConfig {
        let sizes = TinySizes {
            vocab,
            hidden: 32,
            layers: 2,
            heads: 2,
            kv_heads: 1,
            head_dim: 16,
            intermediate: 96,
            positions: 64,
        };
        ModelConfig::tiny_qwen3(sizes).unwrap()
    }

    fn cpu(precision: Precision) -> CpuBackend {
        let config = config(64);
        CpuBackend::load_as(&config, &Weights::random(&config, 1), precision).unwrap()
    }

    #[test]
    fn hidden_it_computes_the_same_to_the_bit() {
        let request = SampleRequest {
            prompt: (1..40).collect(),
            seed: [3; 32],
            samples: 3,
            stop_ids: Vec::new(),
            stop_strings: None,
            limits: Vec::new(),
            max_heard: 0,
            params: SamplingParams { temperature: 0.8, top_p: 0.9, ..SamplingParams::unbiased(12) },
        };
        let plain = Policy::new(1, cpu(Precision::Int8));
        let hidden = Policy::new(1, AnyBackend::new(cpu(Precision::Int8)));
        let (one, other) = (plain.backend(), hidden.backend());
        assert_eq!((one.config(), one.precision()), (other.config(), other.precision()));
        assert_eq!(one.cache_granule(), other.cache_granule());
        assert_eq!(one.cache_bytes_per_token(), other.cache_bytes_per_token());
        assert_eq!(one.free_cache_bytes(), other.free_cache_bytes());
        let sequences = [request.prompt.clone()];
        assert_eq!(score(&plain, &sequences).unwrap(), score(&hidden, &sequences).unwrap());
        let drawn = Generation::start(Arc::new(plain), vec![request.clone()]).unwrap().run().unwrap();
        assert_eq!(drawn, Generation::start(Arc::new(hidden), vec![request]).unwrap().run().unwrap());
    }

    #[test]
    fn a_cache_of_another_backend_is_foreign() {
        let (here, there) =
            (AnyBackend::new(cpu(Precision::F32)), AnyBackend::new(Other(cpu(Precision::F32))));
        let mut cache = here.new_cache();
        here.forward(&mut [Feed { tokens: &[1, 2], cache: &mut cache }], Want::Nothing).unwrap();
        assert!(here.accepts(&cache) && here.accepts(&cache.clone()) && !there.accepts(&cache));
        assert_eq!((here.cached_tokens(&cache), there.cached_tokens(&cache)), (2, 0));
        assert_eq!((there.cached_tokens(&there.new_cache()), here.cached_tokens(&there.new_cache())), (7, 0));
        let mut foreign = there.new_cache();
        let mut feeds =
            [Feed { tokens: &[3], cache: &mut cache }, Feed { tokens: &[3], cache: &mut foreign }];
        let refused = here.forward(&mut feeds, Want::Last);
        assert!(matches!(refused, Err(EngineError::ForeignCache)));
        let params = SamplingParams::unbiased(1);
        let pick = Pick { params: &params, u: 0.5 };
        assert!(matches!(here.draw(&mut feeds, &[pick, pick]), Err(EngineError::ForeignCache)));
        let claim = TokenClaim { params: &params, token: 1, u: 0.5 };
        assert!(matches!(here.place(&mut feeds, &[claim, claim]), Err(EngineError::ForeignCache)));
        assert_eq!(here.cached_tokens(&cache), 2, "nothing is changed");
    }
}
