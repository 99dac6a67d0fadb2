//! SwiGLU: silu(gate) · up, elementwise.

use rayon::prelude::*;

use super::TASK_ELEMENTS;
use crate::math;

/// y = silu(gate) · up, element by element.
pub(super) fn forward(gate: &[f32], up: &[f32], y: &mut [f32]) {
    y.par_chunks_mut(TASK_ELEMENTS)
        .zip(gate.par_chunks(TASK_ELEMENTS))
        .zip(up.par_chunks(TASK_ELEMENTS))
        .for_each(|((y, gate), up)| {
            math::wide(
                #[inline(always)]
                || {
                    for ((y, g), u) in y.iter_mut().zip(gate).zip(up) {
                        *y = g * math::sigmoid(*g) * u;
                    }
                },
            );
        });
}

/// Replaces `gate` and `up` by their gradients.
pub(super) fn backward(gate: &mut [f32], up: &mut [f32], dy: &[f32]) {
    gate.par_chunks_mut(TASK_ELEMENTS)
        .zip(up.par_chunks_mut(TASK_ELEMENTS))
        .zip(dy.par_chunks(TASK_ELEMENTS))
        .for_each(|((gate, up), dy)| {
            math::wide(
                #[inline(always)]
                || {
                    for ((gate, up), dy) in gate.iter_mut().zip(up).zip(dy) {
                        let (g, u) = (*gate, *up);
                        let s = math::sigmoid(g);
                        *gate = dy * u * s * (1.0 + g * (1.0 - s));
                        *up = dy * g * s;
                    }
                },
            );
        });
}
