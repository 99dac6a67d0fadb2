//! Every metric of a run: where it stands in a row of `metrics.jsonl`, and what Prometheus
//! and TensorBoard call it.
//!
//! A row is the source; the other writers read their numbers from it by this list. Adding a metric
//! is adding a field to a row and a line here, and to docs/reference/metrics.md, which a test
//! compares with what [`table`] prints.

use serde_json::Value;
use std::fmt::Write as _;

/// What stands at a metric's place in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// A number, or true or false. Nothing, where the row has null there.
    Number,
    /// A number that only grows while the run lasts.
    Counter,
    /// An object of numbers with few keys, which are values of this label.
    Labelled(&'static str),
    /// The same, of numbers that only grow.
    Counters(&'static str),
    /// An object that counts how often each number occurs; the numbers are values of this label.
    Histogram(&'static str),
    /// An object of numbers with ever new keys: their sum.
    Sum,
    /// An object of objects of numbers: both keys, with a dot between them, are a value of this label.
    Nested(&'static str),
}

/// One metric: where a row has it, and what each place calls it.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// JSON pointer into a row.
    pub key: &'static str,
    /// The part of TensorBoard's tag before the name.
    pub group: &'static str,
    /// Its name; Prometheus puts `echo_` before it.
    pub name: &'static str,
    /// What is found at the key.
    pub shape: Shape,
    /// Its unit; empty for a plain number.
    pub unit: &'static str,
    /// What it says, as `echo-learner metrics` and Prometheus show it.
    pub help: &'static str,
}

const fn metric(
    key: &'static str,
    (group, name): (&'static str, &'static str),
    shape: Shape,
    unit: &'static str,
    help: &'static str,
) -> Metric {
    Metric { key, group, name, shape, unit, help }
}

use Shape::{Counter, Counters, Histogram, Labelled, Nested, Number, Sum};

/// All metrics, in the order in which they are shown.
#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    metric("/time", ("time", "time_seconds"), Number, "s", "Unix time at which the row was written"),
    // Updates.
    metric("/update", ("time", "version"), Number, "", "version that the update produced"),
    metric("/elapsed_s", ("time", "elapsed_seconds"), Number, "s", "since this process started"),
    metric("/reward", ("reward", "reward"), Number, "", "mean reward of the batch"),
    metric("/reward_std", ("reward", "reward_std"), Number, "", "standard deviation of the batch's rewards"),
    metric("/accuracy", ("reward", "accuracy"), Number, "share", "responses of the batch that are right"),
    metric("/degenerate_groups", ("reward", "degenerate_groups"), Number, "share", "groups of the batch with equal rewards, which teach nothing"),
    metric("/not_understood", ("reward", "not_understood"), Number, "share", "responses of the batch in which the task found no answer: their `miss` is `malformed`"),
    metric("/loss", ("policy", "loss"), Number, "", "the objective's loss, over the steps that were made; none where none was"),
    metric("/grad_norm", ("policy", "grad_norm"), Number, "", "global gradient norm before clipping; none where it was not finite"),
    metric("/learning_rate", ("policy", "learning_rate"), Number, "", "learning rate"),
    metric("/entropy", ("policy", "entropy"), Number, "nats", "mean entropy of the policy, a token"),
    metric("/kl", ("policy", "kl"), Number, "nats", "KL(behaviour, current) a token, k3 estimate"),
    metric("/kl_reference", ("policy", "kl_reference"), Number, "nats", "KL(current, reference) a token, k3 estimate; none where neither the objective nor `[watch] reference` asks for it"),
    metric("/clip_share", ("policy", "clip_share"), Number, "share", "tokens or responses that the clip cut"),
    metric("/clip_shares/0", ("policy", "clip_share_low"), Number, "share", "tokens or responses that the clip cut below one"),
    metric("/clip_shares/1", ("policy", "clip_share_high"), Number, "share", "tokens or responses that the clip cut above one"),
    metric("/weight/mean", ("weight", "weight_mean"), Number, "", "mean importance weight, before the clip"),
    metric("/weight/max", ("weight", "weight_max"), Number, "", "largest importance weight"),
    metric("/weight/variance", ("weight", "weight_variance"), Number, "", "variance of the importance weights"),
    metric("/weight/ess", ("weight", "weight_ess"), Number, "share", "effective sample size of the importance weights"),
    metric("/logp_gap/mean", ("weight", "logp_gap_mean"), Number, "nats", "mean distance of a token's log-probability in training to the reported one"),
    metric("/logp_gap/p95", ("weight", "logp_gap_p95"), Number, "nats", "95th percentile of that distance over the batch's tokens"),
    metric("/logp_gap_by_precision", ("weight", "logp_gap_by_precision"), Labelled("precision"), "nats", "mean of that distance over the tokens of each precision that nodes declare"),
    metric("/logp_gap_by_lag", ("weight", "logp_gap_by_lag"), Labelled("lag"), "nats", "mean of that distance over the groups that one version alone generated, in f32, by its lag in updates"),
    metric("/logp_gap_recomputed/mean", ("weight", "logp_gap_recomputed_mean"), Number, "nats", "mean distance of a token's log-probability in training to the one recomputed at the start of the update; none where none was"),
    metric("/logp_gap_recomputed/p95", ("weight", "logp_gap_recomputed_p95"), Number, "nats", "95th percentile of that distance"),
    metric("/bounded_tokens", ("weight", "bounded_tokens"), Number, "tokens", "of the batch whose reported log-probability was more than 5 nats from the policy's own, and was trained on as if it were that far from it"),
    metric("/echo_clips/0", ("policy", "echo_clips"), Number, "", "groups that gave an EchoClip"),
    metric("/echo_clips/1", ("policy", "echo_clip_tokens"), Number, "tokens", "mean length of an EchoClip"),
    metric("/steps", ("policy", "steps"), Number, "", "optimizer steps of the update, skipped ones included"),
    metric("/skipped_steps", ("policy", "skipped_steps"), Number, "", "steps that were skipped; `skip_cause` says why: `empty`, `logp`, `gradient`, `exploding`"),
    metric("/skipped", ("policy", "skipped"), Number, "", "whether no step was made"),
    metric("/response_tokens", ("data", "response_tokens_mean"), Number, "tokens", "mean length of a response"),
    metric("/response_tokens_max", ("data", "response_tokens_max"), Number, "tokens", "longest response"),
    metric("/cut_off", ("data", "cut_off"), Number, "share", "responses that were cut at the longest length"),
    metric("/staleness", ("data", "staleness_tokens"), Histogram("lag"), "tokens", "tokens of the batch by lag in updates"),
    metric("/lag_mean", ("data", "lag_mean"), Number, "updates", "mean lag of a token"),
    metric("/lag_max", ("data", "lag_max"), Number, "updates", "largest lag of a token"),
    metric("/accepted", ("data", "accepted"), Counter, "groups", "taken in since the run began"),
    metric("/refused", ("data", "refused"), Counters("reason"), "groups", "refused since the run began, by reason"),
    metric("/unaudited", ("data", "unaudited"), Counter, "groups", "let pass by the sampling audit since this process started, as a policy that they name is gone or was published twice"),
    metric("/looks", ("data", "looks"), Counters("kind"), "groups", "by how their tokens were looked at since the run began: `skipped` by the node's record (one trajectory is looked at), `audited`, `vouched` by verifiers, `settled` behind verifiers, of these `overturned`"),
    metric("/dropped", ("data", "dropped"), Counters("reason"), "groups", "acknowledged and not trained on since the run began, by reason"),
    metric("/stale_by_length", ("data", "stale_by_length"), Counters("tokens"), "groups", "too old for a batch or when they came, since this process started, by their longest response, rounded up to a power of two"),
    metric("/stale_by_node", ("data", "stale_by_node"), Labelled("node"), "groups", "the same by node, those with the most"),
    metric("/tokens", ("speed", "trained_tokens"), Number, "tokens", "that went forward and backward in the update, prompts included"),
    metric("/tokens_per_s", ("speed", "tokens_per_second"), Number, "tokens/s", "trained tokens each second of the update"),
    metric("/response_tokens_per_s", ("speed", "response_tokens_per_second"), Number, "tokens/s", "of the batch's responses, each second of the period"),
    metric("/flops", ("speed", "model_flops"), Number, "FLOP", "model FLOPs of the update"),
    metric("/mfu", ("speed", "mfu"), Number, "share", "model FLOPs utilisation; none without `[watch] peak_flops`"),
    metric("/waited_s", ("timing", "waited_seconds"), Number, "s", "waiting for the batch"),
    metric("/update_s", ("timing", "update_seconds"), Number, "s", "the update"),
    metric("/proximal_s", ("timing", "proximal_seconds"), Number, "s", "of the update: recomputing log-probabilities at its start"),
    metric("/reference_s", ("timing", "reference_seconds"), Number, "s", "of the update: log-probabilities of the reference"),
    metric("/checkpoint_s", ("timing", "checkpoint_seconds"), Number, "s", "training stood still for checkpoints since the last update"),
    metric("/publication_s", ("timing", "publication_seconds"), Number, "s", "training stood still for publications since the last update"),
    metric("/evaluation_s", ("timing", "evaluation_seconds"), Number, "s", "evaluations since the last update"),
    metric("/period_s", ("timing", "period_seconds"), Number, "s", "since the last update ended; in a process's first row, since its learning began"),
    metric("/eta_s", ("timing", "eta_seconds"), Number, "s", "to the run's last update, at the pace of this process's last 50 updates"),
    metric("/bubble_ratio", ("timing", "bubble_ratio"), Number, "share", "of the period that went into waiting for the batch"),
    metric("/nodes", ("fleet", "nodes"), Sum, "nodes", "that generate"),
    metric("/degraded", ("fleet", "degraded_nodes"), Labelled("standing"), "nodes", "that are not waited for: `tail` (slow or failing), `out` (of the forwarding role), `banned`"),
    metric("/rotten_peers", ("fleet", "rotten_reports"), Sum, "reports", "by nodes of peers that serve rotten bytes or break the chunk protocol"),
    metric("/work_ahead", ("fleet", "work_ahead_orders"), Number, "orders", "that may run ahead of the update at hand; none where `[staleness] admission` or the mode says it"),
    metric("/late_orders", ("fleet", "late_orders"), Counter, "orders", "leased anew since this process started, as they could only come back too old"),
    metric("/backup_orders", ("fleet", "backup_orders"), Counter, "orders", "leased a second time since this process started, as a batch waited for them"),
    metric("/t_bcast_ms/0", ("fleet", "t_bcast_p50_milliseconds"), Number, "ms", "time from a publication to its installation on a node, median in this process"),
    metric("/t_bcast_ms/1", ("fleet", "t_bcast_p95_milliseconds"), Number, "ms", "95th percentile of that time"),
    metric("/capacity/pool", ("capacity", "pool_rollouts_per_second"), Number, "rollouts/s", "that active nodes bring, those with a record once there are any: μ_pool"),
    metric("/capacity/required", ("capacity", "required_rollouts_per_second"), Number, "rollouts/s", "that keep the learner from waiting: μ_min(κ); none before five updates and a broadcast, and where no rate is enough"),
    metric("/capacity/target", ("capacity", "target_rollouts_per_second"), Number, "rollouts/s", "that are aimed at: γ μ_min, more after long waits"),
    metric("/capacity/train_s", ("capacity", "t_train_seconds"), Number, "s", "of an update, median of the last 50: T_train"),
    metric("/capacity/broadcast_s", ("capacity", "t_bcast_seconds"), Number, "s", "until the share 1/γ of active nodes has a publication, median of the last five: T_bcast"),
    metric("/capacity/active", ("capacity", "active_nodes"), Number, "nodes", "that get orders"),
    metric("/capacity/standby", ("capacity", "standby_nodes"), Number, "nodes", "that keep the newest policy and begin within seconds"),
    metric("/capacity/resting", ("capacity", "resting_nodes"), Number, "nodes", "that are not needed now"),
    metric("/capacity/usd_per_hour", ("capacity", "usd_per_hour"), Number, "USD/h", "of nodes that are active or on standby"),
    metric("/capacity/usd_of_update", ("capacity", "usd_of_update"), Number, "USD", "since the update before, learner included"),
    metric("/capacity/usd", ("capacity", "usd"), Counter, "USD", "since the run began, learner included"),
    metric("/capacity/node_hours", ("capacity", "node_hours"), Counter, "h", "of nodes that were active or on standby, since the run began"),
    // Evaluations.
    metric("/evaluated", ("evaluation", "evaluated_version"), Number, "", "version that was evaluated"),
    metric("/held_out_accuracy", ("evaluation", "held_out_accuracy"), Number, "share", "held-out orders answered right; none where none could be judged"),
    metric("/held_out_reward", ("evaluation", "held_out_reward"), Number, "", "mean reward on held-out orders; none where none could be judged"),
    metric("/orders", ("evaluation", "evaluation_orders"), Number, "orders", "of the evaluation that could be judged"),
    metric("/evaluation", ("evaluation", "evaluation"), Nested("figure"), "", "of a set of `[[evaluation]]`, as NAME.avg: `avg` (of the samples' rewards) and `pass@K` with the ends of their 95 % intervals (`_low`, `_high`), `rows`, and of a response `tokens` and the share `cut`"),
    // Publications.
    metric("/published", ("publication", "published_version"), Number, "", "version that was published"),
    metric("/full_bytes", ("publication", "snapshot_bytes"), Number, "bytes", "length of the snapshot"),
    metric("/delta_bytes", ("publication", "delta_bytes"), Number, "bytes", "what a node fetches that holds the version before"),
    metric("/manifest_bytes", ("publication", "manifest_bytes"), Number, "bytes", "length of the signed manifest"),
    metric("/unchanged", ("publication", "chunks_unchanged"), Number, "chunks", "of the publication that the version before has at the same place"),
    metric("/sparse", ("publication", "chunks_sparse"), Number, "chunks", "of the publication whose delta lists what changed"),
    metric("/xor", ("publication", "chunks_xor"), Number, "chunks", "of the publication whose delta covers all elements"),
    metric("/full", ("publication", "chunks_full"), Number, "chunks", "of the publication without a delta"),
    metric("/encode_s", ("publication", "encode_seconds"), Number, "s", "storing the publication's chunks and making deltas, summed over threads"),
    metric("/publish_s", ("publication", "publish_seconds"), Number, "s", "the whole publication"),
    metric("/release_s", ("publication", "release_seconds"), Number, "s", "from the end of the update to the announcement: waiting for the version before, the checkpoint, its copy to the store, the publication"),
];

/// What a row says of a metric: label and number; the label is empty unless the metric has one.
#[derive(Clone, Debug, PartialEq)]
pub struct Reading {
    /// The metric's place in [`METRICS`].
    pub index: usize,
    /// The numbers; none where the row has null.
    pub values: Vec<(String, f64)>,
}

impl Reading {
    /// The metric that was read.
    #[must_use]
    pub fn metric(&self) -> &'static Metric {
        &METRICS[self.index]
    }
}

/// What a row says, metric by metric. Metrics that rows of its kind do not have are missing.
pub fn readings(row: &Value) -> impl Iterator<Item = Reading> {
    METRICS.iter().enumerate().filter_map(|(index, metric)| {
        // Part of what may be null as a whole, such as a gap that was not measured.
        let top = metric.key.split('/').nth(1)?;
        let present = row.get(top)?;
        let value = if present.is_null() { present } else { row.pointer(metric.key)? };
        Some(Reading { index, values: values(metric.shape, value) })
    })
}

fn values(shape: Shape, value: &Value) -> Vec<(String, f64)> {
    let number = |value: &Value| value.as_f64().or_else(|| value.as_bool().map(f64::from));
    let plain = |number: Option<f64>| number.map(|number| (String::new(), number)).into_iter().collect();
    let entries = || value.as_object().into_iter().flatten();
    match shape {
        Shape::Number | Shape::Counter => plain(number(value)),
        Shape::Sum => plain(
            value.as_object().map(|map| map.values().filter_map(number).fold(0.0, |sum, value| sum + value)),
        ),
        Shape::Labelled(_) | Shape::Counters(_) | Shape::Histogram(_) => {
            entries().filter_map(|(key, value)| Some((key.clone(), number(value)?))).collect()
        }
        Shape::Nested(_) => {
            let inner = entries().filter_map(|(key, value)| Some((key, value.as_object()?)));
            let named = inner.flat_map(|(key, fields)| {
                fields.iter().map(move |(field, value)| (format!("{key}.{field}"), number(value)))
            });
            named.filter_map(|(label, number)| Some((label, number?))).collect()
        }
    }
}

/// The metrics as a table in Markdown, for docs/reference/metrics.md.
#[must_use]
pub fn table() -> String {
    let mut table =
        String::from("| key in a row | TensorBoard's tag | unit | meaning |\n|---|---|---|---|\n");
    for Metric { key, group, name, shape, unit, help } in METRICS {
        let key = key.trim_start_matches('/').replace('/', ".");
        let label = match shape {
            Shape::Labelled(label) | Shape::Counters(label) | Shape::Nested(label) => {
                format!("/{}", label.to_uppercase())
            }
            Shape::Number | Shape::Counter | Shape::Sum | Shape::Histogram(_) => String::new(),
        };
        // Writing to a string cannot fail.
        let _ = writeln!(table, "| `{key}` | `{group}/{name}{label}` | {unit} | {help} |");
    }
    table
}

#[cfg(test)]
mod tests;
