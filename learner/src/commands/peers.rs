//! `echo-learner peers`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use clap::Subcommand;
use echo_protocol::net::PeerId;
use echo_protocol::net::peer_id::key_of_peer;
use echo_protocol::program::clock;
use echo_protocol::program::output::{note, print};
use echo_protocol::wire::identity::PublicKey;

use crate::reputation::decisions;
use crate::reputation::decisions::{JournalEntry, append};
use crate::reputation::listing::{ListedPeer, Listing};
use crate::reputation::{Decision, MAX_REASON_BYTES, Standing, Subject, date};
use crate::storage::run_dir::RunDir;

/// Fewest digits of a key that name a peer of the list.
const MIN_PREFIX: usize = 6;

/// What the operator does.
#[derive(Clone, Debug, PartialEq, Eq, Subcommand)]
pub enum ModerationCommand {
    /// List peers: those that are not heard first, then by what they delivered
    List {
        /// The run directory
        dir: PathBuf,
        /// Everything that is known, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show all that is known of a peer
    Show {
        /// The run directory
        dir: PathBuf,
        /// Its key or the first digits of it, or its peer id
        peer: String,
        /// As JSON on one line; without it, indented
        #[arg(long)]
        json: bool,
    },
    /// Hear a peer no more: the learner gives it no work and no policy, and refuses its groups
    /// (other nodes may still pass the policy on)
    Ban {
        /// The run directory
        dir: PathBuf,
        /// Its key, its peer id, or a network such as 203.0.113.0/24 or 2001:db8:7::/48
        peer: String,
        /// Why: its owner is told
        #[arg(long, value_name = "TEXT")]
        reason: String,
        /// What was noted, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Hear a peer again, and forgive what it did
    Pardon {
        /// The run directory
        dir: PathBuf,
        /// Its key, its peer id, or a network
        peer: String,
        /// What was noted, as JSON
        #[arg(long)]
        json: bool,
    },
}

/// Does what the operator asks, in a run directory that a learner may be using.
///
/// # Errors
/// When the directory holds no run, or the peer is not understood.
pub fn run(command: &ModerationCommand) -> anyhow::Result<()> {
    match command {
        ModerationCommand::List { dir, json } => {
            let listing = open(dir)?;
            if *json {
                return Ok(print(&(serde_json::to_string(&listing)? + "\n"))?);
            }
            print(&table(&listing))?;
            note_decisions(&listing.noted);
            Ok(())
        }
        ModerationCommand::Show { dir, peer, json } => {
            let listing = open(dir)?;
            let Subject::Peer(key) = subject(peer, &listing)? else {
                bail!("{peer} is a network: `echo-learner peers list` shows those from which somebody lied")
            };
            let listed = listing.peers.iter().find(|listed| listed.key == key);
            let listed = listed.with_context(|| {
                format!("nothing is known of {key}: it has delivered nothing, or not been written down yet")
            })?;
            let text =
                if *json { serde_json::to_string(listed)? } else { serde_json::to_string_pretty(listed)? };
            print(&(text + "\n"))?;
            note_decisions(listing.noted.iter().filter(|entry| entry.subject == Subject::Peer(key)));
            Ok(())
        }
        ModerationCommand::Ban { dir, peer, reason, json } => {
            ensure!(reason.len() <= MAX_REASON_BYTES, "--reason: at most {MAX_REASON_BYTES} bytes");
            decide(dir, peer, Decision::Ban(reason.chars().filter(|c| !c.is_control()).collect()), *json)
        }
        ModerationCommand::Pardon { dir, peer, json } => decide(dir, peer, Decision::Pardon, *json),
    }
}

fn open(dir: &Path) -> anyhow::Result<Listing> {
    let dir = RunDir::new(dir);
    ensure!(dir.charter().exists(), "{} holds no run", dir.path().display());
    let mut listing = Listing::read(&dir.peers()).with_context(|| dir.peers().display().to_string())?;
    let lines = decisions::read(&dir.peers_journal(), listing.decided)?;
    listing.noted = lines.into_iter().filter_map(|line| line.entry.ok()).collect();
    Ok(listing)
}

fn decide(dir: &Path, peer: &str, decision: Decision, json: bool) -> anyhow::Result<()> {
    let subject = subject(peer, &open(dir)?)?;
    let entry = JournalEntry { at: clock::wall(), subject, decision };
    append(&RunDir::new(dir).peers_journal(), &entry)?;
    if json {
        return Ok(print(&(serde_json::to_string(&entry)? + "\n"))?);
    }
    Ok(print(
        "noted; the learner follows within a second, or when it is started; `peers list` shows it as noted until then\n",
    )?)
}

/// The peer or network that the operator's text names.
fn subject(text: &str, listing: &Listing) -> anyhow::Result<Subject> {
    if text.contains('/') {
        return Ok(Subject::Network(text.parse()?));
    }
    if let Some(key) = PublicKey::from_hex(text) {
        return Ok(Subject::Peer(key));
    }
    if let Some(key) = text.parse::<PeerId>().ok().and_then(|peer| key_of_peer(&peer)) {
        return Ok(Subject::Peer(key));
    }
    let digits = text.to_ascii_lowercase();
    ensure!(
        digits.len() >= MIN_PREFIX && digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        "{text:?} is no peer: give its key, at least {MIN_PREFIX} of its first digits, its peer id, or a network"
    );
    let mut found = listing.peers.iter().filter(|listed| listed.key.to_string().starts_with(&digits));
    match (found.next(), found.next()) {
        (Some(listed), None) => Ok(Subject::Peer(listed.key)),
        (None, _) => bail!("no listed peer's key begins with {digits}"),
        (Some(_), Some(_)) => bail!("several peers' keys begin with {digits}: give more digits"),
    }
}

fn table(listing: &Listing) -> String {
    let mut lines = vec![format!(
        "{:<16}  {:>8}  {:>8}  {:>6}  {:>8}  {:>7}  standing",
        "peer", "accepted", "refused", "lies", "verdicts", "recheck"
    )];
    let mut peers: Vec<&ListedPeer> = listing.peers.iter().collect();
    peers.sort_by_key(|listed| (listed.silence.is_none(), std::cmp::Reverse(listed.record.accepted)));
    for listed in peers {
        let (key, record) = (listed.key.to_string(), &listed.record);
        lines.push(format!(
            "{:<16}  {:>8}  {:>8}  {:>6}  {:>8.0}  {:>6.0}%  {}",
            &key[..16],
            record.accepted,
            record.refused.values().sum::<u64>(),
            record.lies,
            record.judgement(listing.at),
            listed.recheck_share * 100.0,
            listed.silence.as_deref().unwrap_or("good")
        ));
    }
    for listed in listing.networks.iter().filter(|listed| listed.record.standing != Standing::Good) {
        let record = &listed.record;
        let why = record.operator.as_deref().unwrap_or("several of its keys lied");
        lines.push(format!("{}  {}: {why}", listed.network, standing(&record.standing)));
    }
    if listing.further > 0 {
        lines.push(format!("and {} more, of whom there is less to say", listing.further));
    }
    lines.into_iter().map(|line| line + "\n").collect()
}

/// Says what the operator has decided since the list was written. `show` prints JSON on standard
/// output, so this goes beside it.
fn note_decisions<'a>(entries: impl IntoIterator<Item = &'a JournalEntry>) {
    for JournalEntry { subject, decision, .. } in entries {
        let whom = match subject {
            Subject::Peer(key) => key.to_string(),
            Subject::Network(network) => network.to_string(),
        };
        let what = match decision {
            Decision::Ban(reason) => format!("ban {whom}: {reason}"),
            Decision::Pardon => format!("pardon {whom}"),
        };
        note(&format!("noted since this list was written: {what}"));
    }
}

fn standing(standing: &Standing) -> String {
    match standing {
        Standing::Good => "good".into(),
        Standing::Suspended(until) => format!("newcomers suspended until {}", date(*until)),
        Standing::Banned => "banned".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reputation::{Record, RecordConfig};
    use echo_protocol::wire::identity::NodeKey;
    use echo_protocol::wire::time::UnixMillis;

    #[test]
    fn what_the_learner_has_not_followed_is_listed_as_noted() {
        let dir = tempfile::tempdir().unwrap();
        let files = RunDir::new(dir.path());
        std::fs::write(files.charter(), "").unwrap();
        let key = NodeKey::from_secret([1; 32]).public();
        let ban = Decision::Ban("spam".into());
        decide(dir.path(), &key.to_string(), ban.clone(), false).unwrap();
        let noted = open(dir.path()).unwrap().noted;
        assert_eq!(noted.iter().map(|entry| &entry.decision).collect::<Vec<_>>(), [&ban]);
        // The learner follows, and writes the list anew.
        let end = decisions::read(&files.peers_journal(), 0).unwrap()[0].end;
        let mut record = Record::new(RecordConfig::default());
        record.decide(UnixMillis(0), Subject::Peer(key), &ban, end);
        Listing::of(UnixMillis(0), &record).write(&files.peers()).unwrap();
        let listing = open(dir.path()).unwrap();
        assert!(listing.noted.is_empty() && listing.peers[0].silence.is_some());
        decide(dir.path(), &key.to_string(), Decision::Pardon, true).unwrap();
        assert_eq!(open(dir.path()).unwrap().noted[0].decision, Decision::Pardon);
    }

    #[test]
    fn peers_are_named_by_key_digits_peer_id_and_network() {
        let mut record = Record::new(RecordConfig::default());
        let [one, two] = [1, 2].map(|seed| NodeKey::from_secret([seed; 32]).public());
        for key in [one, two] {
            record.accepted(UnixMillis(0), key);
        }
        let listing = Listing::of(UnixMillis(0), &record);
        let peer_id = listing.peers.iter().find(|listed| listed.key == two).unwrap().peer_id.clone().unwrap();
        let named = |text: &str| subject(text, &listing);
        assert_eq!(named(&one.to_string()).unwrap(), Subject::Peer(one));
        assert_eq!(named(&one.to_string()[..8].to_ascii_uppercase()).unwrap(), Subject::Peer(one));
        assert_eq!(named(&peer_id).unwrap(), Subject::Peer(two));
        let network = Subject::Network("203.0.113.0/24".parse().unwrap());
        assert_eq!(named("203.0.113.0/24").unwrap(), network);
        for nobody in ["", "abc", "zzzzzzzz", "00000000", "10.0.0.1/8"] {
            assert!(named(nobody).is_err(), "{nobody}");
        }
    }
}
