//! Where the processes of a race run: in namespaces with capped links, or, where there are
//! none, all on loopback.
//!
//! `links` says which host has which link. May import `options` beside it.
//!
//! ```text
//! options ──► links ──► Site::build ──► Namespaces (netns), or Loopback with a warning
//! Site::command(host, program) ──► a command in that host's namespace
//! Site::counters(host)         ──► bytes that have passed its interface
//! ```

pub(crate) mod links;

use super::options::Broadcast;
use super::site::links::{Links, SOURCE};
use crate::harness::netns::{Counters, Fabric, HostLink, NetnsError, congestion, obstacle};
use anyhow::bail;
use echo_protocol::wire::rate::BytesPerSec;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Command;

/// The port that Echo's programs use in a namespace.
const PORT: u16 = 4160;

/// A place for every host.
#[derive(Debug)]
pub(super) enum Site {
    /// Each host in a namespace of its own.
    Namespaces(Fabric),
    /// All hosts are this machine; programs keep their caps themselves.
    Loopback(Vec<HostLink>),
}

impl Site {
    /// Builds the hosts; falls back to loopback, and says why, where namespaces cannot be had.
    /// Fails when the namespaces cannot be built, or are needed for what was asked and not there.
    pub(super) fn build(broadcast: &Broadcast, links: &Links) -> anyhow::Result<Self> {
        let Some(obstacle) = obstacle(broadcast.nat > 0) else {
            let fabric = Fabric::create(&links.hosts)?;
            if let Some(name) = &broadcast.congestion {
                fabric.set_congestion(name)?;
            }
            return Ok(Self::Namespaces(fabric));
        };
        let needs = if broadcast.nat > 0 {
            "--nat"
        } else if broadcast.faults.slow.is_some() {
            "--slow"
        } else if broadcast.own_caps {
            "--own-caps"
        } else if broadcast.congestion.is_some() {
            "--congestion"
        } else if broadcast.modes.iter().any(|mode| !mode.is_echo()) {
            "outside systems (peer:)"
        } else {
            tracing::warn!("{obstacle}. Without namespaces, the programs keep their own caps on loopback");
            return Ok(Self::Loopback(links.hosts.clone()));
        };
        bail!("{needs}: only in network namespaces. {obstacle}")
    }

    /// Who keeps the caps, as the report says it: the links, or the programs.
    pub(super) fn caps(&self) -> &'static str {
        if self.limits() { "netns" } else { "process" }
    }

    /// Whether the links keep the caps.
    pub(super) fn limits(&self) -> bool {
        matches!(self, Self::Namespaces(fabric) if !fabric.link(SOURCE).unlimited)
    }

    /// The congestion control of the hosts' TCP, where the system says it.
    pub(super) fn congestion(&self) -> Option<String> {
        match self {
            Self::Namespaces(fabric) => fabric.enter(SOURCE, congestion).ok()?,
            Self::Loopback(_) => congestion(),
        }
    }

    /// A call of `program` on a host.
    pub(super) fn command(&self, host: usize, program: impl AsRef<Path>) -> Command {
        match self {
            Self::Namespaces(fabric) => fabric.command(host, program.as_ref()),
            Self::Loopback(_) => Command::new(program.as_ref()),
        }
    }

    /// The address of a host.
    pub(super) fn address(&self, host: usize) -> Ipv4Addr {
        match self {
            Self::Namespaces(fabric) => fabric.address(host),
            Self::Loopback(_) => Ipv4Addr::LOCALHOST,
        }
    }

    /// Where Echo's programs listen on a host.
    pub(super) fn listen(&self, host: usize) -> [String; 2] {
        let port = if matches!(self, Self::Namespaces(_)) { PORT } else { 0 };
        let address = self.address(host);
        [format!("/ip4/{address}/udp/{port}/quic-v1"), format!("/ip4/{address}/tcp/{port}")]
    }

    /// How a host is connected now.
    pub(super) fn link(&self, host: usize) -> HostLink {
        match self {
            Self::Namespaces(fabric) => fabric.link(host),
            Self::Loopback(links) => links[host],
        }
    }

    /// What has passed a host's interface; `None` where hosts have none of their own.
    /// Fails with [`NetnsError`] when the counters cannot be read.
    pub(super) fn counters(&self, host: usize) -> Result<Option<Counters>, NetnsError> {
        match self {
            Self::Namespaces(fabric) => fabric.counters(host).map(Some),
            Self::Loopback(_) => Ok(None),
        }
    }

    /// Multiplies what a host may send by `factor`, at once.
    /// Fails with [`NetnsError`] when `tc` does, or without namespaces.
    pub(super) fn slow_down(&mut self, host: usize, factor: f64) -> Result<(), NetnsError> {
        match self {
            Self::Namespaces(fabric) => match fabric.link(host).up {
                Some(BytesPerSec(rate)) => {
                    let slower = (rate as f64 * factor).round().max(1.0) as u64;
                    fabric.set_up(host, BytesPerSec(slower))
                }
                None => Ok(()),
            },
            // Refused when the site was built.
            Self::Loopback(_) => Err(NetnsError::NotLinux),
        }
    }
}
