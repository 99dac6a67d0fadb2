//! The seed that a work order gives to its task.

use echo_protocol::wire::rng::Draws;

/// The 32 bytes that a work order gives to its task. Everything random about a prompt comes from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TaskSeed(pub [u8; 32]);

impl TaskSeed {
    /// Starts the seed's stream of draws from its beginning.
    pub fn draws(self) -> Draws {
        Draws::new(self.0)
    }
}
