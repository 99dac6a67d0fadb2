//! The wgpu backend on the card: numbers, and the rates of one group.

use super::generate::Groups;
use super::vectors::{self, Amount};
use super::{Outcome, StepOptions};
use echo_policy::precision::Precision;

pub(super) fn run(options: &StepOptions, outcome: &mut Outcome) -> anyhow::Result<()> {
    let found = options.vulkan()?;
    outcome.figure("adapter", &found);
    vectors::check(&found.open()?, &[Precision::F32], Amount::of(options), outcome);
    Groups::new(&options.dir, options.small(), Precision::F32, found.choice())?.first().ours(outcome);
    Ok(())
}
