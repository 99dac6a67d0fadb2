//! What one rendering may allocate. The engine counts instructions, but a single one can double a
//! string: forty of them would fill any memory. So every operation that makes a new string or list
//! is charged here for what it makes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use minijinja::value::ValueKind;
use minijinja::{Error, ErrorKind, Value};

/// Bytes that all strings and lists made during one rendering may add up to, the output included.
pub const MAX_RENDER_BYTES: u64 = 256 << 20;
/// What one element of a list or map is charged.
const ELEMENT_BYTES: u64 = 64;

/// The bytes that one rendering still may make.
#[derive(Clone)]
pub(crate) struct RenderBudget(Arc<AtomicU64>);

impl RenderBudget {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicU64::new(MAX_RENDER_BYTES)))
    }

    /// Takes `bytes` from what is left, or fails. Called before the allocation where its size is known.
    pub(crate) fn charge(&self, bytes: u64) -> Result<(), Error> {
        let taken =
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes.max(1)));
        taken.map(|_| ()).map_err(|_| {
            Error::new(
                ErrorKind::OutOfFuel,
                format!("the template makes more than {MAX_RENDER_BYTES} bytes of text and lists"),
            )
        })
    }

    /// Charges a value that an operation just made, and hands it on.
    pub(crate) fn charged(&self, value: Value) -> Result<Value, Error> {
        self.charge(size(&value))?;
        Ok(value)
    }
}

/// What a value is charged: its bytes, or a flat rate for each of its elements and the bytes of
/// those that are strings.
pub(crate) fn size(value: &Value) -> u64 {
    match value.kind() {
        ValueKind::String => value.as_str().map_or(0, |text| text.len() as u64),
        ValueKind::Seq | ValueKind::Iterable => match value.try_iter() {
            Ok(items) => items
                .map(|item| ELEMENT_BYTES.saturating_add(item.as_str().map_or(0, |text| text.len() as u64)))
                .fold(0, u64::saturating_add),
            Err(_) => 0,
        },
        ValueKind::Map => (value.len().unwrap_or(0) as u64).saturating_mul(ELEMENT_BYTES),
        _ => 0,
    }
}

/// What `left + right` is charged for one side: the elements of a list are shared, so their own
/// bytes do not count again.
pub(crate) fn shallow_size(value: &Value) -> u64 {
    match (value.kind(), value.len()) {
        (ValueKind::Seq | ValueKind::Iterable, Some(length)) => (length as u64).saturating_mul(ELEMENT_BYTES),
        _ => size(value),
    }
}
