use candle_core::Device;

use super::*;
use crate::config::TinySizes;
use crate::decoder::{Decoder, tests::families};
use crate::packed::Packed;
use crate::sampler::SamplingParams;
use crate::weights::DType;

/// Large enough that a pass wakes all threads, with heads as wide as those of real models, in each type of stored weights.
fn models() -> Vec<(ModelConfig, Weights)> {
    let config = ModelConfig::tiny_qwen3(TinySizes {
        vocab: 1_000,
        hidden: 96,
        layers: 2,
        heads: 4,
        kv_heads: 2,
        head_dim: 40,
        intermediate: 250,
        positions: 256,
    });
    let config = ModelConfig { initializer_range: 0.1, ..config.unwrap() };
    let weights = Weights::random(&config, 5);
    [DType::F32, DType::BF16, DType::F16].map(|dtype| (config.clone(), weights.to_dtype(dtype))).into()
}

/// Three sequences: two begin with the same 70 tokens, and one of them is a token behind the other.
fn sequences() -> [Vec<u32>; 3] {
    let tokens = |salt: u32, count: u32| -> Vec<u32> {
        (0..count).map(|i| (i * i * 17 + salt * 71) % 1_000).collect()
    };
    let prompt = tokens(1, 70);
    [[prompt.clone(), tokens(2, 40)].concat(), [prompt, tokens(3, 41)].concat(), tokens(4, 33)]
}

/// The logits after the last tokens, with the common prompt cached once, everything else fed in two calls.
fn shared_logits(backend: &CpuBackend) -> Vec<Vec<f32>> {
    let [first, second, third] = sequences();
    let mut prompt = backend.new_cache();
    backend.forward(&mut [Feed { tokens: &first[..70], cache: &mut prompt }], Want::Nothing).unwrap();
    let mut caches = [prompt.clone(), prompt, backend.new_cache()];
    let [a, b, c] = &mut caches;
    let mut feeds = [
        Feed { tokens: &first[70..109], cache: a },
        Feed { tokens: &second[70..110], cache: b },
        Feed { tokens: &third[..32], cache: c },
    ];
    backend.forward(&mut feeds, Want::Nothing).unwrap();
    let mut feeds = [
        Feed { tokens: &first[109..], cache: a },
        Feed { tokens: &second[110..], cache: b },
        Feed { tokens: &third[32..], cache: c },
    ];
    backend.forward(&mut feeds, Want::Last).unwrap().rows().map(<[f32]>::to_vec).collect()
}

fn own_logits(backend: &CpuBackend, tokens: &[u32]) -> Vec<f32> {
    let mut cache = backend.new_cache();
    let logits = backend.forward(&mut [Feed { tokens, cache: &mut cache }], Want::Last).unwrap();
    logits.rows().next().unwrap().to_vec()
}

#[test]
fn logits_depend_neither_on_neighbours_nor_on_threads_nor_on_the_processor() {
    for (config, weights) in models() {
        let first = CpuBackend::load(&config, &weights).unwrap();
        let expected: Vec<_> = sequences().iter().map(|tokens| own_logits(&first, tokens)).collect();
        assert!(first.operations(111, 1) > 2_000_000, "the pass is too small for several threads");
        for processor in Processor::available() {
            let backend = CpuBackend::load_on(processor, &config, &weights).unwrap();
            assert_eq!(shared_logits(&backend), expected, "{}", processor.name());
        }
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert_eq!(pool.install(|| shared_logits(&first)), expected, "{threads} threads");
        }
    }
}

#[test]
fn logits_are_those_of_the_training_forward() {
    for (config, weights) in models().into_iter().chain(families()) {
        let tokens: Vec<u32> = (0..60).map(|i| i * 7 % config.vocab_size as u32).collect();
        let decoder = Decoder::trainable(&config, &weights, &Device::Cpu).unwrap();
        let packed = Packed::of(std::slice::from_ref(&tokens)).unwrap();
        let expected = decoder.score(&packed, &packed.next_tokens()).unwrap().logp;
        let backend = CpuBackend::load(&config, &weights).unwrap();
        let params = SamplingParams::unbiased(1);
        let claims: Vec<_> =
            tokens[1..].iter().map(|token| Claim { params: &params, token: *token }).collect();
        let mut cache = backend.new_cache();
        let placed =
            backend.place(&mut [Feed { tokens: &tokens[..59], cache: &mut cache }], &claims).unwrap();
        assert_eq!(placed.len(), 59);
        for (mine, theirs) in placed.iter().zip(&expected) {
            assert!((mine.raw_logprob - theirs).abs() < 1e-4, "{:?}: {mine:?} {theirs}", config.family);
        }
    }
}

#[test]
fn weights_are_shared_and_not_copied() {
    let (config, weights) = models().remove(1);
    let backend = CpuBackend::load(&config, &weights).unwrap();
    let table = weights.get("model.embed_tokens.weight").unwrap();
    assert_eq!(backend.embedding.bytes().as_ptr(), table.bytes().as_ptr());
}
