//! The archive itself: tar in zstd, with a window as wide as the programs are long, as they share
//! much of their code.

use anyhow::Context as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// The directory that it unpacks to.
const ROOT: &str = "echo-gpu-kit";
/// zstd's best that does not need a flag to be unpacked, and the widest window for which
/// that holds (128 MiB).
const LEVEL: i32 = 19;
const WINDOW_LOG: u32 = 27;

/// Packs a directory, and returns the archive's size.
pub(super) fn write(dir: &Path, out: &Path) -> anyhow::Result<u64> {
    let file = File::create(out).with_context(|| format!("cannot write {}", out.display()))?;
    let mut packer = zstd::Encoder::new(BufWriter::new(file), LEVEL)?;
    packer.window_log(WINDOW_LOG)?;
    packer.long_distance_matching(true)?;
    let mut tar = tar::Builder::new(packer);
    // The same directory gives the same archive.
    tar.mode(tar::HeaderMode::Deterministic);
    tar.append_dir_all(ROOT, dir)?;
    tar.into_inner()?.finish()?.flush()?;
    Ok(out.metadata()?.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_comes_out_again() {
        let dir = tempfile::tempdir().unwrap();
        let (from, out) = (dir.path().join("from"), dir.path().join("kit.tar.zst"));
        std::fs::create_dir_all(from.join("below")).unwrap();
        std::fs::write(from.join("below/file"), "text").unwrap();
        let bytes = write(&from, &out).unwrap();
        assert_eq!(bytes, out.metadata().unwrap().len());
        let to = dir.path().join("to");
        tar::Archive::new(zstd::Decoder::new(File::open(&out).unwrap()).unwrap()).unpack(&to).unwrap();
        assert_eq!(std::fs::read(to.join(ROOT).join("below/file")).unwrap(), b"text");
    }
}
