//! The reward curve of a run as a picture.

mod curves;
mod smooth;

pub use curves::{Curves, MAX_POINTS, read_curves};

use plotters::prelude::*;
use plotters::style::FontStyle;
use smooth::{moving_mean, window_for};
use std::collections::BTreeMap;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Width and height of the picture, in pixels.
pub const SIZE: (u32, u32) = (960, 540);

pub(crate) const FONT: &str = "sans-serif";
const RAW: RGBColor = RGBColor(174, 199, 232);
const SMOOTHED: RGBColor = RGBColor(31, 119, 180);
const ACCURACY: RGBColor = RGBColor(214, 96, 22);

/// Why there is no picture.
#[derive(Debug, thiserror::Error)]
pub enum PlotError {
    /// The metrics cannot be read.
    #[error("cannot read the metrics {path}: {source}")]
    Read {
        /// The path of the metrics file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// There is nothing to draw.
    #[error("{path} holds no row with `update` and `reward`: has the run made an update yet?")]
    NoUpdates {
        /// The path of the metrics file.
        path: PathBuf,
    },
    /// More rows than a run makes.
    #[error("{path} holds more than {MAX_POINTS} updates: cut it before plotting")]
    TooManyRows {
        /// The path of the metrics file.
        path: PathBuf,
    },
    /// The picture could not be drawn or written.
    #[error("cannot draw {path}: {reason}")]
    Draw {
        /// The path of the picture.
        path: PathBuf,
        /// What the drawing library said.
        reason: String,
    },
}

/// Draws the rewards and accuracies of `metrics` (JSON lines) to the PNG file `picture`, under `title`.
///
/// # Errors
/// [`PlotError`] when there is nothing to draw, or a file cannot be read or written.
pub fn reward_curve(metrics: &Path, picture: &Path, title: &str) -> Result<(), PlotError> {
    let curves = read_curves(metrics)?;
    draw(&curves, picture, title)
        .map_err(|error| PlotError::Draw { path: picture.to_owned(), reason: error.to_string() })
}

/// Makes [`FONT`] known: bytes that come with the program, so that machines without fonts get
/// a labelled picture too.
pub(crate) fn register_font() -> Result<(), &'static str> {
    plotters::style::register_font(FONT, FontStyle::Normal, epaint_default_fonts::UBUNTU_LIGHT)
        .map_err(|_| "the built-in font cannot be read")
}

fn draw(curves: &Curves, picture: &Path, title: &str) -> Result<(), Box<dyn std::error::Error>> {
    register_font()?;
    let points = |curve: &BTreeMap<u64, f64>| curve.iter().map(|(&x, &y)| (x as f64, y)).collect::<Vec<_>>();
    let (rewards, accuracies) = (points(&curves.rewards), points(&curves.accuracies));
    let window = window_for(rewards.len());
    let means = moving_mean(&rewards.iter().map(|&(_, y)| y).collect::<Vec<_>>(), window);
    let smoothed = rewards.iter().map(|&(x, _)| x).zip(means);

    let root = BitMapBackend::new(picture, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, (FONT, 26))
        .margin(16)
        .x_label_area_size(48)
        .y_label_area_size(64)
        .build_cartesian_2d(across(&rewards, &accuracies), upright(&rewards, &accuracies))?;
    chart
        .configure_mesh()
        .x_desc("update")
        .y_desc("reward, accuracy")
        .x_label_formatter(&|update| format!("{update:.0}"))
        .y_label_formatter(&|value| format!("{value:.2}"))
        .label_style((FONT, 16))
        .axis_desc_style((FONT, 18))
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .draw()?;

    chart
        .draw_series(LineSeries::new(rewards.iter().copied(), RAW.stroke_width(1)))?
        .label("mean reward of an update")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 24, y)], RAW.stroke_width(2)));
    chart
        .draw_series(LineSeries::new(smoothed, SMOOTHED.stroke_width(3)))?
        .label(format!("mean of {window} updates"))
        .legend(|(x, y)| PathElement::new([(x, y), (x + 24, y)], SMOOTHED.stroke_width(3)));
    if !accuracies.is_empty() {
        chart
            .draw_series(LineSeries::new(accuracies.iter().copied(), ACCURACY.stroke_width(2)))?
            .label("accuracy on held-out orders")
            .legend(|(x, y)| PathElement::new([(x, y), (x + 24, y)], ACCURACY.stroke_width(3)));
        chart.draw_series(accuracies.iter().map(|&point| Circle::new(point, 4, ACCURACY.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .label_font((FONT, 16))
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .margin(10)
        .draw()?;
    root.present()?;
    Ok(())
}

/// The updates drawn; never empty, for one point too.
fn across(rewards: &[(f64, f64)], accuracies: &[(f64, f64)]) -> Range<f64> {
    let (first, last) = extent(rewards.iter().chain(accuracies).map(|&(x, _)| x), (f64::MAX, 0.0));
    first..last.max(first + 1.0)
}

/// The values drawn: 0 to 1, in which accuracies lie, and whatever rewards lie beyond.
fn upright(rewards: &[(f64, f64)], accuracies: &[(f64, f64)]) -> Range<f64> {
    let (low, high) = extent(rewards.iter().chain(accuracies).map(|&(_, y)| y), (0.0, 1.0));
    let room = 0.04 * (high - low);
    (if low < 0.0 { low - room } else { 0.0 })..high + room
}

/// `at_least`, widened to hold all values.
fn extent(values: impl Iterator<Item = f64>, at_least: (f64, f64)) -> (f64, f64) {
    values.fold(at_least, |(low, high), value| (low.min(value), high.max(value)))
}

#[cfg(test)]
mod tests;
