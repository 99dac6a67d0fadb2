//! The kinds of attacks.

use clap::ValueEnum;

/// What all attackers of a course do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AttackKind {
    /// 60 keys send heartbeats that promise to relay, and do nothing else.
    Heartbeats,
    /// 512 TCP connections say nothing.
    Silent,
    /// 1,200 keys connect, and stay.
    Connections,
    /// Keys take orders, and keep them, give them back or deliver what is too old.
    Droppers,
    /// Frames full of metadata, and answers that are long to judge.
    Omega,
    /// Noise on the topic of manifests.
    Gossip,
    /// Heartbeats that name addresses of others.
    Addresses,
    /// Members with 700 accepted groups lie about single trajectories.
    Sleepers,
}

impl AttackKind {
    /// Its name on the command line and in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Heartbeats => "heartbeats",
            Self::Silent => "silent",
            Self::Connections => "connections",
            Self::Droppers => "droppers",
            Self::Omega => "omega",
            Self::Gossip => "gossip",
            Self::Addresses => "addresses",
            Self::Sleepers => "sleepers",
        }
    }

    /// What attackers do, in a sentence.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Heartbeats => "60 keys promise to relay in heartbeats, and do nothing",
            Self::Silent => "512 TCP connections say nothing to the learner",
            Self::Connections => "1,200 keys connect to the learner, and stay",
            Self::Droppers => "15 keys take orders and keep them, give them back or deliver what is too old",
            Self::Omega => "6 keys send frames of 6.5 MB of metadata, and answers that are long to judge",
            Self::Gossip => "4 keys send noise on the topic of manifests to everybody",
            Self::Addresses => "8 keys name addresses of somebody else in heartbeats",
            Self::Sleepers => "2 members lie about single trajectories after 700 accepted groups each",
        }
    }
}
