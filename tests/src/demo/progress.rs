//! Reads a running demo's files into what is shown.

use crate::harness::network::TestNetwork;
use crate::output::live::{LiveState, NodeView};
use echo_learner::storage::run_dir::RunDir;
use echo_learner::telemetry::metrics::UpdateRow;
use echo_learner::training::evaluation::EvaluationRow;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::PathBuf;

/// Most bytes of metrics taken in at one look.
const MAX_LOOK: u64 = 16 << 20;
/// Weight of the newest update in the mean reward that is shown.
const NEWEST: f64 = 0.1;

/// The state so far, and how far the metrics have been read.
pub(super) struct DemoWatch {
    metrics: PathBuf,
    read: u64,
    /// A line that was not yet ended at the last look.
    rest: String,
    state: LiveState,
}

impl DemoWatch {
    /// A watch of the run in `dir` that has read nothing yet.
    pub(super) fn new(dir: &RunDir, updates: u64) -> Self {
        let state = LiveState { updates, ..LiveState::default() };
        Self { metrics: dir.metrics(), read: 0, rest: String::new(), state }
    }

    /// Takes in what is new.
    pub(super) fn look(&mut self, network: &TestNetwork) -> anyhow::Result<LiveState> {
        if let Ok(mut file) = File::open(&self.metrics) {
            if file.metadata()?.len() < self.read {
                // A resumed learner took rows back: what they said is said again.
                (self.read, self.rest) = (0, String::new());
                self.state = LiveState { updates: self.state.updates, ..LiveState::default() };
            }
            file.seek(SeekFrom::Start(self.read))?;
            let mut text = String::new();
            self.read += file.take(MAX_LOOK).read_to_string(&mut text)? as u64;
            self.rest.push_str(&text);
            while let Some(end) = self.rest.find('\n') {
                let line: String = self.rest.drain(..=end).collect();
                self.take(&line);
            }
        }
        self.state.nodes = (0..network.node_count()).map(|index| node(network, index)).collect();
        Ok(self.state.clone())
    }

    fn take(&mut self, line: &str) {
        let state = &mut self.state;
        if let Ok(row) = serde_json::from_str::<UpdateRow>(line) {
            state.update = row.update;
            let mean = state.reward.map_or(row.reward, |mean| mean + NEWEST * (row.reward - mean));
            state.reward = Some(mean);
            state.t_bcast_ms = row.t_bcast_ms[0].map(|ms| ms as f64);
            for (lag, tokens) in row.staleness {
                let bin = usize::try_from(lag).unwrap_or(usize::MAX).min(63);
                if state.staleness.len() <= bin {
                    state.staleness.resize(bin + 1, 0);
                }
                state.staleness[bin] += tokens;
            }
        } else if let Ok(row) = serde_json::from_str::<EvaluationRow>(line) {
            state.accuracy = row.held_out_accuracy;
        }
    }
}

fn node(network: &TestNetwork, index: usize) -> NodeView {
    let status = network.node_status(index);
    let version = status.as_ref().and_then(|s| s.get("version")).and_then(Value::as_u64);
    let remark = (!network.node_is_up(index)).then(|| "killed".to_owned());
    NodeView { name: network.node_name(index).to_owned(), version, remark }
}
