//! llama.cpp on bf16 weights.

use crate::task::{self, Rates, PeerTask, WARM_UP};
use anyhow::{Context as _, anyhow};
use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::context::params::LlamaContextParams;
use llama_cpp_2::llama_backend::LlamaBackend;
use llama_cpp_2::llama_batch::LlamaBatch;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::model::params::LlamaModelParams;
use llama_cpp_2::token::LlamaToken;
use serde_json::json;
use std::ffi::CStr;
use std::num::NonZeroU32;

/// Tokens of a call, and of a part of it that is computed at once: the program's own choices.
const BATCH: u32 = 2048;
const MICRO_BATCH: u32 = 512;
/// All samples share one pool of cells, which holds the prompt once. With a cache for each
/// sample a group took half as long again: the prompt's cells are copied then, and read
/// sixteen times a step.
const UNIFIED: bool = true;
/// llama.cpp makes room for whole blocks of this many tokens.
const BLOCK: usize = 256;
/// Ways to compute attention, by their numbers in llama.cpp. Which is faster differs
/// between prefill and decoding and from processor to processor, so both are measured, and
/// the faster one counts.
const ATTENTION: [(&str, i32); 2] = [("plain", 0), ("flash", 1)];

/// Feeds prompt and given tokens through llama.cpp in bf16, and times them.
pub fn run(task: &PeerTask) -> anyhow::Result<Rates> {
    let mut backend = LlamaBackend::init()?;
    backend.void_logs();
    let model = LlamaModel::load_from_file(&backend, &task.gguf, &LlamaModelParams::default())
        .with_context(|| task.gguf.display().to_string())?;
    let mut best: Option<Rates> = None;
    let mut by_attention = serde_json::Map::new();
    for (name, flash) in ATTENTION {
        let rates = course(&backend, &model, task, flash)?;
        by_attention
            .insert(name.to_owned(), json!([rates.prefill_tok_s, rates.single_tok_s, rates.group_tok_s]));
        best = Some(match best {
            None => rates,
            Some(best) => Rates {
                prefill_tok_s: best.prefill_tok_s.max(rates.prefill_tok_s),
                single_tok_s: best.single_tok_s.max(rates.single_tok_s),
                group_tok_s: best.group_tok_s.max(rates.group_tok_s),
                ..best
            },
        });
    }
    let mut best = best.context("no way to compute attention")?;
    best.about["by_attention"] = by_attention.into();
    Ok(best)
}

fn course(backend: &LlamaBackend, model: &LlamaModel, task: &PeerTask, flash: i32) -> anyhow::Result<Rates> {
    let (prompt, samples) = (task.prompt.len(), task.samples());
    let cells = (prompt + samples * task.given.len()).next_multiple_of(BLOCK);
    let threads = i32::try_from(task.threads)?;
    let params = LlamaContextParams::default()
        .with_n_ctx(NonZeroU32::new(u32::try_from(cells)?))
        .with_n_batch(BATCH)
        .with_n_ubatch(MICRO_BATCH)
        .with_n_threads(threads)
        .with_n_threads_batch(threads)
        .with_n_seq_max(u32::try_from(samples)?)
        .with_kv_unified(UNIFIED)
        .with_flash_attention_policy(flash);
    let mut context = model.new_context(backend, params)?;

    feed(&mut context, &task.prompt[..WARM_UP], 1, 0)?;
    context.clear_kv_cache();
    let prefill_tok_s = task::rate(prompt, || feed(&mut context, &task.prompt, 1, 0))?;
    let logprob = task::logprob(context.get_logits_ith(i32::try_from(prompt)? - 1), task.given[0][0])?;
    let single_tok_s = decode(&mut context, task, 1)?;
    context.clear_kv_cache_seq(Some(0), Some(u32::try_from(prompt)?), None)?;
    for sample in 1..samples {
        context.copy_kv_cache_seq(0, i32::try_from(sample)?, None, None)?;
    }
    let group_tok_s = decode(&mut context, task, samples)?;
    let about = json!({
        "llama-cpp-2": task::version("llama-cpp-2"), "llama-cpp-sys-2": task::version("llama-cpp-sys-2"), "system_info": system_info(),
        "target_features": task::processor(), "weights": "bf16", "cache": "f16", "kv_unified": UNIFIED,
        "n_batch": BATCH, "n_ubatch": MICRO_BATCH, "threads": threads, "drawn": "nothing: tokens are given",
    });
    Ok(Rates { prefill_tok_s, single_tok_s, group_tok_s, logprob, about })
}

/// Feeds the given tokens of the first `samples` samples after the prompt.
fn decode(context: &mut LlamaContext<'_>, task: &PeerTask, samples: usize) -> anyhow::Result<f64> {
    task::rate(samples * task.given.len(), || {
        for (at, given) in task.given.iter().enumerate() {
            feed(context, &given[..samples], samples, task.prompt.len() + at)?;
        }
        Ok(())
    })
}

/// Feeds one sequence with tokens from position `first` on, or each of `samples` sequences with one
/// token at that position. Logits are computed after the last token of each.
fn feed(context: &mut LlamaContext<'_>, tokens: &[u32], samples: usize, first: usize) -> anyhow::Result<()> {
    let mut batch = LlamaBatch::new(tokens.len(), 1);
    for (at, &token) in tokens.iter().enumerate() {
        let (sample, position) = if samples == 1 { (0, first + at) } else { (at, first) };
        let last = samples > 1 || at + 1 == tokens.len();
        batch.add(
            LlamaToken(i32::try_from(token)?),
            i32::try_from(position)?,
            &[i32::try_from(sample)?],
            last,
        )?;
    }
    context.decode(&mut batch).map_err(|error| anyhow!("llama_decode: {error}"))?;
    context.synchronize();
    Ok(())
}

fn system_info() -> String {
    // SAFETY: a string that lives as long as the library does.
    let text = unsafe { CStr::from_ptr(llama_cpp_sys_2::llama_print_system_info()) };
    text.to_string_lossy().trim().to_owned()
}
