//! A graphics card that computes on the processor, and fails when a test wants it to.

use std::sync::Arc;

use echo_policy::generation::device::Loader;
use echo_policy::generation::{AnyBackend, Backend, CpuBackend, Device, EngineError, Feed, Logits, Want};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;

/// What a card is asked for.
pub(crate) enum Call<'a> {
    /// To load the weights of a policy.
    Load,
    /// To go on with a sequence: all of its tokens, those that are fed now included.
    Feed(&'a [u32]),
}

/// Which of its calls fail, and how.
type Trouble = dyn Fn(Call<'_>) -> Option<EngineError> + Send + Sync;

/// A card whose calls fail as `trouble` says.
pub(crate) fn card(
    name: &str,
    trouble: impl Fn(Call<'_>) -> Option<EngineError> + Send + Sync + 'static,
) -> Device {
    Device::new(Card { name: name.to_owned(), trouble: Arc::new(trouble) })
}

struct Card {
    name: String,
    trouble: Arc<Trouble>,
}

impl Loader for Card {
    fn name(&self) -> &str {
        &self.name
    }

    fn computes_in(&self, precision: Precision) -> bool {
        precision == Precision::F32
    }

    fn load(
        &self,
        config: &ModelConfig,
        weights: &Weights,
        precision: Precision,
    ) -> Result<AnyBackend, EngineError> {
        if let Some(error) = (self.trouble)(Call::Load) {
            return Err(error);
        }
        let cpu = CpuBackend::load_as(config, weights, precision)?;
        Ok(AnyBackend::new(OnCard { cpu, trouble: self.trouble.clone() }))
    }
}

struct OnCard {
    cpu: CpuBackend,
    trouble: Arc<Trouble>,
}

/// The processor's, which it does not take for its own.
#[derive(Clone)]
struct Cache {
    cache: <CpuBackend as Backend>::Cache,
    tokens: Vec<u32>,
}

impl Backend for OnCard {
    type Cache = Cache;

    fn config(&self) -> &ModelConfig {
        self.cpu.config()
    }

    fn precision(&self) -> Precision {
        self.cpu.precision()
    }

    fn new_cache(&self) -> Cache {
        Cache { cache: self.cpu.new_cache(), tokens: Vec::new() }
    }

    fn cached_tokens(&self, cache: &Cache) -> usize {
        cache.tokens.len()
    }

    fn cache_bytes_per_token(&self) -> usize {
        self.cpu.cache_bytes_per_token()
    }

    fn cache_granule(&self) -> usize {
        self.cpu.cache_granule()
    }

    fn accepts(&self, cache: &Cache) -> bool {
        self.cpu.accepts(&cache.cache)
    }

    fn forward(&self, feeds: &mut [Feed<'_, Cache>], want: Want) -> Result<Logits, EngineError> {
        for feed in feeds.iter() {
            if let Some(error) = (self.trouble)(Call::Feed(&[&feed.cache.tokens, feed.tokens].concat())) {
                return Err(error);
            }
        }
        let own = feeds.iter_mut().map(|feed| Feed { tokens: feed.tokens, cache: &mut feed.cache.cache });
        let logits = self.cpu.forward(&mut own.collect::<Vec<_>>(), want)?;
        feeds.iter_mut().for_each(|feed| feed.cache.tokens.extend(feed.tokens));
        Ok(logits)
    }
}
