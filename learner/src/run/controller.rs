//! The controller: what the learner does next. Sans-IO and deterministic.
//!
//! All other parts are passive; this machine alone decides the order of things, from nothing
//! but its position in the run. So a learner that is restarted from a checkpoint goes through
//! the same steps again.

use echo_protocol::run::staleness::Staleness;
use echo_protocol::run::version::PolicyVersion;

/// What a run is to do, from its configuration.
#[derive(Clone, Copy, Debug)]
pub struct RunPlan {
    /// Updates after which the run is finished.
    pub updates: u64,
    /// The staleness budget and publication period.
    pub staleness: Staleness,
    /// Updates between two evaluations; 0 evaluates at the start and at the end only.
    pub evaluate_every: u64,
}

/// One thing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RunStep {
    /// Measure the policy on the held-out orders.
    Evaluate(PolicyVersion),
    /// Begin to write a checkpoint.
    Checkpoint(PolicyVersion),
    /// Begin to publish a snapshot, after its checkpoint: what the fleet has seen is never taken back.
    Publish(PolicyVersion),
    /// Form a batch at this version and make one update.
    Update(PolicyVersion),
    /// Wait for what was begun, export the policy, close the books and end.
    Finish(PolicyVersion),
}

/// Where a run stands.
#[derive(Clone, Debug)]
pub struct Controller {
    plan: RunPlan,
    version: PolicyVersion,
    evaluated: Option<PolicyVersion>,
    checkpointed: Option<PolicyVersion>,
    published: Option<PolicyVersion>,
}

impl Controller {
    /// A run that begins with the starting policy.
    pub fn new(plan: RunPlan) -> Self {
        Self { plan, version: PolicyVersion(0), evaluated: None, checkpointed: None, published: None }
    }

    /// A run that goes on from the checkpoint of `version`; `evaluated` is the newest evaluation on record.
    pub fn resume(plan: RunPlan, version: PolicyVersion, evaluated: Option<PolicyVersion>) -> Self {
        Self { plan, version, evaluated, checkpointed: Some(version), published: None }
    }

    /// What to do next. The same until [`Controller::done`] is told that it has been done.
    pub fn next(&self) -> RunStep {
        let (now, ended) = (self.version, self.is_last(self.version));
        let every = self.plan.evaluate_every;
        let due = now.0 == 0 || ended || (every > 0 && now.0.is_multiple_of(every));
        // A run that had ended between two periods and goes on would have nothing to give to nodes that come.
        let due_anyway = self.published.is_none();
        let publishes = !ended && (self.plan.staleness.publishes(now) || due_anyway);
        if (publishes || ended) && self.checkpointed != Some(now) {
            RunStep::Checkpoint(now)
        } else if publishes && self.published != Some(now) {
            RunStep::Publish(now)
        } else if due && self.evaluated < Some(now) {
            RunStep::Evaluate(now)
        } else if ended {
            RunStep::Finish(now)
        } else {
            RunStep::Update(now)
        }
    }

    /// Whether the run ends at `version`.
    pub fn is_last(&self, version: PolicyVersion) -> bool {
        version.0 >= self.plan.updates
    }

    /// The version that the run ends at.
    pub fn last(&self) -> PolicyVersion {
        self.version.max(PolicyVersion(self.plan.updates))
    }

    /// Tells that a step has been done.
    pub fn done(&mut self, step: RunStep) {
        match step {
            RunStep::Evaluate(version) => self.evaluated = Some(version),
            RunStep::Checkpoint(version) => self.checkpointed = Some(version),
            RunStep::Publish(version) => self.published = Some(version),
            RunStep::Update(version) => self.version = version.next(),
            RunStep::Finish(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> RunPlan {
        RunPlan { updates: 5, staleness: Staleness::new(3, None).unwrap(), evaluate_every: 0 }
    }

    fn run(mut controller: Controller) -> Vec<RunStep> {
        let mut steps = Vec::new();
        loop {
            let step = controller.next();
            steps.push(step);
            if matches!(step, RunStep::Finish(_)) {
                return steps;
            }
            controller.done(step);
        }
    }

    fn v(version: u64) -> PolicyVersion {
        PolicyVersion(version)
    }

    #[test]
    fn publishes_every_period_and_only_behind_a_checkpoint() {
        let steps = run(Controller::new(plan()));
        let expected = [
            RunStep::Checkpoint(v(0)),
            RunStep::Publish(v(0)),
            RunStep::Evaluate(v(0)),
            RunStep::Update(v(0)),
            RunStep::Update(v(1)),
            RunStep::Checkpoint(v(2)),
            RunStep::Publish(v(2)),
            RunStep::Update(v(2)),
            RunStep::Update(v(3)),
            RunStep::Checkpoint(v(4)),
            RunStep::Publish(v(4)),
            RunStep::Update(v(4)),
            RunStep::Checkpoint(v(5)),
            RunStep::Evaluate(v(5)),
            RunStep::Finish(v(5)),
        ];
        assert_eq!(steps, expected);
    }

    #[test]
    fn a_resumed_run_publishes_again_and_then_takes_the_same_steps() {
        let all = run(Controller::new(plan()));
        let resumed = run(Controller::resume(plan(), v(2), Some(v(0))));
        let from_publication = all.iter().position(|s| *s == RunStep::Publish(v(2))).unwrap();
        assert_eq!(resumed, all[from_publication..]);
        assert_eq!(run(Controller::resume(plan(), v(5), Some(v(5)))), [RunStep::Finish(v(5))]);
    }

    #[test]
    fn a_run_that_had_ended_between_two_periods_publishes_what_it_goes_on_from() {
        let longer = RunPlan { updates: 7, ..plan() };
        let steps = run(Controller::resume(longer, v(5), Some(v(5))));
        let begins = [
            RunStep::Publish(v(5)),
            RunStep::Update(v(5)),
            RunStep::Checkpoint(v(6)),
            RunStep::Publish(v(6)),
        ];
        assert_eq!(steps[..4], begins);
    }

    #[test]
    fn evaluates_between_when_asked_to() {
        let steps = run(Controller::new(RunPlan { evaluate_every: 2, ..plan() }));
        let evaluations: Vec<_> = steps.into_iter().filter(|s| matches!(s, RunStep::Evaluate(_))).collect();
        assert_eq!(evaluations, [0, 2, 4, 5].map(|n| RunStep::Evaluate(v(n))));
    }
}
