//! `echo-node status`: what the status file of a node says, for people.

use std::path::Path;

use echo_protocol::wire::time::UnixMillis;
use serde_json::Value;

use crate::state::data_dir::{DataDir, DataDirError};
use crate::state::state_file;
use crate::state::state_file::StateError;

/// The values that are shown, with their names in the file.
const SHOWN: [(&str, &str); 13] = [
    ("state", "state"),
    ("paused", "paused"),
    ("learner", "learner reached"),
    ("silence", "learner says"),
    ("version", "policy"),
    ("device", "device"),
    ("rollouts_per_s", "rollouts/s"),
    ("rollouts", "rollouts"),
    ("accepted", "groups accepted"),
    ("refused", "groups refused"),
    ("outbox", "groups waiting"),
    ("peers", "peers"),
    ("parent", "policy from"),
];

/// What a node wrote last.
#[derive(Clone, Debug, PartialEq)]
pub struct NodeStatus {
    /// Whether a node works in the directory now.
    pub running: bool,
    /// Seconds since the file was written; `None` where the system does not say.
    pub age_s: Option<u64>,
    /// The file.
    pub facts: Value,
}

/// The status of the node in `data`; `None` where none has run yet. A node is taken for running while it
/// holds the directory's lock.
///
/// # Errors
/// [`StateError`] when the file cannot be read, or is damaged.
pub fn read(data: &DataDir, now: UnixMillis) -> Result<Option<NodeStatus>, StateError> {
    let path = data.status();
    let Some(facts) = state_file::read::<Value>(&path)? else { return Ok(None) };
    let running = matches!(data.lock(), Err(DataDirError::InUse { .. }));
    Ok(Some(NodeStatus { running, age_s: age(&path, now), facts }))
}

fn age(path: &Path, now: UnixMillis) -> Option<u64> {
    let written = std::fs::metadata(path).ok()?.modified().ok()?;
    let written = written.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
    Some((now.0 / 1000).saturating_sub(written))
}

impl NodeStatus {
    /// As one JSON object: `running`, `age_s`, and the file under `status`.
    pub fn json(&self) -> Value {
        serde_json::json!({ "running": self.running, "age_s": self.age_s, "status": self.facts })
    }

    /// Line by line; what has no value is left out.
    pub fn text(&self) -> String {
        let age = self.age_s.map_or_else(|| "some time".to_owned(), |seconds| format!("{seconds} s"));
        let mut text = match self.running {
            true => "the node is running\n".to_owned(),
            false => format!("no node is running; this is how the last one ended, {age} ago\n"),
        };
        for (key, name) in SHOWN {
            let value = match self.facts.get(key) {
                None | Some(Value::Null) => continue,
                Some(Value::String(value)) => value.replace('_', " "),
                Some(Value::Bool(true)) => "yes".to_owned(),
                Some(Value::Bool(false)) => "no".to_owned(),
                Some(Value::Object(counts)) if counts.is_empty() => "0".to_owned(),
                Some(Value::Object(counts)) => {
                    let reasons = counts.iter().map(|(reason, count)| format!("{reason} {count}"));
                    reasons.collect::<Vec<_>>().join(", ")
                }
                Some(Value::Number(number)) if key == "version" => format!("v{number}"),
                Some(other) => other.to_string(),
            };
            text.push_str(&format!("{name:<16} {value}\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::node_state::{Facts, NodeActivity};
    use echo_protocol::run::version::PolicyVersion;

    #[test]
    fn the_status_says_whether_a_node_runs_and_what_it_did() {
        let dir = tempfile::tempdir().unwrap();
        let data = DataDir::new(dir.path());
        let now = UnixMillis(u64::MAX / 2);
        assert_eq!(read(&data, now).unwrap(), None);
        let refused = [("stale", 2)].into();
        let state = NodeActivity::WaitingForWork;
        let facts =
            Facts { state, version: Some(PolicyVersion(4)), accepted: 7, refused, ..Facts::default() };
        state_file::write(&data.status(), &facts, false).unwrap();
        let stopped = read(&data, now).unwrap().unwrap();
        assert!(!stopped.running && stopped.age_s.is_some());
        let text = stopped.text();
        for line in
            ["no node is running", "state            waiting for work", "policy           v4", "stale 2"]
        {
            assert!(text.contains(line), "{line:?} is missing in {text}");
        }
        assert!(!text.contains("paused") && !text.contains("null"), "{text}");
        let lock = data.lock().unwrap();
        let running = read(&data, now).unwrap().unwrap();
        drop(lock);
        assert!(running.text().starts_with("the node is running"));
        assert_eq!(
            (running.json()["running"].clone(), running.json()["status"]["accepted"].clone()),
            (true.into(), 7.into())
        );
    }
}
