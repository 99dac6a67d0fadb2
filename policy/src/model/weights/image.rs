//! Weights in a file of their own, which has no name: memory holds what is looked at, and the
//! system takes it back when others need it.
//!
//! An image lives as long as its weights. Whoever drops the last of them, or dies with them, gives
//! the disk back; so there is nothing to clean up, and nobody else can write to what is mapped.

use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use memmap2::Mmap;

use super::{Bytes, DType, TensorSpec, WeightTensor, Weights, WeightsError, expected_tensors};
use crate::model::config::ModelConfig;

/// Tensors begin at multiples of so many bytes: a line of the processor's cache.
const ALIGNMENT: usize = 64;

/// Writes an image front to back, in pieces as large as the caller likes: it holds none of them.
#[derive(Debug)]
pub struct ImageWriter {
    file: File,
    /// Where the file lies, for messages.
    dir: PathBuf,
    dtype: DType,
    /// Every tensor and its place in the file, in the order in which they are written.
    places: Vec<(TensorSpec, Range<usize>)>,
    /// How many of them are whole.
    whole: usize,
    /// Bytes in the file.
    written: usize,
}

impl ImageWriter {
    /// Begins an image of the tensors of `config`, all of them in `dtype`, on the disk of `dir`.
    ///
    /// # Errors
    /// [`WeightsError::Image`] when no file can be made there.
    pub fn create(dir: &Path, config: &ModelConfig, dtype: DType) -> Result<Self, WeightsError> {
        Self::over(tempfile::tempfile_in(dir), dir, config, dtype)
    }

    fn over(
        file: io::Result<File>,
        dir: &Path,
        config: &ModelConfig,
        dtype: DType,
    ) -> Result<Self, WeightsError> {
        let mut end = 0;
        let place = |spec: TensorSpec| {
            let start = usize::next_multiple_of(end, ALIGNMENT);
            end = start + spec.elements() * dtype.size();
            (spec, start..end)
        };
        let places = expected_tensors(config).into_iter().map(place).collect();
        let fail = |source| WeightsError::Image { dir: dir.to_owned(), bytes: end, source };
        let file = file.map_err(fail)?;
        Ok(Self { file, dir: dir.to_owned(), dtype, places, whole: 0, written: 0 })
    }

    /// Appends a piece of the tensor `name`. Tensors come in the order of [`expected_tensors`],
    /// each in one piece or several.
    ///
    /// # Errors
    /// When it is another tensor's turn or this one becomes too long, and [`WeightsError::Image`]
    /// when the disk is full. The image is of no use then.
    pub fn write(&mut self, name: &str, piece: &[u8]) -> Result<(), WeightsError> {
        let Some((spec, place)) = self.places.get(self.whole).filter(|(spec, _)| spec.name == name) else {
            return Err(self.lacking().unwrap_or_else(|| WeightsError::Duplicate { name: name.to_owned() }));
        };
        let padding = place.start.saturating_sub(self.written);
        let (end, expected) = (self.written + padding + piece.len(), place.len());
        if end > place.end {
            let (name, found) = (spec.name.clone(), end - place.start);
            return Err(WeightsError::Length { name, found, expected });
        }
        let is_whole = end == place.end;
        let append = |mut file: &File| {
            file.write_all(&[0; ALIGNMENT][..padding])?;
            file.write_all(piece)
        };
        append(&self.file).map_err(|source| self.fail(source))?;
        self.written = end;
        self.whole += usize::from(is_whole);
        Ok(())
    }

    /// Maps what was written.
    ///
    /// # Errors
    /// When a tensor is missing or cut off; [`WeightsError::Image`] when the system does not map the file.
    pub fn finish(self) -> Result<Weights, WeightsError> {
        if let Some(lacking) = self.lacking() {
            return Err(lacking);
        }
        // SAFETY: the map is only read, and the file has no name by which anybody else could write to it.
        let map = unsafe { Mmap::map(&self.file) }.map_err(|source| self.fail(source))?;
        let map = Arc::new(map);
        let tensors = self.places.into_iter().map(|(spec, place)| {
            let bytes = Bytes::Mapped(Arc::clone(&map), place);
            WeightTensor { spec, dtype: self.dtype, bytes }
        });
        Ok(Weights { tensors: tensors.collect() })
    }

    /// What is wrong with the tensor whose turn it is.
    fn lacking(&self) -> Option<WeightsError> {
        let (spec, place) = self.places.get(self.whole)?;
        let name = spec.name.clone();
        Some(match self.written.saturating_sub(place.start) {
            0 => WeightsError::Missing { name },
            found => WeightsError::Length { name, found, expected: place.len() },
        })
    }

    fn fail(&self, source: io::Error) -> WeightsError {
        let bytes = self.places.last().map_or(0, |(_, place)| place.end);
        WeightsError::Image { dir: self.dir.clone(), bytes, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::config::TinySizes;

    fn model() -> (ModelConfig, Weights) {
        let sizes = TinySizes {
            vocab: 11,
            hidden: 8,
            layers: 2,
            heads: 2,
            kv_heads: 1,
            head_dim: 4,
            intermediate: 12,
            positions: 16,
        };
        let config = ModelConfig::tiny_qwen3(sizes).unwrap();
        let weights = Weights::random(&config, 9).to_dtype(DType::BF16);
        (config, weights)
    }

    /// Writes `weights` in pieces of that many bytes.
    fn write(image: &mut ImageWriter, weights: &Weights, piece: usize) -> Result<(), WeightsError> {
        let pieces =
            weights.iter().flat_map(|tensor| tensor.bytes().chunks(piece).map(|p| (tensor.name(), p)));
        for (name, piece) in pieces {
            image.write(name, piece)?;
        }
        Ok(())
    }

    #[test]
    fn an_image_is_what_was_written_piece_by_piece_and_leaves_nothing() {
        let (config, weights) = model();
        let dir = tempfile::tempdir().unwrap();
        for piece in [7, 64, usize::MAX] {
            let mut image = ImageWriter::create(dir.path(), &config, DType::BF16).unwrap();
            write(&mut image, &weights, piece).unwrap();
            let image = image.finish().unwrap();
            assert_eq!(image.iter().len(), weights.iter().len());
            for (found, expected) in image.iter().zip(weights.iter()) {
                assert_eq!((found.name(), found.shape()), (expected.name(), expected.shape()));
                assert_eq!((found.dtype(), found.bytes()), (expected.dtype(), expected.bytes()));
                assert!(found.bytes().as_ptr().addr().is_multiple_of(ALIGNMENT));
            }
            if cfg!(unix) {
                assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
            }
        }
    }

    #[test]
    fn what_is_not_the_next_tensor_whole_is_refused() {
        let (config, weights) = model();
        let image = || ImageWriter::create(&std::env::temp_dir(), &config, DType::BF16).unwrap();
        let first = weights.iter().next().unwrap();
        let (name, bytes) = (first.name(), first.bytes());
        assert!(matches!(image().finish(), Err(WeightsError::Missing { .. })));
        assert!(matches!(image().write("model.norm.weight", bytes), Err(WeightsError::Missing { .. })));
        let longer = [bytes, &[0]].concat();
        assert!(matches!(image().write(name, &longer), Err(WeightsError::Length { .. })));
        let mut cut = image();
        cut.write(name, &bytes[1..]).unwrap();
        let other = cut.write("model.norm.weight", &[0]).unwrap_err();
        assert!(matches!(other, WeightsError::Length { found, .. } if found == bytes.len() - 1), "{other}");
        assert!(matches!(cut.finish(), Err(WeightsError::Length { .. })));
        let mut whole = image();
        write(&mut whole, &weights, 100).unwrap();
        assert!(matches!(whole.write(name, &[0]), Err(WeightsError::Duplicate { .. })));
    }

    #[test]
    fn a_directory_that_is_not_there_is_named() {
        let (config, _) = model();
        let dir = tempfile::tempdir().unwrap();
        let error = ImageWriter::create(&dir.path().join("gone"), &config, DType::F32).unwrap_err();
        assert!(matches!(error, WeightsError::Image { .. }) && error.to_string().contains("gone"), "{error}");
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_told_with_the_bytes_that_are_needed() {
        let (config, weights) = model();
        let full = File::options().write(true).open("/dev/full");
        let mut image = ImageWriter::over(full, Path::new("/data"), &config, DType::BF16).unwrap();
        let error = write(&mut image, &weights, 100).unwrap_err();
        let WeightsError::Image { bytes, source, .. } = &error else { panic!("{error}") };
        assert!(*bytes >= weights.total_bytes(), "{bytes}");
        assert_eq!(source.kind(), io::ErrorKind::StorageFull, "{error}");
    }
}
