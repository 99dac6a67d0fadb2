//! The rows of a Parquet file as JSON lines: strings, numbers, lists and structs.
//!
//! A file comes from anywhere, so no length that it states is believed before [`pages`] has walked all
//! pages and seen that what they unpack to is bounded. Rows are then put together one at a time, within
//! [`MAX_UNPACKED_ROW_BYTES`]: a dictionary may hold one long text that a row repeats.

mod pages;
mod shape;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use parquet::data_type::{
    BoolType, ByteArrayType, DataType, DoubleType, FixedLenByteArrayType, FloatType, Int32Type, Int64Type,
    Int96Type,
};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader};
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::schema::types::ColumnDescriptor;
use serde_json::{Number, Value};

use self::shape::Node;
use super::DataError;
use super::form::Lines;

/// What every Parquet file begins and ends with.
pub(super) const MAGIC: &[u8] = b"PAR1";
/// Bytes of a row while it is put together. One of more than a data set's longest row is left out
/// when it is read.
const MAX_UNPACKED_ROW_BYTES: usize = 16 << 20;
/// Rows that are read from each column at once.
const ROWS_AT_ONCE: usize = 64;
/// Bytes that an element of a list is counted with, beside its text.
const ELEMENT_BYTES: usize = 8;

/// Reads all rows.
///
/// # Errors
/// [`DataError`] when the file is damaged, or goes beyond a bound.
pub(super) fn as_lines(bytes: Vec<u8>) -> Result<Vec<u8>, DataError> {
    // The library asserts some of what a damaged file does not keep.
    let read = catch_unwind(AssertUnwindSafe(|| read(Bytes::from(bytes))));
    read.unwrap_or_else(|_| Err(damaged("its structure is contradictory")))
}

fn damaged(why: impl std::fmt::Display) -> DataError {
    DataError::Form(format!(
        "it is a Parquet file that cannot be read ({why}): fetch or write it again, or write its rows as JSON lines"
    ))
}

impl From<ParquetError> for DataError {
    fn from(error: ParquetError) -> Self {
        damaged(error)
    }
}

fn read(bytes: Bytes) -> Result<Vec<u8>, DataError> {
    if bytes.len() < 3 * MAGIC.len() || !bytes.ends_with(MAGIC) {
        return Err(damaged("it is cut off: its end is missing"));
    }
    pages::check_footer(&bytes)?;
    let file = SerializedFileReader::new(bytes.clone())?;
    let schema = file.metadata().file_metadata().schema_descr_ptr();
    let root = Node::root(schema.root_schema())?;
    let mut lines = Lines::default();
    for at in 0..file.num_row_groups() {
        pages::check(&bytes, file.metadata().row_group(at))?;
        let group = file.get_row_group(at)?;
        let mut leaves = (0..schema.num_columns())
            .map(|at| Leaf::open(&*group, at, &schema.column(at)))
            .collect::<Result<Vec<Leaf>, DataError>>()?;
        read_group(&root, &mut leaves, &mut lines)?;
    }
    if lines.is_empty() { Err(DataError::Empty) } else { Ok(lines.bytes) }
}

fn read_group(root: &Node, leaves: &mut [Leaf], lines: &mut Lines) -> Result<(), DataError> {
    loop {
        let mut rows = None;
        for leaf in leaves.iter_mut() {
            let found = leaf.fill()?;
            if *rows.get_or_insert(found) != found {
                return Err(damaged("its columns have different lengths"));
            }
        }
        match rows {
            None | Some(0) => return Ok(()),
            Some(rows) => {
                for _ in 0..rows {
                    if leaves.iter().any(|leaf| leaf.repetition() != Some(0)) {
                        return Err(damaged("a column goes on where a row begins"));
                    }
                    let mut budget = MAX_UNPACKED_ROW_BYTES;
                    lines.push(&root.value(leaves, &mut budget)?)?;
                }
            }
        }
    }
}

/// A column: its levels and values of some rows, and how far they are used.
struct Leaf {
    source: Box<dyn Source>,
    max_definition: i16,
    definitions: Vec<i16>,
    repetitions: Vec<i16>,
    levels: usize,
    at: usize,
    value_at: usize,
}

impl Leaf {
    fn open(
        group: &dyn RowGroupReader,
        at: usize,
        column: &Arc<ColumnDescriptor>,
    ) -> Result<Self, DataError> {
        let reader = get_column_reader(Arc::clone(column), group.get_column_page_reader(at)?);
        Ok(Self {
            source: source(reader, column),
            max_definition: column.max_def_level(),
            definitions: Vec::new(),
            repetitions: Vec::new(),
            levels: 0,
            at: 0,
            value_at: 0,
        })
    }

    /// Reads the next rows, and says how many they are.
    fn fill(&mut self) -> Result<usize, DataError> {
        self.definitions.clear();
        self.repetitions.clear();
        (self.at, self.value_at) = (0, 0);
        let (rows, levels) = self.source.fill(&mut self.definitions, &mut self.repetitions)?;
        self.levels = levels;
        Ok(rows)
    }

    /// How much of the path to the next value is there; `None` behind the last.
    fn definition(&self) -> Option<i16> {
        let level = self.definitions.get(self.at).copied().unwrap_or(self.max_definition);
        (self.at < self.levels).then_some(level)
    }

    /// Which list the next value goes on with; `None` behind the last.
    fn repetition(&self) -> Option<i16> {
        let level = self.repetitions.get(self.at).copied().unwrap_or(0);
        (self.at < self.levels).then_some(level)
    }

    /// Takes the next value; null where its path is not there in full.
    fn take(&mut self) -> Result<Value, DataError> {
        let definition = self.definition().ok_or_else(|| damaged("a column ends within a row"))?;
        self.at += 1;
        if definition < self.max_definition {
            return Ok(Value::Null);
        }
        self.value_at += 1;
        self.source.value(self.value_at - 1).ok_or_else(|| damaged("a column has too few values"))
    }
}

/// A column of some type.
trait Source {
    /// Reads the next rows: how many there are, and how many levels.
    fn fill(
        &mut self,
        definitions: &mut Vec<i16>,
        repetitions: &mut Vec<i16>,
    ) -> Result<(usize, usize), DataError>;

    /// One of the values that were read last.
    fn value(&self, at: usize) -> Option<Value>;
}

struct Typed<T: DataType, F> {
    reader: ColumnReaderImpl<T>,
    values: Vec<T::T>,
    json: F,
}

impl<T: DataType, F: Fn(&T::T) -> Value> Source for Typed<T, F> {
    fn fill(
        &mut self,
        definitions: &mut Vec<i16>,
        repetitions: &mut Vec<i16>,
    ) -> Result<(usize, usize), DataError> {
        self.values.clear();
        let (rows, _, levels) =
            self.reader.read_records(ROWS_AT_ONCE, Some(definitions), Some(repetitions), &mut self.values)?;
        Ok((rows, levels))
    }

    fn value(&self, at: usize) -> Option<Value> {
        self.values.get(at).map(&self.json)
    }
}

fn source(reader: ColumnReader, column: &ColumnDescriptor) -> Box<dyn Source> {
    use parquet::basic::ConvertedType::{DECIMAL, UINT_8, UINT_16, UINT_32, UINT_64};
    fn typed<T: DataType, F: Fn(&T::T) -> Value + 'static>(
        reader: ColumnReaderImpl<T>,
        json: F,
    ) -> Box<dyn Source> {
        Box::new(Typed::<T, F> { reader, values: Vec::new(), json })
    }
    let float = |value: f64| Number::from_f64(value).map_or(Value::Null, Value::Number);
    let unsigned = matches!(column.converted_type(), UINT_8 | UINT_16 | UINT_32 | UINT_64);
    let scale = if column.converted_type() == DECIMAL { column.type_scale() } else { 0 };
    let integer = move |value: i64| match scale {
        0 => Value::from(value),
        _ => float(value as f64 / 10_f64.powi(scale)),
    };
    match reader {
        ColumnReader::BoolColumnReader(reader) => typed::<BoolType, _>(reader, |value| Value::Bool(*value)),
        ColumnReader::Int32ColumnReader(reader) => typed::<Int32Type, _>(reader, move |value| {
            if unsigned { Value::from(*value as u32) } else { integer(i64::from(*value)) }
        }),
        ColumnReader::Int64ColumnReader(reader) => {
            typed::<Int64Type, _>(
                reader,
                move |value| {
                    if unsigned { Value::from(*value as u64) } else { integer(*value) }
                },
            )
        }
        // The shortest decimal that is this number in 32 bits, not in 64.
        ColumnReader::FloatColumnReader(reader) => {
            typed::<FloatType, _>(reader, move |value| value.to_string().parse().map_or(Value::Null, float))
        }
        ColumnReader::DoubleColumnReader(reader) => {
            typed::<DoubleType, _>(reader, move |value| float(*value))
        }
        // What is no text, such as a picture, is nothing that a task reads.
        ColumnReader::ByteArrayColumnReader(reader) => typed::<ByteArrayType, _>(reader, |value| {
            std::str::from_utf8(value.data()).map_or(Value::Null, Value::from)
        }),
        ColumnReader::FixedLenByteArrayColumnReader(reader) => {
            typed::<FixedLenByteArrayType, _>(reader, |_| Value::Null)
        }
        ColumnReader::Int96ColumnReader(reader) => typed::<Int96Type, _>(reader, |_| Value::Null),
    }
}

#[cfg(test)]
mod tests;
