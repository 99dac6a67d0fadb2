//! What the owner sees: a line that stays at the bottom of a terminal, or one every few seconds elsewhere; a
//! progress bar while a snapshot comes in; and a file for programs.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use echo_policy::generation::device::CPU;
use echo_protocol::net::Host;
use echo_protocol::program::clock;
use tokio::time::{Instant, MissedTickBehavior};

use crate::state::state_file;
use crate::status::node_state::{Facts, NodeActivity, NodeState};

use crate::status::screen::Screen;

/// How often the progress bar and the status file are renewed.
const REFRESH: Duration = Duration::from_millis(500);

/// Reports on a node.
pub struct StatusReporter {
    /// The node's facts, which every part writes.
    pub node_state: Arc<NodeState>,
    /// Asked for the number of connected peers.
    pub host: Host,
    /// Where the file for programs lies.
    pub path: PathBuf,
    /// The time between two lines.
    pub every: Duration,
    /// Where lines and the progress bar go.
    pub screen: Screen,
}

impl StatusReporter {
    /// Reports until it is dropped; a file that can't be written costs one log line.
    pub async fn run(self) {
        let mut refresh = tokio::time::interval(REFRESH);
        refresh.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut spoken = Instant::now();
        let mut complained = false;
        loop {
            refresh.tick().await;
            let peers = self.host.connected_peers().await.len();
            self.node_state.set(|facts| facts.peers = peers);
            let facts = self.node_state.facts(clock::now());
            self.screen.download(facts.download);
            if let Err(error) = state_file::write(&self.path, &facts, false)
                && !std::mem::replace(&mut complained, true)
            {
                tracing::warn!(%error, "the status file is not up to date");
            }
            if self.screen.is_live() {
                self.screen.status(&live(&facts));
            } else if spoken.elapsed() >= self.every {
                self.screen.status(&line(&facts));
                spoken = Instant::now();
            }
        }
    }
}

/// What matters most, within 80 columns: the line that stays at the bottom of a terminal.
pub fn live(facts: &Facts) -> String {
    let version = facts.version.map_or_else(|| "no policy".to_owned(), |version| version.to_string());
    let refused: u64 = facts.refused.values().sum();
    let judged = match refused {
        0 => format!("{} accepted", facts.accepted),
        _ => format!("{} accepted, {refused} refused", facts.accepted),
    };
    let rate = format!("{:.1}/s", facts.rollouts_per_s);
    let (outbox, peers) = (format!("outbox {}", facts.outbox), format!("{} peers", facts.peers));
    [version, activity(facts), rate, judged, outbox, peers].join(" | ")
}

/// A node's facts on one line.
pub fn line(facts: &Facts) -> String {
    let mut text = facts.version.map_or_else(|| "no policy yet".to_owned(), |version| version.to_string());
    let mut add = |part: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = write!(text, " | {part}");
    };
    add(format_args!("{}", doing(facts)));
    // Nobody has to be told of the processor, unless it stands in.
    match (&facts.device, facts.lost_devices.as_slice()) {
        (Some(device), []) if device != CPU => add(format_args!("on {device}")),
        (Some(device), lost) if !lost.is_empty() => {
            let names: Vec<&str> = lost.iter().map(|lost| lost.name.as_str()).collect();
            add(format_args!("on {device}, without {}", names.join(", ")));
        }
        _ => {}
    }
    add(format_args!("{:.1} rollouts/s", facts.rollouts_per_s));
    let refused: u64 = facts.refused.values().sum();
    let reasons: Vec<String> = facts.refused.iter().map(|(reason, n)| format!("{reason} {n}")).collect();
    match refused {
        0 => add(format_args!("{} groups accepted", facts.accepted)),
        _ => add(format_args!(
            "{} groups accepted, {refused} refused ({})",
            facts.accepted,
            reasons.join(", ")
        )),
    }
    if facts.checked > 0 {
        add(format_args!("{} of others checked, {} of them lies", facts.checked, facts.denounced));
    }
    add(format_args!("{} in outbox", facts.outbox));
    add(format_args!("{} peers", facts.peers));
    if let Some(parent) = &facts.parent {
        add(format_args!("parent {parent}"));
    }
    text
}

/// What it does, and what it receives.
fn doing(facts: &Facts) -> String {
    let mut text = activity(facts);
    if let Some(download) = facts.download {
        let percent = u128::from(download.have) * 100 / u128::from(download.total.max(1));
        let _ = write!(text, ", receiving {} {percent} %", download.version);
    }
    text
}

fn activity(facts: &Facts) -> String {
    if let (Some(why), NodeActivity::WaitingForWork) = (&facts.paused, facts.state) {
        return format!("paused {why}");
    }
    let state = match facts.state {
        NodeActivity::Joining => "looking for the learner",
        NodeActivity::WaitingForSnapshot => "waiting for a snapshot",
        NodeActivity::WaitingForWork => "waiting for work",
        NodeActivity::Relaying => "relaying",
        NodeActivity::Verifying if facts.checked == 0 => "no group to check yet",
        NodeActivity::Verifying => "checking others' work",
        NodeActivity::Generating => "generating",
        NodeActivity::OutboxFull => "outbox full, waiting for the learner",
        NodeActivity::PolicyUnusable => "policy unusable, waiting for the next",
        NodeActivity::Delivering => "run ended, delivering",
        NodeActivity::Ended => "run ended",
    };
    let mut text = state.to_owned();
    if !facts.learner && !matches!(facts.state, NodeActivity::Joining | NodeActivity::Ended) {
        match &facts.silence {
            Some(why) => {
                let _ = write!(text, ", refused by the learner ({why})");
            }
            None => text.push_str(", learner away"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::node_state::{Download, LostDevice};
    use echo_protocol::run::version::PolicyVersion;
    use echo_protocol::wire::time::UnixMillis;
    use echo_protocol::work::submission::RefuseReason;

    #[test]
    fn the_line_says_what_matters() {
        let node_state = NodeState::default();
        let line_now = || line(&node_state.facts(UnixMillis(2_000)));
        assert_eq!(
            line_now(),
            "no policy yet | looking for the learner | 0.0 rollouts/s | 0 groups accepted | 0 in outbox | 0 peers"
        );
        node_state.generated(UnixMillis(0), 64);
        node_state.refused(RefuseReason::Stale);
        node_state.refused(RefuseReason::Stale);
        node_state.set(|facts| {
            facts.state = NodeActivity::Generating;
            facts.version = Some(PolicyVersion(4));
            facts.accepted = 7;
            facts.parent = Some("01020304".into());
            facts.download = Some(Download { version: PolicyVersion(6), have: 1, total: 3 });
        });
        assert_eq!(
            line_now(),
            "v4 | generating, learner away, receiving v6 33 % | 32.0 rollouts/s | 7 groups accepted, 2 refused (stale 2) | \
             0 in outbox | 0 peers | parent 01020304"
        );
        node_state.set(|facts| facts.device = Some("CPU".into()));
        assert!(line_now().contains("33 % | 32.0 rollouts/s"));
        node_state.set(|facts| facts.device = Some("Card".into()));
        assert!(line_now().contains("33 % | on Card | 32.0 rollouts/s"));
        let lost = LostDevice { name: "Card".into(), why: "unplugged".into() };
        node_state.set(|facts| (facts.device, facts.lost_devices) = (Some("CPU".into()), vec![lost]));
        assert!(line_now().contains("33 % | on CPU, without Card | 32.0 rollouts/s"));
        node_state.set(|facts| (facts.checked, facts.denounced) = (12, 1));
        assert!(line_now().contains(" | 12 of others checked, 1 of them lies | 0 in outbox"));
        node_state.set(|facts| (facts.state, facts.download) = (NodeActivity::Verifying, None));
        assert!(line_now().contains("| checking others' work, learner away |"));
        node_state.set(|facts| (facts.checked, facts.silence) = (0, Some("banned: spam".into())));
        assert!(line_now().contains("| no group to check yet, refused by the learner (banned: spam) |"));
    }

    #[test]
    fn the_line_of_a_terminal_fits_80_columns() {
        let mut facts = Facts::default();
        assert_eq!(
            live(&facts),
            "no policy | looking for the learner | 0.0/s | 0 accepted | outbox 0 | 0 peers"
        );
        assert!(live(&facts).len() <= 80);
        facts.version = Some(PolicyVersion(1234));
        (facts.state, facts.learner) = (NodeActivity::Generating, true);
        (facts.rollouts_per_s, facts.accepted, facts.peers) = (132.0, 17_712, 13);
        facts.refused.insert("stale", 212);
        facts.download = Some(Download { version: PolicyVersion(1235), have: 1, total: 3 });
        assert_eq!(
            live(&facts),
            "v1234 | generating | 132.0/s | 17712 accepted, 212 refused | outbox 0 | 13 peers"
        );
        assert!(live(&facts).len() <= 80, "{}", live(&facts).len());
        (facts.state, facts.paused) = (NodeActivity::WaitingForWork, Some("on battery".into()));
        assert!(
            live(&facts).contains("| paused on battery |") && line(&facts).contains("| paused on battery,")
        );
    }

    #[test]
    fn the_file_has_the_names_that_programs_read() {
        let facts = Facts { version: Some(PolicyVersion(3)), ..Facts::default() };
        let json = serde_json::to_value(&facts).unwrap();
        assert_eq!(json["version"], 3);
        assert_eq!(json["state"], "joining");
        for key in
            ["device", "lost_devices", "rollouts_per_s", "accepted", "refused", "outbox", "peers", "parent"]
        {
            assert!(json.get(key).is_some(), "{key}");
        }
    }
}
