//! `[fleet] provision`: asks a program of the operator for as many rented nodes as are wanted.
//!
//! The program reads one JSON object, and answers with one on a line of its own. It is run beside everything
//! else and within a time limit: whatever becomes of it, training goes on. What it is told is how many nodes
//! are to be there, not how many to start, so that asking twice does no harm.
//!
//! ```text
//! capacity ─> request ─> pace: is it due? ─> program ─> answer
//!                          ^──────── worked, or failed ───┘
//! ```

use crate::fleet::capacity::ProvisionRequest;
use crate::server::SharedState;
use anyhow::{Context as _, bail, ensure};
use echo_protocol::program::log_on_change::LastMessage;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

/// Nothing is asked for so long after a start: nodes of an earlier process come back within seconds.
const FIRST_LOOK: Duration = Duration::from_secs(30);
/// How often it is looked whether other nodes are wanted.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// The same request is made again after so long, while it is not met: a machine takes minutes to start.
const AGAIN_AFTER: Duration = Duration::from_secs(60);
/// The first pause after a failure; each further one doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(15);
/// The longest pause after a failure.
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Longest that the program may take: it is to ask for machines, not to wait for them.
const TIME_LIMIT: Duration = Duration::from_secs(120);
/// Longest answer that is read, in bytes.
const LONGEST_ANSWER: u64 = 64 << 10;

/// What the program answers. Other keys are its own affair.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ProvisionAnswer {
    /// Nodes that it has started, by class.
    pub started: BTreeMap<String, u64>,
    /// Nodes that it has stopped, by class.
    pub stopped: BTreeMap<String, u64>,
    /// Words for the operator.
    pub note: String,
}

impl ProvisionAnswer {
    /// What it did, in a line; `None` where it did nothing.
    fn line(&self) -> Option<String> {
        let count = |what: &str, nodes: &BTreeMap<String, u64>| {
            let nodes = nodes.iter().filter(|(_, count)| **count > 0);
            let parts: Vec<String> = nodes.map(|(class, count)| format!("{count} {class}")).collect();
            (!parts.is_empty()).then(|| format!("{what} {}", parts.join(", ")))
        };
        let note = (!self.note.is_empty()).then(|| self.note.clone());
        let parts = [count("started", &self.started), count("stopped", &self.stopped), note];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// When the program is asked. Sans-IO.
#[derive(Debug)]
struct AskingPace {
    /// The nodes of the last request that it took, and when.
    asked: Option<(ProvisionRequest, Instant)>,
    /// Not before this moment, after a failure.
    not_before: Option<Instant>,
    pause: Duration,
}

impl AskingPace {
    fn new() -> Self {
        Self { asked: None, not_before: None, pause: FIRST_PAUSE }
    }

    /// Whether this request is made now: it is not met, and is another one or an old one.
    fn is_due(&self, now: Instant, request: &ProvisionRequest) -> bool {
        let is_other = self.asked.as_ref().is_none_or(|(asked, at)| {
            asked.nodes != request.nodes || now.saturating_duration_since(*at) >= AGAIN_AFTER
        });
        !request.is_met() && is_other && self.not_before.is_none_or(|at| now >= at)
    }

    fn worked(&mut self, now: Instant, request: ProvisionRequest) {
        *self = Self { asked: Some((request, now)), ..Self::new() };
    }

    /// Returns how long nothing is asked.
    fn failed(&mut self, now: Instant) -> Duration {
        let pause = self.pause;
        self.not_before = Some(now + pause);
        self.pause = (2 * pause).min(LONGEST_PAUSE);
        pause
    }
}

/// Asks for nodes until it is dropped. Returns at once where the run file names no program.
pub(crate) async fn provision(shared: Arc<SharedState>, program: Vec<String>) {
    if program.is_empty() {
        return;
    }
    let (mut pace, mut failed, mut doubted) =
        (AskingPace::new(), LastMessage::default(), LastMessage::default());
    sleep(FIRST_LOOK).await;
    loop {
        let class = shared.capacity().doubted_class();
        match class {
            None => doubted.clear(),
            // Once for each class, however their number changes.
            Some((class, nodes)) if doubted.is_new(&class) => tracing::warn!(
                "[fleet] provision: {nodes} nodes without a record say that they are of class {class}: nothing is asked for meanwhile; \
                 name the keys of rented nodes in [fleet] prices, and these are counted whatever others say"
            ),
            Some(_) => {}
        }
        let request = shared.capacity().provision();
        if let Some(request) = request.filter(|request| pace.is_due(Instant::now(), request)) {
            match ask(&program, &request, TIME_LIMIT).await {
                Ok(answer) => {
                    failed.clear();
                    pace.worked(Instant::now(), request);
                    if let Some(line) = answer.line() {
                        tracing::info!("[fleet] provision: {line}");
                    }
                }
                Err(error) => {
                    let pause = pace.failed(Instant::now()).as_secs();
                    let text = format!("{error:#}");
                    // Once for each cause, however often it is tried.
                    if failed.is_new(&text) {
                        tracing::warn!("[fleet] provision: {text}; it is asked again, first in {pause} s");
                    }
                }
            }
        }
        sleep(LOOK_EVERY).await;
    }
}

/// Says that no node is wanted any more, as the run is over.
pub(crate) async fn release(shared: &SharedState, program: &[String]) {
    if program.is_empty() {
        return;
    }
    let request = shared.capacity().all_released();
    match ask(program, &request, TIME_LIMIT).await {
        Ok(answer) => {
            let line = answer.line().unwrap_or_else(|| "the program says nothing of it".to_owned());
            tracing::info!("[fleet] provision: the run is over, no node is wanted: {line}");
        }
        Err(error) => tracing::warn!(
            "[fleet] provision: {error:#}; the run is over: see yourself that rented nodes are stopped"
        ),
    }
}

/// Runs the program with this request, for at most `limit`.
async fn ask(
    program: &[String],
    request: &ProvisionRequest,
    limit: Duration,
) -> anyhow::Result<ProvisionAnswer> {
    let Some((name, arguments)) = program.split_first() else { bail!("no program is named") };
    let asked = timeout(limit, answer_of(name, arguments, request)).await;
    asked.unwrap_or_else(|_| {
        let limit = limit.as_secs();
        bail!("{name} has not answered within {limit} s, and was ended: have it start machines in the background")
    })
}

async fn answer_of(
    name: &str,
    arguments: &[String],
    request: &ProvisionRequest,
) -> anyhow::Result<ProvisionAnswer> {
    let mut command = Command::new(name);
    // Its standard error is the learner's own: what it says stands in the log.
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn().with_context(|| {
        format!("{name} cannot be started: name a program that is there and may be executed")
    })?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        bail!("{name} has no standard input or output")
    };
    let text = format!("{}\n", serde_json::to_string(request)?);
    // Who has read enough may close it.
    let _ = stdin.write_all(text.as_bytes()).await;
    drop(stdin);
    // One line, and not all that comes: what it has started may hold the pipe open.
    let mut lines = BufReader::new(stdout.take(LONGEST_ANSWER)).lines();
    let line = lines.next_line().await;
    let status = child.wait().await?;
    ensure!(status.success(), "{name} failed ({status}); what it wrote to standard error stands above");
    let line = line.with_context(|| format!("the answer of {name} cannot be read"))?.unwrap_or_default();
    serde_json::from_str(&line).with_context(|| {
        let shown: String = line.chars().take(80).collect();
        format!(
            "{name} answered {shown:?}: it has to be one JSON object on one line, as in {{\"started\": {{}}}}"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::capacity::ClassCount;

    fn request(present: u64, wanted: u64) -> ProvisionRequest {
        let nodes = BTreeMap::from([("rented".to_owned(), ClassCount { present, wanted })]);
        ProvisionRequest { nodes, target: Some(2.0), ..ProvisionRequest::default() }
    }

    fn shell(script: &str) -> Vec<String> {
        ["sh", "-c", script].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_request_is_made_when_it_changes_and_now_and_then_while_it_is_not_met() {
        let (mut pace, begun) = (AskingPace::new(), Instant::now());
        let after = |seconds| begun + Duration::from_secs(seconds);
        assert!(!pace.is_due(begun, &request(3, 3)), "it is met");
        assert!(pace.is_due(begun, &request(1, 3)));
        pace.worked(begun, request(1, 3));
        assert!(!pace.is_due(after(59), &request(1, 3)));
        assert!(pace.is_due(after(1), &request(2, 3)) && pace.is_due(after(60), &request(1, 3)));
    }

    #[test]
    fn pauses_after_failures_grow_and_end_with_a_success() {
        let (mut pace, now) = (AskingPace::new(), Instant::now());
        let pauses: Vec<u64> = (0..8).map(|_| pace.failed(now).as_secs()).collect();
        assert_eq!(pauses, [15, 30, 60, 120, 240, 480, 600, 600]);
        assert!(!pace.is_due(now + Duration::from_secs(599), &request(0, 1)));
        assert!(pace.is_due(now + LONGEST_PAUSE, &request(0, 1)));
        pace.worked(now, request(0, 1));
        assert_eq!(pace.failed(now), FIRST_PAUSE);
    }

    #[test]
    fn what_was_done_is_a_line_and_nothing_is_none() {
        let answer: ProvisionAnswer =
            serde_json::from_str(r#"{"started": {"rented": 2, "other": 0}, "note": "spot", "x": 1}"#)
                .unwrap();
        assert_eq!(answer.line().unwrap(), "started 2 rented; spot");
        assert_eq!(ProvisionAnswer::default().line(), None);
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_program_reads_the_request_and_answers() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("asked.json");
        let script = format!("cat > '{}'; echo '{{\"started\": {{\"rented\": 2}}}}'", file.display());
        let answer = ask(&shell(&script), &request(1, 3), TIME_LIMIT).await.unwrap();
        assert_eq!(answer.started["rented"], 2);
        let asked: ProvisionRequest = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        assert_eq!(asked, request(1, 3));
        // What it leaves behind may keep its output open.
        let left = ask(&shell("sleep 5 & echo '{}'"), &request(1, 3), Duration::from_secs(4)).await;
        assert_eq!(left.unwrap(), ProvisionAnswer::default());
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn failures_say_what_to_do() {
        let failed = async |program: &[String], limit| {
            let asked = ask(program, &request(0, 1), limit).await;
            format!("{:#}", asked.unwrap_err())
        };
        let limit = Duration::from_secs(60);
        let absent = failed(&["/no/such/program".to_owned()], limit).await;
        assert!(absent.contains("may be executed"), "{absent}");
        assert!(failed(&shell("exit 3"), limit).await.contains("exit status: 3"));
        assert!(failed(&shell("echo yes"), limit).await.contains("one JSON object on one line"));
        assert!(failed(&shell("true"), limit).await.contains("one JSON object"));
        let slow = failed(&shell("exec sleep 60"), Duration::from_millis(200)).await;
        assert!(slow.contains("in the background"), "{slow}");
    }
}
