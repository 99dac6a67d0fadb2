//! `[staleness]`: a mode, or numbers.

use super::RunFileError;
use echo_protocol::run::staleness::{BatchOrder, Staleness, StalenessMode};
use serde::{Deserialize, Serialize};

/// S where a run file does not say it.
pub const DEFAULT_BUDGET: u64 = 3;

/// `[staleness]`: a mode, or the numbers S, κ and η themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct StalenessSection {
    /// `on_policy`, `one_step`, `bounded` or `unbounded`; left out, bounded by `budget`.
    pub mode: Option<StalenessMode>,
    /// S: the largest lag, in updates, of a trajectory that is trained on; left out, [`DEFAULT_BUDGET`].
    pub budget: Option<u64>,
    /// κ: updates between publications; left out, S-1, or 1 without a bound.
    pub period: Option<u64>,
    /// η: batches of work that are handed out ahead of the current one; left out, a bounded run leases by
    /// lag.
    pub admission: Option<u64>,
    /// Which of the groups that wait make the next batch: `oldest_first` or `newest_first`.
    pub order: BatchOrder,
}

impl StalenessSection {
    /// What it comes to.
    pub(super) fn policy(&self) -> Result<Staleness, RunFileError> {
        let Self { mode, budget, period, admission, order } = *self;
        let decides = |mode, settings: &[(&'static str, Option<u64>)]| {
            let given = settings.iter().find(|(_, given)| given.is_some());
            given.map_or(Ok(()), |(setting, _)| Err(RunFileError::StalenessMode { mode, setting }))
        };
        let all = [("budget", budget), ("period", period), ("admission", admission)];
        let policy = match mode.unwrap_or(StalenessMode::Bounded) {
            StalenessMode::OnPolicy => decides("on_policy", &all).map(|()| Staleness::on_policy()),
            StalenessMode::OneStep => decides("one_step", &all).map(|()| Staleness::one_step()),
            StalenessMode::Bounded => {
                let policy = Staleness::new(budget.unwrap_or(DEFAULT_BUDGET), period)?;
                Ok(admission.map_or(Ok(policy), |admission| policy.with_admission(admission))?)
            }
            StalenessMode::Unbounded => {
                decides("unbounded", &[("budget", budget), ("admission", admission)])?;
                Ok(Staleness::unbounded(period.unwrap_or(1))?)
            }
        };
        Ok(policy?.with_order(order))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn staleness_is_a_mode_or_numbers() {
        let policy = |lines: &str| {
            let section: StalenessSection = toml::from_str(lines).unwrap();
            section.policy().map_err(|e| e.to_string())
        };
        assert_eq!(policy(""), Ok(Staleness::new(3, Some(2)).unwrap()));
        assert_eq!(policy("budget = 5"), Ok(Staleness::new(5, None).unwrap()), "as in earlier releases");
        assert_eq!(policy("mode = \"bounded\"\nbudget = 0"), Ok(Staleness::on_policy()));
        assert_eq!(policy("mode = \"on_policy\""), Ok(Staleness::on_policy()));
        assert_eq!(policy("mode = \"one_step\""), Ok(Staleness::one_step()));
        assert_eq!(policy("mode = \"unbounded\"\nperiod = 4"), Ok(Staleness::unbounded(4).unwrap()));
        let chosen = policy("budget = 8\nperiod = 2\nadmission = 3\norder = \"newest_first\"").unwrap();
        assert_eq!((chosen.admission(), chosen.order()), (3, BatchOrder::NewestFirst));
        assert!(policy("mode = \"on_policy\"\nperiod = 1").unwrap_err().contains("decides period"));
        assert!(policy("budget = 1\nperiod = 3").unwrap_err().contains("κ = 3"));
        assert!(policy("budget = 1\nadmission = 2").unwrap_err().contains("η = 2"));
    }
}
