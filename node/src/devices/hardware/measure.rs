//! How fast a device computes, by a model of random weights.

use std::time::Instant;

use echo_policy::bench_models::{Size, tokens, unit};
use echo_policy::generation::backend::MAX_CALL_TOKENS;
use echo_policy::generation::{Backend, EngineError, Feed, Pick, Want};
use echo_policy::model::precision::Precision;
use echo_policy::model::weights::Weights;
use echo_policy::sampling::SamplingParams;
use serde::{Deserialize, Serialize};

/// Responses of a batch: the samples of an order, or of a few.
const BATCH: usize = 16;
/// Tokens of the first call; the next one has twice as many, until it takes its share of the time.
const FIRST_CALL: usize = 8;
/// The share of the time that a call for a prompt may take.
const SHARE_OF_CALL: f64 = 0.05;

/// The device, the model and the time of a measurement.
pub(super) struct MeasurementTask<'a> {
    /// The device's name, under which the result is kept.
    pub(super) device: &'a str,
    /// The size of the model, for the report.
    pub(super) size: Size,
    /// Seconds for all three figures together.
    pub(super) seconds: f64,
    /// Threads of the processor.
    pub(super) threads: usize,
    /// The random weights of the model.
    pub(super) weights: &'a Weights,
}

/// What a device did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceRates {
    /// The device's name, by which a node finds its own rates.
    pub device: String,
    /// The precision that was computed in.
    pub precision: Precision,
    /// Threads of the processor.
    pub threads: usize,
    /// The model's size by name, such as `108m`.
    pub size: String,
    /// The number of the model's parameters.
    pub parameters: u64,
    /// Tokens a second of a prompt.
    pub prefill_tok_s: f64,
    /// Tokens a second of one response.
    pub single_tok_s: f64,
    /// Responses of the batch.
    pub batch: usize,
    /// Tokens a second of all responses of a batch.
    pub batch_tok_s: f64,
    /// Bytes that the model's weights have as they are computed with.
    pub weights_bytes: u64,
    /// Bytes of a token in a cache.
    pub cache_bytes_per_token: u64,
    /// Tokens that the device has room for beside the weights, where it tells.
    pub cache_tokens: Option<u64>,
}

/// Measures: a third of the time each for prompts, one response and a batch.
pub(super) fn run<B: Backend>(
    backend: &B,
    task: &MeasurementTask<'_>,
    say: &dyn Fn(&str),
) -> Result<DeviceRates, EngineError> {
    let third = task.seconds / 3.0;
    let bench = Bench { backend, vocab: backend.config().vocab_size };
    let call = bench.longest_call(third)?;
    say(&format!("prompts, {call} tokens at a time"));
    let prefill_tok_s = per_second(third, || bench.filled(call).map(|_| call))?;
    say("one response");
    let single_tok_s = bench.responses(1, call, third)?;
    let mut batch = BATCH;
    let batch_tok_s = loop {
        say(&format!("{batch} responses at a time"));
        match bench.responses(batch, call, third) {
            Err(EngineError::Memory { .. }) if batch > 1 => batch /= 2,
            measured => break measured?,
        }
    };
    let bytes = backend.cache_bytes_per_token();
    let free = Some(backend.free_cache_bytes()).filter(|free| *free != usize::MAX);
    Ok(DeviceRates {
        device: task.device.to_owned(),
        precision: backend.precision(),
        threads: task.threads,
        size: task.size.to_string(),
        parameters: task.weights.total_elements() as u64,
        prefill_tok_s,
        single_tok_s,
        batch,
        batch_tok_s,
        weights_bytes: weights_bytes(task.weights, backend.precision()),
        cache_bytes_per_token: bytes as u64,
        cache_tokens: free.map(|free| (free / bytes.max(1)) as u64),
    })
}

/// Bytes of weights in a precision: as they were published in f32, else with the scales of their blocks.
fn weights_bytes(weights: &Weights, precision: Precision) -> u64 {
    let per_thousand = match precision {
        Precision::F32 => return weights.total_bytes() as u64,
        Precision::Bf16 => 2_000,
        Precision::Int8 => 1_063,
        Precision::Int4 => 563,
    };
    weights.total_elements() as u64 * per_thousand / 1_000
}

/// How often a second: what `work` counts, over so many seconds at least.
fn per_second(
    seconds: f64,
    mut work: impl FnMut() -> Result<usize, EngineError>,
) -> Result<f64, EngineError> {
    let since = Instant::now();
    let mut done = 0;
    loop {
        done += work()?;
        let elapsed = since.elapsed().as_secs_f64();
        if elapsed >= seconds {
            return Ok(done as f64 / elapsed.max(f64::MIN_POSITIVE));
        }
    }
}

struct Bench<'b, B> {
    backend: &'b B,
    vocab: usize,
}

impl<B: Backend> Bench<'_, B> {
    /// A cache with so many tokens, computed in one call.
    fn filled(&self, count: usize) -> Result<B::Cache, EngineError> {
        let prompt = tokens(0, count, self.vocab);
        let mut cache = self.backend.new_cache();
        self.backend.forward(&mut [Feed { tokens: &prompt, cache: &mut cache }], Want::Last)?;
        Ok(cache)
    }

    /// Tokens that a call may have so as to take a small share of the time. Beyond that it
    /// warms the device up.
    fn longest_call(&self, seconds: f64) -> Result<usize, EngineError> {
        let mut count = FIRST_CALL;
        loop {
            self.filled(count)?;
            let since = Instant::now();
            self.filled(count)?;
            let next = since.elapsed().as_secs_f64() * 2.0;
            if count == MAX_CALL_TOKENS || next > seconds * SHARE_OF_CALL {
                return Ok(count);
            }
            count *= 2;
        }
    }

    /// Tokens a second of so many responses after a prompt.
    fn responses(&self, count: usize, prompt: usize, seconds: f64) -> Result<f64, EngineError> {
        let params = SamplingParams::unbiased(1);
        let (prompt, mut drawn) = (self.filled(prompt)?, 0);
        let longest = self.backend.config().max_position_embeddings;
        let mut caches = vec![prompt.clone(); count];
        let mut said = vec![[0u32]; count];
        let mut step = || {
            // They begin anew when they are as long as the model allows.
            if caches.iter().any(|cache| self.backend.cached_tokens(cache) >= longest) {
                caches.fill(prompt.clone());
            }
            let feeds = caches.iter_mut().zip(&said).map(|(cache, tokens)| Feed { tokens, cache });
            let mut feeds: Vec<_> = feeds.collect();
            let picks: Vec<_> =
                (0..count as u64).map(|at| Pick { params: &params, u: unit(at, drawn) }).collect();
            let next = self.backend.draw(&mut feeds, &picks)?;
            drawn += 1;
            said.iter_mut().zip(next).for_each(|(said, next)| *said = [next.token]);
            Ok(count)
        };
        // The first takes memory.
        step()?;
        per_second(seconds, step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use echo_policy::bench_models::weights;
    use echo_policy::generation::Policy;

    #[test]
    fn rates_are_those_of_the_work_that_was_done() {
        let config = Size::Tiny.config().unwrap();
        let weights = weights(&config).unwrap();
        let policy = Policy::load_as(0, &config, &weights, Precision::Bf16).unwrap();
        let said = std::cell::RefCell::new(Vec::new());
        let task =
            MeasurementTask { device: "CPU", size: Size::Tiny, seconds: 0.3, threads: 2, weights: &weights };
        let since = Instant::now();
        let rates = run(policy.backend(), &task, &|text| said.borrow_mut().push(text.to_owned())).unwrap();
        assert!(since.elapsed().as_secs_f64() >= 0.3);
        assert!(rates.prefill_tok_s > 0.0 && rates.single_tok_s > 0.0 && rates.batch_tok_s > 0.0);
        assert_eq!((rates.batch, rates.precision, rates.size.as_str()), (BATCH, Precision::Bf16, "tiny"));
        assert_eq!(rates.parameters, config.parameter_count());
        assert_eq!((rates.weights_bytes, rates.cache_tokens), (2 * rates.parameters, None));
        assert_eq!(said.borrow().len(), 3);
    }

    #[test]
    fn what_is_counted_is_divided_by_the_time() {
        let rate = per_second(0.05, || {
            std::thread::sleep(std::time::Duration::from_millis(10));
            Ok(7)
        });
        let rate = rate.unwrap();
        assert!(rate > 50.0 && rate <= 700.0, "{rate}");
    }
}
