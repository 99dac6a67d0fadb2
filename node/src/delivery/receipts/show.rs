//! What `echo-node receipts` says.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use echo_protocol::program::keyfile;
use echo_protocol::wire::identity::PublicKey;
use echo_protocol::work::receipt::ReceiptFinding;
use serde_json::{Value, json};

use super::log::is_set_aside;
use super::verify::{Proof, verify};
use super::{LedgerError, RefusedGroups};
use crate::state::data_dir::DataDir;
use crate::state::state_file;

/// Most findings that are shown of one file.
const SHOWN_FINDINGS: usize = 20;

/// What is said of [`Proof::torn`].
const TORN: &str = "the file ends within a receipt: of a crash the node's next start leaves no trace; a copy has to be made again";

/// One run's receipts and refusals.
#[derive(Debug)]
pub struct ShownReceipts {
    /// The file of receipts.
    pub path: PathBuf,
    /// What the receipts prove, and what is wrong with them.
    pub proof: Proof,
    /// Refused groups by reason.
    pub refused: BTreeMap<String, RefusedGroups>,
}

/// All runs of the node whose data directory this is. Nothing is created.
///
/// # Errors
/// [`LedgerError`], among it that there is no node
pub fn mine(data: &DataDir) -> Result<Vec<ShownReceipts>, LedgerError> {
    let no_node = || LedgerError::NoNode { path: data.path().to_owned() };
    let key = keyfile::load(&data.identity())?.ok_or_else(no_node)?;
    all(&data.receipts(), key.public())
}

/// All runs in the ledger's directory. None where there is no directory.
///
/// # Errors
/// [`LedgerError`] of the first file that is no file of receipts.
pub fn all(dir: &Path, node: PublicKey) -> Result<Vec<ShownReceipts>, LedgerError> {
    let Ok(entries) = fs::read_dir(dir) else { return Ok(Vec::new()) };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let mut paths: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|kind| kind == "receipts")).collect();
    paths.sort();
    // An earlier identity's receipts say themselves whose they are.
    let whose = |path: &PathBuf| (!is_set_aside(path)).then_some(node);
    paths.into_iter().map(|path| one(path.clone(), whose(&path))).collect()
}

/// The receipts in one file, and the refusals beside it. They are `node`'s, or whoever's they are.
///
/// # Errors
/// [`LedgerError`] when it is no file of receipts, or the counts beside it are damaged.
pub fn one(path: PathBuf, node: Option<PublicKey>) -> Result<ShownReceipts, LedgerError> {
    let proof = verify(&path, node)?;
    let refused = state_file::read(&path.with_extension("refused.json"))?.unwrap_or_default();
    Ok(ShownReceipts { path, proof, refused })
}

impl ShownReceipts {
    /// A paragraph for people, one finding a line.
    pub fn text(&self) -> String {
        let Proof { run, name, learner, node, account, from, .. } = &self.proof;
        let node = node.map_or_else(|| "nobody".to_owned(), |node| node.to_string());
        let mut lines = vec![
            format!("run {name} ({run})"),
            format!("  signed by learner  {learner}"),
            format!("  for node           {node}"),
            format!(
                "  accepted           {} groups, {} trajectories, rewards of {:.3} in all",
                account.groups(),
                account.trajectories,
                account.rewards
            ),
        ];
        if *from > 0 {
            lines.push(format!("  receipts before number {from} were kept no longer"));
        }
        for (reason, refused) in &self.refused {
            lines.push(format!(
                "  refused            {} {reason}; the last, order {}: {}",
                refused.groups, refused.last_order, refused.detail
            ));
        }
        lines.extend(self.findings().map(|finding| format!("  ! {finding}")));
        if self.proof.torn {
            lines.push(format!("  ! {TORN}"));
        }
        let unsaid = account.wrong.saturating_sub(SHOWN_FINDINGS as u64);
        if unsaid > 0 {
            lines.push(format!("  ! and {unsaid} more"));
        }
        lines.join("\n")
    }

    /// The same as JSON, for programs.
    pub fn json(&self) -> Value {
        let Proof { run, name, learner, node, account, from, last_at, torn } = &self.proof;
        json!({
            "file": self.path.display().to_string(),
            "run": run.to_string(),
            "name": name,
            "learner": learner.to_string(),
            "node": node.map(|node| node.to_string()),
            "groups": account.groups(),
            "trajectories": account.trajectories,
            "rewards": account.rewards,
            "from": from,
            "last_at": last_at,
            "copies": account.copies,
            "wrong": self.proof.wrong(),
            "torn": torn,
            "findings": self.findings().map(ReceiptFinding::to_string).collect::<Vec<_>>(),
            "refused": self.refused,
        })
    }

    fn findings(&self) -> impl Iterator<Item = &ReceiptFinding> {
        self.proof.account.findings.iter().take(SHOWN_FINDINGS)
    }
}
