//! A GGUF file of a Llama, with numbers of a few bits, as weights in f32 under the names of Hugging Face.

use anyhow::{Context as _, bail};
use candle_core::quantized::gguf_file::{Content, Value};
use candle_core::{Device, Tensor};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::weights::{DType, RawTensor, Weights};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;

/// Tensors of a layer: llama.cpp's name of each, and that of Hugging Face.
const PARTS: [(&str, &str); 9] = [
    ("attn_norm", "input_layernorm"),
    ("ffn_norm", "post_attention_layernorm"),
    ("attn_q", "self_attn.q_proj"),
    ("attn_k", "self_attn.k_proj"),
    ("attn_v", "self_attn.v_proj"),
    ("attn_output", "self_attn.o_proj"),
    ("ffn_gate", "mlp.gate_proj"),
    ("ffn_up", "mlp.up_proj"),
    ("ffn_down", "mlp.down_proj"),
];
/// `tokenizer.ggml.token_type` of tokens that stand for no text.
const CONTROL: i32 = 3;

/// What a file holds.
pub(super) struct GgufModel {
    /// In f32.
    pub(super) weights: Weights,
    /// What the tokenizer is made of.
    pub(super) vocabulary: Vocabulary,
}

/// The tokens of a byte-level tokenizer.
#[derive(Debug)]
pub(super) struct Vocabulary {
    /// By id.
    pub(super) tokens: Vec<String>,
    /// Ids of those that stand for no text, ascending.
    pub(super) control: Vec<usize>,
    /// Pairs that are joined, the earliest first: two tokens with a space between them.
    pub(super) merges: Vec<String>,
    /// In Jinja.
    pub(super) chat_template: String,
}

/// Reads a file that has a model of this form.
/// Fails when the file is damaged, or its model has another form.
pub(super) fn read(path: &Path, config: &ModelConfig) -> anyhow::Result<GgufModel> {
    let mut file = BufReader::new(File::open(path)?);
    let content = Content::read(&mut file)?;
    let mut tensors = Vec::with_capacity(content.tensor_infos.len());
    for name in content.tensor_infos.keys() {
        let tensor = content.tensor(&mut file, name, &Device::Cpu)?.dequantize(&Device::Cpu)?;
        tensors.push(raw(name, tensor, config).with_context(|| format!("tensor {name}"))?);
    }
    let weights = Weights::from_raw(config, tensors)?;
    Ok(GgufModel { weights, vocabulary: Vocabulary::of(&content)? })
}

/// The tensor under its name of Hugging Face.
fn raw(name: &str, tensor: Tensor, config: &ModelConfig) -> anyhow::Result<RawTensor> {
    let tensor = match part(name) {
        Some((_, "attn_q")) => rotary_halves(&tensor, config.num_attention_heads)?,
        Some((_, "attn_k")) => rotary_halves(&tensor, config.num_key_value_heads)?,
        _ => tensor,
    };
    let values = tensor.flatten_all()?.to_vec1::<f32>()?;
    let mut bytes = Vec::with_capacity(values.len() * size_of::<f32>());
    for value in values {
        bytes.extend_from_slice(&value.to_le_bytes());
    }
    Ok(RawTensor { name: huggingface_name(name)?, dtype: DType::F32, shape: tensor.dims().to_vec(), bytes })
}

/// llama.cpp has the two numbers that are rotated together side by side. Hugging Face has the
/// first numbers of all pairs in the first half of a head, and the second ones in the other.
fn rotary_halves(tensor: &Tensor, heads: usize) -> candle_core::Result<Tensor> {
    let (rows, columns) = tensor.dims2()?;
    let pairs = tensor.reshape((heads, rows / heads / 2, 2, columns))?;
    pairs.transpose(1, 2)?.contiguous()?.reshape((rows, columns))
}

/// The layer and the part of a tensor within a layer.
fn part(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("blk.")?.strip_suffix(".weight")?.split_once('.')
}

fn huggingface_name(name: &str) -> anyhow::Result<String> {
    Ok(match (name, part(name)) {
        ("token_embd.weight", _) => "model.embed_tokens.weight".to_owned(),
        ("output_norm.weight", _) => "model.norm.weight".to_owned(),
        ("output.weight", _) => "lm_head.weight".to_owned(),
        (_, Some((layer, part))) => {
            let known = PARTS.iter().find(|(theirs, _)| *theirs == part);
            let (_, ours) = known.with_context(|| format!("no Llama has a tensor {name}"))?;
            format!("model.layers.{layer}.{ours}.weight")
        }
        _ => bail!("no Llama has a tensor {name}"),
    })
}

impl Vocabulary {
    fn of(content: &Content) -> anyhow::Result<Self> {
        let value = |key: &str| content.metadata.get(key).with_context(|| format!("{key} is missing"));
        let kinds = value("tokenizer.ggml.token_type")?.to_vec()?;
        let kinds = kinds.iter().map(Value::to_i32).collect::<candle_core::Result<Vec<_>>>()?;
        Ok(Self {
            tokens: strings(value("tokenizer.ggml.tokens")?)?,
            control: (0..kinds.len()).filter(|id| kinds[*id] == CONTROL).collect(),
            merges: strings(value("tokenizer.ggml.merges")?)?,
            chat_template: value("tokenizer.chat_template")?.to_string()?.clone(),
        })
    }
}

fn strings(value: &Value) -> anyhow::Result<Vec<String>> {
    let texts = value.to_vec()?.iter().map(|text| text.to_string().cloned());
    Ok(texts.collect::<candle_core::Result<Vec<_>>>()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::models::smollm2;
    use candle_core::quantized::gguf_file;
    use candle_core::quantized::{GgmlDType, QTensor};
    use echo_policy::model::weights::expected_tensors;
    use std::collections::BTreeSet;

    #[test]
    fn rotated_pairs_come_apart() {
        // Two heads of four numbers, each row with its own: (0, 1) and (2, 3) are the pairs of the first.
        let rows = Tensor::arange(0f32, 8.0, &Device::Cpu).unwrap().reshape((8, 1)).unwrap();
        let apart = rotary_halves(&rows, 2).unwrap();
        assert_eq!(apart.dims(), [8, 1]);
        let order = apart.flatten_all().unwrap().to_vec1::<f32>().unwrap();
        assert_eq!(order, [0.0, 2.0, 1.0, 3.0, 4.0, 6.0, 5.0, 7.0]);
    }

    #[test]
    fn every_tensor_of_the_model_has_a_name_of_llama_cpp() {
        let mut names = vec!["token_embd.weight".to_owned(), "output_norm.weight".to_owned()];
        for layer in 0..30 {
            names.extend(PARTS.iter().map(|(theirs, _)| format!("blk.{layer}.{theirs}.weight")));
        }
        let ours: BTreeSet<String> = names.iter().map(|name| huggingface_name(name).unwrap()).collect();
        let expected = expected_tensors(&smollm2::config().unwrap()).into_iter().map(|spec| spec.name);
        let expected: BTreeSet<String> = expected.collect();
        assert_eq!(ours, expected);
        for strange in ["rope_freqs.weight", "blk.0.attn_qkv.weight", "blk.0.attn_q.bias"] {
            assert!(huggingface_name(strange).is_err(), "{strange}");
        }
    }

    #[test]
    fn the_vocabulary_is_read_and_what_is_missing_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("small.gguf");
        let texts = |texts: &[&str]| {
            Value::Array(texts.iter().map(|text| Value::String((*text).to_owned())).collect())
        };
        let tokens = texts(&["<end>", "a", "b", "ab"]);
        let kinds = Value::Array([3, 1, 1, 1].map(Value::I32).to_vec());
        let merges = texts(&["a b"]);
        let template = Value::String("{{ messages }}".to_owned());
        let metadata = [
            ("tokenizer.ggml.tokens", &tokens),
            ("tokenizer.ggml.token_type", &kinds),
            ("tokenizer.ggml.merges", &merges),
            ("tokenizer.chat_template", &template),
        ];
        let norm = Tensor::zeros(4, candle_core::DType::F32, &Device::Cpu).unwrap();
        let norm = QTensor::quantize(&norm, GgmlDType::F32).unwrap();
        let read = |metadata: &[(&str, &Value)]| {
            let mut file = File::create(&path).unwrap();
            gguf_file::write(&mut file, metadata, &[("output_norm.weight", &norm)]).unwrap();
            let content = Content::read(&mut File::open(&path).unwrap()).unwrap();
            Vocabulary::of(&content)
        };
        let vocabulary = read(&metadata[..]).unwrap();
        assert_eq!(vocabulary.tokens, ["<end>", "a", "b", "ab"]);
        assert_eq!((vocabulary.control, vocabulary.merges), (vec![0], vec!["a b".to_owned()]));
        let error = read(&metadata[..2]).unwrap_err().to_string();
        assert!(error.contains("tokenizer.ggml.merges"), "{error}");
    }
}
