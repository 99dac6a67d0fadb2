//! How a run is going, while it goes: a block that redraws itself on a terminal, plain lines elsewhere.

mod view;

pub use view::{LiveState, NodeView};

use crate::output::console::Console;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::fmt::Display;
use std::io::{IsTerminal as _, stderr};
use std::time::{Duration, Instant};

/// The pause between two plain lines.
pub const PLAIN_EVERY: Duration = Duration::from_secs(5);

/// The view of one run. Dropped, it leaves the last state on the terminal.
pub struct Live {
    console: Console,
    screen: Screen,
}

enum Screen {
    Terminal { block: MultiProgress, progress: ProgressBar, details: ProgressBar },
    Plain { every: Duration, last: Option<Instant> },
}

impl Live {
    /// Draws on the standard error if that is a terminal, else says plain lines to `console`.
    #[must_use]
    pub fn new(console: &Console) -> Self {
        let screen = if stderr().is_terminal() {
            terminal()
        } else {
            Screen::Plain { every: PLAIN_EVERY, last: None }
        };
        Self { console: *console, screen }
    }

    /// Shows a state. It may be called as often as one likes.
    pub fn show(&mut self, state: &LiveState) {
        match &mut self.screen {
            Screen::Terminal { progress, details, .. } => {
                progress.set_length(state.updates);
                progress.set_position(state.update);
                progress.set_message(state.scores());
                details.set_message(state.details().join("\n"));
            }
            Screen::Plain { every, last } => {
                let now = Instant::now();
                if last.is_none_or(|last| now.duration_since(last) >= *every) {
                    *last = Some(now);
                    self.console.say(state.line());
                }
            }
        }
    }

    /// Says a line that stays, above the block.
    pub fn note(&self, line: impl Display) {
        match &self.screen {
            Screen::Terminal { block, .. } => block.suspend(|| self.console.say(line)),
            Screen::Plain { .. } => self.console.say(line),
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Screen::Terminal { progress, details, .. } = &self.screen {
            progress.abandon();
            details.abandon();
        }
    }
}

fn terminal() -> Screen {
    let block = MultiProgress::new();
    let style =
        |template: &str| ProgressStyle::with_template(template).expect("the templates are written below");
    let progress = block.add(ProgressBar::new(0));
    progress.set_style(style("update {pos}/{len} [{bar:30}] {elapsed}  {msg}").progress_chars("=> "));
    let details = block.add(ProgressBar::new_spinner());
    details.set_style(style("{msg}"));
    Screen::Terminal { block, progress, details }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_block_on_a_terminal_takes_any_state() {
        let mut live = Live { console: Console::new(true), screen: terminal() };
        live.show(&LiveState::default());
        let node = NodeView { name: "node-1".into(), version: Some(4), remark: None };
        live.show(&LiveState { update: 9, updates: 5, nodes: vec![node; 40], ..LiveState::default() });
        live.note("a line above the block");
        let Screen::Terminal { progress, details, .. } = &live.screen else { panic!("not a terminal") };
        assert_eq!((progress.position(), progress.length()), (9, Some(5)));
        assert_eq!(details.message().lines().count(), 3);
    }

    #[test]
    fn plain_lines_are_rare() {
        let screen = Screen::Plain { every: Duration::from_secs(3600), last: None };
        let mut live = Live { console: Console::new(true), screen };
        let last = |live: &Live| match live.screen {
            Screen::Plain { last, .. } => last,
            Screen::Terminal { .. } => None,
        };
        live.show(&LiveState::default());
        let first = last(&live).expect("the first state is said at once");
        live.show(&LiveState::default());
        assert_eq!(last(&live), Some(first), "the second is not");
    }
}
