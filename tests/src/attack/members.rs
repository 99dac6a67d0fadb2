//! The members of a run that live in the lab's process: one that is honest, and those that are not.

use super::account::AttackAccount;
use super::attackers::colluder::Colluder;
use super::attackers::impostor::Impostor;
use super::attackers::{flood, slow_loris};
use super::shared_state::SharedState;
use super::snapshots::LoadedSnapshots;
use super::{honest_member, volunteer_observer};
use crate::harness::network::TestNetwork;
use echo_learner::storage::run_dir::RunDir;
use echo_protocol::wire::identity::PublicKey;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// Which members the lab adds to a network, and what they do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cast {
    /// Members that send false groups, one kind of lie after the other.
    pub liars: usize,
    /// The pause between two lies of one liar.
    pub pace: Duration,
    /// Honest groups that every third liar delivers under each of its keys before it lies.
    pub honest_first: u32,
    /// Verifiers that vouch for the liars' groups and denounce those of others.
    pub colluders: usize,
    /// Whether there are floods.
    pub floods: bool,
    /// Peers that hold streams open and trickle bytes.
    pub lorises: usize,
}

impl Cast {
    /// Only the honest member takes part: the course that others are compared with.
    pub const HONEST: Self = Self {
        liars: 0,
        pace: Duration::from_secs(1),
        honest_first: 0,
        colluders: 0,
        floods: false,
        lorises: 0,
    };
}

/// Members at work. Dropped, they stop.
pub struct Gang {
    shared: Arc<SharedState>,
    tasks: JoinSet<()>,
}

impl Gang {
    /// Joins a network that is starting, within a tokio runtime of several threads.
    #[must_use]
    pub fn gather(network: &TestNetwork, cast: Cast) -> Self {
        let layout = network.layout();
        let snapshots = LoadedSnapshots::new(&RunDir::new(&layout.run_dir()));
        let shared = Arc::new(SharedState::new(layout.list(), snapshots));
        let mut tasks = JoinSet::new();
        tasks.spawn(honest_member::live(shared.clone()));
        tasks.spawn(volunteer_observer::live(shared.clone(), layout.clone(), network.node_names()));
        for number in 0..cast.liars {
            let (shared, pace, honest_first) = (shared.clone(), cast.pace, cast.honest_first);
            tasks.spawn(Impostor { shared, number, pace, honest_first }.live());
        }
        for number in 0..cast.colluders {
            tasks.spawn(Colluder { shared: shared.clone(), number }.live());
        }
        if cast.floods {
            tasks.spawn(flood::live(shared.clone()));
        }
        for number in 0..cast.lorises {
            tasks.spawn(slow_loris::live(shared.clone(), number));
        }
        Self { shared, tasks }
    }

    /// The key of the honest one.
    #[must_use]
    pub fn honest_key() -> PublicKey {
        honest_member::key()
    }

    /// The account so far.
    #[must_use]
    pub fn account(&self) -> AttackAccount {
        self.shared.account().clone()
    }

    /// Stops everybody, and returns the account.
    pub async fn disband(mut self) -> AttackAccount {
        self.tasks.abort_all();
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
        self.account()
    }
}
