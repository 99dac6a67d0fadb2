mod agreement;

use candle_core::Device;

use super::*;
use crate::audit::{Audit, Draw, Evidence, Tolerance};
use crate::bench_models;
use crate::bench_models::Size;
use crate::generation::Policy;
use crate::model::config::TinySizes;
#[cfg(target_os = "linux")]
use crate::model::weights::ImageWriter;
use crate::model::weights::RawTensor;
use crate::sampling::{SamplingError, SamplingParams};
use crate::training::decoder::Decoder;
use crate::training::decoder::tests::families;
use crate::training::packed::Packed;

/// Large enough that a pass wakes all threads, with heads as wide as those of real models or of no
/// whole number of vectors, one to seven of which share keys, in each type of stored weights.
fn models() -> Vec<(ModelConfig, Weights)> {
    let model = |(dtype, head_dim, heads, layers)| {
        let config = ModelConfig::tiny_qwen3(TinySizes {
            vocab: 1_000,
            hidden: 96,
            layers,
            heads,
            kv_heads: 2,
            head_dim,
            intermediate: 250,
            positions: 256,
        });
        let config = ModelConfig { initializer_range: 0.1, ..config.unwrap() };
        let weights = Weights::random(&config, 5).to_dtype(dtype);
        (config, weights)
    };
    [(DType::F32, 64, 4, 2), (DType::BF16, 40, 14, 2), (DType::F16, 40, 2, 1), (DType::BF16, 32, 6, 3)]
        .map(model)
        .into()
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
    for ((config, weights), precision) in models().iter().flat_map(|model| Precision::ALL.map(|p| (model, p)))
    {
        let load = |processor| CpuBackend::load_on(processor, config, weights, precision).unwrap();
        let own = |backend: &CpuBackend| sequences().map(|tokens| own_logits(backend, &tokens));
        let first = CpuBackend::load_as(config, weights, precision).unwrap();
        assert_eq!(first.precision(), precision);
        assert!(first.operations(111, 1) > 2_000_000, "the pass is too small for several threads");
        let expected = own(&first);
        // The first of those that add alike, and what comes out there.
        let mut kinds = vec![(Processor::best(), expected.clone())];
        for processor in Processor::available() {
            let backend = load(processor);
            let known = kinds.iter().position(|(kind, _)| kind.adds_as(processor, precision));
            let kind = known.unwrap_or_else(|| {
                kinds.push((processor, own(&backend)));
                kinds.len() - 1
            });
            assert!(shared_logits(&backend) == kinds[kind].1, "{precision} {}", processor.name());
        }
        for threads in [1, 2, 3] {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
            assert!(pool.install(|| shared_logits(&first)) == expected, "{precision}, {threads} threads");
        }
    }
}

#[test]
fn logits_do_not_depend_on_which_ones_are_wanted() {
    for ((config, weights), precision) in models().iter().flat_map(|model| Precision::ALL.map(|p| (model, p)))
    {
        let backend = CpuBackend::load_as(config, weights, precision).unwrap();
        let sequences = sequences();
        let after = |want| {
            let mut caches = std::array::from_fn::<_, 3, _>(|_| backend.new_cache());
            let mut feeds: Vec<_> =
                sequences.iter().zip(&mut caches).map(|(tokens, cache)| Feed { tokens, cache }).collect();
            let logits = backend.forward(&mut feeds, want).unwrap();
            // What went into the caches, as a later token sees it.
            let mut feeds: Vec<_> = caches.iter_mut().map(|cache| Feed { tokens: &[7], cache }).collect();
            let behind = backend.forward(&mut feeds, Want::Last).unwrap();
            let [logits, behind] =
                [logits, behind].map(|logits| logits.rows().map(<[f32]>::to_vec).collect::<Vec<_>>());
            (logits, behind)
        };
        let ((none, behind_none), (last, behind_last), (all, behind_all)) =
            (after(Want::Nothing), after(Want::Last), after(Want::All));
        assert!(none.is_empty());
        let ends = sequences.iter().scan(0, |end, tokens| {
            *end += tokens.len();
            Some(*end)
        });
        assert_eq!(last, ends.map(|end| all[end - 1].clone()).collect::<Vec<_>>());
        assert_eq!(behind_last, behind_all);
        assert_eq!(behind_none, behind_all);
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
            tokens[1..].iter().map(|token| TokenClaim { params: &params, token: *token, u: 0.0 }).collect();
        let mut cache = backend.new_cache();
        let placed =
            backend.place(&mut [Feed { tokens: &tokens[..59], cache: &mut cache }], &claims).unwrap();
        assert_eq!(placed.len(), 59);
        for (mine, theirs) in placed.iter().zip(&expected) {
            assert!((mine.raw_logprob - theirs).abs() < 1e-4, "{:?}: {mine:?} {theirs}", config.family);
        }
    }
}

/// The log-probabilities of all tokens after each of a sequence's.
fn logprobs(backend: &CpuBackend, tokens: &[u32]) -> Vec<Vec<f64>> {
    let mut cache = backend.new_cache();
    let logits = backend.forward(&mut [Feed { tokens, cache: &mut cache }], Want::All).unwrap();
    let row = |row: &[f32]| {
        let total: f64 = row.iter().map(|logit| f64::from(*logit).exp()).sum();
        row.iter().map(|logit| f64::from(*logit) - total.ln()).collect()
    };
    logits.rows().map(row).collect()
}

#[test]
fn a_coarser_precision_is_near_f32_and_not_the_same() {
    for (config, weights) in models().into_iter().chain(families()) {
        let tokens: Vec<u32> = (0..60).map(|i| i * 7 % config.vocab_size as u32).collect();
        let exact = logprobs(&CpuBackend::load(&config, &weights).unwrap(), &tokens);
        // Measured: 4e-3 to 1e-2 and 2e-5 to 7e-5 in bf16, 0.02 and 2e-4 to 7e-4 in int8, 0.2 to
        // 0.3 and 0.02 to 0.05 in int4.
        for (precision, mean_limit, kl_limit) in
            [(Precision::Bf16, 0.01, 1e-3), (Precision::Int8, 0.05, 2e-3), (Precision::Int4, 0.5, 0.1)]
        {
            let found = logprobs(&CpuBackend::load_as(&config, &weights, precision).unwrap(), &tokens);
            let next = exact.iter().zip(&found).zip(&tokens[1..]);
            let mean =
                next.map(|((a, b), token)| (a[*token as usize] - b[*token as usize]).abs()).sum::<f64>()
                    / 59.0;
            let pairs = exact.iter().flatten().zip(found.iter().flatten());
            let kl = pairs.map(|(a, b)| a.exp() * (a - b)).sum::<f64>() / 60.0;
            let what =
                format!("{precision} {:?} {:?}: {mean:.2e} {kl:.2e}", config.family, weights.main_dtype());
            assert!(mean > 1e-6 && mean <= mean_limit && kl <= kl_limit, "{what}");
        }
    }
}

#[test]
fn weights_that_are_no_numbers_end_in_an_error_and_others_in_tokens() {
    let (config, weights) = families().remove(0);
    let params = SamplingParams::unbiased(1);
    for precision in Precision::ALL {
        for (value, is_usable) in
            [(0.0, true), (1e-40, true), (3e38, false), (f32::NAN, false), (f32::INFINITY, false)]
        {
            for name in [
                "model.layers.0.self_attn.o_proj.weight",
                "model.layers.1.mlp.down_proj.weight",
                "model.embed_tokens.weight",
            ] {
                let raw = weights.iter().map(|tensor| {
                    let mut values = tensor.to_f32();
                    if tensor.name() == name {
                        values.fill(value);
                    }
                    RawTensor::from_f32(tensor.name(), tensor.shape(), &values, DType::F32)
                });
                let weights = Weights::from_raw(&config, raw).unwrap();
                let backend = CpuBackend::load_as(&config, &weights, precision).unwrap();
                let mut cache = backend.new_cache();
                let mut feeds = [Feed { tokens: &[1, 2, 3], cache: &mut cache }];
                let drawn = backend.draw(&mut feeds, &[Pick { params: &params, u: 0.5 }]);
                match drawn {
                    Ok(drawn) => assert!(is_usable || value == 3e38, "{precision} {name} {value}: {drawn:?}"),
                    Err(error) => {
                        assert!(
                            !is_usable
                                && matches!(error, EngineError::Sampling(SamplingError::Logits { .. })),
                            "{precision} {error}"
                        );
                    }
                }
            }
        }
    }
}

#[test]
fn weights_are_shared_where_nothing_is_made_of_them() {
    let (config, weights) = models().remove(1);
    let table = weights.get("model.embed_tokens.weight").unwrap();
    let down = weights.get("model.layers.1.mlp.down_proj.weight").unwrap();
    for precision in Precision::ALL {
        let backend = CpuBackend::load_as(&config, &weights, precision).unwrap();
        assert_eq!(backend.embedding.bytes().as_ptr(), table.bytes().as_ptr());
        let matrix = CpuMatrix::load(down, precision);
        let shares = matrix.rows().len() == 96
            && matches!(&matrix, CpuMatrix::Published(t) if t.bytes().as_ptr() == down.bytes().as_ptr());
        assert_eq!(shares, matches!(precision, Precision::F32 | Precision::Bf16));
    }
}

#[test]
fn what_is_copied_is_counted_before_it_is_made() {
    for (config, weights) in models().into_iter().chain(families()) {
        for precision in Precision::ALL {
            let made = |name: &str, precision| {
                let tensor = weights.get(name).unwrap();
                match CpuMatrix::load(tensor, precision) {
                    CpuMatrix::Published(same) if same.bytes().as_ptr() == tensor.bytes().as_ptr() => 0,
                    CpuMatrix::Published(rounded) => rounded.bytes().len(),
                    CpuMatrix::Quantised { bytes, .. } => bytes.len(),
                }
            };
            let products =
                weights.iter().map(WeightTensor::name).filter(|name| name.ends_with("_proj.weight"));
            let head = if config.tie_word_embeddings { EMBEDDING } else { "lm_head.weight" };
            let all =
                products.map(|name| made(name, precision)).sum::<usize>() + made(head, precision.of_head());
            assert_eq!(
                CpuBackend::copied_bytes(&config, weights.main_dtype(), precision),
                all,
                "{precision}"
            );
            assert_eq!(
                all == 0,
                precision == Precision::F32
                    || made(head, Precision::Bf16) == 0 && precision == Precision::Bf16
            );
        }
    }
}

/// Of a file that is mapped where `bytes` are: KiB in memory.
#[cfg(target_os = "linux")]
fn resident_kib(bytes: &[u8]) -> u64 {
    let address = bytes.as_ptr().addr();
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let is_here = |line: &&str| {
        let range = line.split_whitespace().next().and_then(|range| range.split_once('-'));
        let ends = range.and_then(|(a, b)| {
            Some((usize::from_str_radix(a, 16).ok()?, usize::from_str_radix(b, 16).ok()?))
        });
        ends.is_some_and(|(start, end)| (start..end).contains(&address))
    };
    let resident = maps.lines().skip_while(|line| !is_here(line)).find_map(|line| line.strip_prefix("Rss:"));
    resident.unwrap().trim().trim_end_matches(" kB").parse().unwrap()
}

#[cfg(target_os = "linux")]
#[test]
fn beside_another_version_mapped_weights_are_given_back_and_read_again() {
    let (config, weights) = &models()[1];
    let mut image = ImageWriter::create(&std::env::temp_dir(), config, DType::BF16).unwrap();
    weights.iter().for_each(|tensor| image.write(tensor.name(), tensor.bytes()).unwrap());
    let mapped = image.finish().unwrap();
    let resident = || resident_kib(mapped.iter().next().unwrap().bytes());
    for precision in [Precision::F32, Precision::Bf16] {
        let (backend, expected) = (
            CpuBackend::load_as(config, &mapped, precision).unwrap(),
            CpuBackend::load_as(config, weights, precision).unwrap(),
        );
        let tokens = &sequences()[0];
        let (last, before) = tokens.split_last().unwrap();
        let mut cache = backend.new_cache();
        backend.forward_beside(&mut [Feed { tokens: before, cache: &mut cache }]).unwrap();
        let beside = resident();
        let logits = backend.forward(&mut [Feed { tokens: &[*last], cache: &mut cache }], Want::Last);
        let logits: Vec<_> = logits.unwrap().rows().map(<[f32]>::to_vec).collect();
        assert_eq!(logits, [own_logits(&expected, tokens)], "{precision}");
        assert!(beside * 2 < resident(), "{precision}: {beside} KiB of {} are held", resident());
    }
}

/// In bf16 a matrix unit adds in an order of its own: whoever has one has to believe those who have
/// none, and the other way round. `ECHO_AUDIT_SIZE` is that of the largest model.
#[test]
fn what_one_processor_draws_passes_the_audit_of_another() {
    let all = Processor::available();
    let Some(other) = all.iter().find(|other| !other.adds_as(all[0], Precision::Bf16)) else { return };
    let given = crate::conformance::backends::models()
        .unwrap()
        .into_iter()
        .map(|model| (model.config, model.weights));
    let deep: Size = std::env::var("ECHO_AUDIT_SIZE").map_or(Size::M17, |size| size.parse().unwrap());
    let deep = deep.config().unwrap();
    let weights = bench_models::weights(&deep).unwrap();
    for (config, weights) in models().into_iter().chain(given).chain([(deep, weights)]) {
        let policies = [all[0], *other].map(|processor| {
            Policy::new(1, CpuBackend::load_on(processor, &config, &weights, Precision::Bf16).unwrap())
        });
        for [sampler, auditor] in [[0, 1], [1, 0]] {
            let evidence = drawn_and_audited(&policies[sampler], &policies[auditor]);
            let (farthest, max) = (evidence.farthest(), evidence.quantile(1.0));
            let what =
                format!("{:?}, {} layers of {}", config.family, config.num_hidden_layers, config.hidden_size);
            println!("{what}: border {farthest:.1e}, mean {:.1e}, max {max:.1e}", evidence.mean());
            assert!(max > 0.0, "compared with itself: {what}");
        }
    }
}

/// What the audit of one policy says of samples that the other drew; it has to find no fault
/// with any of them.
fn drawn_and_audited(sampler: &Policy, auditor: &Policy) -> Evidence {
    const SAMPLES: u32 = 16;
    const DRAWN: u32 = 128;
    const SEED: [u8; 32] = [9; 32];
    let (prompt, params) =
        (bench_models::tokens(3, 110, sampler.config().vocab_size), SamplingParams::unbiased(DRAWN));
    let (backend, (last, before)) = (sampler.backend(), prompt.split_last().unwrap());
    let mut cache = backend.new_cache();
    backend.forward(&mut [Feed { tokens: before, cache: &mut cache }], Want::Nothing).unwrap();
    let mut caches = vec![cache; SAMPLES as usize];
    let mut fed = vec![[*last]; caches.len()];
    let mut drawn = vec![(Vec::new(), Vec::new()); caches.len()];
    for position in 0..DRAWN {
        let feeds = fed.iter().zip(&mut caches).map(|(tokens, cache)| Feed { tokens, cache });
        let picks = (0..SAMPLES)
            .map(|sample| Pick { params: &params, u: sampling::uniform(&SEED, sample, position) });
        let sampled = backend.draw(&mut feeds.collect::<Vec<_>>(), &picks.collect::<Vec<_>>()).unwrap();
        for ((sampled, fed), (tokens, draws)) in sampled.iter().zip(&mut fed).zip(&mut drawn) {
            *fed = [sampled.token];
            tokens.push(sampled.token);
            draws.push(Draw { at: position as usize, position, logprob: sampled.logprob });
        }
    }
    let tolerance = Tolerance::of("bf16", Precision::Bf16, 1.0).unwrap();
    let audit = Audit::new(auditor, &prompt, &SEED, &params).unwrap();
    let mut evidence = Evidence::default();
    for (sample, (tokens, draws)) in (0..).zip(&drawn) {
        let of_sample = audit.look(sample, tokens, draws).unwrap();
        assert_eq!(of_sample.fault(&tolerance), None);
        evidence.add(of_sample);
    }
    evidence
}
