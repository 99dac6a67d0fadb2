//! Other processors have no such unit: there are no values of these types, and nothing here is called.

use std::sync::atomic::AtomicU32;

use super::super::Line;
use super::{Put, Rows, Sums, Tile};

/// As on Intel's processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amx {}

/// As on Intel's processors.
pub(crate) enum Unit {}

impl Amx {
    pub(crate) fn unit(self) -> Unit {
        match self {}
    }

    pub(crate) fn transpose<'a>(self, _: impl FnMut(usize) -> Option<&'a Line>, _: &mut Tile) {
        match self {}
    }

    pub(crate) fn put(self, _: &Tile, _: &[AtomicU32], _: usize, _: usize, _: Put) {
        match self {}
    }
}

impl Unit {
    pub(crate) fn multiply<const B: usize>(&self, _: Rows<'_>, _: [&[Tile]; B], _: &[u8], _: &mut Sums<B>) {
        match *self {}
    }
}
