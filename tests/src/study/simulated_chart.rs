//! Lines over two axes, with dashed lines where something was predicted.

use crate::output::plot::{FONT, SIZE, register_font};
use anyhow::anyhow;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;
use std::ops::Range;
use std::path::Path;

/// A line with its name.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// A dashed line upright at `x`, in the colour of the `line` of this number.
pub(super) struct Marker {
    pub(super) line: usize,
    pub(super) x: f64,
}

/// What the axes say, and whether both are logarithmic.
pub(super) struct Axis {
    pub(super) x: &'static str,
    pub(super) y: &'static str,
    pub(super) is_logarithmic: bool,
}

/// Draws lines to a PNG file.
pub(super) fn draw(
    path: &Path,
    title: &str,
    axes: &Axis,
    lines: &[Line],
    markers: &[Marker],
) -> anyhow::Result<()> {
    let points = || lines.iter().flat_map(|line| &line.points);
    let across = extent(points().map(|(x, _)| *x), axes.is_logarithmic);
    let upright = extent(points().map(|(_, y)| *y), axes.is_logarithmic);
    let drawn = if axes.is_logarithmic {
        picture(path, title, axes, (across.log_scale(), upright.clone().log_scale(), upright), lines, markers)
    } else {
        picture(path, title, axes, (across, upright.clone(), upright), lines, markers)
    };
    drawn.map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

fn picture<X, Y>(
    path: &Path,
    title: &str,
    axes: &Axis,
    (across, upright, height): (X, Y, Range<f64>),
    lines: &[Line],
    markers: &[Marker],
) -> Result<(), Box<dyn std::error::Error>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    register_font()?;
    let root = BitMapBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, (FONT, 26))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(across, upright)?;
    chart
        .configure_mesh()
        .x_desc(axes.x)
        .y_desc(axes.y)
        .label_style((FONT, 16))
        .light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .draw()?;
    for (index, line) in lines.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(2)))?
            .label(line.name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
        chart.draw_series(line.points.iter().map(|point| Circle::new(*point, 3, colour.filled())))?;
    }
    for Marker { line, x } in markers {
        let colour = Palette99::pick(*line).to_rgba();
        let ends = [(*x, height.start), (*x, height.end)];
        chart.draw_series(DashedLineSeries::new(ends, 6, 4, colour.stroke_width(1)))?;
    }
    chart
        .configure_series_labels()
        .position(if ends_high(axes, lines, &height) {
            SeriesLabelPosition::LowerRight
        } else {
            SeriesLabelPosition::UpperRight
        })
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .label_font((FONT, 16))
        .draw()?;
    root.present()?;
    Ok(())
}

/// Whether lines end where names would hide them.
fn ends_high(axes: &Axis, lines: &[Line], height: &Range<f64>) -> bool {
    let points = || lines.iter().flat_map(|line| &line.points);
    let last = points().map(|(x, _)| *x).fold(0.0, f64::max);
    // The names take a third of the picture at most.
    !axes.is_logarithmic && points().any(|(x, y)| *x > last * 2.0 / 3.0 && *y > height.end * 2.0 / 3.0)
}

/// What an axis shows: from 0 on, or from the least where it is logarithmic.
fn extent(values: impl Iterator<Item = f64>, is_logarithmic: bool) -> Range<f64> {
    let (low, high) = values.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
    match (is_logarithmic, high > 0.0) {
        (_, false) => {
            if is_logarithmic {
                0.1..10.0
            } else {
                0.0..1.0
            }
        }
        (true, true) => low.max(1e-9) * 0.8..high * 1.25,
        (false, true) => 0.0..high * 1.05,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_markers_are_drawn_on_both_kinds_of_axes() {
        let dir = tempfile::tempdir().unwrap();
        for is_logarithmic in [false, true] {
            let path = dir.path().join(format!("{is_logarithmic}.png"));
            let lines = [Line { name: "a".into(), points: vec![(1.0, 0.5), (4.0, 0.01)] }];
            let axes = Axis { x: "x", y: "y", is_logarithmic };
            draw(&path, "title", &axes, &lines, &[Marker { line: 0, x: 2.5 }]).unwrap();
            assert!(path.exists());
        }
    }

    #[test]
    fn names_stand_below_lines_that_end_high() {
        let line = |points: &[(f64, f64)]| [Line { name: "a".into(), points: points.to_vec() }];
        let axes = Axis { x: "x", y: "y", is_logarithmic: false };
        assert!(ends_high(&axes, &line(&[(0.0, 0.0), (4.0, 1.0)]), &(0.0..1.05)));
        assert!(!ends_high(&axes, &line(&[(0.0, 1.0), (4.0, 0.1)]), &(0.0..1.05)));
    }

    #[test]
    fn an_axis_begins_at_zero_unless_it_is_logarithmic() {
        assert_eq!(extent([2.0, 4.0].into_iter(), false), 0.0..4.0 * 1.05);
        assert_eq!(extent([2.0, 4.0].into_iter(), true), 2.0 * 0.8..5.0);
        assert_eq!(extent([0.0].into_iter(), false), 0.0..1.0);
    }
}
