//! Checking receipts without asking anybody.

use std::fs::File;
use std::io;
use std::path::Path;

use echo_protocol::run::charter::{Charter, RunId};
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::wire::time::UnixMillis;
use echo_protocol::work::receipt::Account;

use super::LedgerError;
use super::log::{ReceiptFrames, older};

/// What the receipts of one run prove.
#[derive(Debug)]
pub struct Proof {
    /// The run of the charter at the file's head.
    pub run: RunId,
    /// Its name for people.
    pub name: String,
    /// The key that signed.
    pub learner: PublicKey,
    /// Whose work it was; `None` where there is no receipt.
    pub node: Option<PublicKey>,
    /// Receipts, and what is wrong with them.
    pub account: Account,
    /// The number of the first receipt that is kept, where older ones were thrown away.
    pub from: u64,
    /// When the last group was accepted.
    pub last_at: Option<UnixMillis>,
    /// Whether a file ends within a receipt: a crash leaves that until the next start, and so does
    /// who copies a part of the file.
    pub torn: bool,
}

impl Proof {
    /// How much is wrong.
    pub fn wrong(&self) -> u64 {
        self.account.wrong + u64::from(self.torn)
    }
}

/// Checks the receipts in the file at `path`, and in the one before it where there is one. They
/// have to be `node`'s; where it is not named, the first receipt names it.
///
/// # Errors
/// [`LedgerError`] when it is no file of receipts. What is wrong with single
/// ones stands in [`Account::findings`].
pub fn verify(path: &Path, node: Option<PublicKey>) -> Result<Proof, LedgerError> {
    let current = open(path)?.ok_or_else(|| LedgerError::Io {
        path: path.to_owned(),
        source: io::Error::new(io::ErrorKind::NotFound, "there is no such file"),
    })?;
    let before = if older(path) == path { None } else { open(&older(path))? };
    let rotated = before.is_some();
    let mut proof: Option<Proof> = None;
    for mut frames in before.into_iter().chain([current]) {
        let (run, charter) = Charter::open(&frames.head()?)?;
        let mut next = frames.receipt()?;
        let proof = match &mut proof {
            Some(proof) if proof.run == run => proof,
            Some(proof) => {
                let what = format!("the file before it belongs to run {}", proof.run);
                return Err(LedgerError::Damaged { path: path.to_owned(), what });
            }
            none => {
                // A receipt that does not open names nobody, and is a finding below.
                let first = next.as_ref().and_then(|signed| signed.open().ok()).map(|receipt| receipt.node);
                let node = node.or(first);
                let whose = node.unwrap_or(charter.learner);
                none.insert(Proof {
                    run,
                    learner: charter.learner,
                    name: charter.name,
                    node,
                    account: Account::new(charter.learner, run, whose),
                    from: 0,
                    last_at: None,
                    torn: false,
                })
            }
        };
        while let Some(signed) = next {
            if let Some(receipt) = proof.account.add(&signed) {
                if rotated && proof.account.groups() == 1 {
                    proof.from = receipt.sequence;
                }
                proof.last_at = proof.last_at.max(Some(receipt.at));
            }
            next = frames.receipt()?;
        }
        proof.torn |= frames.torn();
    }
    let mut proof = proof.expect("the file itself was looked at");
    proof.account.close(proof.from);
    Ok(proof)
}

fn open(path: &Path) -> Result<Option<ReceiptFrames>, LedgerError> {
    match File::open(path) {
        Ok(file) => Ok(Some(ReceiptFrames::new(path, file))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(LedgerError::Io { path: path.to_owned(), source }),
    }
}
