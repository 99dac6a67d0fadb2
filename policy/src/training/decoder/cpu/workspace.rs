//! Buffers that passes hand on to each other: mapping fresh pages would cost a part of every step.

use std::ops::{Deref, DerefMut};

use parking_lot::Mutex;

use super::head;
use super::layer::{LayerScratch, Trace};

/// Everything that a pass writes to, except its results. Contents are unspecified between passes.
#[derive(Default)]
pub(super) struct DecoderWorkspace {
    /// Residual streams `[rows, hidden]`.
    pub(super) residuals: Vec<Vec<f32>>,
    pub(super) traces: Vec<Trace>,
    pub(super) scratch: LayerScratch,
    pub(super) head: head::HeadScratch,
    /// Gradient of the residual stream.
    pub(super) d_residual: Vec<f32>,
}

/// Where a decoder keeps one workspace between passes. Its buffers stay as large as the
/// largest pass needed them.
#[derive(Default)]
pub(in crate::training::decoder) struct WorkspaceSlot(Mutex<Option<Box<DecoderWorkspace>>>);

impl WorkspaceSlot {
    /// The workspace, or a new one while another pass has it.
    pub(super) fn lease(&self) -> BorrowedWorkspace<'_> {
        let found = self.0.lock().take();
        BorrowedWorkspace { slot: self, workspace: found.unwrap_or_default() }
    }
}

/// A workspace that goes back to its slot.
pub(super) struct BorrowedWorkspace<'a> {
    slot: &'a WorkspaceSlot,
    workspace: Box<DecoderWorkspace>,
}

impl Drop for BorrowedWorkspace<'_> {
    fn drop(&mut self) {
        let workspace = std::mem::take(&mut self.workspace);
        *self.slot.0.lock() = Some(workspace);
    }
}

impl Deref for BorrowedWorkspace<'_> {
    type Target = DecoderWorkspace;

    fn deref(&self) -> &DecoderWorkspace {
        &self.workspace
    }
}

impl DerefMut for BorrowedWorkspace<'_> {
    fn deref_mut(&mut self) -> &mut DecoderWorkspace {
        &mut self.workspace
    }
}
