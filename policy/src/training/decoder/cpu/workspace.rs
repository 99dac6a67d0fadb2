//! Buffers that passes hand on to each other: mapping fresh pages would cost a part of every step.

use std::ops::{Deref, DerefMut};
use std::sync::{Mutex, PoisonError};

use super::head;
use super::layer::{Scratch, Trace};

/// Everything that a pass writes to, except its results. Contents are unspecified between passes.
#[derive(Default)]
pub(super) struct Workspace {
    /// Residual streams `[rows, hidden]`.
    pub(super) residuals: Vec<Vec<f32>>,
    pub(super) traces: Vec<Trace>,
    pub(super) scratch: Scratch,
    pub(super) head: head::Scratch,
    /// Gradient of the residual stream.
    pub(super) d_residual: Vec<f32>,
}

/// Where a decoder keeps one workspace between passes. Its buffers stay as large as the largest pass needed them.
#[derive(Default)]
pub(in crate::training::decoder) struct Shelf(Mutex<Option<Box<Workspace>>>);

impl Shelf {
    /// The workspace, or a new one while another pass has it.
    pub(super) fn lease(&self) -> Lease<'_> {
        let found = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        Lease { shelf: self, workspace: found.unwrap_or_default() }
    }
}

/// A workspace that goes back to its shelf.
pub(super) struct Lease<'a> {
    shelf: &'a Shelf,
    workspace: Box<Workspace>,
}

impl Drop for Lease<'_> {
    fn drop(&mut self) {
        let workspace = std::mem::take(&mut self.workspace);
        *self.shelf.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(workspace);
    }
}

impl Deref for Lease<'_> {
    type Target = Workspace;

    fn deref(&self) -> &Workspace {
        &self.workspace
    }
}

impl DerefMut for Lease<'_> {
    fn deref_mut(&mut self) -> &mut Workspace {
        &mut self.workspace
    }
}
