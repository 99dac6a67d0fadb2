//! A safetensors file, read piece by piece.

use anyhow::{Context, ensure};
use echo_protocol::snapshot::delta::Width;
use safetensors::tensor::Metadata;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Longest header, in bytes; the format's own limit.
const MAX_HEADER: u64 = 100_000_000;

/// An open safetensors file, whose table of tensors was read and checked.
pub(super) struct Checkpoint {
    path: PathBuf,
    file: File,
    /// Everything before the data: the length of the table of tensors, and the table.
    pub(super) header: Vec<u8>,
    length: u64,
    /// Where tensors lie in the data, and the bytes of their elements.
    tensors: Vec<(Range<u64>, Width)>,
}

impl Checkpoint {
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot read {}", path.display());
        let mut file = File::open(path).with_context(cannot)?;
        let length = file.metadata().with_context(cannot)?.len();
        let mut prefix = [0; 8];
        ensure!(length >= prefix.len() as u64, "{}: {length} bytes are no safetensors file", path.display());
        file.read_exact(&mut prefix).with_context(cannot)?;
        let table = u64::from_le_bytes(prefix);
        ensure!(table <= MAX_HEADER, "{}: a header of {table} bytes is none of safetensors", path.display());
        ensure!(
            table <= length - prefix.len() as u64,
            "{} has {length} bytes, and a header of {table}: it is no safetensors file, or cut off",
            path.display()
        );
        let mut header = prefix.to_vec();
        (&mut file).take(table).read_to_end(&mut header).with_context(cannot)?;
        let metadata: Metadata = serde_json::from_slice(&header[prefix.len()..])
            .with_context(|| format!("the header of {}", path.display()))?;
        ensure!(
            header.len() as u64 + metadata.data_len() as u64 == length,
            "{} has {length} bytes, and its header tells of others",
            path.display()
        );
        let tensors = metadata.tensors().into_values().map(|tensor| {
            let (start, end) = tensor.data_offsets;
            let width = match tensor.dtype.bitsize() {
                ..=8 => Width::One,
                16 => Width::Two,
                _ => Width::Four,
            };
            (start as u64..end as u64, width)
        });
        let tensors = tensors.collect();
        Ok(Self { path: path.to_owned(), file, header, length, tensors })
    }

    pub(super) fn data_bytes(&self) -> u64 {
        self.length - self.header.len() as u64
    }

    /// `length` bytes of data from `start` on, or as many as there are.
    pub(super) fn data(&mut self, start: u64, length: usize) -> anyhow::Result<Vec<u8>> {
        let cannot = || format!("cannot read {}", self.path.display());
        let mut bytes = Vec::with_capacity(length);
        self.file.seek(SeekFrom::Start(self.header.len() as u64 + start)).with_context(cannot)?;
        (&mut self.file).take(length as u64).read_to_end(&mut bytes).with_context(cannot)?;
        Ok(bytes)
    }

    /// The element width that most of the bytes from `start` on have.
    pub(super) fn width(&self, start: u64, length: u64) -> Width {
        let shared =
            |tensor: &Range<u64>| tensor.end.min(start + length).saturating_sub(tensor.start.max(start));
        let bytes_of = |width: &Width| {
            self.tensors.iter().filter(|(_, own)| own == width).map(|(range, _)| shared(range)).sum::<u64>()
        };
        [Width::One, Width::Four, Width::Two].into_iter().max_by_key(bytes_of).unwrap_or(Width::Two)
    }
}
