//! The newest value of every metric, as Prometheus reads it.

use super::catalog::{METRICS, Metric, Reading, Shape};
use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// What comes before every name.
const PREFIX: &str = "echo";

/// The newest readings, by their place in the catalog. A clone is the same.
#[derive(Clone, Debug, Default)]
pub struct Latest(Arc<Mutex<BTreeMap<usize, Reading>>>);

impl Latest {
    /// Replaces what these metrics said before.
    pub fn update(&self, readings: impl IntoIterator<Item = Reading>) {
        self.0.lock().extend(readings.into_iter().map(|reading| (reading.index, reading)));
    }

    /// Everything in the OpenMetrics text format, each line labelled with the run's name.
    ///
    /// # Errors
    /// Never in practice: strings take whatever is written.
    pub fn text(&self, run: &str) -> Result<String, fmt::Error> {
        let label = [("run".into(), run.to_owned().into())];
        let mut registry = Registry::with_prefix_and_labels(PREFIX, label.into_iter());
        registry.register_collector(Box::new(self.clone()));
        let mut text = String::new();
        encode(&mut text, &registry)?;
        Ok(text)
    }
}

impl Collector for Latest {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for reading in self.0.lock().values().filter(|reading| !reading.values.is_empty()) {
            encode_reading(&METRICS[reading.index], &reading.values, &mut encoder)?;
        }
        Ok(())
    }
}

fn encode_reading(
    metric: &Metric,
    values: &[(String, f64)],
    encoder: &mut DescriptorEncoder<'_>,
) -> fmt::Result {
    let (kind, label) = match metric.shape {
        Shape::Number | Shape::Sum => (MetricType::Gauge, None),
        Shape::Counter => (MetricType::Counter, None),
        Shape::Labelled(label) | Shape::Histogram(label) | Shape::Nested(label) => {
            (MetricType::Gauge, Some(label))
        }
        Shape::Counters(label) => (MetricType::Counter, Some(label)),
    };
    let counts = matches!(kind, MetricType::Counter);
    let mut encoder = encoder.encode_descriptor(metric.name, metric.help, None, kind)?;
    for (value_of_label, value) in values {
        let pair = label.map(|label| [(label, value_of_label.as_str())]);
        match (&pair, counts) {
            (Some(pair), true) => ConstCounter::new(*value).encode(encoder.encode_family(pair)?)?,
            (Some(pair), false) => ConstGauge::new(*value).encode(encoder.encode_family(pair)?)?,
            // One value, so the encoder is not needed any more.
            (None, true) => return ConstCounter::new(*value).encode(encoder),
            (None, false) => return ConstGauge::new(*value).encode(encoder),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telemetry::exporters::catalog::readings;
    use serde_json::json;

    #[test]
    fn the_newest_values_are_shown_under_their_names() {
        let latest = Latest::default();
        let first = json!({"reward": 0.25, "mfu": 0.5, "accepted": 7, "refused": {"stale": 3, "lease": 1}, "skipped": true});
        latest.update(readings(&first));
        latest.update(readings(&json!({"held_out_accuracy": 0.75})));
        latest.update(readings(&json!({"reward": 0.5, "mfu": null, "staleness": {"0": 4, "1": 6}})));
        let text = latest.text("an \"odd\" name").unwrap();
        let run = r#"run="an \"odd\" name""#;
        for line in [
            "# TYPE echo_reward gauge",
            &format!("echo_reward{{{run}}} 0.5"),
            &format!("echo_skipped{{{run}}} 1.0"),
            &format!("echo_held_out_accuracy{{{run}}} 0.75"),
            &format!("echo_accepted_total{{{run}}} 7.0"),
            &format!("echo_refused_total{{{run},reason=\"stale\"}} 3.0"),
            &format!("echo_staleness_tokens{{{run},lag=\"1\"}} 6.0"),
            "# EOF",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("mfu"), "what the newest row does not have is not shown\n{text}");
    }
}
