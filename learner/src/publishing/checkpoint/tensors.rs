//! Tensors as safetensors, one at a time.

use super::Part;
use super::writer::{BLOCK_BYTES, ObjectWriter};
use candle_core::{DType, Tensor};
use echo_policy::model::weights::{DType as Stored, RawTensor};
use object_store::ObjectStore;
use object_store::path::Path;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Why tensors could not be written.
#[derive(Debug, thiserror::Error)]
pub(super) enum TensorsError {
    #[error(transparent)]
    Store(#[from] object_store::Error),
    #[error(transparent)]
    Tensor(#[from] candle_core::Error),
}

/// Writes tensors to the object `at`.
pub(super) async fn put(
    store: &dyn ObjectStore,
    at: &Path,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<Part, TensorsError> {
    let header = header(tensors)?;
    let mut writer = ObjectWriter::begin(store, at).await?;
    match stream(&mut writer, header, tensors).await {
        Ok(part) => Ok(part),
        Err(error) => {
            writer.abandon().await;
            Err(error)
        }
    }
}

async fn stream(
    writer: &mut ObjectWriter,
    header: Vec<u8>,
    tensors: &BTreeMap<String, Tensor>,
) -> Result<Part, TensorsError> {
    writer.push(header.into()).await?;
    for tensor in tensors.values() {
        let flat = tensor.flatten_all()?;
        let block = BLOCK_BYTES / flat.dtype().size_in_bytes();
        for at in (0..flat.elem_count()).step_by(block) {
            let count = block.min(flat.elem_count() - at);
            writer.push(bytes(&flat.narrow(0, at, count)?)?.into()).await?;
        }
    }
    Ok(writer.finish().await?)
}

/// The length of the header in eight bytes, then which tensor lies where after it.
fn header(tensors: &BTreeMap<String, Tensor>) -> Result<Vec<u8>, candle_core::Error> {
    let mut entries = Map::new();
    let mut at = 0;
    for (name, tensor) in tensors {
        let end = at + tensor.elem_count() * tensor.dtype().size_in_bytes();
        let entry =
            json!({"dtype": name_of(tensor.dtype())?, "shape": tensor.dims(), "data_offsets": [at, end]});
        entries.insert(name.clone(), entry);
        at = end;
    }
    let mut text = Value::Object(entries).to_string();
    // The data are aligned to eight bytes.
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    Ok([&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat())
}

fn name_of(dtype: DType) -> Result<&'static str, candle_core::Error> {
    match dtype {
        DType::F32 => Ok("F32"),
        DType::F64 => Ok("F64"),
        DType::I64 => Ok("I64"),
        other => candle_core::bail!("a checkpoint holds f32, f64 and i64, not {other:?}"),
    }
}

/// What a file has of a tensor of one dimension.
fn bytes(flat: &Tensor) -> Result<Vec<u8>, candle_core::Error> {
    match flat.dtype() {
        DType::F64 => Ok(flat.to_vec1::<f64>()?.into_iter().flat_map(f64::to_le_bytes).collect()),
        DType::I64 => Ok(flat.to_vec1::<i64>()?.into_iter().flat_map(i64::to_le_bytes).collect()),
        _ => Ok(RawTensor::from_f32("", flat.dims(), &flat.to_vec1::<f32>()?, Stored::F32).bytes),
    }
}
