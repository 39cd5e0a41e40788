//! Keys from a file or standard input: one a line, or columns of a CSV file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Cursor, Read};
use std::path::PathBuf;

use clap::Args;
use csv::{ByteRecord, ReaderBuilder, Terminator};
use diesel_sharded::{KeyType, ShardKey};
use serde::Serialize;

use crate::failure::Failure;
use crate::output::{DOUBTFUL, Output, counted, styled};

/// How many lines that are no keys are named.
const NAMED: usize = 5;

/// Where sample keys come from.
#[derive(Args, Clone, Debug)]
pub(crate) struct KeySource {
    /// A file of keys, one a line, or a CSV file with --column; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,

    /// The column of a CSV file with a header that holds the keys; an empty field is a null key.
    /// Several times for a composite key: the columns of its parts, in their order
    #[arg(long, value_name = "NAME", requires = "keys")]
    column: Vec<String>,
}

/// How many keys were read, and what was none.
#[derive(Clone, Debug, Default, Serialize)]
pub(crate) struct KeysRead {
    #[serde(skip)]
    keys: u64,
    /// How many lines were no keys.
    unreadable: u64,
    /// The first of them, by number.
    unreadable_lines: Vec<u64>,
    first_unreadable: Option<String>,
    /// How many lines had nothing in them, and were skipped.
    blank: u64,
}

impl KeySource {
    /// Hands each key on, one after the other: nothing is kept. A line that is no key is counted.
    ///
    /// Fails where there is no key at all.
    pub(crate) fn each(
        &self,
        key: KeyType,
        mut then: impl FnMut(&ShardKey<'_>),
    ) -> Result<KeysRead, Failure> {
        let mut read = KeysRead::default();
        let Some(path) = &self.keys else {
            return Ok(read);
        };
        let parts = match key {
            KeyType::Composite(parts) => parts.parts().count(),
            _ => 1,
        };
        let each = format!(
            "the keys are {key}: say --column {parts} times, once for each part, in their order"
        );
        if parts > 1 && self.column.len() > 1 && self.column.len() != parts {
            return Err(Failure::usage(each));
        }
        if self.column.len() > 1 && parts == 1 {
            return Err(Failure::usage(format!(
                "the keys are {key}, which is one column: say --column once"
            )));
        }
        let name = path.display();
        let opened: io::Result<Box<dyn Read>> = if path.as_os_str() == "-" {
            Ok(Box::new(io::stdin().lock()))
        } else {
            File::open(path).map(|file| Box::new(file) as Box<dyn Read>)
        };
        let mut any = false;
        let mut then = |key: &ShardKey<'_>| {
            any |= !matches!(key, ShardKey::Null);
            then(key);
        };
        let result = opened
            .and_then(without_mark)
            .map_err(|error| error.to_string());
        let result = result.and_then(|input| {
            if self.column.is_empty() {
                let all = lines(input, key, &mut read, &mut then);
                all.map_err(|error| error.to_string())
            } else {
                fields(input, &self.column, key, &mut read, &mut then)
            }
        });
        result.map_err(|reason| Failure::usage(format!("{name}: {reason}")))?;
        // One column can hold whole keys, and then at least one is read.
        let one_of_several = parts > 1 && self.column.len() == 1;
        if read.keys == 0 || (one_of_several && !any && read.unreadable > 0) {
            let first = match &read.first_unreadable {
                Some(first) => format!("; {first}"),
                None => String::new(),
            };
            let advice = if one_of_several {
                format!("; {each}")
            } else {
                String::new()
            };
            return Err(Failure::usage(format!(
                "{name}: there is no {key} key in it{first}{advice}"
            )));
        }
        Ok(read)
    }
}

impl KeysRead {
    /// Says what was no key.
    pub(crate) fn tell(&self, output: &Output) {
        if let Some(first) = &self.first_unreadable {
            let are = if self.unreadable == 1 {
                "line is no key"
            } else {
                "lines are no keys"
            };
            let numbers: Vec<String> = self.unreadable_lines.iter().map(u64::to_string).collect();
            let more = if self.unreadable > NAMED as u64 {
                ", .."
            } else {
                ""
            };
            output.line(format_args!(
                "\n{}: {} {are} ({}{more}) and not counted; {first}",
                styled(DOUBTFUL, "warning"),
                self.unreadable,
                numbers.join(", "),
            ));
        }
        if self.blank > 0 {
            let lines = counted(self.blank, "blank line");
            output.line(format_args!("\n{lines} skipped"));
        }
    }

    fn key(&mut self, line: u64, text: &[u8], key: KeyType, then: &mut impl FnMut(&ShardKey<'_>)) {
        let parsed = match std::str::from_utf8(text) {
            Ok(text) => key.parse_key(text).map_err(|error| error.to_string()),
            Err(error) => Err(format!("it is no UTF-8: {error}")),
        };
        match parsed {
            Ok(key) => {
                self.keys += 1;
                then(&key);
            }
            Err(reason) => self.no_key(line, &reason),
        }
    }

    fn no_key(&mut self, line: u64, reason: &str) {
        self.unreadable += 1;
        if self.unreadable_lines.len() < NAMED {
            self.unreadable_lines.push(line);
        }
        self.first_unreadable
            .get_or_insert_with(|| format!("line {line}: {reason}"));
    }
}

/// The input without the mark of UTF-8 that some programs write at its beginning.
fn without_mark(mut input: Box<dyn Read>) -> io::Result<impl Read> {
    let mut first = Vec::new();
    input.by_ref().take(3).read_to_end(&mut first)?;
    if first == *"\u{feff}".as_bytes() {
        first.clear();
    }
    Ok(Cursor::new(first).chain(input))
}

/// One key a line.
fn lines(
    input: impl Read,
    key: KeyType,
    read: &mut KeysRead,
    then: &mut impl FnMut(&ShardKey<'_>),
) -> io::Result<()> {
    let mut lines = BufReader::with_capacity(1 << 16, input);
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let text = line.strip_suffix(b"\n").unwrap_or(&line);
        match text.strip_suffix(b"\r").unwrap_or(text) {
            [] => read.blank += 1,
            text => read.key(number, text, key, then),
        }
    }
    Ok(())
}

/// Columns of a CSV file with a header.
fn fields(
    input: impl Read,
    columns: &[String],
    key: KeyType,
    read: &mut KeysRead,
    then: &mut impl FnMut(&ShardKey<'_>),
) -> Result<(), String> {
    // Lines end with `\n` alone, so that it is known how many there were; the `\r` before it is taken off
    // the last field.
    let mut rows = ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .terminator(Terminator::Any(b'\n'))
        .from_reader(input.chain(Cursor::new(b"\n")));
    let mut row = ByteRecord::new();
    rows.read_byte_record(&mut row)
        .map_err(|error| error.to_string())?;
    let width = row.len();
    let positions: Vec<usize> = columns
        .iter()
        .map(|column| position(&row, column))
        .collect::<Result<_, _>>()?;
    let mut next = rows.position().line();
    let mut joined = Vec::new();
    while rows
        .read_byte_record(&mut row)
        .map_err(|error| error.to_string())?
    {
        let breaks = row.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64;
        let after = rows.position().line();
        let line = after.saturating_sub(1 + breaks);
        read.blank += line.saturating_sub(next);
        next = after;
        if row.len() == 1 && row.as_slice() == b"\r" {
            read.blank += 1;
        } else if row.len() != width {
            let reason = format!("{} of {width}", counted(row.len(), "field"));
            read.no_key(line, &reason);
        } else if positions.iter().any(|at| field(&row, *at).is_empty()) {
            read.keys += 1;
            then(&ShardKey::Null);
        } else if let [at] = positions.as_slice() {
            read.key(line, field(&row, *at), key, then);
        } else {
            joined.clear();
            for (i, at) in positions.iter().enumerate() {
                joined.extend_from_slice(if i == 0 { b"\"" } else { b",\"" });
                for byte in field(&row, *at) {
                    joined.extend(std::iter::repeat_n(
                        *byte,
                        if *byte == b'"' { 2 } else { 1 },
                    ));
                }
                joined.push(b'"');
            }
            read.key(line, &joined, key, then);
        }
    }
    // What was appended to the input is no line of it.
    read.blank += rows.position().line().saturating_sub(next + 1);
    Ok(())
}

fn position(header: &ByteRecord, column: &str) -> Result<usize, String> {
    let names: Vec<&[u8]> = (0..header.len()).map(|at| field(header, at)).collect();
    let found = names.iter().position(|name| *name == column.as_bytes());
    found.ok_or_else(|| {
        let known = names.iter().map(|name| String::from_utf8_lossy(name));
        let known: Vec<_> = known.collect();
        format!(
            "there is no column {column:?} (columns: {})",
            known.join(", ")
        )
    })
}

fn field(row: &ByteRecord, at: usize) -> &[u8] {
    let field = row.get(at).unwrap_or_default();
    if at + 1 == row.len() {
        field.strip_suffix(b"\r").unwrap_or(field)
    } else {
        field
    }
}
