//! The kill study: a learner that is killed again and again makes the same policy as one that is not.
//!
//! Rollouts are made once, for a learner that runs undisturbed, and recorded in the order in which
//! they were delivered. A second learner on a copy of the same founded run gets the same groups in
//! the same order, is killed (SIGKILL) at random instants and resumed. In the end its policy has to
//! be the same, bit for bit; whatever it acknowledged has to be trained on once or dropped with a
//! reason on record; and nothing that it trained on may be older than S.
//!
//! **Why the batches are the same.** The buffer takes the oldest version first, and groups of one
//! version by their numbers. The player delivers one group at a time and waits for its answer, and
//! versions and numbers ascend along the tape ([`tape::Tape::check`]), so groups are taken in the order of
//! the tape: the update at v gets groups v·B to v·B+B-1, if none of them is ever dropped. A group is
//! dropped as stale only at an update that comes before its own, where it is younger than at its
//! own; and there it is not too old, which is checked as well. So timing decides when a batch is
//! formed, never of what. Two things have to be waited for: a group's lease, and the version that
//! it was made under, because a learner refuses what it has not published yet. Both depend on
//! earlier groups only, so waiting for them never lasts for ever.
//!
//! **A damaged checkpoint.** Half of the kills in, a byte of the newest checkpoint's weights is
//! flipped before the learner is resumed, as soon as there is an older one too. It has to notice,
//! and to fall back on that one; the batches from there on are in its journal, which keeps them
//! since the oldest checkpoint on the disk, so that its policy has to be the same still.

mod account;
mod damage;
mod learner_process;
mod plan;
mod player;
mod report;
mod run_file;
mod tape;

use crate::harness::binaries::Binaries;
use crate::harness::directory;
use crate::output::console::{CommandReport, Console};
use clap::Args;
use echo_learner::config::RunConfig;
use echo_learner::founding;
use echo_learner::storage::run_dir::RunDir;
use learner_process::{Kill, Life, Phase};
use plan::KillPlan;
use player::KillPlayer;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// A learner that takes longer than this for the whole run hangs.
const RUN_LIMIT: Duration = Duration::from_secs(1_200);

/// How often the learner is killed, and in how long a run.
#[derive(Args, Clone, Copy, Debug)]
pub struct KillStudy {
    /// Times that the learner is killed.
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub kills: u32,
    /// Updates of the run.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub updates: u64,
    /// Seed of the instants at which it is killed.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
}

/// What the two runs came to.
struct Outcome {
    /// Instants of the kills, by what the learner was doing.
    phases: BTreeMap<Phase, u32>,
    /// Groups that were sent again because no answer had come.
    redelivered: u64,
    /// Updates that were made again.
    repeated: u64,
    /// The checkpoint that was damaged, if there was one to damage.
    damaged: Option<u64>,
    seconds: [f64; 2],
}

/// Makes both runs and compares them. Passes when every claim holds.
///
/// # Errors
/// When something cannot be built, started or read, or a learner ends or hangs where it should not.
pub async fn run(study: KillStudy, console: &Console) -> anyhow::Result<CommandReport> {
    let binaries = Binaries::fresh(console).await?;
    let scratch = tempfile::tempdir()?;
    let home = |name: &str| scratch.path().join(name);
    let (calm, disturbed) = (RunDir::new(&home("undisturbed")), RunDir::new(&home("killed")));

    console.say("founding a run, with a short supervised start");
    let config: RunConfig = run_file::config(calm.path(), study.updates)?;
    tokio::task::block_in_place(|| founding::found(&config, |_, _| ()))?;
    directory::copy(calm.path(), disturbed.path())?;

    console.say(format!("{} updates undisturbed, rollouts are recorded", study.updates));
    let (mut player, since) = (KillPlayer::new(), Instant::now());
    let mut life = Life::start(&binaries.learner, &calm, home("logs/undisturbed.log"))?;
    let log = life.log().clone();
    tokio::select! {
        ended = life.ended(RUN_LIMIT) => ended?,
        failed = player.record(&log, &calm) => return Err(failed.context("while rollouts were recorded")),
    }
    let pace = log.pace()?;
    let tape = player.into_tape();
    tape.check(&config, study.updates)?;
    let undisturbed_s = since.elapsed().as_secs_f64();
    console.say(format!("{undisturbed_s:.0} s, {} groups; now with {} kills", tape.len(), study.kills));

    let (mut player, since) = (KillPlayer::with(tape), Instant::now());
    let plan = KillPlan::draw(study, config.staleness()?.period());
    let mut phases = BTreeMap::new();
    let (mut repeated, mut damaged) = (0, None);
    for (number, kill) in plan.kills().map(Some).chain([None]).enumerate() {
        // Nobody works on the run now: the learner before was killed.
        if damaged.is_none() && number >= plan.middle() {
            damaged = damage::newest(&disturbed, study.updates)?;
            if let Some(version) = damaged {
                console.say(format!("  the checkpoint of version {version} is damaged"));
            }
        }
        let mut life = Life::start(&binaries.learner, &disturbed, home(&format!("logs/{number:03}.log")))?;
        let log = life.log().clone();
        let phase = tokio::select! {
            phase = life.watch(kill.as_ref(), &pace, RUN_LIMIT) => phase?,
            failed = player.play(&log) => return Err(failed.context("while rollouts were played")),
        };
        repeated += log.updates()?;
        match (kill, phase) {
            (Some(Kill { at, .. }), Some(phase)) => {
                console.say(format!("  kill {} at update {at}: {phase}", number + 1));
                *phases.entry(phase).or_default() += 1;
            }
            // The run is over.
            _ => break,
        }
    }
    let outcome = Outcome {
        phases,
        redelivered: player.redelivered(),
        repeated: repeated.saturating_sub(study.updates),
        damaged,
        seconds: [undisturbed_s, since.elapsed().as_secs_f64()],
    };
    let account = account::of(&disturbed, &player, &config)?;
    let report = report::report(study, &config, &outcome, &account, [&calm, &disturbed], console)?;
    if !report.passed {
        console.say(format!("everything is kept in {}", scratch.keep().display()));
    }
    Ok(report)
}
