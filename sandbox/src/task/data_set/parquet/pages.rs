//! What the pages of a file unpack to, before anything is unpacked.
//!
//! The library allocates what a page's header states, and unpacks gzip to wherever it ends. So all
//! headers are read here first: Thrift's compact protocol, of which only the lengths matter.

use std::io::{self, Read as _};

use flate2::read::MultiGzDecoder;
use parquet::basic::Compression;
use parquet::file::metadata::RowGroupMetaData;

use super::{DataError, MAGIC, damaged};

/// Bytes of a page when it is unpacked. Writers make pages of about 1 MiB; one long text makes one
/// longer.
const MAX_PAGE_BYTES: u64 = 64 << 20;
/// Bytes of the largest pages of all columns together: one of each is in memory at a time, beside its
/// dictionary.
const MAX_PAGES_BYTES: u64 = 512 << 20;
/// Values of a row group's lists and dictionaries, of all columns together: so many may be in memory
/// at a time, some forty bytes each.
const MAX_VALUES: u64 = 8 << 20;
/// Encodings by deltas of texts. Their decoders allocate what the page itself states, which no header says.
const DELTAS_OF_TEXTS: [u64; 2] = [6, 7];
/// Bytes of the description at the end of the file. It takes about ten times as many in memory.
const MAX_FOOTER_BYTES: usize = 16 << 20;
/// The deepest nesting of a page's header; the format has three.
const MAX_DEPTH: u32 = 8;

/// Refuses a file whose description is longer than any that is made of rows of text.
pub(super) fn check_footer(bytes: &[u8]) -> Result<(), DataError> {
    let at = bytes.len() - MAGIC.len() - 4;
    let length = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as usize;
    if length > MAX_FOOTER_BYTES.min(at) {
        return Err(damaged(format!("its description would have {length} bytes")));
    }
    Ok(())
}

/// Walks all pages of a row group.
pub(super) fn check(bytes: &[u8], group: &RowGroupMetaData) -> Result<(), DataError> {
    let (mut together, mut values) = (0, 0);
    for column in group.columns() {
        let name = column.column_path().string();
        let too_large = |what: &str| {
            DataError::Form(format!(
                "column {name:?} of this Parquet file has {what}: leave it out, or write it as pyarrow does"
            ))
        };
        let gzip = match column.compression() {
            Compression::GZIP(_) => true,
            // Its readers know no end of a page.
            Compression::LZ4 => {
                return Err(too_large("the old form of lz4, which is not read here"));
            }
            _ => false,
        };
        let (start, length) = column.byte_range();
        let end = start.checked_add(length).filter(|end| *end <= bytes.len() as u64);
        let end = end.ok_or_else(|| damaged(format!("column {name:?} lies outside of the file")))?;
        let mut rest = &bytes[start as usize..end as usize];
        let in_lists = column.column_descr().max_rep_level() > 0;
        let mut largest = [0; 2];
        while !rest.is_empty() {
            let mut header = Compact { rest, depth: 0 };
            let page = header.page().ok_or_else(|| damaged(format!("column {name:?} has a damaged page")))?;
            rest = header.rest;
            let packed = usize::try_from(page.packed).ok().filter(|packed| *packed <= rest.len());
            let packed = packed.ok_or_else(|| damaged(format!("a page of column {name:?} is cut off")))?;
            if page.unpacked > MAX_PAGE_BYTES {
                return Err(too_large("pages of more than 64 MiB"));
            }
            if page.has_deltas {
                return Err(too_large("texts that are encoded as deltas, which are not read here"));
            }
            if in_lists || page.is_dictionary {
                values += page.values;
            }
            if values > MAX_VALUES {
                return Err(too_large("too many values in lists and dictionaries of one row group"));
            }
            let body = &rest[page.levels.min(packed)..packed];
            if gzip && unpacked(body, page.unpacked) > page.unpacked {
                return Err(damaged(format!("a page of column {name:?} unpacks to more than it says")));
            }
            let kind = usize::from(page.is_dictionary);
            largest[kind] = page.unpacked.max(largest[kind]);
            rest = &rest[packed..];
        }
        together += largest[0] + largest[1];
        if together > MAX_PAGES_BYTES {
            return Err(too_large("pages that together with other columns' are larger than 512 MiB"));
        }
    }
    Ok(())
}

/// How long gzip's content is, up to one byte more than `limit`.
fn unpacked(body: &[u8], limit: u64) -> u64 {
    // What is damaged is found when it is read.
    io::copy(&mut MultiGzDecoder::new(body).take(limit + 1), &mut io::sink()).unwrap_or(0)
}

/// What a page's header states.
#[derive(Debug, Default, PartialEq, Eq)]
struct Page {
    is_dictionary: bool,
    unpacked: u64,
    packed: u64,
    values: u64,
    has_deltas: bool,
    /// Bytes of levels before what is compressed.
    levels: usize,
}

/// Thrift's compact protocol.
struct Compact<'a> {
    rest: &'a [u8],
    depth: u32,
}

// Types of the protocol.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const DOUBLE: u8 = 7;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const SET: u8 = 10;
const MAP: u8 = 11;
const STRUCT: u8 = 12;

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn signed(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// A length that is not negative.
    fn length(&mut self) -> Option<u64> {
        u64::try_from(self.signed()?).ok()
    }

    /// The next field of a struct, by its id and type, after the one of id `last`; `None` at its end.
    fn field(&mut self, last: &mut i64) -> Option<Option<(i64, u8)>> {
        let byte = self.byte()?;
        if byte == 0 {
            return Some(None);
        }
        *last = match byte >> 4 {
            0 => self.signed()?,
            delta => last.checked_add(i64::from(delta))?,
        };
        Some(Some((*last, byte & 0x0f)))
    }

    fn page(&mut self) -> Option<Page> {
        let (mut page, mut last) = (Page::default(), 0);
        while let Some((id, kind)) = self.field(&mut last)? {
            match (id, kind) {
                (2, 5) => page.unpacked = self.length()?,
                (3, 5) => page.packed = self.length()?,
                (5 | 7 | 8, STRUCT) => {
                    page.is_dictionary |= id == 7;
                    self.counts(&mut page, id == 8)?;
                }
                _ => self.skip(kind)?,
            }
        }
        Some(page)
    }

    /// The header of a kind of page: its first field counts values. The newer kind has its encoding in
    /// another place, and levels that are not compressed.
    fn counts(&mut self, page: &mut Page, newer: bool) -> Option<()> {
        let mut last = 0;
        while let Some((id, kind)) = self.field(&mut last)? {
            match (id, kind) {
                (1, 5) => page.values = page.values.max(self.length()?),
                (2, 5) if !newer => page.has_deltas |= DELTAS_OF_TEXTS.contains(&self.length()?),
                (4, 5) if newer => page.has_deltas |= DELTAS_OF_TEXTS.contains(&self.length()?),
                (5 | 6, 5) if newer => {
                    page.levels = page.levels.checked_add(usize::try_from(self.length()?).ok()?)?
                }
                _ => self.skip(kind)?,
            }
        }
        Some(())
    }

    fn skip(&mut self, kind: u8) -> Option<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return None;
        }
        match kind {
            TRUE | FALSE => {}
            BYTE => {
                self.byte()?;
            }
            4..=6 => {
                self.varint()?;
            }
            DOUBLE => self.rest = self.rest.get(8..)?,
            BINARY => {
                let length = usize::try_from(self.varint()?).ok()?;
                self.rest = self.rest.get(length..)?;
            }
            LIST | SET => {
                let byte = self.byte()?;
                let length = if byte >> 4 == 15 { self.varint()? } else { u64::from(byte >> 4) };
                (0..length).try_for_each(|_| self.element(byte & 0x0f))?;
            }
            MAP => {
                let length = self.varint()?;
                let kinds = if length == 0 { 0 } else { self.byte()? };
                (0..length).try_for_each(|_| {
                    self.element(kinds >> 4)?;
                    self.element(kinds & 0x0f)
                })?;
            }
            STRUCT => {
                let mut last = 0;
                while let Some((_, kind)) = self.field(&mut last)? {
                    self.skip(kind)?;
                }
            }
            _ => return None,
        }
        self.depth -= 1;
        Some(())
    }

    /// An element of a list: a truth value takes a byte there.
    fn element(&mut self, kind: u8) -> Option<()> {
        if kind == TRUE || kind == FALSE { self.byte().map(drop) } else { self.skip(kind) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_pages_are_read() {
        // type 0, unpacked 100, packed 60, data page of 7 values with statistics that are passed over.
        let header = [
            0x15, 0x00, 0x15, 0xc8, 0x01, 0x15, 0x78, 0x2c, 0x15, 0x0e, 0x15, 0x00, 0x15, 0x06, 0x15, 0x06,
            0x1c, 0x18, 0x02, b'a', b'b', 0x00, 0x00, 0x00, 0xff,
        ];
        let mut compact = Compact { rest: &header, depth: 0 };
        let page = compact.page().unwrap();
        assert_eq!(
            page,
            Page { is_dictionary: false, unpacked: 100, packed: 60, values: 7, has_deltas: false, levels: 0 }
        );
        assert_eq!(compact.rest, [0xff]);
    }

    #[test]
    fn hostile_headers_end() {
        for header in [
            vec![0x1c; 100],
            vec![0x15, 0x00, 0x15, 0x01],
            vec![0xff; 20],
            vec![0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0x0f],
            vec![0x18, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        ] {
            assert_eq!(Compact { rest: &header, depth: 0 }.page(), None, "{header:?}");
        }
    }
}
