//! What a learner's log says of what it does.

use anyhow::Context as _;
use echo_protocol::net::Multiaddr;
use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Read as _};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};
use tokio::time::sleep;

/// The pause between two looks for the address.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What the learner is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::study::kill) enum Phase {
    /// It opens what it left, and connects.
    StartUp,
    /// It writes a checkpoint, beside whatever else.
    Checkpoint,
    /// It publishes, beside whatever else.
    Publication,
    /// It answers held-out orders.
    Evaluation,
    /// It waits for a batch, or trains on one.
    Update,
    /// It writes its results, and takes leave.
    End,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::StartUp => "start-up",
            Self::Checkpoint => "checkpoint",
            Self::Publication => "publication",
            Self::Evaluation => "evaluation",
            Self::Update => "update",
            Self::End => "end",
        })
    }
}

/// What a line says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogEvent {
    /// The learning thread begins something at a version; what it leaves to the other thread has no phase.
    Step(Option<Phase>, u64),
    /// The releasing thread begins something for a version.
    Begun(Phase, u64),
    /// The releasing thread has ended what it began.
    Ended(Phase, u64),
}

/// How long things take undisturbed.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::study::kill) struct UndisturbedTimes {
    pub(super) start_up: Duration,
    pub(super) checkpoint: Duration,
    pub(super) publication: Duration,
    /// From one publication to the next.
    pub(super) period: Duration,
    /// From the last step to when the run is said to be finished, which is before it takes leave.
    pub(super) end: Duration,
}

/// The log of one process.
#[derive(Clone, Debug)]
pub(in crate::study::kill) struct ProcessLog(PathBuf);

impl ProcessLog {
    pub(super) fn new(path: PathBuf) -> Self {
        Self(path)
    }

    /// Where the learner listens, as soon as it does.
    pub(in crate::study::kill) async fn address(&self) -> anyhow::Result<Multiaddr> {
        loop {
            let text = fs::read_to_string(&self.0).unwrap_or_default();
            let whole = text.rfind('\n').map_or("", |end| &text[..end]);
            if let Some((_, address)) = whole.lines().find_map(|line| line.split_once("listening on ")) {
                return Ok(address.trim().parse()?);
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Updates that the process made.
    pub(in crate::study::kill) fn updates(&self) -> anyhow::Result<u64> {
        let text = fs::read_to_string(&self.0)?;
        Ok(text.lines().filter(|line| line.contains(" update ") && line.contains(" · reward ")).count()
            as u64)
    }

    /// How long things took in a whole run.
    pub(in crate::study::kill) fn pace(&self) -> anyhow::Result<UndisturbedTimes> {
        let text = fs::read_to_string(&self.0)?;
        let time = |line: &str| humantime::parse_rfc3339(line.split_whitespace().next()?).ok();
        let begun = text.lines().find_map(time).context("the learner's log has no time")?;
        let events: Vec<(SystemTime, LogEvent)> =
            text.lines().filter_map(|line| Some((time(line)?, event(line)?))).collect();
        let steps =
            || events.iter().filter(|(_, event)| matches!(event, LogEvent::Step(..))).map(|(at, _)| at);
        let first = steps().next().context("the learner's log names no step")?;
        let mean = |times: Vec<Duration>| {
            times.iter().sum::<Duration>().checked_div(u32::try_from(times.len()).ok()?)
        };
        let between = |(from, to): (&SystemTime, &SystemTime)| to.duration_since(*from).unwrap_or_default();
        let all = |is: &dyn Fn(&LogEvent) -> bool| -> Vec<SystemTime> {
            events.iter().filter(|(_, event)| is(event)).map(|(at, _)| *at).collect()
        };
        let begun_of =
            |phase| all(&move |event| matches!(event, LogEvent::Begun(found, _) if *found == phase));
        let of = |phase| {
            let ended = all(&move |event| matches!(event, LogEvent::Ended(found, _) if *found == phase));
            mean(begun_of(phase).iter().zip(&ended).map(between).collect()).unwrap_or_default()
        };
        let published = begun_of(Phase::Publication);
        let period = mean(published.iter().zip(published.iter().skip(1)).map(between).collect());
        let finished = text.lines().find(|line| line.contains(" finished · ")).and_then(time);
        let end = finished.zip(steps().next_back()).map(|(finished, begun)| between((begun, &finished)));
        Ok(UndisturbedTimes {
            start_up: between((&begun, first)),
            checkpoint: of(Phase::Checkpoint),
            publication: of(Phase::Publication),
            period: period.unwrap_or_default(),
            end: end.unwrap_or_default(),
        })
    }

    /// Reads what is added to the log.
    pub(super) fn follow(&self) -> Tail {
        Tail { path: self.0.clone(), file: None, line: Vec::new() }
    }
}

/// The growing end of a log.
pub(super) struct Tail {
    path: PathBuf,
    file: Option<File>,
    /// What has no end yet.
    line: Vec<u8>,
}

impl Tail {
    /// What the learner has said since the last look.
    pub(super) fn events(&mut self) -> anyhow::Result<Vec<LogEvent>> {
        let file = match &mut self.file {
            Some(file) => file,
            None => match File::open(&self.path) {
                Ok(file) => self.file.insert(file),
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error.into()),
            },
        };
        file.read_to_end(&mut self.line)?;
        let end = self.line.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let whole: Vec<u8> = self.line.drain(..end).collect();
        Ok(String::from_utf8_lossy(&whole).lines().filter_map(event).collect())
    }
}

/// What a line says of the learner's course, if anything.
fn event(line: &str) -> Option<LogEvent> {
    let after = |words: &str| Some(line.split_once(words)?.1);
    let number = |text: &str| {
        let digits = text.trim_start_matches(|c: char| !c.is_ascii_digit());
        digits.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    };
    if let Some(next) = after(" next: ") {
        let (name, version) = next.split_once('(')?;
        let phase = match name {
            "Evaluate" => Some(Phase::Evaluation),
            "Update" => Some(Phase::Update),
            "Finish" => Some(Phase::End),
            _ => None,
        };
        return Some(LogEvent::Step(phase, number(version)?));
    }
    let begun = [(" writing the checkpoint of v", Phase::Checkpoint), (" publishing v", Phase::Publication)];
    let ended = [(" wrote the checkpoint of v", Phase::Checkpoint), (" published v", Phase::Publication)];
    let find = |words: [(&str, Phase); 2]| {
        words.into_iter().find_map(|(words, phase)| Some((phase, number(after(words)?)?)))
    };
    let begun = find(begun).map(|(phase, version)| LogEvent::Begun(phase, version));
    begun.or_else(|| find(ended).map(|(phase, version)| LogEvent::Ended(phase, version)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    const LINES: [&str; 12] = [
        "2026-01-01T00:00:00.000000Z  INFO resuming from the checkpoint of v4",
        "2026-01-01T00:00:00.100000Z DEBUG next: Update(PolicyVersion(4))",
        "2026-01-01T00:00:00.120000Z DEBUG publishing v4",
        "2026-01-01T00:00:00.140000Z  INFO published v4 in 3 chunks",
        "2026-01-01T00:00:00.150000Z  INFO update 5 · reward 0.5 · accuracy 0.5",
        "2026-01-01T00:00:00.200000Z DEBUG next: Checkpoint(PolicyVersion(6))",
        "2026-01-01T00:00:00.210000Z DEBUG writing the checkpoint of v6",
        "2026-01-01T00:00:00.220000Z DEBUG wrote the checkpoint of v6 in 10 ms",
        "2026-01-01T00:00:00.230000Z DEBUG publishing v6",
        "2026-01-01T00:00:00.240000Z  INFO published v6 in 3 chunks",
        "2026-01-01T00:00:00.300000Z DEBUG next: Finish(PolicyVersion(6))",
        "2026-01-01T00:00:00.340000Z  INFO finished · held-out accuracy 0.400 → 0.500",
    ];

    #[test]
    fn a_log_is_followed_line_by_line() {
        let dir = tempfile::tempdir().unwrap();
        let log = ProcessLog::new(dir.path().join("log"));
        let mut tail = log.follow();
        assert_eq!(tail.events().unwrap(), []);
        let mut file = File::create(&log.0).unwrap();
        let text = LINES.join("\n") + "\n";
        let (first, rest) = text.split_at(text.find("(6)").unwrap());
        file.write_all(first.as_bytes()).unwrap();
        let (checkpoint, publication) = (Phase::Checkpoint, Phase::Publication);
        let found = [
            LogEvent::Step(Some(Phase::Update), 4),
            LogEvent::Begun(publication, 4),
            LogEvent::Ended(publication, 4),
        ];
        assert_eq!(tail.events().unwrap(), found);
        file.write_all(rest.as_bytes()).unwrap();
        let rest = [
            LogEvent::Step(None, 6),
            LogEvent::Begun(checkpoint, 6),
            LogEvent::Ended(checkpoint, 6),
            LogEvent::Begun(publication, 6),
            LogEvent::Ended(publication, 6),
            LogEvent::Step(Some(Phase::End), 6),
        ];
        assert_eq!(tail.events().unwrap(), rest);
        let pace = log.pace().unwrap();
        let found = [pace.start_up, pace.checkpoint, pace.publication, pace.period, pace.end];
        assert_eq!(found.map(|time| time.as_millis()), [100, 10, 15, 110, 40]);
        assert_eq!(log.updates().unwrap(), 1);
    }
}
