//! `echo-learner samples`: what the policy wrote, while a learner works on the run or when none does.

use crate::storage::run_dir::RunDir;
use crate::telemetry::samples::{Sample, SampledResponse, each_sample, visible};
use anyhow::{Context as _, ensure};
use clap::Args;
use echo_protocol::program::output::{note, print};
use std::collections::VecDeque;
use std::io::IsTerminal as _;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::str::FromStr;
use textwrap::Options;

/// Samples that are shown unless somebody says how many: those of two updates.
const SHOWN: usize = 4;
/// Columns where there is no terminal, and most of a wide one: longer lines are hard to read.
const COLUMNS: usize = 100;
/// Fewest columns that texts are wrapped to.
const MIN_COLUMNS: usize = 40;
/// What texts are set off by.
const INDENT: &str = "    ";
/// Lines of a text that are shown from its beginning and from its end, without `--full`.
const HEAD_AND_TAIL: [usize; 2] = [8, 6];

const BOLD: &str = "\u{1b}[1m";
const RED: &str = "\u{1b}[31m";
const GREEN: &str = "\u{1b}[32m";
const YELLOW: &str = "\u{1b}[33m";
const DIM: &str = "\u{1b}[2m";
const PLAIN: &str = "\u{1b}[0m";

/// Which samples are shown, and how.
#[derive(Args, Clone, Debug)]
pub struct SamplesPlan {
    /// The run directory.
    pub dir: PathBuf,
    /// Those of this update, and of evaluations of the version that it made.
    #[arg(long, value_name = "N", conflicts_with = "last")]
    pub update: Option<u64>,
    /// The newest K that the other options leave [default: 4].
    #[arg(long, value_name = "K")]
    pub last: Option<usize>,
    /// Only those of this task.
    #[arg(long, value_name = "NAME")]
    pub task: Option<String>,
    /// Only responses whose reward is in this range, as in 0..0.5, 0.9.. or 1.
    #[arg(long, value_name = "LOW..HIGH")]
    pub reward: Option<RewardRange>,
    /// Whole texts. Otherwise the middle of long ones is left out.
    #[arg(long)]
    pub full: bool,
    /// The rows of samples.jsonl, one JSON object a line.
    #[arg(long)]
    pub json: bool,
}

/// Rewards, both ends included.
#[derive(Clone, Debug, PartialEq)]
pub struct RewardRange(RangeInclusive<f32>);

impl FromStr for RewardRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = |text: &str, open: f32| match text.trim() {
            "" => Ok(open),
            text => {
                text.parse::<f32>().map_err(|_| format!("{text:?} is no number: write 0..0.5, 0.9.. or 1"))
            }
        };
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        let (low, high) = (number(low, f32::MIN)?, number(high.trim_start_matches('='), f32::MAX)?);
        if low <= high { Ok(Self(low..=high)) } else { Err(format!("{low} is above {high}")) }
    }
}

/// How texts are set.
#[derive(Clone, Copy, Debug)]
struct Style {
    columns: usize,
    colours: bool,
    full: bool,
}

/// Prints what the plan asks for.
///
/// # Errors
/// When the directory holds no run, or its samples cannot be read.
pub fn run(plan: &SamplesPlan) -> anyhow::Result<()> {
    let dir = RunDir::new(&plan.dir);
    ensure!(dir.charter().exists(), "{} holds no run", plan.dir.display());
    let samples = found(&dir, plan).with_context(|| dir.samples().display().to_string())?;
    if samples.is_empty() {
        note(&format!(
            "no such samples in {}: they are written after each update, as many as [watch] samples in the run file says",
            dir.samples().display()
        ));
    }
    let mut text = String::new();
    if plan.json {
        for sample in &samples {
            text.push_str(&(serde_json::to_string(sample)? + "\n"));
        }
    } else {
        let terminal = std::io::stdout().is_terminal();
        let columns = if terminal { textwrap::termwidth() } else { COLUMNS };
        let style = Style {
            columns: columns.clamp(MIN_COLUMNS, COLUMNS),
            colours: terminal && std::env::var_os("NO_COLOR").is_none(),
            full: plan.full,
        };
        samples.iter().for_each(|sample| text.push_str(&shown(sample, style)));
    }
    Ok(print(&text)?)
}

/// What the plan asks for, oldest first.
fn found(dir: &RunDir, plan: &SamplesPlan) -> std::io::Result<VecDeque<Sample>> {
    let most = if plan.update.is_some() { usize::MAX } else { plan.last.unwrap_or(SHOWN) };
    let mut found = VecDeque::new();
    each_sample(dir, |mut sample| {
        let of_update = plan.update.is_none_or(|update| sample.version() == update);
        if !of_update || plan.task.as_ref().is_some_and(|task| *task != sample.task) {
            return;
        }
        if let Some(RewardRange(range)) = &plan.reward {
            sample.responses.retain(|response| range.contains(&response.reward));
            if sample.responses.is_empty() {
                return;
            }
        }
        found.push_back(sample);
        if found.len() > most {
            found.pop_front();
        }
    })?;
    Ok(found)
}

/// A sample as people read it.
fn shown(sample: &Sample, style: Style) -> String {
    let mut text = format!("{}\n", style.coloured(BOLD, &sample.headline()));
    text.push_str(&style.coloured(DIM, &style.set(&sample.prompt)));
    text.push('\n');
    for response in &sample.responses {
        let colour = colour(response);
        text.push_str(&format!("  {}\n", style.coloured(colour, &response.headline())));
        text.push_str(&style.set(&response.text));
        text.push('\n');
    }
    if sample.left_out > 0 {
        text.push_str(&format!("  and {} more responses, which are not on record\n", sample.left_out));
    }
    text.push('\n');
    text
}

fn colour(response: &SampledResponse) -> &'static str {
    match (response.correct, response.ended) {
        (true, _) => GREEN,
        (false, true) => RED,
        (false, false) => YELLOW,
    }
}

impl Style {
    fn coloured(self, colour: &str, text: &str) -> String {
        if self.colours { format!("{colour}{text}{PLAIN}") } else { text.to_owned() }
    }

    /// A text of the policy or the task, escaped, wrapped and indented.
    fn set(self, text: &str) -> String {
        let options = Options::new(self.columns).initial_indent(INDENT).subsequent_indent(INDENT);
        let text = visible(text);
        let lines = textwrap::wrap(&text, options);
        let [head, tail] = HEAD_AND_TAIL;
        // A line that says that another is left out is no gain.
        if self.full || lines.len() <= head + tail + 1 {
            return lines.join("\n");
        }
        let left_out = lines.len() - head - tail;
        let between = format!("{INDENT}… {left_out} lines left out (--full shows them)");
        let end = &lines[lines.len() - tail..];
        format!("{}\n{between}\n{}", lines[..head].join("\n"), end.join("\n"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use std::fs;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        plan: SamplesPlan,
    }

    const ON_PAPER: Style = Style { columns: 60, colours: false, full: false };

    fn response(text: &str, reward: f32, ended: bool) -> SampledResponse {
        SampledResponse { text: text.into(), reward, correct: reward == 1.0, ended, ..Default::default() }
    }

    fn sample(update: Option<u64>, task: &str, rewards: &[f32]) -> Sample {
        let responses = rewards.iter().map(|reward| response("4", *reward, true)).collect();
        let (evaluated, task) = (update.is_none().then_some(2), task.to_owned());
        Sample { update, evaluated, task, responses, prompt: "2+2=".into(), ..Default::default() }
    }

    /// Updates and rewards that the options leave.
    fn left(dir: &RunDir, options: &[&str]) -> Vec<(Option<u64>, Vec<f32>)> {
        let path = dir.path().to_str().unwrap();
        let line = Line::try_parse_from([&["samples", path][..], options].concat()).unwrap();
        let samples = found(dir, &line.plan).unwrap();
        let rewards = |sample: &Sample| sample.responses.iter().map(|response| response.reward).collect();
        samples.iter().map(|sample| (sample.update, rewards(sample))).collect()
    }

    #[test]
    fn options_choose_among_samples() {
        let home = tempfile::tempdir().unwrap();
        let dir = RunDir::new(home.path());
        let rows = [
            sample(Some(1), "math", &[0.0, 1.0]),
            sample(Some(2), "code", &[0.5]),
            sample(None, "math", &[1.0]),
            sample(Some(3), "math", &[0.0]),
            sample(Some(3), "math", &[0.25, 1.0]),
        ];
        let lines = rows.map(|row| serde_json::to_string(&row).unwrap() + "\n");
        fs::write(dir.samples(), lines.concat()).unwrap();
        let all = left(&dir, &["--last", "9"]);
        assert_eq!(all.len(), 5);
        assert_eq!(left(&dir, &[]), all[1..]);
        assert_eq!(left(&dir, &["--last", "1"]), all[4..]);
        assert_eq!(left(&dir, &["--update", "3"]), all[3..]);
        assert_eq!(left(&dir, &["--update", "2"]), all[1..3], "and the evaluation of what it made");
        assert_eq!(left(&dir, &["--task", "code"]), all[1..2]);
        let some = left(&dir, &["--reward", "0.2..0.5"]);
        assert_eq!(some, [(Some(2), vec![0.5]), (Some(3), vec![0.25])]);
        assert_eq!(left(&dir, &["--reward", "1", "--last", "1"]), [(Some(3), vec![1.0])]);
        assert_eq!(left(&dir, &["--reward", "..0", "--task", "math"]).len(), 2);
        let both = ["samples", "DIR", "--update", "1", "--last", "2"];
        assert!(Line::try_parse_from(both).is_err());
    }

    #[test]
    fn a_range_is_two_numbers_in_order() {
        let parsed = |text: &str| text.parse::<RewardRange>();
        assert_eq!(parsed("0..0.5").unwrap(), RewardRange(0.0..=0.5));
        assert_eq!(parsed("0..=0.5").unwrap(), RewardRange(0.0..=0.5));
        assert_eq!(parsed("0.9..").unwrap(), RewardRange(0.9..=f32::MAX));
        assert!(parsed("1..0").unwrap_err().contains("above"));
        assert!(parsed("a..1").unwrap_err().contains("no number"));
        assert!(parsed("NaN").is_err(), "nothing is in that range");
    }

    #[test]
    fn a_sample_is_wrapped_and_says_what_became_of_each_response() {
        let responses = vec![response(&"word ".repeat(40), 0.0, false), response("4", 1.0, true)];
        let sample = Sample { responses, left_out: 3, ..sample(Some(7), "math", &[]) };
        let text = shown(&sample, ON_PAPER);
        assert!(text.starts_with("update 7 · math · order 0 · mean reward 0.500\n    2+2=\n"), "{text}");
        assert!(text.contains("  reward 0.000 · wrong · 0 tokens, cut\n    word word"), "{text}");
        assert!(text.contains("  reward 1.000 · right · 0 tokens, ended\n    4\n"), "{text}");
        assert!(text.contains("and 3 more responses"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 60), "{text}");
        assert!(!text.contains('\u{1b}'));
        let coloured = shown(&sample, Style { colours: true, ..ON_PAPER });
        assert!(coloured.contains(YELLOW) && coloured.contains(GREEN) && !coloured.contains(RED));
    }

    #[test]
    fn long_texts_are_cut_in_the_middle_unless_they_are_asked_for_whole() {
        let long = (1..=40).map(|n| n.to_string()).collect::<Vec<_>>().join("\n");
        let short = ON_PAPER.set(&long);
        assert_eq!(short.lines().count(), 8 + 1 + 6);
        assert!(short.contains("… 26 lines left out") && short.ends_with("    40"), "{short}");
        assert_eq!(Style { full: true, ..ON_PAPER }.set(&long).lines().count(), 40);
    }

    #[test]
    fn a_hostile_text_does_not_reach_the_terminal() {
        let hostile = Sample {
            task: "m\u{1b}[31m".into(),
            prompt: "p\u{1b}]0;title\u{7}".into(),
            responses: vec![response("r\u{1b}[2J\rx", 0.0, true)],
            node: Some("\u{1b}[1mnode".into()),
            ..Default::default()
        };
        let text = shown(&hostile, ON_PAPER);
        assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
        assert!(text.contains("\\u{1b}[2J"), "{text}");
    }
}
