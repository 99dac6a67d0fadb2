use std::sync::Arc;

use parquet::basic::{Compression, GzipLevel, ZstdLevel};
use parquet::data_type::ByteArray;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::parser::parse_message_type;

use super::*;

const SCHEMA: &str = "
message row {
  required binary question (UTF8);
  optional binary answer (UTF8);
  optional int64 level;
  optional group tags (LIST) { repeated group list { optional binary element (UTF8); } }
  optional group reward_model { optional binary ground_truth (UTF8); }
}";

const LINES: &str = r#"{"question":"a","answer":"1","level":3,"tags":["x",null],"reward_model":{"ground_truth":"1"}}
{"question":"b","answer":null,"level":null,"tags":[],"reward_model":{"ground_truth":null}}
{"question":"c","answer":"3","level":5,"tags":null,"reward_model":null}
"#;

fn texts(texts: &[&str]) -> Vec<ByteArray> {
    texts.iter().map(|text| ByteArray::from(*text)).collect()
}

/// A column's values, with definition and repetition levels.
type Strings<'a> = (&'a [&'a str], Option<&'a [i16]>, Option<&'a [i16]>);

fn column<'a>(
    values: &'a [&'a str],
    definitions: Option<&'a [i16]>,
    repetitions: Option<&'a [i16]>,
) -> Option<Strings<'a>> {
    Some((values, definitions, repetitions))
}

/// A file of columns of texts; `None` for the column of numbers.
fn written(schema: &str, compression: Compression, columns: &[Option<Strings<'_>>]) -> Vec<u8> {
    let schema = Arc::new(parse_message_type(schema).unwrap());
    let properties = Arc::new(WriterProperties::builder().set_compression(compression).build());
    let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).unwrap();
    let mut group = writer.next_row_group().unwrap();
    for column in columns {
        let mut writer = group.next_column().unwrap().unwrap();
        match column {
            Some((values, definitions, repetitions)) => {
                let typed = writer.typed::<ByteArrayType>();
                typed.write_batch(&texts(values), *definitions, *repetitions).unwrap();
            }
            None => {
                writer.typed::<Int64Type>().write_batch(&[3, 5], Some(&[1, 0, 1]), None).unwrap();
            }
        }
        writer.close().unwrap();
    }
    group.close().unwrap();
    writer.into_inner().unwrap()
}

fn three_rows(compression: Compression) -> Vec<u8> {
    written(
        SCHEMA,
        compression,
        &[
            column(&["a", "b", "c"], None, None),
            column(&["1", "3"], Some(&[1, 0, 1]), None),
            None,
            column(&["x"], Some(&[3, 2, 1, 0]), Some(&[0, 1, 0, 0])),
            column(&["1"], Some(&[2, 1, 0]), None),
        ],
    )
}

#[test]
fn rows_of_every_compression_become_lines() {
    for compression in [
        Compression::UNCOMPRESSED,
        Compression::SNAPPY,
        Compression::GZIP(GzipLevel::default()),
        Compression::ZSTD(ZstdLevel::default()),
        Compression::LZ4_RAW,
    ] {
        let lines = as_lines(three_rows(compression)).unwrap();
        assert_eq!(String::from_utf8(lines).unwrap(), LINES, "{compression:?}");
    }
}

#[test]
fn more_rows_than_are_read_at_once_stay_in_order() {
    let numbers: Vec<String> = (0..3 * ROWS_AT_ONCE + 7).map(|number| number.to_string()).collect();
    let numbers: Vec<&str> = numbers.iter().map(String::as_str).collect();
    let file = written(
        "message row { required binary n (UTF8); }",
        Compression::SNAPPY,
        &[column(&numbers, None, None)],
    );
    let lines = String::from_utf8(as_lines(file).unwrap()).unwrap();
    let found: Vec<String> = lines.lines().map(str::to_owned).collect();
    let expected: Vec<String> = numbers.iter().map(|number| format!("{{\"n\":\"{number}\"}}")).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_row_that_repeats_one_long_text_is_refused_before_it_is_made() {
    let long = "x".repeat(1 << 10);
    let count = 2 * MAX_UNPACKED_ROW_BYTES / long.len();
    let values = vec![long.as_str(); count];
    let mut repetitions = vec![1_i16; count];
    repetitions[0] = 0;
    let definitions = vec![1_i16; count];
    let column = column(&values, Some(&definitions), Some(&repetitions));
    let file = written("message row { repeated binary n (UTF8); }", Compression::SNAPPY, &[column]);
    assert!(file.len() < 1 << 20, "{} bytes", file.len());
    assert!(as_lines(file).unwrap_err().to_string().contains("more than 16777216 bytes"));
}

#[test]
fn damaged_files_are_refused_or_read_and_end_well() {
    let file = three_rows(Compression::GZIP(GzipLevel::default()));
    assert!(as_lines(file[..file.len() / 2].to_vec()).unwrap_err().to_string().contains("cut off"));
    for at in (MAGIC.len()..file.len() - MAGIC.len()).step_by(3) {
        for flipped in [0x01, 0x80, 0xff] {
            let mut file = file.clone();
            file[at] ^= flipped;
            if let Err(error) = as_lines(file) {
                assert!(error.to_string().contains("Parquet") || error == DataError::Empty, "{error}");
            }
        }
    }
}
