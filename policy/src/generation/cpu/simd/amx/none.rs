//! Other processors have no such unit: there is no value of [`Amx`], and nothing here is called.

use std::sync::atomic::AtomicU32;

use super::super::{LANES, Line};
use super::{AmxRows, Put, Sums, Tile};

/// As on Intel's processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amx {}

/// As on Intel's processors.
pub(crate) struct Unit(Amx);

impl Amx {
    pub(crate) fn run<T>(self, _: impl FnOnce(&Unit) -> T) -> T {
        match self {}
    }

    pub(crate) fn transpose<'a>(self, _: impl Fn(usize) -> Option<&'a Line>, _: &mut Tile) {
        match self {}
    }
}

impl Unit {
    pub(crate) fn transposed(&self, _: &Tile) -> Tile {
        match self.0 {}
    }

    pub(crate) fn multiply(&self, _: AmxRows<'_>, _: [&[Tile]; 2], _: &[u8], _: &mut Sums) {
        match self.0 {}
    }

    pub(crate) fn put(&self, _: &Line, _: &[AtomicU32; LANES], _: Put) {
        match self.0 {}
    }
}
