//! What a broadcast is asked to be.

use anyhow::ensure;
use echo_protocol::wire::rate::{BytesPerSec, RateError};
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// Most nodes: beside them there are a source, a bootstrap node, and nodes that lie.
pub(super) const MAX_NODES: usize = 128;

/// A broadcast, or several that are compared.
#[derive(Clone, Debug)]
pub struct Broadcast {
    /// Honest nodes at the start; 1 to 128.
    pub nodes: usize,
    /// B0: what the source may send.
    pub uplink: BytesPerSec,
    /// What a node may send, where `uneven` does not say otherwise.
    pub node_up: BytesPerSec,
    /// What a node may receive.
    pub node_down: BytesPerSec,
    /// Nodes' uplinks are drawn between these, each magnitude equally likely.
    pub uneven: Option<Span>,
    /// The policies that are published, the timed one last.
    pub snapshots: RaceSnapshots,
    /// Who races; each in every round.
    pub modes: Vec<RaceMode>,
    /// Rounds, in each of which every mode races once.
    pub repeat: u32,
    /// What goes wrong in every race; nothing by default.
    pub faults: RaceFaults,
    /// Nodes that serve rotten blocks, beside the honest ones.
    pub rotten: usize,
    /// Nodes behind a masquerading router; the last ones.
    pub nat: usize,
    /// The congestion control of all hosts' TCP; if `None`, that of the system.
    pub congestion: Option<String>,
    /// Nothing but the programs keeps to the rates, and what they make of that is reported.
    pub own_caps: bool,
    /// Of everything that is drawn.
    pub seed: u64,
    /// Keep everything here; if `None`, a temporary directory is used and removed.
    pub dir: Option<PathBuf>,
    /// Build the programs first.
    pub build: bool,
    /// Show and report every node, not only sums.
    pub verbose: bool,
}

/// Where the policies that are published come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RaceSnapshots {
    /// Random weights of about a given size, made from the seed.
    Random {
        /// Size of the policy in bytes; the model's form allows it within a few per cent.
        bytes: u64,
        /// With `Some(v)`, versions up to `v` are on all nodes before, each a small update of the
        /// one before, and the one that is timed is a small update of `v`.
        delta_from: Option<u64>,
    },
    /// Policies as they are: the nodes hold the first when the second is published.
    Given {
        /// A Hugging Face directory.
        old: PathBuf,
        /// A later state of the same model.
        new: PathBuf,
    },
}

/// What goes wrong on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RaceFaults {
    /// This share of the nodes is killed at random moments; half of them come back.
    pub churn: f64,
    /// The uplink of a forwarder becomes slower.
    pub slow: Option<Slow>,
    /// A forwarder is killed: the i-th, counted from 1 by what they have sent until then.
    pub gone: Option<usize>,
}

/// A forwarder that becomes slower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slow {
    /// Which: the i-th, counted from 1 by what they have sent until then.
    pub forwarder: usize,
    /// What remains of its uplink.
    pub factor: f64,
}

/// A range of rates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The lowest rate that is drawn.
    pub low: BytesPerSec,
    /// The highest rate that is drawn.
    pub high: BytesPerSec,
}

/// A system that races, and how it disseminates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RaceMode {
    /// Echo with all it can do.
    Echo,
    /// Chains alone, as in ECHO-2 §4.2, without a mesh beside them.
    Chain,
    /// Everyone from the source.
    Star,
    /// A BitTorrent swarm (libtorrent), with words that change its settings.
    Libtorrent(Vec<String>),
    /// Plain HTTP from the source to everyone.
    Http,
}

/// A text that is no mode.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no mode; there are echo, chain, star, peer:http, and peer:libtorrent (also peer:libtorrent+utp, +super)"
)]
pub struct ModeError(String);

/// A text that does not say which forwarder becomes how slow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not FORWARDER:FACTOR, such as 1:0.5 (the first forwarder, half of its uplink)")]
pub struct SlowError(String);

/// A text that is no range of rates.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SpanError {
    /// The text is not two rates with a dash between them.
    #[error("{0:?} is not LOW-HIGH, such as 10mbit-100mbit")]
    Form(String),
    /// One of them is no rate.
    #[error(transparent)]
    Rate(#[from] RateError),
}

impl Broadcast {
    /// Checks what the command line cannot.
    /// Fails with what is wrong, and what to do.
    pub(super) fn validate(&self) -> anyhow::Result<()> {
        let faults = &self.faults;
        ensure!((1..=MAX_NODES).contains(&self.nodes), "--nodes: 1 to {MAX_NODES}");
        ensure!(self.nat <= self.nodes, "--nat {} is more than all {} nodes", self.nat, self.nodes);
        ensure!((0.0..1.0).contains(&faults.churn), "--churn is a share: 0 or more, less than 1");
        let forwarders = faults.slow.map(|slow| slow.forwarder).into_iter().chain(faults.gone);
        for forwarder in forwarders {
            ensure!(
                (1..=self.nodes).contains(&forwarder),
                "forwarder {forwarder} is none of 1 to {}",
                self.nodes
            );
        }
        ensure!(
            faults.churn == 0.0 || faults.slow.is_none() && faults.gone.is_none(),
            "--churn hides what --slow and --gone measure: give one of them"
        );
        ensure!(self.repeat > 0, "--repeat: 1 or more");
        ensure!(
            self.rotten == 0 || self.modes.iter().all(RaceMode::is_echo),
            "--rotten: liars speak Echo's protocol only"
        );
        ensure!(
            !self.own_caps
                || faults.slow.is_none() && self.rotten == 0 && self.modes.iter().all(RaceMode::is_echo),
            "--own-caps: no link can become slower (--slow), and neither liars (--rotten) nor outside systems (peer:) keep caps"
        );
        Ok(())
    }

    /// Whether what the races write is kept.
    pub(super) fn keeps(&self) -> bool {
        self.dir.is_some()
    }
}

impl RaceMode {
    /// Whether it is Echo that races.
    #[must_use]
    pub fn is_echo(&self) -> bool {
        matches!(self, Self::Echo | Self::Chain | Self::Star)
    }
}

impl FromStr for RaceMode {
    type Err = ModeError;

    fn from_str(text: &str) -> Result<Self, ModeError> {
        let mut words = text.split('+');
        let mode = match words.next() {
            Some("echo") => Self::Echo,
            Some("chain") => Self::Chain,
            Some("star") => Self::Star,
            Some("peer:http") => Self::Http,
            Some("peer:libtorrent") => {
                let words: Vec<String> = words.by_ref().map(str::to_owned).collect();
                if words.iter().any(|word| !matches!(word.as_str(), "utp" | "super")) {
                    return Err(ModeError(text.to_owned()));
                }
                Self::Libtorrent(words)
            }
            _ => return Err(ModeError(text.to_owned())),
        };
        if words.next().is_some() { Err(ModeError(text.to_owned())) } else { Ok(mode) }
    }
}

impl fmt::Display for RaceMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Echo => f.write_str("echo"),
            Self::Chain => f.write_str("chain"),
            Self::Star => f.write_str("star"),
            Self::Http => f.write_str("peer:http"),
            Self::Libtorrent(words) => {
                f.write_str("peer:libtorrent")?;
                words.iter().try_for_each(|word| write!(f, "+{word}"))
            }
        }
    }
}

impl FromStr for Slow {
    type Err = SlowError;

    fn from_str(text: &str) -> Result<Self, SlowError> {
        let read = || {
            let (forwarder, factor) = text.split_once(':')?;
            let slow = Self { forwarder: forwarder.parse().ok()?, factor: factor.parse().ok()? };
            (slow.factor > 0.0 && slow.factor <= 1.0).then_some(slow)
        };
        read().ok_or_else(|| SlowError(text.to_owned()))
    }
}

impl FromStr for Span {
    type Err = SpanError;

    fn from_str(text: &str) -> Result<Self, SpanError> {
        let (low, high) = text.split_once('-').ok_or_else(|| SpanError::Form(text.to_owned()))?;
        let span = Self { low: low.parse()?, high: high.parse()? };
        if span.low <= span.high { Ok(span) } else { Err(SpanError::Form(text.to_owned())) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_are_read_as_they_are_shown() {
        for text in ["echo", "chain", "star", "peer:http", "peer:libtorrent", "peer:libtorrent+utp+super"] {
            assert_eq!(text.parse::<RaceMode>().unwrap().to_string(), text);
        }
        for text in ["", "Echo", "peer:", "echo+utp", "peer:libtorrent+fast"] {
            assert!(text.parse::<RaceMode>().is_err(), "{text}");
        }
    }

    #[test]
    fn slow_and_uneven_say_what_they_want() {
        assert_eq!("1:0.5".parse(), Ok(Slow { forwarder: 1, factor: 0.5 }));
        for text in ["1", "1:0", "1:2", "a:0.5"] {
            assert!(text.parse::<Slow>().unwrap_err().to_string().contains("1:0.5"));
        }
        let span: Span = "10mbit-100mbit".parse().unwrap();
        assert_eq!((span.low, span.high), (BytesPerSec(1_250_000), BytesPerSec(12_500_000)));
        assert!("100mbit-10mbit".parse::<Span>().is_err());
    }
}
