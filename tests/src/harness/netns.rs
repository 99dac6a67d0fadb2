//! Hosts that do not exist: network namespaces joined by one bridge, each behind links of a given speed.
//!
//! Every host has one interface, `e0`. A token bucket (`tc tbf`) on it limits what the host sends,
//! one on the bridge's end of the same cable limits what it receives; behind each is a queue of
//! [`QUEUE_MS`], as a home router has one. A host may also sit behind a router of its own that
//! masquerades it (nftables), so that nobody can dial it. The bridge lies in a namespace too:
//! nothing is added to the machine's own network, and removing the namespaces removes everything.
//!
//! All names carry the number of a [slot](slot) that is locked while its lab lives. The
//! lock dies with its process, however that ends, so whoever takes a slot may remove what
//! is found under its name.

mod congestion;
mod copy;
mod counters;
mod enter;
mod error;
mod slot;
mod tools;

pub use congestion::congestion;
pub use copy::Copied;
pub use counters::Counters;
pub use error::NetnsError;

use counters::CounterFile;
use echo_protocol::wire::rate::BytesPerSec;
use slot::NamespaceSlot;
use std::ffi::OsStr;
use std::net::Ipv4Addr;
use std::process::Command;
use tools::{ip, nft, tc};

/// Most hosts: addresses are counted in the last two bytes, and the kernel's table of neighbours is
/// shared by all namespaces.
pub const MAX_HOSTS: usize = 250;
/// What a full queue in front of a link holds, in milliseconds of the link's rate.
pub const QUEUE_MS: u32 = 50;
/// What may leave at once: two of the 64 KiB packets that the kernel makes for TCP, or a link could
/// not pass them whole.
pub const BURST_BYTES: u32 = 128 << 10;

/// The first two bytes of every address on the bridge.
const NETWORK: [u8; 2] = [10, 77];
/// Addresses of a masqueraded host and of its router's inner side; the same behind every router,
/// as in real homes.
const INNER: [Ipv4Addr; 2] = [Ipv4Addr::new(192, 168, 1, 2), Ipv4Addr::new(192, 168, 1, 1)];

/// How a host is connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostLink {
    /// What it may send; unlimited if `None`.
    pub up: Option<BytesPerSec>,
    /// What it may receive; unlimited if `None`.
    pub down: Option<BytesPerSec>,
    /// Nothing holds the host to these rates but its programs. Its packets then pass one by one, so
    /// that each is counted with its headers.
    pub unlimited: bool,
    /// Whether it sits behind a masquerading router.
    pub nat: bool,
}

/// Hosts on a bridge. Dropped, everything is removed; processes must have ended before.
#[derive(Debug)]
pub struct Fabric {
    hosts: Vec<Host>,
    slot: NamespaceSlot,
}

#[derive(Debug)]
struct Host {
    name: String,
    link: HostLink,
    address: Ipv4Addr,
    counters: CounterFile,
}

/// Why namespaces cannot be used here, if they cannot; with what to do about it.
#[must_use]
pub fn obstacle(nat: bool) -> Option<NetnsError> {
    tools::obstacle(nat)
}

impl Fabric {
    /// Builds hosts with these links, in this order.
    ///
    /// # Errors
    /// [`NetnsError`]; what was built until then is removed.
    pub fn create(links: &[HostLink]) -> Result<Self, NetnsError> {
        if let Some(obstacle) = obstacle(links.iter().any(|link| link.nat)) {
            return Err(obstacle);
        }
        if links.len() > MAX_HOSTS {
            return Err(NetnsError::TooMany(links.len()));
        }
        let mut fabric = Self { hosts: Vec::new(), slot: NamespaceSlot::take()? };
        let bridge = fabric.bridge();
        ip(&format!("netns add {bridge}"))?;
        ip(&format!("-n {bridge} link add br0 type bridge"))?;
        ip(&format!("-n {bridge} link set br0 up"))?;
        enter::enter(&bridge, spare_filters)?;
        for link in links {
            fabric.add(*link)?;
        }
        Ok(fabric)
    }

    /// The number of hosts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Whether there are no hosts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// The address of a host on its own interface: behind a router, others cannot reach it.
    #[must_use]
    pub fn address(&self, host: usize) -> Ipv4Addr {
        self.hosts[host].address
    }

    /// How a host is connected.
    #[must_use]
    pub fn link(&self, host: usize) -> HostLink {
        self.hosts[host].link
    }

    /// A call of `program` on a host. The process that is started becomes the program, with the same id.
    #[must_use]
    pub fn command(&self, host: usize, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.hosts[host].name]).arg(program);
        command
    }

    /// Changes what a host may send, at once; packets in its queue are kept.
    ///
    /// # Errors
    /// [`NetnsError::Tool`] when `tc` fails.
    pub fn set_up(&mut self, host: usize, rate: BytesPerSec) -> Result<(), NetnsError> {
        let Host { name, link, .. } = &mut self.hosts[host];
        let verb = if link.up.is_some() { "change" } else { "add" };
        tc(&format!("-n {name} qdisc {verb} dev e0 root {}", bucket(rate)))?;
        link.up = Some(rate);
        Ok(())
    }

    /// Has the TCP of all hosts use this congestion control from now on, such as `cubic` or `bbr`.
    ///
    /// # Errors
    /// [`NetnsError::Congestion`] if the kernel does not have it.
    pub fn set_congestion(&self, name: &str) -> Result<(), NetnsError> {
        for host in &self.hosts {
            enter::enter(&host.name, || congestion::set(name))?.map_err(|source| NetnsError::Congestion {
                name: name.to_owned(),
                available: congestion::available(),
                source,
            })?;
        }
        Ok(())
    }

    /// What has passed a host's interface since it was made.
    ///
    /// # Errors
    /// [`NetnsError::Counters`] when the kernel does not give them.
    pub fn counters(&self, host: usize) -> Result<Counters, NetnsError> {
        self.hosts[host].counters.read()
    }

    /// Runs `work` on a thread whose sockets belong to a host.
    ///
    /// # Errors
    /// [`NetnsError::Enter`] when the thread cannot go there.
    pub fn enter<T: Send>(&self, host: usize, work: impl FnOnce() -> T + Send) -> Result<T, NetnsError> {
        enter::enter(&self.hosts[host].name, work)
    }

    fn bridge(&self) -> String {
        format!("{}sw", self.slot.prefix())
    }

    fn add(&mut self, link: HostLink) -> Result<(), NetnsError> {
        let (index, bridge, prefix) = (self.hosts.len(), self.bridge(), self.slot.prefix());
        let name = format!("{prefix}{index}");
        let [high, low] = u16::try_from(index + 1).unwrap_or(u16::MAX).to_be_bytes();
        let outer = Ipv4Addr::new(NETWORK[0], NETWORK[1], high, low);
        ip(&format!("netns add {name}"))?;
        let (outside, interface) = if link.nat {
            let router = format!("{prefix}{index}r");
            ip(&format!("netns add {router}"))?;
            (router, "wan")
        } else {
            (name.clone(), "e0")
        };
        ip(&format!("-n {bridge} link add v{index} type veth peer name {interface} netns {outside}"))?;
        ip(&format!("-n {bridge} link set v{index} master br0 up"))?;
        ip(&format!("-n {outside} addr add {outer}/16 dev {interface}"))?;
        ip(&format!("-n {outside} link set {interface} up"))?;
        if link.nat {
            masquerade(&outside, &name)?;
        }
        ip(&format!("-n {name} link set lo up"))?;
        if link.unlimited {
            ip(&format!("-n {name} link set dev e0 gso_max_segs 1"))?;
        }
        if let Some(rate) = link.up.filter(|_| !link.unlimited) {
            tc(&format!("-n {name} qdisc add dev e0 root {}", bucket(rate)))?;
        }
        if let Some(rate) = link.down.filter(|_| !link.unlimited) {
            tc(&format!("-n {bridge} qdisc add dev v{index} root {}", bucket(rate)))?;
        }
        let counters = enter::enter(&name, CounterFile::open)??;
        let address = if link.nat { INNER[0] } else { outer };
        self.hosts.push(Host { name, link, address, counters });
        Ok(())
    }
}

/// Where a machine has firewalls look into bridged packets, this bridge is left out: that costs
/// processor time and is not what is measured.
fn spare_filters() {
    for filter in ["iptables", "ip6tables", "arptables"] {
        // Without the kernel's module there is no such file, and nothing looks.
        let _ = std::fs::write(format!("/proc/sys/net/bridge/bridge-nf-call-{filter}"), "0");
    }
}

/// Puts a host behind a router that has its outer side already: only answers get in.
fn masquerade(router: &str, host: &str) -> Result<(), NetnsError> {
    ip(&format!("-n {router} link add lan type veth peer name e0 netns {host}"))?;
    ip(&format!("-n {router} addr add {}/24 dev lan", INNER[1]))?;
    ip(&format!("-n {router} link set lan up"))?;
    ip(&format!("-n {host} addr add {}/24 dev e0", INNER[0]))?;
    ip(&format!("-n {host} link set e0 up"))?;
    ip(&format!("-n {host} route add default via {}", INNER[1]))?;
    enter::enter(router, || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1"))?
        .map_err(|source| NetnsError::Forward { router: router.to_owned(), source })?;
    nft(router, RULES)
}

const RULES: &str = "
table ip home {
    chain out { type nat hook postrouting priority 100; oifname \"wan\" masquerade; }
    chain through {
        type filter hook forward priority 0; policy drop;
        iifname \"lan\" accept;
        ct state established,related accept;
    }
}
";

fn bucket(rate: BytesPerSec) -> String {
    // In tc's tongue `bps` are bytes per second.
    format!("tbf rate {}bps burst {BURST_BYTES} latency {QUEUE_MS}ms", rate.0)
}

#[cfg(test)]
mod tests;
