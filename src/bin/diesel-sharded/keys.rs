//! Keys from a file or standard input: one a line, or one column of a CSV file.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::PathBuf;

use clap::Args;
use diesel_sharded::{KeyType, ShardKey};

use crate::failure::Failure;

/// Where sample keys come from.
#[derive(Args, Clone, Debug)]
pub(crate) struct KeySource {
    /// A file of keys, one a line, or a CSV file with --column; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) keys: Option<PathBuf>,

    /// The column of a CSV file with a header that holds the keys; an empty field is a null key
    #[arg(long, value_name = "NAME", requires = "keys")]
    column: Option<String>,
}

/// How many keys were read, and how many texts were none.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeysRead {
    pub(crate) keys: u64,
    pub(crate) unreadable: u64,
    pub(crate) first_unreadable: Option<String>,
}

impl KeySource {
    /// Hands each key on, one after the other: nothing is kept.
    pub(crate) fn each(
        &self,
        key: KeyType,
        mut then: impl FnMut(&ShardKey<'_>),
    ) -> Result<KeysRead, Failure> {
        let Some(path) = &self.keys else {
            return Ok(KeysRead::default());
        };
        let name = path.display().to_string();
        let failed = |error: &dyn std::fmt::Display| Failure::usage(format!("{name}: {error}"));
        let input: Box<dyn Read> = if path.as_os_str() == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(File::open(path).map_err(|error| failed(&error))?)
        };
        let mut read = KeysRead::default();
        match &self.column {
            None => {
                let mut lines = BufReader::with_capacity(1 << 16, input);
                let mut line = String::new();
                loop {
                    line.clear();
                    if lines.read_line(&mut line).map_err(|error| failed(&error))? == 0 {
                        return Ok(read);
                    }
                    let text = line.strip_suffix('\n').unwrap_or(&line);
                    let text = text.strip_suffix('\r').unwrap_or(text);
                    if !text.is_empty() {
                        one(key, text, &mut read, &mut then);
                    }
                }
            }
            Some(column) => {
                let mut rows = csv::Reader::from_reader(input);
                let header = rows.headers().map_err(|error| failed(&error))?;
                let Some(at) = header.iter().position(|name| name == column) else {
                    let known: Vec<&str> = header.iter().collect();
                    return Err(failed(&format_args!(
                        "there is no column {column:?} (columns: {})",
                        known.join(", ")
                    )));
                };
                let mut row = csv::StringRecord::new();
                while rows.read_record(&mut row).map_err(|error| failed(&error))? {
                    match row.get(at) {
                        None | Some("") => {
                            read.keys += 1;
                            then(&ShardKey::Null);
                        }
                        Some(text) => one(key, text, &mut read, &mut then),
                    }
                }
                Ok(read)
            }
        }
    }
}

fn one(key: KeyType, text: &str, read: &mut KeysRead, then: &mut impl FnMut(&ShardKey<'_>)) {
    match key.parse_key(text) {
        Ok(key) => {
            read.keys += 1;
            then(&key);
        }
        Err(error) => {
            read.unreadable += 1;
            read.first_unreadable
                .get_or_insert_with(|| error.to_string());
        }
    }
}
