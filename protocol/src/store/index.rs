//! Which files there are. Everything here happens under the store's lock.

use super::lru::Bounded;
use super::positioned_io::{read_exact_at, write_all_at};
use super::{ChunkStoreError, io_error};
use crate::snapshot::blocks::{BLOCK_BYTES, BlockMask, BlockTree, MAX_PIECE_BYTES, block_range};
use crate::snapshot::manifest::{MAX_CHUNKS, Manifest, Piece};
use crate::wire::content_id::ContentId;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folder of whole files that have no name yet.
pub(super) const DRAFTS: &str = "drafts";
/// Folder of pieces of which blocks are missing.
pub(super) const PARTIAL: &str = "partial";
/// Most files of whole pieces that are kept open.
const MAX_OPEN_FILES: usize = 64;
/// Block trees of whole pieces kept in memory, in bytes: those of the largest snapshot. Each one
/// missing costs reading and hashing a whole piece.
const MAX_TREE_BYTES: usize = 40 << 20;
/// What a tree in memory costs beside its leaves, in bytes, roughly.
const TREE_OVERHEAD: usize = 160;
const _: () = assert!(MAX_CHUNKS * (TREE_OVERHEAD + BlockTree::MAX_BYTES) <= MAX_TREE_BYTES);
/// Recently written blocks kept in memory, in bytes.
pub(super) const MAX_RECENT_BYTES: usize = 16 << 20;
/// Unfinished pieces. Each holds a tree of at most 2 KiB in memory.
const MAX_PARTIAL: usize = 16 << 10;

/// The files of a store, as far as they are known.
pub(super) struct StoreIndex {
    dir: PathBuf,
    files: Bounded<ContentId, Arc<File>>,
    trees: Bounded<ContentId, Arc<BlockTree>>,
    partial: BTreeMap<ContentId, Partial>,
    /// Nothing that these name is deleted.
    pub(super) kept: Vec<Arc<Manifest>>,
    /// Open [`SnapshotDraft`](super::SnapshotDraft)s. While there is one, nothing is deleted
    /// but what is damaged.
    pub(super) drafts: usize,
    /// What should have been deleted in the meantime.
    pub(super) postponed: Vec<ContentId>,
}

struct Partial {
    tree: Arc<BlockTree>,
    have: BlockMask,
}

/// How much of a piece is here.
pub(super) enum FoundPiece {
    Whole { file: Arc<File>, tree: Option<Arc<BlockTree>> },
    Partial { file: Arc<File>, tree: Arc<BlockTree>, have: BlockMask },
    Nothing,
}

impl StoreIndex {
    pub(super) fn new(dir: &Path) -> Self {
        Self {
            dir: dir.to_owned(),
            files: Bounded::new(MAX_OPEN_FILES),
            trees: Bounded::new(MAX_TREE_BYTES),
            partial: BTreeMap::new(),
            kept: Vec::new(),
            drafts: 0,
            postponed: Vec::new(),
        }
    }

    /// Looks a piece up, in memory and then on disk. A whole file of another length is not looked
    /// at: it may be damaged, and then it is replaced, or the piece is told of with a wrong length.
    /// A partial one without its tree is deleted.
    pub(super) fn find(&mut self, piece: &Piece) -> Result<FoundPiece, ChunkStoreError> {
        if let Some(Partial { tree, have }) = self.partial.get(&piece.id) {
            if tree.length() != piece.length {
                return Ok(FoundPiece::Nothing);
            }
            let (tree, have) = (tree.clone(), *have);
            let file = self.open(&piece.id, partial_path, true)?;
            return Ok(file.map_or(FoundPiece::Nothing, |file| FoundPiece::Partial { file, tree, have }));
        }
        if let Some(file) = self.open(&piece.id, whole_path, false)? {
            if file.metadata().is_ok_and(|about| about.len() == piece.length) {
                return Ok(FoundPiece::Whole { file, tree: self.tree(piece) });
            }
            self.files.remove(&piece.id);
        }
        self.resume(piece)
    }

    /// The file with a block, and the tree to verify it by, if both are known without a look at the disk.
    pub(super) fn opened(&mut self, piece: &Piece, block: u32) -> Option<(Arc<File>, Arc<BlockTree>)> {
        let file = self.files.get(&piece.id)?;
        let tree = match self.partial.get(&piece.id) {
            Some(Partial { tree, have }) => {
                (tree.length() == piece.length && have.contains(block)).then(|| tree.clone())
            }
            None => self.tree(piece),
        };
        Some((file, tree?))
    }

    /// Takes up a partial piece of an earlier process: what its file holds is verified against
    /// the tree after it.
    fn resume(&mut self, piece: &Piece) -> Result<FoundPiece, ChunkStoreError> {
        let Some(file) = self.open(&piece.id, partial_path, true)? else {
            return Ok(FoundPiece::Nothing);
        };
        if is_whole(&file, piece) {
            self.adopt(&partial_path(&self.dir, &piece.id), &piece.id)?;
            return self.find(piece);
        }
        let Some(tree) = kept_tree(&file, piece) else {
            self.delete(&piece.id)?;
            return Ok(FoundPiece::Nothing);
        };
        let mut block_bytes = vec![0; BLOCK_BYTES];
        let sound = |block: &u32| {
            let range = block_range(piece.length, *block);
            let bytes = &mut block_bytes[..(range.end - range.start) as usize];
            read_exact_at(&file, bytes, range.start).is_ok() && tree.verifies(*block, bytes)
        };
        let have = BlockMask::of((0..piece.blocks()).filter(sound));
        self.partial.insert(piece.id, Partial { tree: Arc::new(tree), have });
        // Killed between its last block and its name.
        if have == BlockMask::all(piece.blocks()) {
            self.finish(piece, &file)?;
        }
        self.find(piece)
    }

    /// Makes room for the blocks of a piece that is not here.
    pub(super) fn begin(&mut self, piece: &Piece, tree: BlockTree) -> Result<(), ChunkStoreError> {
        if tree.id() != piece.id || tree.length() != piece.length || piece.length > MAX_PIECE_BYTES {
            return Err(ChunkStoreError::Mismatch { id: piece.id });
        }
        if !matches!(self.find(piece)?, FoundPiece::Nothing) {
            return Ok(());
        }
        if self.partial.len() >= MAX_PARTIAL {
            return Err(ChunkStoreError::Crowded { id: piece.id, limit: MAX_PARTIAL });
        }
        let path = partial_path(&self.dir, &piece.id);
        let behind = tree.to_bytes();
        let create = || {
            let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path)?;
            file.set_len(piece.length + behind.len() as u64)?;
            write_all_at(&file, &behind, piece.length)?;
            Ok(file)
        };
        let file = create().map_err(io_error(&path))?;
        self.files.insert(piece.id, Arc::new(file), 1);
        self.partial.insert(piece.id, Partial { tree: Arc::new(tree), have: BlockMask::EMPTY });
        Ok(())
    }

    /// Notes a block that has been written to the partial file with this `tree`; true when the
    /// piece is whole by it.
    pub(super) fn note(
        &mut self,
        piece: &Piece,
        block: u32,
        file: &File,
        tree: &Arc<BlockTree>,
    ) -> Result<bool, ChunkStoreError> {
        let Some(partial) = self.partial.get_mut(&piece.id).filter(|p| Arc::ptr_eq(&p.tree, tree)) else {
            // Meanwhile it became whole by another thread, or was deleted and its bytes with it.
            return match self.find(piece)? {
                FoundPiece::Whole { .. } => Ok(true),
                _ => Err(ChunkStoreError::NoTree { id: piece.id }),
            };
        };
        partial.have.insert(block);
        let whole = partial.have == BlockMask::all(piece.blocks());
        if whole {
            self.finish(piece, file)?;
        }
        Ok(whole)
    }

    fn finish(&mut self, piece: &Piece, file: &File) -> Result<(), ChunkStoreError> {
        let path = partial_path(&self.dir, &piece.id);
        file.set_len(piece.length).map_err(io_error(&path))?;
        let tree = self.partial.get(&piece.id).map(|partial| partial.tree.clone());
        self.adopt(&path, &piece.id)?;
        if let Some(tree) = tree {
            self.remember_tree(tree);
        }
        Ok(())
    }

    /// Gives a whole, verified file its name, in place of whatever had it.
    pub(super) fn adopt(&mut self, draft: &Path, id: &ContentId) -> Result<(), ChunkStoreError> {
        let path = whole_path(&self.dir, id);
        let parent = path.parent().unwrap_or(&self.dir);
        fs::create_dir_all(parent).and_then(|()| fs::rename(draft, &path)).map_err(io_error(&path))?;
        self.files.remove(id);
        if self.partial.remove(id).is_some() {
            remove(&partial_path(&self.dir, id))?;
        }
        Ok(())
    }

    /// Deletes a piece, whole or partial; says whether there was one.
    pub(super) fn delete(&mut self, id: &ContentId) -> Result<bool, ChunkStoreError> {
        self.files.remove(id);
        self.trees.remove(id);
        self.partial.remove(id);
        let (whole, partial) = (whole_path(&self.dir, id), partial_path(&self.dir, id));
        Ok(remove(&whole)? | remove(&partial)?)
    }

    /// Deletes a piece in whose file damage was found, unless a sound one has its name by now.
    pub(super) fn delete_damaged(&mut self, id: &ContentId) -> Result<(), ChunkStoreError> {
        let replaced = fs::read(whole_path(&self.dir, id)).is_ok_and(|bytes| id.matches(&bytes));
        if replaced { Ok(()) } else { self.delete(id).map(drop) }
    }

    pub(super) fn remember_tree(&mut self, tree: Arc<BlockTree>) {
        // The tree of a piece of one block is made out of nothing.
        if !tree.leaves().is_empty() {
            let weight = TREE_OVERHEAD + tree.leaves().as_flattened().len();
            self.trees.insert(tree.id(), tree, weight);
        }
    }

    /// The tree of a whole piece, when it is in memory or needs no leaves.
    fn tree(&mut self, piece: &Piece) -> Option<Arc<BlockTree>> {
        let known = self.trees.get(&piece.id).filter(|tree| tree.length() == piece.length);
        known.or_else(|| BlockTree::checked(piece.id, piece.length, Vec::new()).ok().map(Arc::new))
    }

    /// The file that is open already, or the one at `path`.
    fn open(
        &mut self,
        id: &ContentId,
        path: fn(&Path, &ContentId) -> PathBuf,
        write: bool,
    ) -> Result<Option<Arc<File>>, ChunkStoreError> {
        if let Some(file) = self.files.get(id) {
            return Ok(Some(file));
        }
        let path = path(&self.dir, id);
        match OpenOptions::new().read(true).write(write).open(&path) {
            Ok(file) => {
                let file = Arc::new(file);
                self.files.insert(*id, file.clone(), 1);
                Ok(Some(file))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(io_error(&path)(error)),
        }
    }
}

/// Whether a partial file holds all of its piece and nothing else: a process was killed between
/// taking the tree away and naming the file.
fn is_whole(file: &File, piece: &Piece) -> bool {
    let same_length = file.metadata().is_ok_and(|about| about.len() == piece.length);
    if !same_length || piece.length > MAX_PIECE_BYTES {
        return false;
    }
    let mut bytes = vec![0; piece.length as usize];
    read_exact_at(file, &mut bytes, 0).is_ok() && piece.id.matches(&bytes)
}

/// The tree after the bytes of a partial piece; `None` when it is torn or of something else.
fn kept_tree(file: &File, piece: &Piece) -> Option<BlockTree> {
    let behind = file.metadata().ok()?.len().checked_sub(piece.length)?;
    if behind > BlockTree::MAX_BYTES as u64 {
        return None;
    }
    let mut bytes = vec![0; behind as usize];
    read_exact_at(file, &mut bytes, piece.length).ok()?;
    BlockTree::from_bytes(&bytes).ok().filter(|tree| tree.id() == piece.id && tree.length() == piece.length)
}

/// Deletes a file if there is one.
fn remove(path: &Path) -> Result<bool, ChunkStoreError> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error(path)(error)),
    }
}

/// Where a whole piece lies: one directory for each first byte, so that none grows huge.
pub(super) fn whole_path(dir: &Path, id: &ContentId) -> PathBuf {
    let name = id.to_string();
    dir.join(&name[..2]).join(name)
}

fn partial_path(dir: &Path, id: &ContentId) -> PathBuf {
    dir.join(PARTIAL).join(id.to_string())
}
