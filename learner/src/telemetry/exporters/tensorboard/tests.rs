use super::*;
use crate::telemetry::exporters::catalog::readings;
use serde_json::json;

/// The events of the one file in `dir` that is not empty, with their framing checked.
fn events(dir: &Path) -> Vec<Event> {
    let files = fs::read_dir(dir).unwrap().map(|entry| fs::read(entry.unwrap().path()).unwrap());
    let files: Vec<Vec<u8>> = files.filter(|bytes| !bytes.is_empty()).collect();
    assert_eq!(files.len(), 1);
    let (mut rest, mut events) = (files[0].as_slice(), Vec::new());
    while !rest.is_empty() {
        let (length, after) = rest.split_at(8);
        let (of_length, after) = after.split_at(4);
        assert_eq!(of_length, checksum(length).to_le_bytes());
        let (message, after) = after.split_at(u64::from_le_bytes(length.try_into().unwrap()) as usize);
        let (of_message, after) = after.split_at(4);
        assert_eq!(of_message, checksum(message).to_le_bytes());
        events.push(Event::decode(message).unwrap());
        rest = after;
    }
    assert_eq!(events[0].what, Some(What::FileVersion("brain.Event:2".into())));
    assert_eq!(events[1].what, Some(What::SessionLog(SessionLog { status: SESSION_START })));
    events
}

/// Step and value of every scalar with this tag in the one file in `dir`.
pub(in crate::telemetry::exporters) fn scalars(dir: &Path, tag: &str) -> Vec<(i64, f32)> {
    let mut found = Vec::new();
    for event in events(dir) {
        let Some(What::Summary(summary)) = event.what else { continue };
        for value in summary.value.into_iter().filter(|value| value.tag == tag) {
            let Some(Number::Scalar(scalar)) = value.number else { panic!("{tag} is no scalar") };
            found.push((event.step, scalar));
        }
    }
    found
}

/// Step and text of every text with this tag in the one file in `dir`.
pub(in crate::telemetry) fn texts(dir: &Path, tag: &str) -> Vec<(i64, String)> {
    let mut found = Vec::new();
    for event in events(dir) {
        let Some(What::Summary(summary)) = event.what else { continue };
        for value in summary.value.into_iter().filter(|value| value.tag == tag) {
            let Some(Number::Tensor(tensor)) = value.number else { panic!("{tag} is no text") };
            assert_eq!(value.metadata.unwrap().plugin.unwrap().name, "text");
            found.push((event.step, String::from_utf8(tensor.strings.concat()).unwrap()));
        }
    }
    found
}

#[test]
fn a_text_is_encoded_as_tensorboard_reads_it() {
    let metadata = Metadata {
        plugin: Some(Plugin { name: "text".to_owned() }),
        description: String::new(),
        class: CLASS_TENSOR,
    };
    let number = Some(Number::Tensor(Tensor::of("hi".to_owned())));
    let value = TaggedValue { tag: "t".to_owned(), metadata: Some(metadata), number };
    let mut expected = b"\x0a\x01t".to_vec();
    // tensor { dtype: DT_STRING, tensor_shape { dim { size: 1 } }, string_val: "hi" }
    expected.extend(b"\x42\x0c\x08\x07\x12\x04\x12\x02\x08\x01\x42\x02hi");
    // metadata { plugin_data { plugin_name: "text" }, data_class: DATA_CLASS_TENSOR }
    expected.extend(b"\x4a\x0a\x0a\x06\x0a\x04text\x20\x02");
    assert_eq!(value.encode_to_vec(), expected);
}

#[test]
fn checksums_are_those_of_tensorflow() {
    // CRC-32C of 32 zeros is 0x8a9136aa (RFC 3720 B.4); this is it under the mask of TensorFlow's crc32c.h.
    assert_eq!(checksum(&[0; 32]), 0x0fd7_fffa);
    // The length that opens every file: of a version event without a step.
    assert_eq!(checksum(&24u64.to_le_bytes()).to_le_bytes(), [0xa3, 0x7f, 0x4b, 0x22]);
}

#[test]
fn a_row_is_one_event_and_a_tag_is_described_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = EventFile::replace(dir.path(), 7.5).unwrap();
    let row =
        json!({"reward": 0.25, "refused": {"stale": 3}, "staleness": {"0": 4, "2": 1, "1": 5}, "mfu": null});
    for step in [1, 2] {
        file.write(step, 8.0, &readings(&row).collect::<Vec<_>>()).unwrap();
    }
    assert_eq!(scalars(dir.path(), "reward/reward"), [(1, 0.25), (2, 0.25)]);
    assert_eq!(scalars(dir.path(), "data/refused/stale"), [(1, 3.0), (2, 3.0)]);
    assert_eq!(scalars(dir.path(), "speed/mfu"), []);
    let events = events(dir.path());
    assert_eq!((events.len(), events[2].wall_time), (4, 8.0));
    let of = |event: &Event, tag: &str| match &event.what {
        Some(What::Summary(summary)) => summary.value.iter().find(|value| value.tag == tag).cloned().unwrap(),
        _ => panic!("no summary"),
    };
    let [first, second] = [&events[2], &events[3]].map(|event| of(event, "data/staleness_tokens"));
    assert!(first.metadata.is_some() && second.metadata.is_none());
    let Some(Number::Histogram(lags)) = first.number else { panic!("no histogram") };
    assert_eq!((lags.min, lags.max, lags.num, lags.sum, lags.sum_squares), (0.0, 2.0, 10.0, 7.0, 9.0));
    assert_eq!(lags.bucket_limit, [-0.5, 0.5, 1.5, 2.5]);
    assert_eq!(lags.bucket, [0.0, 4.0, 5.0, 1.0]);
}

#[test]
fn a_new_file_comes_after_the_old_one_and_replaces_it() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes"), "mine").unwrap();
    let after = |now| {
        drop(EventFile::replace(dir.path(), now).unwrap());
        let entries = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap());
        let mut files: Vec<(String, bool)> = entries
            .map(|entry| (entry.file_name().into_string().unwrap(), entry.metadata().unwrap().len() > 0))
            .collect();
        files.sort();
        assert_eq!(files.pop(), Some(("notes".into(), true)));
        files.into_iter().map(|(name, full)| (name[NAME.len()..].to_owned(), full)).collect::<Vec<_>>()
    };
    let [first, second, third] = [100, 101, 102].map(|at| format!("0000000{at}.echo"));
    assert_eq!(after(100.0), [(first.clone(), true)]);
    assert_eq!(after(100.9), [(first, false), (second.clone(), true)]);
    assert_eq!(after(50.0), [(second, false), (third, true)], "the clock went back");
}
