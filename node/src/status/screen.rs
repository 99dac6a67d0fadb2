//! The terminal, if there is one.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::Arc;
use std::time::Duration;

use echo_protocol::program::output;
use indicatif::{HumanDuration, MultiProgress, ProgressBar, ProgressState, ProgressStyle};
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

use crate::status::node_state::Download;

/// Lines to standard output, and below them, when that is a terminal, a progress bar and a status line that
/// is replaced in its place.
#[derive(Clone, Debug)]
pub struct Screen {
    /// `None` when the output is no terminal: then there are lines only.
    bars: Option<MultiProgress>,
    bar: Arc<Mutex<Option<ProgressBar>>>,
    status: Arc<Mutex<Option<ProgressBar>>>,
}

/// Writes log lines to standard error without tearing the progress bar.
#[derive(Clone, Debug)]
pub struct LogWriter(Option<MultiProgress>);

impl Screen {
    /// The screen of this process.
    pub fn new() -> Self {
        let bars = io::stdout().is_terminal().then(MultiProgress::new);
        Self { bars, bar: Arc::default(), status: Arc::default() }
    }

    /// Whether a status line stays in its place.
    pub fn is_live(&self) -> bool {
        self.bars.is_some()
    }

    /// Shows the status: in its place on a terminal, cut to its width, and as a line elsewhere.
    pub fn status(&self, text: &str) {
        let Some(bars) = &self.bars else { return self.line(text) };
        let mut shown = self.status.lock();
        let line = shown.get_or_insert_with(|| bars.add(ProgressBar::new(0).with_style(status_style())));
        line.set_message(text.to_owned());
    }

    /// Takes status line and progress bar off the screen.
    pub fn clear(&self) {
        self.download(None);
        if let Some(line) = self.status.lock().take() {
            line.finish_and_clear();
        }
    }

    /// Prints a line, above the progress bar if there is one.
    pub fn line(&self, text: &str) {
        match &self.bars {
            Some(bars) => bars.suspend(|| output::line(text)),
            None => output::line(text),
        }
    }

    /// Shows how far a download is, or that there is none.
    pub fn download(&self, download: Option<Download>) {
        let Some(bars) = &self.bars else { return };
        let mut shown = self.bar.lock();
        match download {
            Some(download) => {
                let bar =
                    shown.get_or_insert_with(|| bars.insert(0, ProgressBar::new(0).with_style(style())));
                bar.set_message(download.version.to_string());
                bar.set_length(download.total);
                bar.set_position(download.have);
            }
            None => {
                if let Some(bar) = shown.take() {
                    bar.finish_and_clear();
                }
            }
        }
    }

    /// Where log lines go.
    pub fn log_writer(&self) -> LogWriter {
        LogWriter(self.bars.clone())
    }
}

impl Default for Screen {
    fn default() -> Self {
        Self::new()
    }
}

/// At most 80 columns: version, bytes, rate and what is left.
const BAR: &str = "{msg} [{bar:20}] {bytes} of {total_bytes}, {bytes_per_sec}, {left}";

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template(BAR).unwrap_or_else(|_| ProgressStyle::default_bar());
    style.with_key("left", |state: &ProgressState, to: &mut dyn fmt::Write| {
        // A line that cannot be written is shown at the next turn.
        let _ = to.write_str(&left(state.pos(), state.elapsed(), state.eta()));
    })
}

fn status_style() -> ProgressStyle {
    ProgressStyle::with_template("{wide_msg}").unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// How long a download still takes. At first nobody knows.
fn left(bytes: u64, since: Duration, eta: Duration) -> String {
    match bytes == 0 || since < Duration::from_secs(1) {
        true => "time unknown".to_owned(),
        false => format!("{} left", HumanDuration(eta)),
    }
}

impl Write for LogWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.0 {
            Some(bars) => bars.suspend(|| io::stderr().write(bytes)),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}

impl<'a> MakeWriter<'a> for LogWriter {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_says_0_seconds_before_anything_has_come() {
        let seconds = Duration::from_secs;
        assert_eq!(left(0, seconds(9), seconds(0)), "time unknown");
        assert_eq!(left(5, Duration::from_millis(20), seconds(0)), "time unknown");
        assert_eq!(left(5, seconds(2), seconds(23)), "23 seconds left");
    }

    #[test]
    fn the_bar_names_bytes_rate_and_time() {
        for part in ["{bytes}", "{total_bytes}", "{bytes_per_sec}", "{left}"] {
            assert!(BAR.contains(part), "{part}");
        }
        assert!(ProgressStyle::with_template(BAR).is_ok());
    }
}
