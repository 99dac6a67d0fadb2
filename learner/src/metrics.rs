//! `metrics.jsonl`: one JSON object a line, one line per update, evaluation and publication.
//!
//! Rows are keyed by their version. A learner that resumes from an earlier checkpoint takes back the rows of the updates that it will
//! make again, so that the file always tells one history.

use echo_protocol::version::PolicyVersion;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::Path;

/// One update.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpdateRow {
    /// The version that the update produced.
    pub update: u64,
    /// Seconds since the learner process started.
    pub elapsed_s: f64,
    /// Mean reward of the batch.
    pub reward: f64,
    /// Share of the batch's responses with full reward.
    pub accuracy: f64,
    /// The objective's loss.
    pub loss: f64,
    /// Global gradient norm before clipping; none where it was not finite.
    pub grad_norm: Option<f64>,
    /// Learning rate.
    pub learning_rate: f64,
    /// Share of tokens or responses that the clip cut: below one, and above.
    #[serde(default)]
    pub clip_shares: [f64; 2],
    /// Share of tokens or responses that the clip cut, on either side.
    pub clip_share: f64,
    /// Importance weights: mean, largest, variance, and effective sample size as a share.
    pub weight: WeightRow,
    /// k3 estimate of KL(behaviour, current), nats per token.
    pub kl: f64,
    /// k3 estimate of KL(current, reference), nats per token, when the objective has a reference.
    #[serde(default)]
    pub kl_reference: Option<f64>,
    /// Groups that gave an EchoClip, and its mean length in tokens.
    #[serde(default)]
    pub echo_clips: (u64, f64),
    /// Mean entropy of the policy, nats per token.
    pub entropy: f64,
    /// Mean response length in tokens.
    pub response_tokens: f64,
    /// Share of groups in which every reward is the same, so that they teach nothing.
    pub degenerate_groups: f64,
    /// Lag in updates → tokens of the batch with that lag.
    pub staleness: BTreeMap<u64, u64>,
    /// Seconds waited for the batch, seconds of the update.
    pub waited_s: f64,
    /// Seconds that the update took.
    pub update_s: f64,
    /// Whether the optimizer skipped the update because its gradients were not finite.
    pub skipped: bool,
    /// Version → nodes that generate under it.
    pub nodes: BTreeMap<u64, u64>,
    /// T_bcast so far, milliseconds: p50 and p95.
    pub t_bcast_ms: [Option<u64>; 2],
    /// Peers that nodes found to serve rotten bytes, or that broke the chunk protocol: key → how many say so.
    #[serde(default)]
    pub rotten_peers: BTreeMap<String, usize>,
    /// Nodes that are not waited for: slow or failing (`tail`), out of the forwarding role (`out`), banned (`banned`).
    #[serde(default)]
    pub degraded: BTreeMap<String, u64>,
    /// Groups accepted, and refused by reason, since the run began.
    pub accepted: u64,
    /// Groups refused, by reason.
    pub refused: BTreeMap<String, u64>,
}

/// Importance weights of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WeightRow {
    /// Mean.
    pub mean: f64,
    /// Largest.
    pub max: f64,
    /// Variance.
    pub variance: f64,
    /// Effective sample size as a share of the batch.
    pub ess: f64,
}

/// One evaluation on the held-out orders.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EvaluationRow {
    /// The version evaluated.
    pub evaluated: u64,
    /// Share of held-out orders answered right.
    pub held_out_accuracy: f64,
    /// Mean reward on the held-out orders.
    pub held_out_reward: f64,
    /// How many orders.
    pub orders: u64,
}

/// One publication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PublicationRow {
    /// The version published.
    pub published: u64,
    /// Length of the snapshot in bytes: what a node without an older version fetches.
    pub full_bytes: u64,
    /// What a node fetches that holds the version before: deltas, and the chunks that have none, in bytes.
    pub delta_bytes: u64,
    /// Length of the signed manifest in bytes.
    pub manifest_bytes: u64,
    /// Chunks that the version before has at the same place.
    pub unchanged: u64,
    /// Chunks whose delta lists what changed.
    pub sparse: u64,
    /// Chunks whose delta covers all elements (xor, byte planes, zstd).
    pub xor: u64,
    /// Chunks without a delta.
    pub full: u64,
    /// Seconds of encoding, summed over threads: reading older chunks, deltas, writing them.
    pub encode_s: f64,
    /// Seconds from the first tensor to the signed manifest.
    pub publish_s: f64,
}

/// The open file.
#[derive(Debug)]
pub struct Metrics {
    file: File,
}

impl Metrics {
    /// Opens the file for appending, without the rows of updates beyond `version` and without a torn last line.
    pub fn open(path: &Path, version: PolicyVersion) -> io::Result<Self> {
        let kept: Vec<String> = read_lines(path)?.into_iter().filter(|line| is_kept(line, version)).collect();
        let draft = path.with_extension("draft");
        let mut file = File::create(&draft)?;
        kept.iter().try_for_each(|line| writeln!(file, "{line}"))?;
        file.sync_all()?;
        std::fs::rename(&draft, path)?;
        Ok(Self { file: OpenOptions::new().append(true).open(path)? })
    }

    /// Appends one row.
    pub fn write(&mut self, row: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_string(row)?;
        line.push('\n');
        self.file.write_all(line.as_bytes())
    }
}

/// All evaluations on record, oldest first.
pub fn evaluations(path: &Path) -> io::Result<Vec<EvaluationRow>> {
    Ok(read_lines(path)?.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// All publications on record, oldest first.
pub fn publications(path: &Path) -> io::Result<Vec<PublicationRow>> {
    Ok(read_lines(path)?.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// All updates on record, oldest first.
pub fn updates(path: &Path) -> io::Result<Vec<UpdateRow>> {
    Ok(read_lines(path)?.iter().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

fn read_lines(path: &Path) -> io::Result<Vec<String>> {
    match File::open(path) {
        Ok(file) => BufReader::new(file).lines().collect(),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

fn is_kept(line: &str, version: PolicyVersion) -> bool {
    let row: Option<Value> = serde_json::from_str(line).ok();
    let key = |name| row.as_ref().and_then(|row| row.get(name)).and_then(Value::as_u64);
    let made = key("update").or_else(|| key("evaluated")).is_some_and(|at| at <= version.0);
    // A resumed learner publishes its own version again.
    made || key("published").is_some_and(|at| at < version.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resumed_run_tells_one_history() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let mut metrics = Metrics::open(&path, PolicyVersion(0)).unwrap();
        metrics.write(&EvaluationRow { evaluated: 0, orders: 8, ..Default::default() }).unwrap();
        for update in 1..=5 {
            metrics.write(&UpdateRow { update, ..Default::default() }).unwrap();
        }
        metrics.write(&EvaluationRow { evaluated: 5, ..Default::default() }).unwrap();
        for published in [0, 3] {
            metrics.write(&PublicationRow { published, sparse: 9, ..Default::default() }).unwrap();
        }
        // A crash tore the last line.
        std::fs::OpenOptions::new().append(true).open(&path).unwrap().write_all(b"{\"update\":6,").unwrap();
        let mut metrics = Metrics::open(&path, PolicyVersion(3)).unwrap();
        metrics.write(&UpdateRow { update: 4, reward: 0.5, ..Default::default() }).unwrap();
        let rows: Vec<u64> = updates(&path).unwrap().iter().map(|row| row.update).collect();
        assert_eq!(rows, [1, 2, 3, 4]);
        assert_eq!(evaluations(&path).unwrap().last().unwrap().orders, 8);
        let published: Vec<u64> = publications(&path).unwrap().iter().map(|row| row.published).collect();
        assert_eq!(published, [0]);
    }

    #[test]
    fn no_file_is_an_empty_history() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(updates(&dir.path().join("none")).unwrap(), []);
        assert_eq!(evaluations(&dir.path().join("none")).unwrap(), []);
    }
}
