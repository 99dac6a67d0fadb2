//! How fast a snapshot passes through a node, as shares of what the machine can do.
//!
//! `cargo bench -p echo-protocol --bench relay -- [MIB] [--tcp] [--rounds N]` prints one JSON line:
//!
//! - `relay_mb_s`: a snapshot of MIB MiB goes source → relay → sink over loopback between three
//!   hosts with stores on disk;
//! - `tcp_mb_s`: the same bytes go through a plain TCP forwarder that stores them, to a sink that
//!   stores them; `share` is the relay's rate over it;
//! - `guarded_mb_s`: the same, except that the bytes are encrypted on the way and verified on
//!   arrival; `guarded_share` is this rate over that of the plain copy;
//! - `verify_gb_s`, `blake3_gb_s`: blocks verified against their tree, and plain BLAKE3 over the
//!   same bytes, on one thread.
//!
//! `*_cpu_s_per_gb` are the seconds of CPU that all three ends together took for each
//! gigabyte of the snapshot.
//!
//! Rounds alternate between the three; medians are reported. Not Criterion: a round takes seconds, and
//! the three are compared with each other.

mod copies;

use echo_protocol::control::requests::Peer;
use echo_protocol::dissemination::{DisseminationMode, NeighbourRole as Part};
use echo_protocol::net::snapshots::{SnapshotEvent, SnapshotRole, Snapshots, SnapshotsConfig};
use echo_protocol::net::{Host, HostConfig, HostEvents};
use echo_protocol::run::tensor_type::TensorType;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::snapshot::blocks::{BLOCK_BYTES, BlockTree};
use echo_protocol::snapshot::manifest::Manifest;
use echo_protocol::store::{ChunkStore, SnapshotItem, write_snapshot};
use echo_protocol::wire::codec;
use echo_protocol::wire::content_id::ContentId;
use echo_protocol::wire::identity::{NodeKey, PublicKey};
use std::error::Error;
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::mpsc;

/// As in the programs.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;
/// How to copy so many MiB below a directory; gives the seconds that it took, on the wall and of CPU.
type Way = fn(&Path, usize) -> Outcome<(f64, f64)>;

/// Length of a chunk of the snapshot, in bytes: that of a run that says nothing else.
const CHUNK: u32 = 4 << 20;

struct Settings {
    mib: usize,
    tcp: bool,
    rounds: usize,
    /// Only the relay, for a profiler.
    only: bool,
}

fn main() -> Outcome<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| words.iter().any(|word| word == flag);
    let number = |at: Option<&String>| at.and_then(|word| word.parse().ok());
    let rounds = words.iter().position(|word| word == "--rounds").and_then(|at| number(words.get(at + 1)));
    let settings = Settings {
        mib: number(words.first()).unwrap_or(256),
        tcp: has("--tcp"),
        rounds: rounds.unwrap_or(3),
        only: has("--only"),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let [mut relay, mut plain, mut guarded] = <[Took; 3]>::default();
    let dir = tempfile::tempdir()?;
    for round in 0..settings.rounds {
        let relayed = dir.path().join(format!("relay-{round}"));
        relay.add(runtime.block_on(relay_once(&relayed, &settings))?);
        empty_files(&relayed)?;
        if !settings.only {
            let copies =
                [("plain", &mut plain, copies::plain as Way), ("guarded", &mut guarded, copies::guarded)];
            for (name, took, copy) in copies {
                let copied = dir.path().join(format!("{name}-{round}"));
                took.add(copy(&copied, settings.mib)?);
                empty_files(&copied)?;
            }
        }
    }
    let (verify, blake3) = hash_rates();
    let mb = settings.mib as f64 * 1.048_576;
    let [relay, plain, guarded] = [relay, plain, guarded].map(|took| took.median(mb));
    println!(
        "{{\"mib\":{},\"transport\":\"{}\",\"rounds\":{},\"relay_mb_s\":{:.0},\"tcp_mb_s\":{:.0},\"share\":{:.3},\
         \"guarded_mb_s\":{:.0},\"guarded_share\":{:.3},\
         \"relay_cpu_s_per_gb\":{:.2},\"tcp_cpu_s_per_gb\":{:.2},\"guarded_cpu_s_per_gb\":{:.2},\
         \"verify_gb_s\":{verify:.2},\"blake3_gb_s\":{blake3:.2},\"verify_share\":{:.3}}}",
        settings.mib,
        if settings.tcp { "tcp" } else { "quic" },
        settings.rounds,
        relay.mb_s,
        plain.mb_s,
        relay.mb_s / plain.mb_s,
        guarded.mb_s,
        guarded.mb_s / plain.mb_s,
        relay.cpu_s_per_gb,
        plain.cpu_s_per_gb,
        guarded.cpu_s_per_gb,
        verify / blake3,
    );
    Ok(())
}

/// Seconds that rounds took.
#[derive(Default)]
struct Took {
    wall: Vec<f64>,
    cpu: Vec<f64>,
}

impl Took {
    fn add(&mut self, (wall, cpu): (f64, f64)) {
        self.wall.push(wall);
        self.cpu.push(cpu);
    }

    /// Of rounds that moved `mb` megabytes each.
    fn median(mut self, mb: f64) -> Rate {
        Rate { mb_s: mb / median(&mut self.wall), cpu_s_per_gb: median(&mut self.cpu) / mb * 1e3 }
    }
}

struct Rate {
    mb_s: f64,
    cpu_s_per_gb: f64,
}

/// The clock on the wall, and the seconds of CPU that this process has used so far.
struct Stopwatch(Instant, f64);

impl Stopwatch {
    fn start() -> Outcome<Self> {
        Ok(Self(Instant::now(), cpu_seconds()?))
    }

    fn stop(&self) -> Outcome<(f64, f64)> {
        Ok((self.0.elapsed().as_secs_f64(), cpu_seconds()? - self.1))
    }
}

/// User and system time of all threads, from the kernel's accounts in ticks of 10 ms; 0 where
/// there is no /proc.
fn cpu_seconds() -> Outcome<f64> {
    let Ok(line) = std::fs::read_to_string("/proc/self/stat") else { return Ok(0.0) };
    let behind_name = line.rsplit_once(')').ok_or("an odd /proc/self/stat")?.1;
    let ticks = behind_name.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
    Ok(ticks.sum::<Result<u64, _>>()? as f64 / 100.0)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn noise(length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(b"bench").finalize_xof().fill(&mut bytes);
    bytes
}

/// One peer of the chain.
struct Party {
    key: PublicKey,
    host: Host,
    _host_events: HostEvents,
    snapshots: Snapshots,
    events: mpsc::Receiver<SnapshotEvent>,
}

async fn party(dir: &Path, seed: u8, role: SnapshotRole, tcp: bool) -> Outcome<(Party, Arc<ChunkStore>)> {
    let listen = if tcp { "/ip4/127.0.0.1/tcp/0" } else { "/ip4/127.0.0.1/udp/0/quic-v1" };
    let config = HostConfig { listen: vec![listen.parse()?], ..HostConfig::client([seed; 32], "echo-bench") };
    let (host, host_events) = Host::start(config).await?;
    let store = Arc::new(ChunkStore::open(dir)?);
    let key = NodeKey::from_secret([seed; 32]).public();
    let config = SnapshotsConfig::new(key, role, DisseminationMode::Chain);
    let (snapshots, events) = Snapshots::start(host.clone(), store.clone(), config)?;
    Ok((Party { key, host, _host_events: host_events, snapshots, events }, store))
}

impl Party {
    async fn follow(&self, parent: &Party, manifest: &Arc<Manifest>) -> Outcome<()> {
        let addresses = parent.host.listen_addrs().iter().map(ToString::to_string).collect();
        let parent = (Peer { key: parent.key, addresses }, Part::Parent);
        self.snapshots.neighbours(vec![parent]).await?;
        self.snapshots.announce(manifest.clone()).await?;
        Ok(())
    }

    async fn installed(&mut self) -> Outcome<()> {
        loop {
            match self.events.recv().await.ok_or("the driver stopped")? {
                SnapshotEvent::Install(_) => return Ok(()),
                SnapshotEvent::CutOff(_) => return Err("an honest peer was cut off".into()),
                _ => {}
            }
        }
    }
}

/// From the announcement until the last of the chain has everything.
async fn relay_once(dir: &Path, settings: &Settings) -> Outcome<(f64, f64)> {
    let at = |name: &str| dir.join(name);
    let (source, store) = party(&at("source"), 1, SnapshotRole::Source, settings.tcp).await?;
    let (mut relay, _) = party(&at("relay"), 2, SnapshotRole::Relay, settings.tcp).await?;
    let (mut sink, _) = party(&at("sink"), 3, SnapshotRole::Relay, settings.tcp).await?;
    let bytes = noise(settings.mib << 20);
    let shape = vec![bytes.len() as u64 / 2];
    let tensor = SnapshotItem::Tensor { name: "w".into(), dtype: TensorType::Bf16, shape, bytes };
    let run = codec::decode(&codec::encode(&ContentId::of(b"bench"), 64)?, 64)?;
    let manifest = Arc::new(write_snapshot(&store, run, PolicyVersion(1), CHUNK, [tensor])?);
    source.snapshots.publish(manifest.clone()).await?;
    warm_memory(dir, settings.mib)?;
    let watch = Stopwatch::start()?;
    sink.follow(&relay, &manifest).await?;
    relay.follow(&source, &manifest).await?;
    relay.installed().await?;
    sink.installed().await?;
    let took = watch.stop()?;
    for party in [source, relay, sink] {
        party.host.shutdown().await;
    }
    Ok(took)
}

/// Has the kernel free as much memory as two ends store and a third of that again. A virtual
/// machine that gives free memory back to its host pays two seconds of CPU for each gigabyte that
/// it uses again after a while, and so would whoever comes first.
fn warm_memory(dir: &Path, mib: usize) -> std::io::Result<()> {
    let path = dir.join("warm");
    let mut file = File::create(&path)?;
    let block = vec![1; 1 << 20];
    (0..mib * 8 / 3).try_for_each(|_| file.write_all(&block))?;
    std::fs::remove_file(path)
}

/// Gives back what the files in and below `dir` hold. They stay, for ext4 does not use an inode
/// again for minutes after it was freed, and passes over each of those whenever a file is made:
/// whoever comes second would pay for the first.
fn empty_files(dir: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        if path.is_dir() { empty_files(&path)? } else { File::create(path).map(drop)? }
    }
    Ok(())
}

/// Gigabytes a second of block verification, and of plain BLAKE3.
fn hash_rates() -> (f64, f64) {
    const ROUNDS: usize = 100;
    let bytes = noise(4 << 20);
    let (id, tree) = BlockTree::of(&bytes);
    let rate = |work: &dyn Fn() -> bool| {
        let start = Instant::now();
        assert!((0..ROUNDS).all(|_| work()));
        (ROUNDS * bytes.len()) as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    let verify =
        rate(&|| bytes.chunks(BLOCK_BYTES).zip(0..).all(|(bytes, block)| tree.verifies(block, bytes)));
    (verify, rate(&|| id.matches(&bytes)))
}
