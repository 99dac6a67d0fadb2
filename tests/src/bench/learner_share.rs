//! The learner's share: what the rest of the learner costs beside its updates, while 1,000
//! trajectories a second come in.
//!
//! One learner, in a process of its own, makes updates in blocks, by turns. In a **quiet** block
//! the groups that an update lacks are delivered before it begins, and none come in during it. In a
//! **busy** block groups are offered and acknowledged at 1,000 trajectories a second from before
//! its first update begins until after its last one has ended; what then waits is used by the quiet
//! block that follows. A bench whose learner acknowledged less fails. The update under way when the
//! offering begins or ends is counted nowhere.
//!
//! How long an update takes **alone** is what those of quiet blocks take beside which no checkpoint
//! was written and nothing published: the second of each publication period, if the release was
//! over before it. All that busy blocks take beyond that, but for waiting, is the learner's share:
//!
//! - **outside**: seconds of the learning thread in which it neither updated nor waited for work
//!   (forming and reading batches, locks, copies for checkpoints, metrics);
//! - **slowdown**: by how much the updates themselves take longer than alone (medians), as intake,
//!   checkpoints and publications run on the same cores, less the processor time of the clients: in
//!   a run these are computers of others. Both are reported. Updates that happen to be faster do
//!   not pay for what is outside.

use super::signed_clients::BenchClients;
use crate::harness::binaries::Binaries;
use crate::harness::machine;
use crate::harness::network::TestNetwork;
use crate::harness::process_usage;
use crate::harness::small_run::until;
use crate::harness::statistics::median;
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, ensure};
use clap::Args;
use echo_learner::intake::buffer::BufferLimits;
use echo_learner::telemetry::metrics;
use echo_learner::telemetry::metrics::UpdateRow;
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// G: trajectories of a group.
const GROUP_SIZE: usize = 16;
/// Trajectories offered in a second.
const OFFERED: f64 = 1000.0;
/// What of these is acknowledged, at least.
const MIN_ACKNOWLEDGED: f64 = 0.98;
/// Groups are offered for as long as quiet updates would take, times this.
const HEADROOM: f64 = 1.25;
/// The largest share that passes.
const MAX_SHARE: f64 = 0.05;
/// Clients, each with a connection and a key of its own.
const CLIENTS: usize = 8;
/// Updates of the run, and S: more than are ever made, so that neither the run ends nor a
/// group becomes too old.
const RUN_UPDATES: u64 = 100_000;
/// An update ends within this time.
const UPDATE_LIMIT: Duration = Duration::from_secs(120);

/// How many updates are compared, of what size.
#[derive(Args, Clone, Debug)]
pub struct ShareBench {
    /// Pairs of a quiet and a busy block; the median of pairs counts. Fewer than a dozen are worth
    /// no more than ± 3 %.
    #[arg(long, default_value_t = 12, value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: u16,
    /// Updates of a block.
    #[arg(long, default_value_t = 6, value_parser = clap::value_parser!(u16).range(2..=100))]
    pub updates: u16,
    /// Groups of an update: 16 trajectories each.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=512))]
    pub groups: u16,
    /// Width of the policy, which decides how long an update takes.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u16).range(32..=1024))]
    pub hidden: u16,
}

/// A block of updates.
#[derive(Clone, Debug, Serialize)]
struct Block {
    /// From the end of the update before the block to the end of its last.
    wall_s: f64,
    /// Seconds of it that the learning thread spent in updates.
    update_s: f64,
    /// Seconds of it in which that thread waited for groups.
    waited_s: f64,
    /// The rest: neither updating nor waiting.
    outside_s: f64,
    /// Seconds of each update, in order.
    each_s: Vec<f64>,
    /// Those beside which nothing was released.
    alone_s: Vec<f64>,
}

/// A quiet block and the busy one after it.
#[derive(Clone, Debug, Serialize)]
struct Pair {
    quiet: Block,
    busy: Block,
    /// Trajectories that were acknowledged in a second, as long as they were offered.
    trajectories_s: f64,
    /// Of all cores' time meanwhile, the share that the clients took.
    clients: f64,
}

impl Block {
    /// The updates after `first`, up to and including `last`; `released` are the versions whose
    /// release was over when the update after the next began.
    fn of(rows: &[UpdateRow], released: &BTreeSet<u64>, first: u64, last: u64) -> Option<Self> {
        let at = |update: u64| rows.iter().find(|row| row.update == update);
        let wall_s = at(last)?.elapsed_s - at(first)?.elapsed_s;
        let inside = || rows.iter().filter(|row| (first + 1..=last).contains(&row.update));
        let (update_s, waited_s) =
            (inside().map(|r| r.update_s).sum::<f64>(), inside().map(|r| r.waited_s).sum::<f64>());
        let outside_s = wall_s - update_s - waited_s;
        let each_s = inside().map(|row| row.update_s).collect();
        // Update u is made of version u - 1; that of v + 1 is the second since v was due.
        let alone =
            |row: &&UpdateRow| row.update.checked_sub(2).is_some_and(|version| released.contains(&version));
        let alone_s = inside().filter(alone).map(|row| row.update_s).collect();
        Some(Self { wall_s, update_s, waited_s, outside_s, each_s, alone_s })
    }

    /// Outside, as a share of the time in which it did not wait.
    fn outside(&self) -> f64 {
        self.outside_s / (self.outside_s + self.update_s)
    }
}

/// Seconds of an update beside which nothing else is done.
fn alone(pairs: &[Pair]) -> f64 {
    median(pairs.iter().flat_map(|pair| pair.quiet.alone_s.clone()))
}

/// By how much busy updates take longer than alone, clients included, as a share of the time in
/// which the learner did not wait; negative where they were faster.
fn slowdown(pairs: &[Pair]) -> f64 {
    let busy = median(pairs.iter().flat_map(|pair| pair.busy.each_s.clone()));
    (busy - alone(pairs)) / busy * (1.0 - median(pairs.iter().map(|pair| pair.busy.outside())))
}

/// Versions whose row was written before that of the first update of theirs: whose release took no
/// longer than that update. (A row is written when the learning thread next looks: after the
/// update during which the release ended.)
fn released_early(metrics: &Path) -> anyhow::Result<BTreeSet<u64>> {
    let (mut early, mut newest) = (BTreeSet::new(), 0);
    for row in metrics::rows(metrics)? {
        if let Some(update) = row["update"].as_u64() {
            newest = update;
        } else if let Some(published) = row["published"].as_u64().filter(|version| newest <= version + 1) {
            early.insert(published);
        }
    }
    Ok(early)
}

/// Measures block by block.
///
/// # Errors
/// When something cannot be started, a group is refused, an update does not come, or
/// offering ended too early.
pub async fn run(bench: ShareBench, console: &Console) -> anyhow::Result<CommandReport> {
    Binaries::fresh(console).await?;
    let scratch = tempfile::tempdir()?;
    let clients = BenchClients::assemble(scratch.path(), &run_file(&bench), CLIENTS, 0, "").await?;
    let metrics = clients.network.layout().metrics();
    let (groups, updates) = (u64::from(bench.groups), u64::from(bench.updates));
    let mut course = Course { clients, metrics, groups, made: 0, delivered: 0 };
    let mut pairs = Vec::new();
    for round in 1..=bench.rounds {
        let quiet = course.quiet(updates).await?;
        let pair = course.busy(updates, quiet).await?;
        let Pair { quiet, busy, trajectories_s, .. } = &pair;
        console.say(format!(
            "round {round}: updates {:.2} s, quiet {:.2} s; outside {:.1} %; waited {:.2} s of {:.2} s; {trajectories_s:.0} \
             trajectories/s acknowledged",
            busy.update_s,
            quiet.update_s,
            busy.outside() * 100.0,
            busy.waited_s,
            busy.wall_s
        ));
        pairs.push(pair);
    }
    ensure!(
        alone(&pairs) > 0.0,
        "a release lay beside every update of all quiet blocks: choose more --updates or a larger --hidden"
    );
    Ok(report(&bench, &pairs, console))
}

/// Where the learner is.
struct Course {
    clients: BenchClients,
    metrics: PathBuf,
    /// Groups of an update.
    groups: u64,
    /// Updates, when somebody looked last.
    made: u64,
    /// Groups that were delivered and acknowledged.
    delivered: u64,
}

impl Course {
    /// A block during whose updates nothing comes in.
    async fn quiet(&mut self, updates: u64) -> anyhow::Result<Block> {
        // Offering may have ended in the midst of this one.
        self.update().await?;
        let first = self.made;
        while self.made < first + updates {
            self.update().await?;
        }
        self.block(first, first + updates)
    }

    /// Waits for one more update. Delivers what it lacks beforehand; a learner that lacks something is idle.
    async fn update(&mut self) -> anyhow::Result<()> {
        let lacking = (self.groups * (self.made + 1)).saturating_sub(self.delivered);
        let missing = usize::try_from(lacking)?;
        self.clients.prepare(missing, "").await?;
        self.clients.deliver(missing, None).await?;
        self.delivered += lacking;
        let (path, before) = (self.metrics.clone(), self.made);
        let made = |_: &mut TestNetwork| latest(&path).ok().filter(|made| *made > before);
        self.made = until("an update", UPDATE_LIMIT, &mut self.clients.network, made).await?;
        Ok(())
    }

    /// A block during whose updates groups come in all the time; `quiet`, the one before it, tells
    /// how long updates take.
    async fn busy(&mut self, updates: u64, quiet: Block) -> anyhow::Result<Pair> {
        let batch_s = (self.groups * GROUP_SIZE as u64) as f64 / OFFERED;
        let update_s = (quiet.update_s + quiet.outside_s) / quiet.each_s.len() as f64;
        // One more is under way when it begins, or waits for its batch first.
        let seconds = (updates + 2) as f64 * update_s.max(batch_s) * HEADROOM;
        let offered = (seconds * OFFERED / GROUP_SIZE as f64).ceil() as u64;
        let waiting = self.delivered.saturating_sub(self.groups * self.made);
        let room = BufferLimits::default().max_groups as u64;
        ensure!(
            waiting + offered <= room,
            "{offered} groups would come in while {updates} updates are made, {waiting} wait, and the buffer has room for {room}: \
             choose fewer --rounds or --updates, or a smaller --hidden"
        );
        let count = usize::try_from(offered)?;
        self.clients.prepare(count, "").await?;
        let first = latest(&self.metrics)? + 1;
        // The clients are in this process.
        let clients_s = || process_usage::processor_s(std::process::id());
        let (since, before_s) = (Instant::now(), clients_s()?);
        self.clients.deliver(count, Some(OFFERED / GROUP_SIZE as f64)).await?;
        let took_s = since.elapsed().as_secs_f64();
        let trajectories_s = (offered * GROUP_SIZE as u64) as f64 / took_s;
        let cores = std::thread::available_parallelism()?.get() as f64;
        let clients = (clients_s()? - before_s) / (took_s * cores);
        self.delivered += offered;
        self.made = latest(&self.metrics)?;
        ensure!(
            self.made >= first + updates,
            "{offered} groups were offered while update {} was made, and the block ends with update {}: busy updates take more than \
             {HEADROOM} times as long as quiet ones, or vary as much; is the machine doing something else?",
            self.made,
            first + updates
        );
        Ok(Pair { quiet, busy: self.block(first, first + updates)?, trajectories_s, clients })
    }

    fn block(&self, first: u64, last: u64) -> anyhow::Result<Block> {
        let (rows, released) = (metrics::updates(&self.metrics)?, released_early(&self.metrics)?);
        Block::of(&rows, &released, first, last).context("rows of updates are missing from metrics.jsonl")
    }
}

/// The newest update on record; 0 before the first.
fn latest(metrics: &Path) -> anyhow::Result<u64> {
    Ok(metrics::updates(metrics)?.last().map_or(0, |row| row.update))
}

fn report(bench: &ShareBench, pairs: &[Pair], console: &Console) -> CommandReport {
    let of = |figure: fn(&Pair) -> f64| median(pairs.iter().map(figure));
    let (outside, measured, clients) = (of(|p| p.busy.outside()), slowdown(pairs), of(|p| p.clients));
    let slowdown = (measured - clients).max(0.0);
    let share = outside + slowdown;
    let acknowledged = pairs.iter().map(|pair| pair.trajectories_s).fold(f64::INFINITY, f64::min);
    let enough = acknowledged >= MIN_ACKNOWLEDGED * OFFERED;
    let per_update = f64::from(bench.updates);
    console.say(format!(
        "outside {:.1} %, slowdown {:.1} % ({:.1} % less {:.1} % for the clients), together {:.1} % (at most {:.0} %)",
        outside * 100.0,
        slowdown * 100.0,
        measured * 100.0,
        clients * 100.0,
        share * 100.0,
        MAX_SHARE * 100.0
    ));
    if !enough {
        console.say(format!(
            "FAILED: {acknowledged:.0} of {OFFERED:.0} trajectories a second were acknowledged in the slowest busy block, and at least \
             {:.0} have to be: the share is that of a smaller load",
            MIN_ACKNOWLEDGED * OFFERED
        ));
    }
    let json = json!({
        "ours": {
            "share": share, "outside": outside, "slowdown": slowdown, "slowdown_measured": measured,
            "trajectories_s": acknowledged, "clients": clients,
            "update_s": of(|p| p.busy.update_s) / per_update, "outside_s": of(|p| p.busy.outside_s) / per_update,
        },
        "peers": {
            "alone": {"update_s": alone(pairs)},
            "quiet": {"update_s": of(|p| p.quiet.update_s) / per_update, "outside_s": of(|p| p.quiet.outside_s) / per_update},
        },
        "ratios": {"alone": {"time": of(|p| p.busy.update_s + p.busy.outside_s) / per_update / alone(pairs)}},
        "machine": machine::describe(),
        "runs": pairs,
        "setting": {
            "offered_trajectories_s": OFFERED, "min_acknowledged": MIN_ACKNOWLEDGED,
            "group_size": GROUP_SIZE, "groups_per_update": bench.groups, "updates_per_block": bench.updates, "hidden": bench.hidden, "clients": CLIENTS,
        },
    });
    CommandReport { passed: share <= MAX_SHARE && enough, json }
}

fn run_file(bench: &ShareBench) -> String {
    let ShareBench { groups, hidden, .. } = *bench;
    let (heads, intermediate) = (hidden.div_ceil(32), hidden * 3);
    // The bench's clients take as many orders as there are, so η is set: S-κ.
    let admission = RUN_UPDATES - 2;
    format!(
        r#"
[run]
name = "share"
updates = {RUN_UPDATES}
[model.tiny]
hidden = {hidden}
layers = 3
heads = {heads}
kv_heads = {heads}
head_dim = 32
intermediate = {intermediate}
positions = 32
[[task]]
name = "chain_sum"
params = {{ digits = 2, terms = 2 }}
[sampling]
group_size = {GROUP_SIZE}
[staleness]
budget = {RUN_UPDATES}
period = 2
admission = {admission}
# What is delivered was drawn from no policy.
[admission]
audit = false
[train]
groups_per_update = {groups}
[train.schedule]
peak = 1e-6
decay = {{ shape = "constant" }}
[evaluation]
orders = 1
[fleet]
activation = "all"
orders_per_node = 1000000
lease_s = 3600
"#
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_neither_update_nor_wait_is_outside() {
        let row = |update, elapsed_s, update_s, waited_s| UpdateRow {
            update,
            elapsed_s,
            update_s,
            waited_s,
            ..UpdateRow::default()
        };
        let rows = [
            row(1, 5.0, 1.0, 4.0),
            row(2, 7.0, 1.0, 0.9),
            row(3, 8.1, 1.0, 0.0),
            row(4, 9.3, 1.1, 0.0),
            row(5, 10.6, 1.1, 0.1),
        ];
        let released = BTreeSet::from([0, 2]);
        let block = |first, last| Block::of(&rows, &released, first, last);
        let (quiet, busy) = (block(1, 3).unwrap(), block(3, 5).unwrap());
        assert_eq!((quiet.alone_s.as_slice(), busy.alone_s.as_slice()), ([1.0].as_slice(), [1.1].as_slice()));
        assert!((quiet.outside_s - 0.2).abs() < 1e-9 && (busy.outside_s - 0.2).abs() < 1e-9);
        assert!((busy.outside() - 0.2 / 2.4).abs() < 1e-9);
        let pair = Pair { quiet, busy, trajectories_s: OFFERED, clients: 0.01 };
        assert!((slowdown(&[pair]) - 0.2 / 2.4).abs() < 1e-9);
        assert!(block(0, 2).is_none());
    }

    #[test]
    fn a_release_that_lasts_into_the_second_update_is_not_early() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("metrics.jsonl");
        let rows = [
            r#"{"published": 0}"#,
            r#"{"update": 1}"#,
            r#"{"update": 2}"#,
            r#"{"update": 3}"#,
            r#"{"published": 2}"#,
            r#"{"update": 4}"#,
            r#"{"update": 5}"#,
            r#"{"update": 6}"#,
            r#"{"published": 4}"#,
        ];
        std::fs::write(&path, rows.join("\n")).unwrap();
        assert_eq!(released_early(&path).unwrap(), BTreeSet::from([0, 2]));
    }
}
