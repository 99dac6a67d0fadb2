//! The ledger: what the learner accepted of this node's work, with its receipts, and what it refused and why.
//!
//! | name in `receipts/` | what |
//! |---|---|
//! | `RUN.receipts` | the signed charter, then a signed receipt for each group; append-only |
//! | `RUN.older` | the file before, when one has become too long; the one before that is gone |
//! | `RUN.damaged` | a copy of the first, made when that could not be read to its end |
//! | `RUN-of-KEY.receipts`, `RUN-of-KEY.older` | receipts of an identity that was here before |
//! | `RUN.refused.json` | how many groups were refused, by reason, and the last of each |
//!
//! `RUN` is the run's id. A file of receipts is all that somebody needs to check them ([`verify`]):
//! the charter names the key that signs.

mod log;
mod refusals;
pub mod show;
pub mod verify;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use echo_protocol::program::keyfile::KeyfileError;
use echo_protocol::run::charter::{Charter, CharterError, RunId};
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::signed::Signed;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::receipt::Receipt;
use echo_protocol::work::submission::RefuseReason;
use echo_protocol::work::trajectory::TrajectoryGroup;

use crate::state::state_file;
use crate::state::state_file::StateError;
use log::ReceiptLog;
use refusals::RefusalCounts;

pub use log::MAX_RECEIPT_LOG_BYTES;
pub use refusals::RefusedGroups;

/// What keeps the ledger from being written or read.
#[derive(Debug, thiserror::Error)]
pub enum LedgerError {
    /// The disk failed, is full, or forbids it.
    #[error("{path}: {source}{}", state_file::hint(.source))]
    Io {
        /// The file or directory that failed.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds something else.
    #[error("{path} is no file of receipts: {what}; move it away, receipts of it can be checked nowhere")]
    Damaged {
        /// The file that is not as it should be.
        path: PathBuf,
        /// The first thing in it that makes no sense.
        what: String,
    },
    /// No node has worked there.
    #[error("{path} is no node's data directory: it holds no identity; name the right one with --data-dir")]
    NoNode {
        /// The data directory that was named.
        path: PathBuf,
    },
    /// Whose receipts they are cannot be read.
    #[error(transparent)]
    Identity(#[from] KeyfileError),
    /// The counts of refusals.
    #[error(transparent)]
    State(#[from] StateError),
    /// A charter does not open: the run's, or that at the head of a file.
    #[error(transparent)]
    Charter(#[from] CharterError),
}

/// Why a receipt is worth nothing to this node.
#[derive(Debug, thiserror::Error)]
pub enum ReceiptError {
    /// It is not signed by the run's learner.
    #[error(transparent)]
    Signed(#[from] echo_protocol::wire::signed::SignedError),
    /// It is not for the group that was answered.
    #[error("it is about {what}")]
    Other {
        /// What it is about.
        what: String,
    },
    /// This node, by its identity, has delivered another group of the same order.
    #[error(
        "a second process has delivered another group of this order: this identity is in use on another machine, or this data directory \
         is an older copy. Give every node a --data-dir of its own"
    )]
    OtherGroup,
}

/// The ledger of one run.
#[derive(Debug)]
pub struct Ledger {
    learner: PublicKey,
    run: RunId,
    me: PublicKey,
    receipts: ReceiptLog,
    refused: RefusalCounts,
}

impl Ledger {
    /// Opens the ledger in `dir` for the run of `charter`, in which this node is `me`. What a crash
    /// left half written is cut off.
    ///
    /// # Errors
    /// [`LedgerError`]: the charter does not open, or a file can't be read or written.
    pub fn open(dir: &Path, charter: &Signed<Charter>, me: PublicKey) -> Result<Self, LedgerError> {
        let (run, opened) = Charter::open(charter)?;
        fs::create_dir_all(dir).map_err(|source| LedgerError::Io { path: dir.to_owned(), source })?;
        let path = dir.join(format!("{run}.receipts"));
        log::set_aside(&path, &me)?;
        let receipts = ReceiptLog::open(&path, charter)?;
        let refused = RefusalCounts::open(dir.join(format!("{run}.refused.json")))?;
        Ok(Self { learner: opened.learner, run, me, receipts, refused })
    }

    /// Keeps the receipt for the group of order `counter`, whose bytes are `group` if they are still here.
    ///
    /// # Errors
    /// [`LedgerError`] when it cannot be kept; [`ReceiptError`] within when it is not what it
    /// should be, upon which it is not kept.
    pub fn accepted(
        &mut self,
        counter: OrderCounter,
        group: Option<&[u8]>,
        receipt: &Signed<Receipt>,
    ) -> Result<Result<(), ReceiptError>, LedgerError> {
        match self.check(counter, group, receipt) {
            Ok(()) => self.receipts.add(receipt).map(Ok),
            Err(error) => Ok(Err(error)),
        }
    }

    /// Counts a refused group.
    ///
    /// # Errors
    /// [`LedgerError::State`] when the counts can't be written.
    pub fn refused(
        &mut self,
        now: UnixMillis,
        counter: OrderCounter,
        reason: RefuseReason,
        detail: &str,
    ) -> Result<(), LedgerError> {
        Ok(self.refused.add(now, counter, reason, detail)?)
    }

    fn check(
        &self,
        counter: OrderCounter,
        group: Option<&[u8]>,
        receipt: &Signed<Receipt>,
    ) -> Result<(), ReceiptError> {
        let receipt = receipt.open_from(&self.learner)?;
        let other = |what| Err(ReceiptError::Other { what });
        if receipt.run != self.run {
            return other(format!("run {}", receipt.run));
        }
        if receipt.node != self.me {
            return other(format!("node {}", receipt.node));
        }
        if receipt.counter != counter {
            return other(format!("order {}", receipt.counter));
        }
        let sent = group.and_then(|bytes| Signed::<TrajectoryGroup>::from_bytes(bytes).ok());
        match sent {
            Some(sent) if sent.body_id() != receipt.group => Err(ReceiptError::OtherGroup),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
