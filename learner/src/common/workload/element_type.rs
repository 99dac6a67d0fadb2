//! Element types of published tensors: the charter's names, and the policy crate's.

use echo_policy::model::weights::DType;
use echo_protocol::snapshot::manifest::TensorType;

/// The policy's element type in the words of the protocol.
pub fn tensor_type(dtype: DType) -> TensorType {
    match dtype {
        DType::F32 => TensorType::F32,
        DType::BF16 => TensorType::Bf16,
        DType::F16 => TensorType::F16,
    }
}

/// The protocol's element type in the words of the policy.
pub fn dtype(tensor_type: TensorType) -> DType {
    match tensor_type {
        TensorType::F32 => DType::F32,
        TensorType::Bf16 => DType::BF16,
        TensorType::F16 => DType::F16,
    }
}
