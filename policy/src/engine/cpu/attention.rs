//! Attention of one token over the cache of its sequence.

use crate::config::ModelConfig;
use crate::engine::cache::KvCache;
use crate::math;

/// Writes the attention of `query` `[heads · head_dim]` over the first `visible` cached tokens of `layer` into `out`.
#[inline(always)]
pub(super) fn attend(
    config: &ModelConfig,
    cache: &KvCache,
    layer: usize,
    visible: usize,
    query: &[f32],
    out: &mut [f32],
) {
    let (dim, width) = (config.head_dim, config.kv_dim());
    let group = config.num_attention_heads / config.num_key_value_heads;
    let scale = 1.0 / (dim as f32).sqrt();
    let (keys, values) = (cache.keys(layer), cache.values(layer));
    let mut scores = vec![0.0; visible];
    for (head, (query, out)) in query.chunks_exact(dim).zip(out.chunks_exact_mut(dim)).enumerate() {
        let start = head / group * dim;
        let piece = start..start + dim;
        let [shared, own] = keys.map(|part| part.chunks_exact(width));
        for (score, key) in scores.iter_mut().zip(shared.chain(own)) {
            *score = math::dot(query, &key[piece.clone()]) * scale;
        }
        math::softmax(&mut scores);
        out.fill(0.0);
        let [shared, own] = values.map(|part| part.chunks_exact(width));
        for (weight, value) in scores.iter().zip(shared.chain(own)) {
            math::axpy(out, *weight, &value[piece.clone()]);
        }
    }
}
