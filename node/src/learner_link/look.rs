//! A look at the network before a node joins: who of the list answers, and what the run needs.

use std::collections::BTreeMap;
use std::time::Duration;

use echo_protocol::net::{AddrProtocol, Host, HostConfig, Multiaddr, NetError, PeerId};
use echo_protocol::run::charter::Charter;
use echo_protocol::run::version::PolicyVersion;
use futures::future::{join, join_all};
use serde::Serialize;
use tokio::time::timeout;

use crate::learner_link::client::LearnerClient;
use crate::learner_link::discovery::{Discovery, FIRST_PAUSE};
use crate::preflight::Ready;
use crate::preflight::needs::{RunNeeds, available_memory};
use crate::settings::Settings;
use crate::state::charter_file::opens;

/// How long the look takes at most.
pub const LOOK_WITHIN: Duration = Duration::from_secs(10);
/// How often the learner is looked for: peers need a moment after the first connection to tell of others.
const ATTEMPTS: usize = 4;
/// Most characters of a reason. Those of the network list every address with every layer.
const MAX_REASON: usize = 160;

/// A peer of the list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LookedAt {
    /// Its first address.
    pub address: String,
    /// Why it does not answer; `None` where it does.
    pub problem: Option<String>,
}

/// The run as its learner describes it now.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OnlineRun {
    /// The newest version of the policy; `None` before the first.
    pub version: Option<PolicyVersion>,
    /// What the run takes of this machine; `None` where this program does not know its model.
    pub needs: Option<RunNeeds>,
    /// Bytes that are free on the data directory's disk.
    pub free_disk_bytes: Option<u64>,
    /// Bytes of memory that are free; `None` where the system does not say.
    pub free_memory_bytes: Option<u64>,
}

/// What was seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct NetworkLook {
    /// The peers of the list.
    pub peers: Vec<LookedAt>,
    /// The run; `None` where the learner was not reached.
    pub run: Option<OnlineRun>,
    /// Why the learner was not reached.
    pub learner_problem: Option<String>,
    /// Whether the run does not fit into the owner's limits, or onto the disk.
    pub run_problem: Option<String>,
}

/// Looks at the network with a host of its own that listens nowhere, for at most [`LOOK_WITHIN`].
///
/// # Errors
/// [`NetError`] when no host can be started here.
pub async fn look(ready: &Ready, settings: &Settings, agent: &str) -> Result<NetworkLook, NetError> {
    let (host, _events) = Host::start(HostConfig::client(ready.identity.secret(), agent)).await?;
    let asked = timeout(LOOK_WITHIN, learner(&host, ready));
    let (peers, asked) = join(listed(&host, &ready.bootstraps), asked).await;
    host.shutdown().await;
    let asked = asked.unwrap_or_else(|_| Err(no_answer()));
    let (run, learner_problem) = match asked {
        Ok((charter, version)) => (Some(online(ready, settings, &charter, version)), None),
        Err(problem) => (None, Some(problem)),
    };
    let run_problem = run.as_ref().and_then(|run| problem(run, settings));
    Ok(NetworkLook { peers, run, learner_problem, run_problem })
}

fn no_answer() -> String {
    format!("no answer within {} s", LOOK_WITHIN.as_secs())
}

/// Dials every peer of the list, all at once.
async fn listed(host: &Host, addresses: &[Multiaddr]) -> Vec<LookedAt> {
    let mut by_peer: BTreeMap<PeerId, Vec<Multiaddr>> = BTreeMap::new();
    for address in addresses {
        if let Some(AddrProtocol::P2p(peer)) = address.iter().last() {
            by_peer.entry(peer).or_default().push(address.clone());
        }
    }
    let dials = by_peer.into_iter().map(|(peer, addresses)| async move {
        let address = addresses.first().map(Multiaddr::to_string).unwrap_or_default();
        let problem = match timeout(LOOK_WITHIN, host.dial(peer, addresses)).await {
            Ok(Ok(())) => None,
            Ok(Err(error)) => Some(short(&error.to_string())),
            Err(_) => Some(no_answer()),
        };
        LookedAt { address, problem }
    });
    join_all(dials).await
}

/// The run's charter and newest version, from the learner itself.
async fn learner(host: &Host, ready: &Ready) -> Result<(Charter, Option<PolicyVersion>), String> {
    let discovery = Discovery::new(host.clone(), ready.learner, &ready.bootstraps, ready.data.known_peers());
    let mut reached = discovery.attempt().await;
    for _ in 1..ATTEMPTS {
        if reached.is_ok() {
            break;
        }
        tokio::time::sleep(FIRST_PAUSE).await;
        reached = discovery.attempt().await;
    }
    reached.map_err(|error| error.advice().to_owned())?;
    let client = LearnerClient::new(host.clone(), ready.learner);
    let signed = client.charter().await.map_err(|error| short(&error.to_string()))?;
    if !opens(&signed, &ready.target.learner) {
        return Err("its charter makes no sense; its operator has to mend it".to_owned());
    }
    let (_, charter) = Charter::open(&signed).map_err(|error| error.to_string())?;
    let newest = client.newest_manifest().await.map_err(|error| short(&error.to_string()))?;
    let version = newest.and_then(|signed| signed.open_from(&ready.target.learner).ok());
    Ok((charter, version.map(|manifest| manifest.version)))
}

fn online(
    ready: &Ready,
    settings: &Settings,
    charter: &Charter,
    version: Option<PolicyVersion>,
) -> OnlineRun {
    OnlineRun {
        version,
        needs: RunNeeds::of(charter, settings),
        free_disk_bytes: fs4::available_space(ready.data.path()).ok(),
        free_memory_bytes: available_memory(),
    }
}

/// What keeps this machine from the run, if anything does.
fn problem(run: &OnlineRun, settings: &Settings) -> Option<String> {
    let needs = run.needs.as_ref()?;
    if let Err(over) = needs.check(settings) {
        return Some(over.to_string());
    }
    // One version as it is received, and the same once more as weights.
    let least = needs.policy_bytes.saturating_mul(2);
    run.free_disk_bytes.filter(|free| *free < least).map(|free| {
        format!(
            "the run needs at least {} of disk, and {} are free; free some, or choose another --data-dir",
            amount(least),
            amount(free)
        )
    })
}

/// One line, and not too long.
fn short(reason: &str) -> String {
    let line = reason.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(MAX_REASON) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

/// About so many bytes, for people.
fn amount(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} kB", bytes / 1_000),
        1_000_000..1_000_000_000 => format!("{} MB", bytes / 1_000_000),
        _ => format!("{:.1} GB", bytes as f64 / 1e9),
    }
}

impl NetworkLook {
    /// Everything that keeps this node from joining now, each with its mend.
    pub fn problems(&self) -> Vec<String> {
        let silent: Vec<String> = self
            .peers
            .iter()
            .filter_map(|peer| Some(format!("{}: {}", peer.address, peer.problem.as_ref()?)))
            .collect();
        let nobody = (silent.len() == self.peers.len() && self.run.is_none()).then(|| {
            format!(
                "nobody of the peer list answers: look at this machine's firewall (UDP and TCP outwards), ask the list's keeper for a newer \
                 one, or check the rest with --offline\n     {}",
                silent.join("\n     ")
            )
        });
        nobody.into_iter().chain(self.run_problem.clone()).collect()
    }

    /// What was seen, line by line.
    pub fn lines(&self) -> Vec<String> {
        let answering = self.peers.iter().filter(|peer| peer.problem.is_none()).count();
        let mut lines = vec![format!("network: {answering} of {} listed peers answer", self.peers.len())];
        lines.extend(
            self.peers
                .iter()
                .filter_map(|peer| Some(format!("  - {}: {}", peer.address, peer.problem.as_ref()?))),
        );
        match (&self.run, &self.learner_problem) {
            (Some(run), _) => lines.extend(run.lines()),
            (None, Some(why)) => lines.push(format!("learner: {why}; a node that is started waits for it")),
            (None, None) => {}
        }
        lines
    }
}

impl OnlineRun {
    fn lines(&self) -> Vec<String> {
        let version = self.version.map_or_else(|| "nothing published yet".to_owned(), |v| v.to_string());
        let Some(needs) = self.needs else {
            return vec![format!("run: online, {version}, of a model that this echo-node does not know")];
        };
        let free = |bytes: Option<u64>| bytes.map_or_else(|| "unknown".to_owned(), amount);
        let mut lines = vec![format!("run: online, {version}, {} a version", amount(needs.policy_bytes))];
        for (what, needed, there) in [
            ("disk", needs.disk_bytes, self.free_disk_bytes),
            ("memory", needs.memory_bytes, self.free_memory_bytes),
        ] {
            let is_short = there.is_some_and(|there| there < needed);
            let mend = match what {
                _ if !is_short => "",
                "disk" => "; free some before it fills up",
                _ => "; generating will be slow: close other programs, or pass policies on with --role relay",
            };
            lines.push(format!("  {what}: up to {}, {} free{mend}", amount(needed), free(there)));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Size;

    fn looked(address: &str, problem: Option<&str>) -> LookedAt {
        LookedAt { address: address.into(), problem: problem.map(str::to_owned) }
    }

    fn run(policy_bytes: u64, free: u64) -> OnlineRun {
        let needs = RunNeeds { policy_bytes, disk_bytes: 7 * policy_bytes, memory_bytes: 2 * policy_bytes };
        let version = Some(PolicyVersion(12));
        OnlineRun { version, needs: Some(needs), free_disk_bytes: Some(free), free_memory_bytes: Some(free) }
    }

    #[test]
    fn nobody_who_answers_is_a_problem_and_a_learner_that_is_not_there_yet_is_none() {
        let learner_problem = Some("the learner is not there yet".to_owned());
        let peers = vec![looked("/ip4/1.1.1.1/tcp/1", Some("refused")), looked("/ip4/2.2.2.2/tcp/1", None)];
        let some = NetworkLook { peers, run: None, learner_problem, run_problem: None };
        assert!(some.problems().is_empty());
        let text = some.lines().join("\n");
        assert!(
            text.contains("1 of 2 listed peers answer") && text.contains("1.1.1.1/tcp/1: refused"),
            "{text}"
        );
        assert!(text.contains("not there yet; a node that is started waits"), "{text}");
        let peers = some.peers[..1].to_vec();
        let none = NetworkLook { peers, ..some }.problems().join("");
        assert!(
            none.contains("firewall") && none.contains("--offline") && none.contains("refused"),
            "{none}"
        );
    }

    #[test]
    fn what_the_run_needs_is_compared_with_what_is_free() {
        let roomy = run(1_200_000_000, 50_000_000_000);
        assert_eq!(problem(&roomy, &Settings::default()), None);
        let lines = roomy.lines().join("\n");
        assert!(lines.contains("online, v12, 1.2 GB a version"), "{lines}");
        assert!(lines.contains("memory: up to 2.4 GB, 50.0 GB free") && !lines.contains("slow"), "{lines}");
        let tight = run(1_200_000_000, 2_000_000_000);
        let said = problem(&tight, &Settings::default()).unwrap();
        assert!(said.contains("at least 2.4 GB") && said.contains("--data-dir"), "{said}");
        assert!(tight.lines().join("").contains("generating will be slow"));
        let capped = Settings { max_disk: Some(Size(1_000_000)), ..Settings::default() };
        assert!(problem(&roomy, &capped).unwrap().contains("--max-disk"));
    }

    #[test]
    fn reasons_are_one_short_line() {
        let long = format!("a\n  b {}", "ü".repeat(500));
        let said = short(&long);
        assert!(said.starts_with("a b ü") && said.chars().count() == MAX_REASON + 1, "{said}");
        assert_eq!(short("refused"), "refused");
    }
}
