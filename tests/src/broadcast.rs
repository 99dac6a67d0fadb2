//! `echo-lab broadcast`: how long a snapshot takes to reach a fleet of real processes over real
//! links, and how near that is to the fluid bound.
//!
//! In one *race*, a source and its nodes are started in network namespaces
//! ([`netns`](crate::harness::netns)). The snapshot is published, faults happen, and the race ends when
//! every node that lives holds the snapshot. Echo races in its three modes, and outside systems
//! race too ([`RaceMode`]). All are measured alike: completion by what a node has on its disk, bytes by
//! the counters of the interfaces, memory and processor time by `/proc`, everything on one clock.
//!
//! `simulate` needs no processes: it runs the machine of dissemination in simulated networks.
//!
//! May import `harness`, `models` and `output`.
//!
//! ```text
//! options ──► policies ──► site (links) ──► systems ──► processes
//!                             │                │
//!                             ▼                ▼
//!               samples ──► race (faults) ◄── complete on disk?
//!                             └──► fluid_bound, recovery ──► report
//! ```

mod account;
mod faults;
pub(crate) mod fluid_bound;
mod link_check;
mod options;
mod policies;
mod race;
mod recovery;
mod report;
mod samples;
mod scratch_dir;
pub mod simulate;
mod site;
mod systems;

pub use options::{
    Broadcast, ModeError, RaceFaults, RaceMode, RaceSnapshots, Slow, SlowError, Span, SpanError,
};
pub use systems::corrupt_node::RottenNode;

use crate::harness::binaries::Binaries;
use crate::output::console::{CommandReport, Console};
use anyhow::Context as _;
use policies::Policies;
use race::Race;
use report::RaceRow;
use scratch_dir::ScratchDir;
use site::Site;
use systems::echo::EchoSwarm;
use systems::http::HttpStar;
use systems::torrent::Torrent;

/// Runs every race that was asked for, one after the other, and reports.
///
/// # Errors
/// When something cannot be started or ends before its time. A race that leaves a node without the
/// snapshot is a [`CommandReport`] that has not passed.
pub async fn run(broadcast: Broadcast, console: &Console) -> anyhow::Result<CommandReport> {
    broadcast.validate()?;
    let binaries = Binaries::get(broadcast.build, console).await?;
    let scratch = ScratchDir::new(&broadcast)?;
    let policies = policies::prepare(&broadcast, &scratch.path().join("policies"), console)?;
    let mut rows = Vec::new();
    for round in 0..broadcast.repeat {
        for mode in &broadcast.modes {
            let dir = scratch.path().join(format!("{mode}-{round}"));
            let race = Race::new(&broadcast, &policies, &dir, console)?;
            let row = run_one(&broadcast, mode, &binaries, &policies, race)
                .await
                .with_context(|| format!("{mode}, round {}", round + 1))?;
            console.say(row.line());
            if broadcast.verbose {
                console.say(row.table());
            }
            if !broadcast.keeps() {
                std::fs::remove_dir_all(&dir).with_context(|| format!("cannot remove {}", dir.display()))?;
            }
            rows.push(row);
        }
    }
    Ok(report::sum_up(&broadcast, &rows))
}

async fn run_one(
    broadcast: &Broadcast,
    mode: &RaceMode,
    binaries: &Binaries,
    policies: &Policies,
    race: Race<'_>,
) -> anyhow::Result<RaceRow> {
    // Made first and given away last: the processes have ended when their hosts go.
    let site = Site::build(broadcast, race.links())?;
    let check = race.check_links(&site)?;
    match mode {
        RaceMode::Echo | RaceMode::Chain | RaceMode::Star => {
            let swarm = EchoSwarm::start(broadcast, mode, binaries, policies, &race, &site).await?;
            race.run(mode, check, site, swarm).await
        }
        RaceMode::Libtorrent(words) => {
            let swarm = Torrent::start(words, policies, &race, &site).await?;
            race.run(mode, check, site, swarm).await
        }
        RaceMode::Http => {
            let star = HttpStar::start(policies, &race, &site).await?;
            race.run(mode, check, site, star).await
        }
    }
}
