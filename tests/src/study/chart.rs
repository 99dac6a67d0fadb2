//! Courses as a picture: the mean over seeds of each arm, with its 95 % interval as a band.

use super::Study;
use super::course::SeedCourse;
use super::plans::StudyPlan;
use super::statistics::Mean;
use crate::output::plot::{FONT, SIZE, register_font};
use anyhow::anyhow;
use plotters::coord::CoordTranslate;
use plotters::drawing::DrawingAreaErrorKind;
use plotters::prelude::*;
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;

const GRID: RGBColor = RGBColor(225, 225, 225);

/// Draws one picture for each delay of the study: `NAME-delay-D.png` in its directory.
pub(super) fn draw(plan: &StudyPlan, courses: &[&[SeedCourse]], study: &Study) -> anyhow::Result<()> {
    let delays: BTreeSet<u64> = plan.arms.iter().map(|arm| arm.delay.updates).collect();
    for delay in delays {
        let arms: Vec<(&str, &[SeedCourse])> = plan
            .arms
            .iter()
            .zip(courses)
            .filter(|(arm, _)| arm.delay.updates == delay)
            .map(|(arm, courses)| (arm.algo.as_str(), *courses))
            .collect();
        let path = study.out.join(format!("{}-delay-{delay}.png", plan.name));
        let title = format!("{}: accuracy, {delay} updates of delay", plan.name);
        picture(&path, &title, plan.updates, &arms)
            .map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))?;
    }
    Ok(())
}

fn picture(
    path: &Path,
    title: &str,
    updates: u64,
    arms: &[(&str, &[SeedCourse])],
) -> Result<(), Box<dyn std::error::Error>> {
    register_font()?;
    let root = BitMapBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, (FONT, 26))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(56)
        .build_cartesian_2d(0f64..updates as f64, 0f64..1f64)?;
    chart
        .configure_mesh()
        .x_desc("updates")
        .y_desc("accuracy")
        .x_label_formatter(&|updates| format!("{updates:.0}"))
        .label_style((FONT, 16))
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .draw()?;
    for (index, (algo, courses)) in arms.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        let points = points(courses);
        let upper = points.iter().map(|(x, mean)| (*x, mean.mean + mean.ci95.min(1.0)));
        let lower = points.iter().rev().map(|(x, mean)| (*x, mean.mean - mean.ci95.min(1.0)));
        let band: Vec<(f64, f64)> = upper.chain(lower).map(|(x, y)| (x, y.clamp(0.0, 1.0))).collect();
        chart.draw_series(std::iter::once(Polygon::new(band, colour.mix(0.15))))?;
        let line = LineSeries::new(points.iter().map(|(x, mean)| (*x, mean.mean)), colour.stroke_width(2));
        chart
            .draw_series(line)?
            .label(*algo)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
    }
    legend(&mut chart)?;
    root.present()?;
    Ok(())
}

/// What the colours mean, in the corner where no line begins.
fn legend<'a, B: DrawingBackend + 'a, C: CoordTranslate>(
    chart: &mut ChartContext<'a, B, C>,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK)
        .label_font((FONT, 16))
        .draw()
}

/// A line of the picture, with its name in the legend.
pub(super) struct PlotLine {
    pub(super) name: String,
    /// Positive on both axes, or not drawn.
    pub(super) points: Vec<(f64, Mean)>,
}

/// Draws lines over logarithmic axes, with their 95 % intervals as bands.
pub(super) fn lines(path: &Path, title: &str, x: &str, y: &str, series: &[PlotLine]) -> anyhow::Result<()> {
    logarithmic(path, title, (x, y), series)
        .map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

fn logarithmic(
    path: &Path,
    title: &str,
    (x, y): (&str, &str),
    series: &[PlotLine],
) -> Result<(), Box<dyn std::error::Error>> {
    register_font()?;
    let all = || series.iter().flat_map(|line| &line.points);
    let across = extent(all().map(|(x, _)| *x));
    // As high as the bands. Downwards they may reach zero, where a logarithm has no end: there they are cut.
    let upright = extent(all().flat_map(|(_, y)| [y.mean, y.mean + y.ci95]));
    let root = BitMapBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&root)
        .caption(title, (FONT, 26))
        .margin(16)
        .x_label_area_size(44)
        .y_label_area_size(64)
        .build_cartesian_2d(across.log_scale(), upright.clone().log_scale())?;
    chart
        .configure_mesh()
        .x_desc(x)
        .y_desc(y)
        .label_style((FONT, 16))
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .draw()?;
    for (index, line) in series.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        let drawn: Vec<(f64, Mean)> =
            line.points.iter().copied().filter(|(x, y)| *x > 0.0 && y.mean > 0.0).collect();
        let upper = drawn.iter().map(|(x, y)| (*x, y.mean + y.ci95));
        let lower = drawn.iter().rev().map(|(x, y)| (*x, y.mean - y.ci95));
        let cut = |y: f64| y.clamp(upright.start, upright.end);
        let band: Vec<(f64, f64)> = upper.chain(lower).map(|(x, y)| (x, cut(y))).collect();
        chart.draw_series(std::iter::once(Polygon::new(band, colour.mix(0.15))))?;
        let points = || drawn.iter().map(|(x, y)| (*x, y.mean));
        chart
            .draw_series(LineSeries::new(points(), colour.stroke_width(2)))?
            .label(line.name.as_str())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], colour.stroke_width(2)));
        chart.draw_series(points().map(|point| Circle::new(point, 3, colour.filled())))?;
    }
    legend(&mut chart)?;
    root.present()?;
    Ok(())
}

/// Draws a bar for each of some named figures, which are not negative.
pub(super) fn bars(path: &Path, title: &str, y: &str, figures: &[(String, f64)]) -> anyhow::Result<()> {
    barred(path, title, y, figures).map_err(|error| anyhow!("cannot draw {}: {error}", path.display()))
}

fn barred(
    path: &Path,
    title: &str,
    y: &str,
    figures: &[(String, f64)],
) -> Result<(), Box<dyn std::error::Error>> {
    register_font()?;
    let highest = figures.iter().fold(0.0_f64, |highest, (_, figure)| highest.max(*figure));
    let root = BitMapBackend::new(path, SIZE).into_drawing_area();
    root.fill(&WHITE)?;
    // Half again as high as the highest bar: the names stand above.
    let mut chart = ChartBuilder::on(&root)
        .caption(title, (FONT, 26))
        .margin(16)
        .x_label_area_size(16)
        .y_label_area_size(64)
        .build_cartesian_2d(0f64..figures.len().max(1) as f64, 0f64..highest.max(1e-6) * 1.5)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_labels(0)
        .y_desc(y)
        .label_style((FONT, 16))
        .light_line_style(WHITE)
        .bold_line_style(GRID)
        .draw()?;
    for (index, (name, figure)) in figures.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        let (left, right) = (index as f64 + 0.15, index as f64 + 0.85);
        chart
            .draw_series(std::iter::once(Rectangle::new([(left, 0.0), (right, *figure)], colour.filled())))?
            .label(format!("{name}: {figure:.3}"))
            .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 20, y + 5)], colour.filled()));
    }
    legend(&mut chart)?;
    root.present()?;
    Ok(())
}

/// What an axis has to show of these values, with some room; a logarithmic one has no place for
/// what is not positive.
fn extent(values: impl Iterator<Item = f64>) -> Range<f64> {
    let positive = values.filter(|value| *value > 0.0 && value.is_finite());
    let (low, high) = positive.fold((f64::MAX, 0f64), |(low, high), v| (low.min(v), high.max(v)));
    if low < high { low * 0.8..high * 1.25 } else { 0.1..10.0 }
}

/// The mean accuracy over seeds at each evaluation.
fn points(courses: &[SeedCourse]) -> Vec<(f64, Mean)> {
    let evaluations = courses.iter().map(|course| course.accuracy.len()).min().unwrap_or(0);
    let at = |index: usize| {
        let values: Vec<f64> = courses.iter().map(|course| course.accuracy[index].1).collect();
        (courses[0].accuracy[index].0 as f64, Mean::of(&values))
    };
    (0..evaluations).map(at).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_that_reach_zero_or_have_no_end_are_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lines.png");
        let mean = |mean, ci95| Mean { mean, ci95 };
        let line = |name: &str, points| PlotLine { name: name.into(), points };
        let series = [
            line("wide", vec![(0.1, mean(0.5, 0.9)), (1.0, mean(2.0, 0.1))]),
            line(
                "one seed",
                [(0.1, 0.5), (0.5, 0.8), (1.0, 0.0)].map(|(x, y)| (x, mean(y, f64::INFINITY))).to_vec(),
            ),
        ];
        lines(&path, "bands", "x", "y", &series).unwrap();
        assert!(path.exists());
    }

    #[test]
    fn bars_of_any_height_are_drawn() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bars.png");
        bars(&path, "bars", "y", &[("a".to_owned(), 0.3), ("b".to_owned(), 0.0)]).unwrap();
        assert!(path.exists());
    }

    #[test]
    fn an_axis_holds_what_is_positive_and_finite() {
        assert_eq!(extent([2.0, -1.0, 0.0, 4.0, f64::INFINITY].into_iter()), (2.0 * 0.8)..5.0);
        assert_eq!(extent(std::iter::empty()), 0.1..10.0);
    }
}
