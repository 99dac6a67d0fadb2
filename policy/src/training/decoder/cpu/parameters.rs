//! The values of variables, read in place.

use std::ops::Deref;

use candle_core::{Layout, Storage, Var};

use crate::training::decoder::DecoderError;

/// A variable locked against writing; `G` is candle's guard.
pub(super) struct Parameter<'a, G> {
    name: &'a str,
    storage: G,
    layout: &'a Layout,
}

/// Locks all variables for reading.
pub(super) fn lock(vars: &[(String, Var)]) -> Vec<Parameter<'_, impl Deref<Target = Storage> + '_>> {
    let parameters = vars.iter().map(|(name, var)| {
        let (storage, layout) = var.storage_and_layout();
        Parameter { name: name.as_str(), storage, layout }
    });
    parameters.collect()
}

/// The values of each variable, row-major.
pub(super) fn slices<'p, G: Deref<Target = Storage>>(
    parameters: &'p [Parameter<'_, G>],
) -> Result<Vec<&'p [f32]>, DecoderError> {
    parameters.iter().map(Parameter::slice).collect()
}

impl<G: Deref<Target = Storage>> Parameter<'_, G> {
    fn slice(&self) -> Result<&[f32], DecoderError> {
        let values = match &*self.storage {
            Storage::Cpu(values) => values.as_slice::<f32>().ok(),
            _ => None,
        };
        match (values, self.layout.contiguous_offsets()) {
            (Some(values), Some((start, end))) => Ok(&values[start..end]),
            _ => Err(DecoderError::NotHost { name: self.name.to_owned() }),
        }
    }
}
