//! The wgpu backend on the card: numbers, and the rates of one group. Software that imitates a
//! card is given less.

use super::generate::Groups;
use super::vectors::{self, Amount};
use super::{GpuStepOutcome, StepOptions};
use echo_policy::generation::device::About;
use echo_policy::model::precision::Precision;

pub(super) fn run(options: &StepOptions, outcome: &mut GpuStepOutcome) -> anyhow::Result<()> {
    let found = options.vulkan()?;
    outcome.figure("adapter", &found);
    let imitated = matches!(found.about, About::Wgpu { adapter: "software", .. });
    let amount = if imitated { Amount::LEAST } else { Amount::FULL };
    vectors::check(&found.open()?, &[Precision::F32], amount, outcome);
    Groups::new(&options.dir, imitated, Precision::F32, found.choice())?.first().ours(outcome);
    Ok(())
}
