//! The rules that a simulated fleet has to keep, by name.

use std::fmt;

/// What was broken. It stands before the message of an error, and can be read from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rule {
    /// Nothing is trained on that is more than S updates old, twice, or without an acknowledgement.
    Batches,
    /// Nothing that was acknowledged is lost, and nothing is accepted twice.
    Acknowledged,
    /// No order is forgotten.
    Orders,
    /// No node gets more orders than it asked for, or holds more than it may.
    Leases,
    /// Every node stands in one chain, and links have two ends.
    Places,
    /// Who does not work gets no orders, and no node is forgotten that is there.
    Roles,
    /// No node changes its role twice within a period, faults excepted.
    Flapping,
    /// What a fault takes is made up for at once, as far as there are nodes that ask.
    Faults,
    /// Nothing that costs more than the cheapest prefix and one node stays as it is.
    Cost,
    /// A broadcast is complete, and not faster than its bound.
    Broadcasts,
    /// A seed replays.
    Replay,
    /// What belongs to no other.
    Other,
}

impl Rule {
    /// All of them.
    pub(crate) const ALL: [Self; 12] = [
        Self::Batches,
        Self::Acknowledged,
        Self::Orders,
        Self::Leases,
        Self::Places,
        Self::Roles,
        Self::Flapping,
        Self::Faults,
        Self::Cost,
        Self::Broadcasts,
        Self::Replay,
        Self::Other,
    ];

    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Batches => "batches",
            Self::Acknowledged => "acknowledged",
            Self::Orders => "orders",
            Self::Leases => "leases",
            Self::Places => "places",
            Self::Roles => "roles",
            Self::Flapping => "flapping",
            Self::Faults => "faults",
            Self::Cost => "cost",
            Self::Broadcasts => "broadcasts",
            Self::Replay => "replay",
            Self::Other => "other",
        }
    }

    /// The rule that an error is about.
    pub(crate) fn of(error: &anyhow::Error) -> Self {
        error.downcast_ref::<Self>().copied().unwrap_or(Self::Other)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the rule of {} is broken", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn an_error_says_which_rule_it_is_about() {
        let broken = Err::<(), _>(anyhow::anyhow!("S = 3")).context(Rule::Batches).unwrap_err();
        assert_eq!(Rule::of(&broken), Rule::Batches);
        assert_eq!(format!("{broken:#}"), "the rule of batches is broken: S = 3");
        assert_eq!(Rule::of(&anyhow::anyhow!("a disk")), Rule::Other);
        let mut names: Vec<&str> = Rule::ALL.into_iter().map(Rule::name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Rule::ALL.len());
        let page = include_str!("../../../../docs/reference/lab.md");
        let missing: Vec<&str> =
            names.into_iter().filter(|name| !page.contains(&format!("| `{name}` |"))).collect();
        assert!(missing.is_empty(), "docs/reference/lab.md does not name {missing:?}");
    }
}
