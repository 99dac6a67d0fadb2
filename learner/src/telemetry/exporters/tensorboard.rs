//! Event files for TensorBoard, derived from `metrics.jsonl`.
//!
//! When a learner starts it writes a new file from all rows of the lineage that it goes on with, in
//! the place of the one before: nothing appears twice, and nothing is missing that a crash kept
//! from the file. The new file begins with a session start at step 0, with which a TensorBoard that
//! is looking forgets what it has read.
//!
//! The few messages of TensorFlow's `event.proto`, `summary.proto` and `tensor.proto` that scalars,
//! histograms and texts need are written out here. `tboard` needs a `protoc` to be built;
//! `tensorboard-rs` ends the process when a disk is full, queues without bound, and pulls a
//! protobuf with a published advisory.

use super::catalog::{Reading, Shape};
use crate::telemetry::metrics::is_at;
use prost::Message as _;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// How the files' names begin; TensorBoard looks for this.
const NAME: &str = "events.out.tfevents.";

/// The open event file, which TensorBoard follows.
#[derive(Debug)]
pub(in crate::telemetry) struct EventFile {
    path: PathBuf,
    file: File,
    /// Tags whose description is in the file.
    described: BTreeSet<String>,
}

impl EventFile {
    /// A new file in `dir`, in the place of all that are there; `now` is the time in Unix seconds.
    /// The one before is emptied, and goes with the next start: a TensorBoard that is looking never
    /// gets beyond a file that vanishes.
    pub(in crate::telemetry) fn replace(dir: &Path, now: f64) -> io::Result<Self> {
        fs::create_dir_all(dir)?;
        let mut old = Vec::new();
        for entry in fs::read_dir(dir)? {
            let name = entry?.file_name();
            old.extend(name.to_str().filter(|name| name.starts_with(NAME)).map(str::to_owned));
        }
        // A name after all older ones: TensorBoard reads files in the order of their names.
        let second = |name: &String| name[NAME.len()..].split('.').next()?.parse::<u64>().ok();
        let newest = old.iter().filter_map(second).max();
        let at = newest.map_or(0, |newest| newest.saturating_add(1)).max(now as u64);
        let path = dir.join(format!("{NAME}{at:010}.echo"));
        let mut events = Self { file: File::create_new(&path)?, path, described: BTreeSet::new() };
        events.append(&Event {
            wall_time: now,
            step: 0,
            what: Some(What::FileVersion("brain.Event:2".into())),
        })?;
        let start = SessionLog { status: SESSION_START };
        events.append(&Event { wall_time: now, step: 0, what: Some(What::SessionLog(start)) })?;
        for path in old.iter().map(|name| dir.join(name)) {
            match fs::metadata(&path)?.len() {
                0 => fs::remove_file(&path)?,
                _ => drop(File::create(&path)?),
            }
        }
        Ok(events)
    }

    /// Whether nobody has removed it.
    pub(in crate::telemetry) fn is_there(&self) -> bool {
        is_at(&self.file, &self.path)
    }

    /// Its length in bytes; 0 where that cannot be known.
    pub(in crate::telemetry) fn length(&self) -> u64 {
        self.file.metadata().map_or(0, |file| file.len())
    }

    /// Writes a text in Markdown under its tag.
    pub(in crate::telemetry) fn write_text(
        &mut self,
        step: u64,
        time: f64,
        tag: String,
        markdown: String,
    ) -> io::Result<()> {
        let metadata = Metadata {
            plugin: Some(Plugin { name: "text".to_owned() }),
            description: String::new(),
            class: CLASS_TENSOR,
        };
        let text = Number::Tensor(Tensor::of(markdown));
        let value = vec![TaggedValue { tag, metadata: Some(metadata), number: Some(text) }];
        let step = i64::try_from(step).unwrap_or(i64::MAX);
        self.append(&Event { wall_time: time, step, what: Some(What::Summary(Summary { value })) })
    }

    /// Writes what a row says.
    pub(super) fn write(&mut self, step: u64, time: f64, readings: &[Reading]) -> io::Result<()> {
        let mut value = Vec::new();
        for reading in readings {
            let (metric, tag) =
                (reading.metric(), format!("{}/{}", reading.metric().group, reading.metric().name));
            match metric.shape {
                Shape::Histogram(_) => {
                    let histogram = Histogram::of(&reading.values);
                    value.extend(histogram.map(|h| self.value(tag, metric.help, Number::Histogram(h))));
                }
                _ => {
                    for (label, number) in &reading.values {
                        let tag = if label.is_empty() { tag.clone() } else { format!("{tag}/{label}") };
                        value.push(self.value(tag, metric.help, Number::Scalar(*number as f32)));
                    }
                }
            }
        }
        let step = i64::try_from(step).unwrap_or(i64::MAX);
        self.append(&Event { wall_time: time, step, what: Some(What::Summary(Summary { value })) })
    }

    fn value(&mut self, tag: String, help: &str, number: Number) -> TaggedValue {
        let new = self.described.insert(tag.clone());
        let metadata = new.then(|| Metadata { description: help.to_owned(), ..Metadata::default() });
        TaggedValue { tag, metadata, number: Some(number) }
    }

    /// TFRecord framing: length, its checksum, the message, its checksum.
    fn append(&mut self, event: &Event) -> io::Result<()> {
        let message = event.encode_to_vec();
        let length = (message.len() as u64).to_le_bytes();
        let mut record = Vec::with_capacity(message.len() + 16);
        record.extend(length);
        record.extend(checksum(&length).to_le_bytes());
        record.extend(&message);
        record.extend(checksum(&message).to_le_bytes());
        self.file.write_all(&record)
    }
}

/// CRC-32C, masked so that a checksum of bytes with checksums in them still finds errors.
fn checksum(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

/// TensorBoard's `SessionLog.SessionStatus.START`, written at the head of each file.
const SESSION_START: i32 = 1;
/// TensorFlow's `DataClass.DATA_CLASS_TENSOR`.
const CLASS_TENSOR: i32 = 2;
/// TensorFlow's `DataType.DT_STRING`.
const TYPE_STRING: i32 = 7;

#[derive(Clone, PartialEq, prost::Message)]
struct Event {
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(oneof = "What", tags = "3, 5, 7")]
    what: Option<What>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
    #[prost(message, tag = "7")]
    SessionLog(SessionLog),
}

#[derive(Clone, PartialEq, prost::Message)]
struct SessionLog {
    #[prost(int32, tag = "1")]
    status: i32,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<TaggedValue>,
}

/// TensorBoard's `Summary.Value`: a number or a text under its tag.
#[derive(Clone, PartialEq, prost::Message)]
struct TaggedValue {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(message, optional, tag = "9")]
    metadata: Option<Metadata>,
    #[prost(oneof = "Number", tags = "2, 5, 8")]
    number: Option<Number>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Number {
    #[prost(float, tag = "2")]
    Scalar(f32),
    #[prost(message, tag = "5")]
    Histogram(Histogram),
    #[prost(message, tag = "8")]
    Tensor(Tensor),
}

/// TensorFlow's `TensorProto`, with one text.
#[derive(Clone, PartialEq, prost::Message)]
struct Tensor {
    #[prost(int32, tag = "1")]
    dtype: i32,
    #[prost(message, optional, tag = "2")]
    shape: Option<TensorShape>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    strings: Vec<Vec<u8>>,
}

impl Tensor {
    fn of(text: String) -> Self {
        let shape = TensorShape { dimensions: vec![Dimension { size: 1 }] };
        Self { dtype: TYPE_STRING, shape: Some(shape), strings: vec![text.into_bytes()] }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
struct TensorShape {
    #[prost(message, repeated, tag = "2")]
    dimensions: Vec<Dimension>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Dimension {
    #[prost(int64, tag = "1")]
    size: i64,
}

/// TensorBoard's `SummaryMetadata.PluginData`.
#[derive(Clone, PartialEq, prost::Message)]
struct Plugin {
    #[prost(string, tag = "1")]
    name: String,
}

/// TensorBoard's `SummaryMetadata`: the description of a scalar, or what a tensor is shown by.
#[derive(Clone, PartialEq, prost::Message)]
struct Metadata {
    #[prost(message, optional, tag = "1")]
    plugin: Option<Plugin>,
    #[prost(int32, tag = "4")]
    class: i32,
    #[prost(string, tag = "3")]
    description: String,
}

/// TensorBoard's `HistogramProto`: counts of numbers by bucket.
#[derive(Clone, PartialEq, prost::Message)]
struct Histogram {
    #[prost(double, tag = "1")]
    min: f64,
    #[prost(double, tag = "2")]
    max: f64,
    #[prost(double, tag = "3")]
    num: f64,
    #[prost(double, tag = "4")]
    sum: f64,
    #[prost(double, tag = "5")]
    sum_squares: f64,
    #[prost(double, repeated, tag = "6")]
    bucket_limit: Vec<f64>,
    #[prost(double, repeated, tag = "7")]
    bucket: Vec<f64>,
}

impl Histogram {
    /// A bucket around each number that occurs; `None` where none does.
    fn of(counts: &[(String, f64)]) -> Option<Self> {
        let mut counts: Vec<(f64, f64)> =
            counts.iter().filter_map(|(number, count)| Some((number.parse().ok()?, *count))).collect();
        counts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (min, max) = (counts.first()?.0, counts.last()?.0);
        let mut histogram = Self {
            min,
            max,
            num: counts.iter().map(|(_, count)| count).sum(),
            sum: counts.iter().map(|(number, count)| number * count).sum(),
            sum_squares: counts.iter().map(|(number, count)| number * number * count).sum(),
            ..Self::default()
        };
        for (number, count) in counts {
            // The empty stretch before it, then the number itself.
            for (limit, count) in [(number - 0.5, 0.0), (number + 0.5, count)] {
                if histogram.bucket_limit.last().is_none_or(|last| *last < limit) {
                    histogram.bucket_limit.push(limit);
                    histogram.bucket.push(count);
                }
            }
        }
        Some(histogram)
    }
}

#[cfg(test)]
pub(in crate::telemetry) mod tests;
