//! Weights of somebody else's checkpoint: `model.safetensors`, or shards and their index. None
//! panics; what is loaded has every tensor of the configuration with its bytes, and no index
//! reaches outside of its directory.
#![no_main]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use echo_fuzz::{Edit, edited};
use echo_policy::model::config::ModelConfig;
use echo_policy::model::weights::{DType, Weights, expected_tensors};
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};

const CONFIG: &str = r#"{"model_type": "qwen3", "vocab_size": 8, "hidden_size": 4, "intermediate_size": 4, "num_hidden_layers": 1,
    "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 4, "max_position_embeddings": 16, "rms_norm_eps": 1e-6,
    "rope_theta": 10000.0, "tie_word_embeddings": true}"#;
const SHARDS: [&str; 2] = ["model-1.safetensors", "model-2.safetensors"];
const INDEX: &str = "model.safetensors.index.json";

#[derive(Arbitrary, Debug)]
enum Input {
    /// A file whose header was changed, with another length of the header than it has or with its
    /// own, and bytes cut off or appended.
    File { header: Vec<Edit>, length: Option<u64>, cut: u16, behind: Vec<u8> },
    /// Tensors of a sound file that say something else.
    Tensor { which: u8, dtype: u8, shape: Vec<u64>, from: u64, to: u64 },
    /// An index that was changed, beside its shards.
    Index(Vec<Edit>),
    /// An index whose shards all lie outside of its directory, one of them under a name of the input's.
    Outside { index: Vec<Edit>, shard: String },
}

/// A directory in memory with the shards, and one within it for what is loaded.
struct Place {
    outside: PathBuf,
    inside: PathBuf,
    config: ModelConfig,
}

fuzz_target!(|input: Input| {
    static PLACE: OnceLock<Place> = OnceLock::new();
    let place = PLACE.get_or_init(Place::new);
    let (single, index) = (place.inside.join("model.safetensors"), place.inside.join(INDEX));
    let write = |path: &Path, bytes: &[u8]| fs::write(path, bytes).expect("the directory is ours");
    let [header, data] = file(&place.config, |_| true);
    match input {
        Input::File { header: edits, length, cut, behind } => {
            let header = edited(&header, &edits);
            let length = length.unwrap_or(header.len() as u64).to_le_bytes();
            let kept = data.len().saturating_sub(usize::from(cut));
            write(&single, &[&length[..], &header, &data[..kept], &behind].concat());
        }
        Input::Tensor { which, dtype, shape, from, to } => {
            let mut tensors: BTreeMap<String, Value> =
                serde_json::from_slice(&header).expect("our own header");
            let dtype = ["BF16", "F16", "F32", "F64", "I8", "BOOL", "F4"][usize::from(dtype) % 7];
            let which = usize::from(which) % tensors.len();
            let tensor = tensors.values_mut().nth(which).expect("within the list");
            *tensor = json!({"dtype": dtype, "shape": shape, "data_offsets": [from, to]});
            let header = serde_json::to_vec(&tensors).expect("JSON");
            write(&single, &[&(header.len() as u64).to_le_bytes()[..], &header, &data].concat());
        }
        Input::Index(edits) => {
            let _ = fs::remove_file(&single);
            place.shards(&place.inside);
            write(&index, &edited(&place.index(SHARDS), &edits));
        }
        Input::Outside { index: edits, shard } => {
            let _ = fs::remove_file(&single);
            for shard in SHARDS {
                let _ = fs::remove_file(place.inside.join(shard));
            }
            write(&index, &edited(&place.index(["../model-1.safetensors", &shard]), &edits));
            assert!(Weights::load_dir(&place.inside, &place.config).is_err(), "there is no shard within");
            return;
        }
    }
    let Ok(weights) = Weights::load_dir(&place.inside, &place.config) else { return };
    let expected = expected_tensors(&place.config);
    assert_eq!(weights.iter().len(), expected.len());
    for (tensor, spec) in weights.iter().zip(expected) {
        assert_eq!((tensor.name(), tensor.shape()), (&*spec.name, &*spec.shape));
        assert_eq!(tensor.bytes().len(), spec.elements() * tensor.dtype().size());
        assert_eq!(tensor.to_f32().len(), spec.elements());
    }
});

impl Place {
    fn new() -> Self {
        let memory = Path::new("/dev/shm");
        let root = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        // One for each process; the next one of the same number takes it over.
        let outside = root.join(format!("echo-fuzz-weights-{}", std::process::id()));
        let place = Self {
            inside: outside.join("model"),
            config: ModelConfig::from_json(CONFIG).expect("a sound configuration"),
            outside,
        };
        let _ = fs::remove_dir_all(&place.outside);
        fs::create_dir_all(&place.inside).expect("a directory of our own");
        place.shards(&place.outside);
        place
    }

    /// Writes two sound shards.
    fn shards(&self, dir: &Path) {
        for (at, shard) in SHARDS.iter().enumerate() {
            let [header, data] = file(&self.config, |tensor| tensor % 2 == at);
            let bytes = [&(header.len() as u64).to_le_bytes()[..], &header, &data].concat();
            fs::write(dir.join(shard), bytes).expect("the directory is ours");
        }
    }

    /// The index of shards of these names.
    fn index(&self, shards: [&str; 2]) -> Vec<u8> {
        let tensors = expected_tensors(&self.config).into_iter().enumerate();
        let places: BTreeMap<String, &str> = tensors.map(|(at, spec)| (spec.name, shards[at % 2])).collect();
        serde_json::to_vec(&json!({"metadata": {}, "weight_map": places})).expect("JSON")
    }
}

/// Header and data of a sound file with the tensors that are chosen.
fn file(config: &ModelConfig, chosen: impl Fn(usize) -> bool) -> [Vec<u8>; 2] {
    let (mut header, mut end) = (BTreeMap::new(), 0);
    for (_, spec) in expected_tensors(config).into_iter().enumerate().filter(|(at, _)| chosen(*at)) {
        let begin = end;
        end += spec.elements() * DType::BF16.size();
        header.insert(spec.name, json!({"dtype": "BF16", "shape": spec.shape, "data_offsets": [begin, end]}));
    }
    [serde_json::to_vec(&header).expect("JSON"), vec![0x3c; end]]
}
