//! What a learner takes in, against bare verification of the same signatures.
//!
//! A real learner in a process of its own, on loopback; clients with a connection each deliver
//! groups that were made and signed before the clock starts, with as many under way as a node has.
//! A group counts when its acknowledgement is back, which is after it was verified, judged again
//! and made durable; after every round the learner is killed, and its store is asked whether it has
//! them all. The clients run on the same cores. By turns, all cores do nothing but verify the same
//! signatures, over messages that were hashed before.

use super::signed_clients::BenchClients;
use crate::harness::binaries::Binaries;
use crate::harness::liar::Envelope;
use crate::harness::machine;
use crate::harness::process_usage;
use crate::harness::statistics::median;
use crate::output::console::{CommandReport, Console};
use anyhow::{Context as _, ensure};
use clap::Args;
use echo_learner::intake::buffer::{BufferLimits, ReplayBuffer};
use echo_learner::storage::SledStore;
use echo_learner::storage::run_dir::RunDir;
use echo_protocol::wire::codec::CodecError;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::{PublicKey, Signature};
use echo_protocol::wire::signed::Signable as _;
use echo_protocol::work::trajectory::TrajectoryGroup;
use serde::Serialize;
use serde_json::json;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// G: trajectories of a group.
const GROUP_SIZE: usize = 16;
/// A batch that never comes together: the learner only takes in.
const MAX_GROUPS: usize = 4000;
/// Bare verification goes on for this long.
const VERIFY_FOR: Duration = Duration::from_secs(1);

/// How many groups are delivered, by how many clients, and how often.
#[derive(Args, Clone, Debug)]
pub struct IngestBench {
    /// Learners, one after the other; their median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u16).range(1..))]
    pub rounds: u16,
    /// Groups of 16 trajectories that each learner takes in.
    #[arg(long, default_value_t = MAX_GROUPS as u16, value_parser = clap::value_parser!(u16).range(1..=MAX_GROUPS as i64))]
    pub groups: u16,
    /// Clients, each with a connection and a key of its own.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u8).range(1..))]
    pub clients: u8,
    /// Tokens of half of the responses; the other half are right answers, of two to four tokens.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(8..=1000))]
    pub tokens: u16,
}

/// The figures of one learner and one verification.
#[derive(Clone, Copy, Debug, Serialize)]
struct Round {
    /// Trajectories verified, durable and acknowledged in a second.
    trajectories_s: f64,
    /// The same in groups, which are what is signed.
    groups_s: f64,
    /// Processor time of the learner for a group, microseconds.
    learner_us: f64,
    /// Groups whose signatures are verified in a second by all cores.
    verified_s: f64,
    /// Processor time of one verification, microseconds.
    verify_us: f64,
    /// Bytes of a group, signed.
    bytes: f64,
}

/// Measures round by round.
///
/// # Errors
/// When something cannot be started, a group is refused, or one that was acknowledged is not in the store.
pub async fn run(bench: IngestBench, console: &Console) -> anyhow::Result<CommandReport> {
    Binaries::fresh(console).await?;
    let mut rounds = Vec::new();
    for number in 1..=bench.rounds {
        let round = measure(&bench).await?;
        console.say(format!(
            "round {number}: {:.0} trajectories/s ({:.0} groups/s, {:.0} µs of the learner for each); bare verification \
             {:.0} groups/s, {:.0} µs",
            round.trajectories_s, round.groups_s, round.learner_us, round.verified_s, round.verify_us
        ));
        rounds.push(round);
    }
    let of = |figure: fn(&Round) -> f64| median(rounds.iter().map(figure));
    let (wall, cpu) = (of(|r| r.groups_s / r.verified_s), of(|r| r.verify_us / r.learner_us));
    console.say(format!(
        "{:.1} % of bare verification; {:.1} % by processor time",
        wall * 100.0,
        cpu * 100.0
    ));
    let group = GROUP_SIZE as f64;
    let json = json!({
        "ours": {
            "trajectories_s": of(|r| r.trajectories_s),
            "groups_s": of(|r| r.groups_s),
            "learner_us_per_group": of(|r| r.learner_us),
            "bytes_per_group": of(|r| r.bytes),
        },
        "peers": {"ed25519": {
            "trajectories_s": of(|r| r.verified_s) * group,
            "groups_s": of(|r| r.verified_s),
            "us_per_group": of(|r| r.verify_us),
        }},
        "ratios": {"ed25519": {"rate": wall, "processor_time": cpu}},
        "machine": machine::describe(),
        "runs": rounds,
        "setting": {
            "group_size": GROUP_SIZE, "groups": bench.groups, "clients": bench.clients, "tokens": bench.tokens,
            "verification": "ed25519 verify_strict over the context and the BLAKE3 of the body, which was hashed beforehand, on all cores",
        },
    });
    Ok(CommandReport { passed: true, json })
}

async fn measure(bench: &IngestBench) -> anyhow::Result<Round> {
    let scratch = tempfile::tempdir()?;
    let (groups, clients) = (usize::from(bench.groups), usize::from(bench.clients));
    let wrong = "7".repeat(usize::from(bench.tokens) - 1);
    let mut clients =
        BenchClients::assemble(scratch.path(), &run_file(bench.tokens), clients, groups, &wrong).await?;
    let signatures = clients.frames().map(Signed::of).collect::<Result<Vec<_>, _>>()?;
    let bytes = clients.frames().map(<[u8]>::len).sum::<usize>() as f64 / groups as f64;

    let pid = clients.network.learner_pid().context("the learner is gone")?;
    let (before, since) = (process_usage::processor_s(pid)?, Instant::now());
    clients.deliver(groups, None).await?;
    let (seconds, used) = (since.elapsed().as_secs_f64(), process_usage::processor_s(pid)? - before);
    let run_dir = clients.network.layout().run_dir();
    clients.network.kill_learner().await?;
    let durable = durable_groups(&run_dir)?;
    ensure!(durable == groups as u64, "{groups} groups were acknowledged, and {durable} are in the store");

    let (verified_s, verify_us) = verify(&signatures)?;
    Ok(Round {
        trajectories_s: (groups * GROUP_SIZE) as f64 / seconds,
        groups_s: groups as f64 / seconds,
        learner_us: used * 1e6 / groups as f64,
        verified_s,
        verify_us,
        bytes,
    })
}

/// What a killed learner's store says that it acknowledged.
fn durable_groups(run_dir: &Path) -> anyhow::Result<u64> {
    let store = SledStore::open(&RunDir::new(run_dir).database())?;
    let buffer = ReplayBuffer::open(Arc::new(store), BufferLimits::default())?;
    Ok(buffer.totals().acknowledged.groups)
}

/// A signature, and what it is over (`protocol/src/wire/signed.rs`).
struct Signed {
    key: PublicKey,
    message: Vec<u8>,
    signature: Signature,
}

impl Signed {
    /// That of a group's frame.
    fn of(frame: &[u8]) -> Result<Self, CodecError> {
        let Envelope { body, key, signature } = Envelope::open(frame)?;
        let message = [TrajectoryGroup::CONTEXT.as_bytes(), &[0], ContentId::of(&body).as_bytes()].concat();
        Ok(Self { key, message, signature })
    }
}

/// Verifications a second on all cores, and microseconds of processor time of one.
fn verify(signatures: &[Signed]) -> anyhow::Result<(f64, f64)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let before = process_usage::processor_s(std::process::id())?;
    let since = Instant::now();
    let verified = std::thread::scope(|scope| {
        let work = |first: usize| {
            let mut verified = 0u64;
            for Signed { key, message, signature } in signatures.iter().cycle().skip(first) {
                ensure!(key.verifies(message, signature), "a group's signature by {key} does not match");
                verified += 1;
                if verified.is_multiple_of(64) && since.elapsed() >= VERIFY_FOR {
                    break;
                }
            }
            anyhow::Ok(verified)
        };
        let threads: Vec<_> =
            (0..threads).map(|n| scope.spawn(move || work(n * signatures.len() / threads))).collect();
        let each = threads.into_iter().map(|thread| thread.join().expect("verification does not panic"));
        each.sum::<anyhow::Result<u64>>()
    })?;
    let (seconds, used) =
        (since.elapsed().as_secs_f64(), process_usage::processor_s(std::process::id())? - before);
    Ok((verified as f64 / seconds, used * 1e6 / verified as f64))
}

fn run_file(tokens: u16) -> String {
    let positions = usize::from(tokens) + 32;
    format!(
        r#"
[run]
name = "ingest"
updates = 1
[model.tiny]
hidden = 32
layers = 1
heads = 2
kv_heads = 1
head_dim = 16
intermediate = 64
positions = {positions}
[[task]]
name = "chain_sum"
params = {{ digits = 2, terms = 2 }}
[sampling]
group_size = {GROUP_SIZE}
max_new_tokens = {tokens}
[staleness]
budget = 64
period = 1
admission = 63
# What is delivered was drawn from no policy.
[admission]
audit = false
[train]
groups_per_update = 4096
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
