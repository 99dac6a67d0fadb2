//! How the columns of a file make a row: structs, lists, and what may be missing.
//!
//! A value's *definition* level says how much of its path is there, and its *repetition* level which
//! list it goes on with: 0 begins a row. Both are compared with the levels of the nodes on the path.

use std::ops::Range;
use std::sync::Arc;

use parquet::basic::{ConvertedType, LogicalType, Repetition};
use parquet::schema::types::Type;
use serde_json::{Map, Value};

use super::{DataError, ELEMENT_BYTES, Leaf, MAX_UNPACKED_ROW_BYTES, damaged};

/// The deepest nesting of a schema.
const MAX_DEPTH: usize = 24;
/// Columns of a file, those within structs too.
const MAX_COLUMNS: usize = 1_024;

/// A node of a schema.
#[derive(Debug)]
pub(super) struct Node {
    name: String,
    /// From this level on it is there.
    definition: i16,
    /// The level of the list that it is in, or makes.
    repetition: i16,
    optional: bool,
    repeated: bool,
    kind: Kind,
    /// The columns below it.
    leaves: Range<usize>,
}

#[derive(Debug)]
enum Kind {
    Leaf,
    Struct(Vec<Node>),
    /// A struct around the one node that repeats, which is how lists are written.
    List(Box<Node>),
}

impl Node {
    /// The node of a whole row.
    pub(super) fn root(schema: &Type) -> Result<Self, DataError> {
        let mut columns = 0;
        let fields = Self::all(schema.get_fields(), 0, 0, &mut columns, 0)?;
        let kind = Kind::Struct(fields);
        Ok(Self {
            name: String::new(),
            definition: 0,
            repetition: 0,
            optional: false,
            repeated: false,
            kind,
            leaves: 0..columns,
        })
    }

    fn all(
        fields: &[Arc<Type>],
        definition: i16,
        repetition: i16,
        columns: &mut usize,
        depth: usize,
    ) -> Result<Vec<Self>, DataError> {
        fields.iter().map(|field| Self::of(field, definition, repetition, columns, depth)).collect()
    }

    fn of(
        tp: &Type,
        definition: i16,
        repetition: i16,
        columns: &mut usize,
        depth: usize,
    ) -> Result<Self, DataError> {
        if depth > MAX_DEPTH {
            return Err(damaged("its columns are nested too deeply"));
        }
        let info = tp.get_basic_info();
        let occurs = if info.has_repetition() { info.repetition() } else { Repetition::REQUIRED };
        let (optional, repeated) = (occurs == Repetition::OPTIONAL, occurs == Repetition::REPEATED);
        let definition = definition + i16::from(optional || repeated);
        let repetition = repetition + i16::from(repeated);
        let first = *columns;
        let kind = if tp.is_primitive() {
            *columns += 1;
            if *columns > MAX_COLUMNS {
                return Err(damaged(format!("it has more than {MAX_COLUMNS} columns")));
            }
            Kind::Leaf
        } else {
            let mut fields = Self::all(tp.get_fields(), definition, repetition, columns, depth + 1)?;
            let converted = matches!(
                info.converted_type(),
                ConvertedType::LIST | ConvertedType::MAP | ConvertedType::MAP_KEY_VALUE
            );
            let listed =
                converted || matches!(info.logical_type_ref(), Some(LogicalType::List | LogicalType::Map));
            match fields.pop() {
                Some(field) if listed && fields.is_empty() && field.repeated => Kind::List(Box::new(field)),
                last => Kind::Struct(fields.into_iter().chain(last).collect()),
            }
        };
        if *columns == first {
            return Err(damaged(format!("the struct {:?} has no columns", tp.name())));
        }
        let name = tp.name().to_owned();
        Ok(Self { name, definition, repetition, optional, repeated, kind, leaves: first..*columns })
    }

    /// The next value of this node, whatever repeats it.
    pub(super) fn value(&self, leaves: &mut [Leaf], budget: &mut usize) -> Result<Value, DataError> {
        spend(budget, ELEMENT_BYTES)?;
        if self.optional && self.is_missing(leaves)? {
            return self.pass(leaves).map(|()| Value::Null);
        }
        match &self.kind {
            Kind::Leaf => {
                let value = leaves[self.leaves.start].take()?;
                spend(budget, value.as_str().map_or(0, str::len))?;
                Ok(value)
            }
            Kind::Struct(fields) => {
                let mut object = Map::new();
                for field in fields {
                    spend(budget, field.name.len())?;
                    object.insert(field.name.clone(), field.next(leaves, budget)?);
                }
                Ok(Value::Object(object))
            }
            Kind::List(repeated) => repeated.items(leaves, budget, true),
        }
    }

    /// What stands under the node's name: a list where it repeats.
    fn next(&self, leaves: &mut [Leaf], budget: &mut usize) -> Result<Value, DataError> {
        if self.repeated { self.items(leaves, budget, false) } else { self.value(leaves, budget) }
    }

    /// All values of a node that repeats. Within a list, a struct of one field is that field.
    fn items(&self, leaves: &mut [Leaf], budget: &mut usize, in_list: bool) -> Result<Value, DataError> {
        let mut items = Vec::new();
        if self.is_missing(leaves)? {
            self.pass(leaves)?;
            return Ok(Value::Array(items));
        }
        loop {
            items.push(match &self.kind {
                Kind::Struct(fields) if in_list && fields.len() == 1 => fields[0].next(leaves, budget)?,
                _ => self.value(leaves, budget)?,
            });
            if leaves[self.leaves.start].repetition() != Some(self.repetition) {
                return Ok(Value::Array(items));
            }
        }
    }

    fn is_missing(&self, leaves: &[Leaf]) -> Result<bool, DataError> {
        let level = leaves[self.leaves.start].definition();
        level.map(|level| level < self.definition).ok_or_else(|| damaged("a column ends within a row"))
    }

    /// Passes over the one entry that every column has for what is not there.
    fn pass(&self, leaves: &mut [Leaf]) -> Result<(), DataError> {
        leaves[self.leaves.clone()].iter_mut().try_for_each(|leaf| leaf.take().map(drop))
    }
}

fn spend(budget: &mut usize, bytes: usize) -> Result<(), DataError> {
    let left = budget.checked_sub(bytes);
    *budget = left.ok_or_else(|| {
        DataError::Form(format!(
            "a row of this Parquet file has more than {MAX_UNPACKED_ROW_BYTES} bytes: leave it out, or write only the \
             columns that the task reads"
        ))
    })?;
    Ok(())
}
