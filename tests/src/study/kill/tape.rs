//! Rollouts in the order in which they were delivered.

use anyhow::ensure;
use echo_learner::config::RunConfig;
use echo_protocol::run::version::PolicyVersion;
use echo_protocol::work::order::OrderCounter;
use echo_protocol::work::trajectory::Trajectory;
use std::collections::BTreeMap;

/// A group that was accepted.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) counter: OrderCounter,
    /// The version that made all of it.
    pub(super) version: PolicyVersion,
    pub(super) trajectories: Vec<Trajectory>,
}

/// Groups in the order in which they were accepted.
#[derive(Clone, Debug, Default)]
pub(super) struct Tape(Vec<Recorded>);

impl Tape {
    pub(super) fn push(&mut self, group: Recorded) {
        self.0.push(group);
    }

    pub(super) fn get(&self, index: usize) -> Option<&Recorded> {
        self.0.get(index)
    }

    /// How many groups there are.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The version that made each group.
    pub(super) fn versions(&self) -> BTreeMap<OrderCounter, PolicyVersion> {
        self.0.iter().map(|group| (group.counter, group.version)).collect()
    }

    /// Checks what makes the batches of a run of `updates` updates independent of timing; see [`super`].
    /// Fails with the group that spoils it.
    pub(super) fn check(&self, config: &RunConfig, updates: u64) -> anyhow::Result<()> {
        let (batch, staleness) = (config.train.groups_per_update, config.staleness()?);
        let needed = usize::try_from(updates)? * batch;
        ensure!(self.len() >= needed, "{} groups were recorded, {updates} updates need {needed}", self.len());
        let mut before = (PolicyVersion(0), OrderCounter(0));
        for (place, Recorded { counter, version, .. }) in self.0.iter().enumerate().take(needed) {
            let update = PolicyVersion((place / batch) as u64);
            ensure!(
                (*version, *counter) >= before,
                "order {counter} was made under {version}, the one before, {}, under {}",
                before.1,
                before.0
            );
            ensure!(
                staleness.admits(*version, update),
                "order {counter} of {version} would be trained on at {update}: more than S = {} apart",
                staleness.budget()
            );
            before = (*version, *counter);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::kill::run_file;
    use std::path::Path;

    #[test]
    fn a_tape_that_timing_could_change_is_refused() {
        let config = run_file::config(Path::new("x"), 4).unwrap();
        let tape = |versions: [u64; 4]| {
            let mut tape = Tape::default();
            for (counter, version) in (0..16).zip(versions.into_iter().flat_map(|version| [version; 4])) {
                let (counter, version) = (OrderCounter(counter), PolicyVersion(version));
                tape.push(Recorded { counter, version, trajectories: Vec::new() });
            }
            tape.check(&config, 4).map_err(|error| error.to_string())
        };
        assert_eq!(tape([0, 0, 0, 2]), Ok(()));
        assert_eq!(tape([0, 0, 0, 0]), Ok(()), "exactly S");
        assert!(tape([0, 0, 2, 0]).unwrap_err().contains("the one before"));
        assert!(tape([0, 2, 2, 2]).unwrap_err().contains("would be trained on"), "not published by then");
        assert!(Tape::default().check(&config, 4).unwrap_err().to_string().contains("16"));
    }
}
