//! A Hugging Face directory of the Qwen3 form as GGUF: the same numbers, norms widened to f32
//! as llama.cpp wants them.

use anyhow::{Context as _, bail, ensure};
use candle_core::Device;
use candle_core::quantized::gguf_file::{self, Value};
use candle_core::quantized::{GgmlDType, QStorage, QTensor};
use memmap2::Mmap;
use safetensors::tensor::TensorView;
use safetensors::{Dtype, SafeTensors};
use std::borrow::Cow;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// `general.file_type` of files whose matrices are in bf16.
const MOSTLY_BF16: u32 = 32;

/// Names of a layer's tensors, there and here.
const LAYER: [(&str, &str); 11] = [
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.o_proj", "attn_output"),
    ("post_attention_layernorm", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

/// Writes the model of `dir` to `file`, which has its name only when it is whole.
pub fn write(dir: &Path, file: &Path) -> anyhow::Result<()> {
    let source = dir.join("model.safetensors");
    let handle = File::open(&source).with_context(|| source.display().to_string())?;
    // SAFETY: nobody writes to a model's file once its directory has its name.
    let map = unsafe { Mmap::map(&handle)? };
    let tensors = SafeTensors::deserialize(&map)?;
    let mut converted = Vec::new();
    for (name, view) in tensors.iter() {
        converted.push((renamed(name)?, tensor(&view).with_context(|| name.to_owned())?));
    }
    let metadata = metadata(dir)?;
    let metadata: Vec<_> = metadata.iter().map(|(key, value)| (key.as_str(), value)).collect();
    let converted: Vec<_> = converted.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let partial = file.with_extension("partial");
    let mut writer = BufWriter::new(File::create(&partial).with_context(|| partial.display().to_string())?);
    gguf_file::write(&mut writer, &metadata, &converted)?;
    writer.flush()?;
    drop(writer);
    Ok(std::fs::rename(&partial, file)?)
}

fn renamed(name: &str) -> anyhow::Result<String> {
    let stem = name.strip_suffix(".weight").unwrap_or(name);
    let new = match stem {
        "model.embed_tokens" => "token_embd".to_owned(),
        "model.norm" => "output_norm".to_owned(),
        "lm_head" => "output".to_owned(),
        _ => {
            let place = stem.strip_prefix("model.layers.").and_then(|rest| rest.split_once('.'));
            let found = place.and_then(|(layer, part)| {
                let (_, new) = LAYER.iter().find(|(old, _)| *old == part)?;
                Some(format!("blk.{layer}.{new}"))
            });
            found.with_context(|| format!("{name} is no tensor of the Qwen3 form"))?
        }
    };
    Ok(format!("{new}.weight"))
}

fn tensor(view: &TensorView<'_>) -> anyhow::Result<QTensor> {
    ensure!(view.dtype() == Dtype::BF16, "it is stored as {:?}, not as bf16", view.dtype());
    let (bytes, dtype) = match view.shape() {
        [_] => (Cow::Owned(widened(view.data())), GgmlDType::F32),
        [_, _] => (Cow::Borrowed(view.data()), GgmlDType::BF16),
        other => bail!("its shape is {other:?}"),
    };
    Ok(QTensor::new(QStorage::from_data(bytes, &Device::Cpu, dtype)?, view.shape())?)
}

/// The little-endian f32 bytes of bf16 ones.
fn widened(bytes: &[u8]) -> Vec<u8> {
    bytes.chunks_exact(2).flat_map(|half| [0, 0, half[0], half[1]]).collect()
}

fn metadata(dir: &Path) -> anyhow::Result<Vec<(String, Value)>> {
    let path = dir.join("config.json");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let config: serde_json::Value = serde_json::from_str(&text)?;
    ensure!(config["model_type"] == "qwen3", "{} is not of the Qwen3 form", path.display());
    let number =
        |field: &str| config[field].as_f64().with_context(|| format!("{} has no {field}", path.display()));
    let size = |field: &str| Ok::<_, anyhow::Error>(Value::U32(number(field)? as u32));
    let real = |field: &str| Ok::<_, anyhow::Error>(Value::F32(number(field)? as f32));
    let mut entries = vec![
        ("general.architecture".to_owned(), Value::String("qwen3".into())),
        ("general.file_type".to_owned(), Value::U32(MOSTLY_BF16)),
        // Ids only: no text goes in or out.
        ("tokenizer.ggml.model".to_owned(), Value::String("none".into())),
    ];
    for (key, value) in [
        ("vocab_size", size("vocab_size")?),
        ("context_length", size("max_position_embeddings")?),
        ("embedding_length", size("hidden_size")?),
        ("block_count", size("num_hidden_layers")?),
        ("feed_forward_length", size("intermediate_size")?),
        ("attention.head_count", size("num_attention_heads")?),
        ("attention.head_count_kv", size("num_key_value_heads")?),
        ("attention.key_length", size("head_dim")?),
        ("attention.value_length", size("head_dim")?),
        ("attention.layer_norm_rms_epsilon", real("rms_norm_eps")?),
        ("rope.freq_base", real("rope_theta")?),
    ] {
        entries.push((format!("qwen3.{key}"), value));
    }
    Ok(entries)
}
