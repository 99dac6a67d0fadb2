//! The rows.

use crate::fleet::capacity::CapacityReport;
use crate::intake::admission::Looks;
use crate::training::optimizer::SkipCause;
use crate::training::trainer::Gap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One update, as its line of `metrics.jsonl` has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct UpdateRow {
    /// The version that the update produced.
    pub update: u64,
    /// Seconds since the learner process started.
    pub elapsed_s: f64,
    /// Mean reward of the batch.
    pub reward: f64,
    /// Standard deviation of its rewards.
    #[serde(default)]
    pub reward_std: f64,
    /// Share of the batch's responses with full reward.
    pub accuracy: f64,
    /// The objective's loss, over the steps that were made; none where none was.
    pub loss: Option<f64>,
    /// Global gradient norm before clipping; none where it was not finite.
    pub grad_norm: Option<f64>,
    /// Learning rate of the last step that was made, or was skipped if none was.
    pub learning_rate: f64,
    /// Share of tokens or responses that the clip cut: below one, and above. Like all figures of
    /// the policy, none where its numbers were not finite, so that nothing was scored.
    pub clip_shares: Option<[f64; 2]>,
    /// Share of tokens or responses that the clip cut, on either side.
    pub clip_share: Option<f64>,
    /// Importance weights: mean, largest, variance, and effective sample size as a share.
    pub weight: Option<WeightRow>,
    /// k3 estimate of KL(behaviour, current), nats per token.
    pub kl: Option<f64>,
    /// k3 estimate of KL(current, reference), nats per token, when the objective has a reference.
    #[serde(default)]
    pub kl_reference: Option<f64>,
    /// Groups that gave an EchoClip, and its mean length in tokens.
    #[serde(default)]
    pub echo_clips: (u64, f64),
    /// Mean entropy of the policy, nats per token.
    pub entropy: Option<f64>,
    /// How far the policy's log-probabilities are from those that nodes reported, nats.
    pub logp_gap: Option<Gap>,
    /// Its mean by the precision that groups declare.
    #[serde(default)]
    pub logp_gap_by_precision: BTreeMap<String, f64>,
    /// Its mean by lag in updates, over groups that one version alone generated, in f32.
    #[serde(default)]
    pub logp_gap_by_lag: BTreeMap<u64, f64>,
    /// How far they are from those recomputed at the start of the update, where they were.
    #[serde(default)]
    pub logp_gap_recomputed: Option<Gap>,
    /// Tokens whose reported log-probability was too far from the policy's own to be trained on as it was.
    #[serde(default)]
    pub bounded_tokens: u64,
    /// Mean response length in tokens.
    pub response_tokens: f64,
    /// Longest response in tokens.
    #[serde(default)]
    pub response_tokens_max: u64,
    /// Share of responses that were cut at the longest length.
    #[serde(default)]
    pub cut_off: f64,
    /// Share of responses in which the task found no answer: their `miss` is `malformed`.
    #[serde(default)]
    pub not_understood: f64,
    /// Share of groups in which every reward is the same, so that they teach nothing.
    pub degenerate_groups: f64,
    /// Lag in updates → tokens of the batch with that lag.
    pub staleness: BTreeMap<u64, u64>,
    /// Mean lag of the batch's tokens, in updates.
    #[serde(default)]
    pub lag_mean: f64,
    /// The largest lag of any token of the batch, in updates.
    #[serde(default)]
    pub lag_max: u64,
    /// Tokens that went forward and backward, prompts included.
    #[serde(default)]
    pub tokens: u64,
    /// The same for each second of the update.
    #[serde(default)]
    pub tokens_per_s: f64,
    /// Tokens of the batch's responses for each second of the period: what the run as a whole achieves.
    #[serde(default)]
    pub response_tokens_per_s: f64,
    /// Model FLOPs of the update.
    #[serde(default)]
    pub flops: f64,
    /// Model FLOPs for each second of the update, as a share of the machine's peak where that is known.
    #[serde(default)]
    pub mfu: Option<f64>,
    /// Seconds waited for the batch.
    pub waited_s: f64,
    /// Seconds that the update took.
    pub update_s: f64,
    /// Of these, seconds in which the policy at its start was asked for log-probabilities.
    #[serde(default)]
    pub proximal_s: f64,
    /// Of these, seconds in which the reference was.
    #[serde(default)]
    pub reference_s: f64,
    /// Seconds in which training stood still for checkpoints since the last update: copying, and
    /// waiting for the release before.
    #[serde(default)]
    pub checkpoint_s: f64,
    /// Seconds in which training stood still for publications since the last update.
    #[serde(default)]
    pub publication_s: f64,
    /// Seconds of evaluations since the last update.
    #[serde(default)]
    pub evaluation_s: f64,
    /// Seconds since the last update ended; in a process's first row, since its learning began.
    #[serde(default)]
    pub period_s: f64,
    /// Seconds to the run's last update, at the pace of the last updates of this process.
    #[serde(default)]
    pub eta_s: Option<f64>,
    /// Share of the period that was waited for the batch.
    #[serde(default)]
    pub bubble_ratio: f64,
    /// Whether no step was made.
    pub skipped: bool,
    /// Optimizer steps of the update, the skipped ones included.
    #[serde(default)]
    pub steps: u64,
    /// Steps that were skipped.
    #[serde(default)]
    pub skipped_steps: u64,
    /// Why the last of them was.
    #[serde(default)]
    pub skip_cause: Option<SkipCause>,
    /// Version → nodes that generate under it.
    pub nodes: BTreeMap<u64, u64>,
    /// T_bcast so far, milliseconds: p50 and p95.
    pub t_bcast_ms: [Option<u64>; 2],
    /// Peers that nodes found to serve rotten bytes, or that broke the chunk protocol: key → how many say so.
    #[serde(default)]
    pub rotten_peers: BTreeMap<String, usize>,
    /// Nodes that are not waited for: slow or failing (`tail`), out of the forwarding
    /// role (`out`), banned (`banned`).
    #[serde(default)]
    pub degraded: BTreeMap<String, u64>,
    /// Groups accepted, and refused by reason, since the run began.
    pub accepted: u64,
    /// Groups refused, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Groups that the sampling audit let pass since the process started, as a policy that they
    /// name could not be asked.
    #[serde(default)]
    pub unaudited: u64,
    /// Groups whose rewards were right, by how their tokens were looked at, since the run began.
    #[serde(default)]
    pub looks: Looks,
    /// Groups acknowledged and not trained on since the run began, by reason.
    #[serde(default)]
    pub dropped: BTreeMap<String, u64>,
    /// Groups too old for a batch, or when they came, since the process started: longest response in tokens,
    /// rounded up to a power of two → groups.
    #[serde(default)]
    pub stale_by_length: BTreeMap<u64, u64>,
    /// The same by the first digits of the node's key, those with the most.
    #[serde(default)]
    pub stale_by_node: BTreeMap<String, u64>,
    /// Orders that may run ahead of the update at hand; `None` where η says it.
    #[serde(default)]
    pub work_ahead: Option<u64>,
    /// Orders leased anew since the process started, as they could only come back too old.
    #[serde(default)]
    pub late_orders: u64,
    /// Orders leased a second time since the process started, as a batch waited for them.
    #[serde(default)]
    pub backup_orders: u64,
    /// What the fleet brings, what is needed, who works, and what it costs.
    #[serde(default)]
    pub capacity: CapacityReport,
}

/// Importance weights of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WeightRow {
    /// Mean over what carries one weight: tokens, or responses.
    pub mean: f64,
    /// Largest weight of the batch, before the clip.
    pub max: f64,
    /// Population variance over the same.
    pub variance: f64,
    /// Effective sample size as a share of the batch.
    pub ess: f64,
}
