//! The terminal, if there is one.

use std::io::{self, IsTerminal, Write};
use std::sync::Arc;

use echo_protocol::program::output;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use parking_lot::Mutex;
use tracing_subscriber::fmt::MakeWriter;

use crate::status::node_state::Download;

/// Lines to standard output, and a progress bar below them when that is a terminal.
#[derive(Clone, Debug)]
pub struct Screen {
    /// `None` when the output is no terminal: then there are lines only.
    bars: Option<MultiProgress>,
    bar: Arc<Mutex<Option<ProgressBar>>>,
}

/// Writes log lines to standard error without tearing the progress bar.
#[derive(Clone, Debug)]
pub struct LogWriter(Option<MultiProgress>);

impl Screen {
    /// The screen of this process.
    pub fn new() -> Self {
        let bars = io::stdout().is_terminal().then(MultiProgress::new);
        Self { bars, bar: Arc::default() }
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
                let bar = shown.get_or_insert_with(|| bars.add(ProgressBar::new(0).with_style(style())));
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

fn style() -> ProgressStyle {
    ProgressStyle::with_template("{msg} [{bar:30}] {bytes} of {total_bytes}, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar())
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
