use super::*;
use safetensors::tensor::{Dtype, TensorView, serialize_to_file};

/// One tensor of a made-up checkpoint.
type Tensor = (&'static str, Dtype, Vec<usize>, Vec<u8>);

fn write(path: &Path, tensors: &[Tensor]) {
    let views = tensors
        .iter()
        .map(|(name, dtype, shape, bytes)| (*name, TensorView::new(*dtype, shape.clone(), bytes).unwrap()));
    serialize_to_file(views, None, path).unwrap();
}

fn noise(length: usize, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|at| (at as u32 ^ u32::from(seed) << 20).wrapping_mul(0x9e37_79b9).to_le_bytes()[3])
        .collect()
}

/// bf16 numbers of which every `step`th is moved by one place.
fn moved(bytes: &[u8], step: usize) -> Vec<u8> {
    let elements = bytes.as_chunks::<2>().0.iter().enumerate();
    let moved = elements.flat_map(|(at, bytes)| {
        let value = u16::from_le_bytes(*bytes);
        if at % step == 0 { value ^ 1 } else { value }.to_le_bytes()
    });
    moved.collect()
}

#[test]
fn checkpoints_of_all_kinds_come_out_again() {
    let dir = tempfile::tempdir().unwrap();
    let case = |name: &str, old: &[Tensor], new: &[Tensor]| {
        let path = dir.path().join(name);
        fs::create_dir_all(&path).unwrap();
        write(&path.join("old.safetensors"), old);
        write(&path.join("new.safetensors"), new);
    };
    let bf16 = noise(3 << 20, 1);
    let weights = |bytes: &[u8]| ("w", Dtype::BF16, vec![bytes.len() / 2], bytes.to_vec());
    case("sparse", &[weights(&bf16)], &[weights(&moved(&bf16, 40))]);
    case("unchanged", &[weights(&bf16)], &[weights(&bf16)]);
    let nan = [0x7fc1u16, 0xffff, 0x7f80, 0xff80, 0x8000].map(u16::to_le_bytes).concat();
    case(
        "a/mixture",
        &[
            ("w", Dtype::F32, vec![1000], noise(4000, 2)),
            ("flags", Dtype::BOOL, vec![3], vec![1, 0, 1]),
            ("empty", Dtype::F16, vec![0, 7], vec![]),
        ],
        &[
            ("w", Dtype::F16, vec![3, 1001], noise(6006, 3)),
            ("flags", Dtype::BOOL, vec![5], vec![0, 0, 1, 1, 0]),
            ("ids", Dtype::I64, vec![2], vec![255; 16]),
            ("nan", Dtype::BF16, vec![5], nan),
        ],
    );
    case("nothing", &[weights(&bf16)], &[("empty", Dtype::F32, vec![0], vec![])]);
    let report = check(dir.path(), &Console::new(true)).unwrap();
    assert!(report.passed, "{}", report.json);
    assert_eq!(report.json["cases"], 4);
    let names = ["a/mixture", "nothing", "sparse", "unchanged"];
    let rows = report.json["directories"].as_array().unwrap();
    assert!(rows.iter().map(|row| &row["directory"]).eq(names), "{}", report.json);
    assert_eq!(rows[3]["delta_bytes"], 0);
    assert!(rows[2]["ratio"].as_f64().unwrap() > 30.0, "{}", rows[2]);
    assert_eq!(rows[2]["chunks"]["sparse"], 3);
}

#[test]
fn what_is_missing_or_no_checkpoint_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let error = check(dir.path(), &Console::new(true)).unwrap_err().to_string();
    assert!(error.contains("old.safetensors"), "{error}");
    assert!(check(&dir.path().join("missing"), &Console::new(true)).is_err());
    fs::write(dir.path().join("old.safetensors"), "no checkpoint at all").unwrap();
    fs::write(dir.path().join("new.safetensors"), "").unwrap();
    let report = check(dir.path(), &Console::new(true)).unwrap();
    assert!(!report.passed);
    assert_eq!(report.json["failed"], 1);
}
