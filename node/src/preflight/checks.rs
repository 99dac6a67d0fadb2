//! The single checks.

use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener, UdpSocket};

use echo_policy::generation::DeviceChoice;
use echo_policy::generation::device::Survey;
use echo_protocol::net::{AddrProtocol, Multiaddr, dialable};
use echo_protocol::program::keyfile;
use echo_protocol::run::charter::Charter;
use echo_protocol::run::peer_list::PeerList;
use echo_protocol::wire::identity::NodeKey;
use echo_protocol::wire::time::UnixMillis;
use echo_sandbox::tasks::registry;

use super::needs::RunNeeds;
use super::{MIN_FREE_BYTES, OTHER_THREADS, Problem, TargetRun};
use crate::devices::precision;
use crate::settings::range::{cores, within};
use crate::settings::{MAX_ORDERS, MIN_ORDERS, Settings};
use crate::state::charter_file;
use crate::state::data_dir::DataDir;
use crate::state::trusted_list;
use crate::state::trusted_list::OpenedList;

pub(super) fn ranges(settings: &Settings, problems: &mut Vec<Problem>) {
    let orders = u64::from(MIN_ORDERS)..=u64::from(MAX_ORDERS);
    let found = [
        settings.check_threads(),
        within("max_orders", u64::from(settings.max_orders), orders),
        within("status_every_s", settings.status_every_s, 1..=24 * 3600),
    ];
    problems.extend(found.into_iter().filter_map(Result::err).map(Problem::Range));
    if settings.roles.is_empty() {
        problems.push(Problem::NoRole);
    }
    problems.extend(settings.log_filter().err().map(|cause| Problem::log(settings, cause)));
    let rates = [("max_upload", settings.max_upload), ("max_download", settings.max_download)];
    let low = rates.into_iter().filter_map(|(setting, rate)| rate?.check_cap(setting).err());
    problems.extend(low.map(Problem::Rate));
}

/// How many threads a node needs beside the one that it starts with.
pub(super) fn needed_threads(settings: &Settings) -> usize {
    OTHER_THREADS + settings.threads.min(cores())
}

/// Whether there is room for as many threads; `startable` says for how many of them. One that is missing
/// later ends the program, or has it wait for ever.
pub(super) fn room_for_threads(needed: usize, startable: impl FnOnce(usize) -> usize) -> Result<(), Problem> {
    let found = startable(needed);
    if found < needed { Err(Problem::Threads { found, needed }) } else { Ok(()) }
}

pub(super) fn disk(data: &DataDir) -> Result<(), Problem> {
    let path = data.path().to_owned();
    match fs4::available_space(&path) {
        Ok(free) if free < MIN_FREE_BYTES => Err(Problem::Disk { path, free_mib: free >> 20 }),
        Ok(_) => Ok(()),
        Err(source) => Err(Problem::DiskUnknown { path, source }),
    }
}

pub(super) fn identity(data: &DataDir) -> Result<NodeKey, Problem> {
    let path = data.identity();
    let key = keyfile::load_or_create(&path)?;
    keyfile::check_private(&path)?;
    Ok(key)
}

pub(super) fn list(settings: &Settings, data: &DataDir, now: UnixMillis) -> Result<OpenedList, Problem> {
    Ok(trusted_list::open_list(data, settings.peers.as_deref(), settings.list_key.as_deref(), now)?)
}

pub(super) fn bootstraps(list: &PeerList) -> Vec<Multiaddr> {
    let parsed = list.peers.iter().filter_map(|text| text.parse::<Multiaddr>().ok());
    let names_peer = |a: &Multiaddr| matches!(a.iter().last(), Some(AddrProtocol::P2p(_)));
    parsed.filter(|address| dialable(address) && names_peer(address)).collect()
}

/// Whether names can be resolved, where the list has nothing else.
pub(super) fn resolver(
    bootstraps: &[Multiaddr],
    check: impl FnOnce() -> io::Result<()>,
) -> Result<(), Problem> {
    let is_ip = |a: &Multiaddr| matches!(a.iter().next(), Some(AddrProtocol::Ip4(_) | AddrProtocol::Ip6(_)));
    if bootstraps.is_empty() || bootstraps.iter().any(is_ip) {
        return Ok(());
    }
    check().map_err(Problem::NoResolver)
}

pub(super) fn target(settings: &Settings, list: &PeerList) -> Result<TargetRun, Problem> {
    let runs: Vec<TargetRun> =
        list.learners().map(|(name, learner)| TargetRun { name: name.to_owned(), learner }).collect();
    let named: Vec<String> = runs.iter().map(|run| format!("{} ({})", run.name, run.learner)).collect();
    let available = match named.as_slice() {
        [] => "ask the list's keeper for one that lists a run".to_owned(),
        _ => format!("choose one with --run: {}", named.join(", ")),
    };
    let problem = |what: String| Problem::Run { what, available };
    let Some(wanted) = &settings.run else {
        return match <[TargetRun; 1]>::try_from(runs) {
            Ok([run]) => Ok(run),
            Err(runs) => Err(problem(format!("the peer list has {} runs", runs.len()))),
        };
    };
    let mut matching = runs.into_iter().filter(|r| r.name == *wanted || r.learner.to_string() == *wanted);
    match (matching.next(), matching.next()) {
        (Some(run), None) => Ok(run),
        (None, _) => Err(problem(format!("the peer list has no run {wanted:?}"))),
        (Some(_), Some(_)) => Err(problem(format!("the peer list has several runs named {wanted:?}"))),
    }
}

/// The run's charter, where it is known from an earlier start. A run that is new to this node is
/// looked at when it is joined.
pub(super) fn kept_charter(data: &DataDir, target: &TargetRun) -> Option<Charter> {
    let kept = charter_file::kept_charter(data, &target.learner)?;
    Charter::open(&kept).ok().map(|(_, charter)| charter)
}

/// What the run asks of this machine and of its owner's choices.
pub(super) fn charter(settings: &Settings, charter: &Charter) -> Vec<Problem> {
    let lacking = charter.tasks.iter().try_for_each(registry::check_machine).err().map(Problem::Machine);
    let not_taken = precision::choose(&charter.precisions, settings.precision).err().map(Problem::Precision);
    lacking.into_iter().chain(not_taken).collect()
}

/// Whether the run fits into what its owner gives it of the disk.
pub(super) fn cap(settings: &Settings, charter: &Charter) -> Option<Problem> {
    RunNeeds::of(charter, settings).and_then(|needs| needs.check(settings).err()).map(Problem::Cap)
}

/// Whether the device is there that the owner asks for. Where the run is not known yet, it may turn
/// out to be computed in what that cannot.
pub(super) fn device(settings: &Settings, charter: Option<&Charter>) -> Result<(), Problem> {
    if matches!(settings.device, DeviceChoice::Auto | DeviceChoice::Cpu) {
        return Ok(());
    }
    let chosen = charter.and_then(|charter| precision::choose(&charter.precisions, settings.precision).ok());
    let precision = chosen.or(settings.precision).unwrap_or_default();
    Survey::take().candidates(&settings.device, precision)?;
    Ok(())
}

pub(super) fn listen(addresses: &[String], problems: &mut Vec<Problem>) -> Vec<Multiaddr> {
    let mut parsed = Vec::new();
    for text in addresses {
        let checked = text.parse::<Multiaddr>().map_err(|e| e.to_string()).and_then(|address| {
            bindable(&address)?;
            Ok(address)
        });
        match checked {
            Ok(address) => parsed.push(address),
            Err(cause) => problems.push(Problem::Listen { address: text.clone(), cause }),
        }
    }
    if addresses.is_empty() {
        let cause = "no address is given, but other nodes receive snapshots from this one".to_owned();
        problems.push(Problem::Listen { address: "nowhere".to_owned(), cause });
    }
    parsed
}

/// Binds the address for a moment.
fn bindable(address: &Multiaddr) -> Result<(), String> {
    let parts: Vec<AddrProtocol<'_>> = address.iter().collect();
    let (ip, rest) = match parts.split_first() {
        Some((AddrProtocol::Ip4(ip), rest)) => (IpAddr::V4(*ip), rest),
        Some((AddrProtocol::Ip6(ip), rest)) => (IpAddr::V6(*ip), rest),
        _ => return Err("it must begin with /ip4/… or /ip6/…".to_owned()),
    };
    let bound = match rest {
        [AddrProtocol::Tcp(port)] => TcpListener::bind(SocketAddr::new(ip, *port)).map(drop),
        [AddrProtocol::Udp(port), AddrProtocol::QuicV1] => {
            UdpSocket::bind(SocketAddr::new(ip, *port)).map(drop)
        }
        _ => return Err("it must end in /tcp/PORT or /udp/PORT/quic-v1".to_owned()),
    };
    bound.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => "another program listens there".to_owned(),
        io::ErrorKind::PermissionDenied => "this user may not use that port".to_owned(),
        io::ErrorKind::AddrNotAvailable => "this machine does not have that IP address".to_owned(),
        _ => error.to_string(),
    })
}
