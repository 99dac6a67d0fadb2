//! `[fleet]`

use crate::common::option_error::{OptionError, above_zero, refused, setting};
use crate::fleet::capacity::{Activation, Prices};
use echo_protocol::wire::rate::BytesPerSec;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// `[fleet]`: how orders are leased, who works and what that costs, and how chains are counted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FleetSection {
    /// B̂w: a node's uplink; left out, the median of those that nodes declare or others measure.
    /// ⌊B0/B̂w⌋ chains are built.
    pub node_uplink: Option<BytesPerSec>,
    /// Seconds until an order that was leased and not delivered is leased again.
    pub lease_s: u64,
    /// Most orders that one node holds at once.
    pub orders_per_node: u32,
    /// Which nodes of those that are there get orders.
    pub activation: Activation,
    /// γ: what the fleet is to bring, in times of what keeps the learner from waiting.
    pub gamma: f64,
    /// What the learner's machine costs, in dollars an hour.
    pub learner_price: f64,
    /// The program that starts and stops rented nodes, with its arguments; none where it is empty.
    pub provision: Vec<String>,
    /// What nodes cost, in dollars an hour, by key, label or class.
    pub prices: Prices,
}

impl Default for FleetSection {
    fn default() -> Self {
        Self {
            node_uplink: None,
            lease_s: 600,
            orders_per_node: 64,
            activation: Activation::default(),
            gamma: 1.1,
            prices: Prices::default(),
            learner_price: 0.0,
            provision: Vec::new(),
        }
    }
}

impl FleetSection {
    /// Numbers that are outside their domain.
    pub(crate) fn problems(&self) -> Vec<OptionError> {
        refused([
            above_zero("fleet.lease_s", self.lease_s),
            above_zero("fleet.orders_per_node", u64::from(self.orders_per_node)),
            setting(
                "fleet.gamma",
                self.gamma,
                (1.0..=10.0).contains(&self.gamma),
                "it has to be from 1 to 10",
            ),
            setting(
                "fleet.learner_price",
                self.learner_price,
                (0.0..=1e6).contains(&self.learner_price),
                "dollars an hour, at least 0",
            ),
            self.prices
                .wrong()
                .map_or(Ok(()), |found| setting("fleet.prices", found, false, "dollars an hour, at least 0")),
            self.provision_problem(),
        ])
    }

    /// A program that would have nothing to do, or has no name.
    fn provision_problem(&self) -> Result<(), OptionError> {
        let rule = match self.provision.first() {
            None => return Ok(()),
            Some(program) if program.is_empty() => {
                "the first text is the program: a path, or a name that PATH knows"
            }
            Some(_) if self.prices.iter().all(|(_, price)| price <= 0.0) => {
                "it starts nodes of classes with a price, and [fleet] prices has none above 0: name what it rents there"
            }
            Some(_) => return Ok(()),
        };
        Err(OptionError::Setting { field: "fleet.provision", found: format!("{:?}", self.provision), rule })
    }

    /// Makes the provision program's path one from `base`, where it is a relative path and no bare name.
    pub(crate) fn resolve(&mut self, base: &Path) {
        if let Some(program) = self.provision.first_mut()
            && program.contains('/')
        {
            *program = base.join(&*program).to_string_lossy().into_owned();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provision_program_needs_a_name_and_something_to_rent() {
        let section = |lines: &str| toml::from_str::<FleetSection>(lines).unwrap();
        let problems = |lines: &str| -> Vec<String> {
            section(lines).problems().iter().map(ToString::to_string).collect()
        };
        assert_eq!(problems(""), [""; 0]);
        assert_eq!(problems("provision = ['rent']\nprices = { rented = 0.5 }"), [""; 0]);
        let free = problems("provision = ['rent']\nprices = { mine = 0.0 }");
        assert!(free[0].contains("[fleet] prices has none above 0"), "{free:?}");
        assert!(problems("provision = ['']")[0].contains("the first text is the program"));
    }

    #[test]
    fn a_path_of_the_program_begins_at_the_run_file_and_a_bare_name_does_not() {
        let resolved = |program: &str| {
            let mut section =
                FleetSection { provision: vec![program.into(), "a/b".into()], ..Default::default() };
            section.resolve(Path::new("/runs"));
            section.provision
        };
        assert_eq!(resolved("./rent.py"), ["/runs/./rent.py", "a/b"]);
        assert_eq!(resolved("/bin/rent"), ["/bin/rent", "a/b"]);
        assert_eq!(resolved("rent"), ["rent", "a/b"]);
    }
}
