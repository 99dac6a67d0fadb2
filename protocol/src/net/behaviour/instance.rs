//! Which process of an identity a peer is.

use crate::net::error::NetError;

/// Hexadecimal digits of an instance.
const DIGITS: usize = 16;

/// A number that a host draws when it starts, and that the name of its program ends with. A data directory
/// that was copied to a second machine shows by it: both have the same identity, and are different instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::net) struct Instance(u64);

impl Instance {
    pub(in crate::net) fn draw() -> Result<Self, NetError> {
        let drawn = getrandom::u64();
        drawn.map(Self).map_err(|error| NetError::Build { what: "a random number", cause: error.to_string() })
    }

    /// The name of a program, as this instance of it tells it to peers.
    pub(in crate::net) fn of(self, agent: &str) -> String {
        format!("{agent} {:0DIGITS$x}", self.0)
    }

    /// The instance of the program that tells this name; older ones tell none.
    pub(in crate::net) fn read(agent: &str) -> Option<Self> {
        let (_, digits) = agent.rsplit_once(' ')?;
        (digits.len() == DIGITS).then(|| u64::from_str_radix(digits, 16).ok().map(Self))?
    }
}

#[cfg(test)]
impl Instance {
    pub(in crate::net) const fn numbered(number: u64) -> Self {
        Self(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_instance_is_read_from_the_name_that_it_tells() {
        let instance = Instance::draw().unwrap();
        assert_eq!(Instance::read(&instance.of("echo-node/0.1.0")), Some(instance));
        for other in ["echo-node/0.1.0", "", "echo-node/0.1.0 beta", "rust-libp2p 0123456789abcdeg"] {
            assert_eq!(Instance::read(other), None, "{other}");
        }
    }
}
