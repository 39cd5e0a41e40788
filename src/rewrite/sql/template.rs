//! A text with holes where sharded tables are named.

use xxhash_rust::xxh3::xxh3_64;

use super::super::{TableNumbers, TableSet};

/// A statement (or several) whose sharded tables are still open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pieces: Vec<Piece>,
    /// The keys that it writes, which must belong to the tables of the route.
    keys: Vec<KeyWrite>,
    /// The sharded tables it names, each once.
    tables: Vec<usize>,
    /// The columns of theirs that it has the database number, each table by a counter of its own.
    counters: Vec<(usize, Box<str>)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Piece {
    Text(Box<str>),
    Table {
        index: usize,
        quote: Option<char>,
    },
    /// Something that each physical table has one of: an index, a constraint.
    Own {
        name: String,
        index: usize,
        quote: Option<char>,
    },
}

/// A place of a text that is filled in for each physical table.
pub(super) struct Hole {
    pub(super) bytes: std::ops::Range<usize>,
    pub(super) table: usize,
    pub(super) quote: Option<char>,
    /// The name of what the table owns; `None`: the name of the table itself.
    pub(super) own: Option<String>,
}

/// A value that a statement puts into the key column of a sharded table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyWrite {
    pub(crate) table: usize,
    pub(crate) value: Written,
    pub(crate) in_: KeyUse,
}

/// How a key is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyUse {
    /// In a new row.
    Insert,
    /// Into a row that is there: it must not leave its table.
    Update,
}

/// What is written in the place of a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Written {
    /// The bind of this position, from 0.
    Bind(usize),
    /// A whole number, with its sign.
    Integer(i128),
    Text(String),
    Null,
    /// Something that a server would have to work out, or nothing at all.
    Other,
}

impl Template {
    /// Puts a template together; `holes` are in the order of the text.
    pub(super) fn new(text: &str, holes: Vec<Hole>, keys: Vec<KeyWrite>) -> Self {
        let mut pieces = Vec::with_capacity(holes.len() * 2 + 1);
        let mut tables = Vec::new();
        let mut done = 0;
        for Hole {
            bytes,
            table: index,
            quote,
            own,
        } in holes
        {
            if bytes.start > done {
                pieces.push(Piece::Text(text[done..bytes.start].into()));
            }
            pieces.push(match own {
                None => Piece::Table { index, quote },
                Some(name) => Piece::Own { name, index, quote },
            });
            if !tables.contains(&index) {
                tables.push(index);
            }
            done = bytes.end;
        }
        if done < text.len() {
            pieces.push(Piece::Text(text[done..].into()));
        }
        Self {
            pieces,
            keys,
            tables,
            counters: Vec::new(),
        }
    }

    /// The same with the columns that the database numbers.
    pub(super) fn with_counters(self, counters: Vec<(usize, Box<str>)>) -> Self {
        Self { counters, ..self }
    }

    /// The columns that it has the database number, with the table of each.
    #[cfg(feature = "migrations")]
    pub(crate) fn counters(&self) -> impl Iterator<Item = (usize, &str)> {
        self.counters
            .iter()
            .map(|(table, column)| (*table, &**column))
    }

    /// The names of what the tables own, with the table of each.
    #[cfg(feature = "migrations")]
    pub(crate) fn owned(&self) -> impl Iterator<Item = (&str, usize)> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Own { name, index, .. } => Some((name.as_str(), *index)),
            Piece::Text(_) | Piece::Table { .. } => None,
        })
    }

    pub(crate) fn keys(&self) -> &[KeyWrite] {
        &self.keys
    }

    pub(crate) fn tables(&self) -> &[usize] {
        &self.tables
    }

    /// The bytes that it keeps.
    pub(crate) fn size(&self) -> usize {
        let text = |piece: &Piece| match piece {
            Piece::Text(text) => text.len(),
            Piece::Table { .. } => 0,
            Piece::Own { name, .. } => name.len(),
        };
        size_of::<Self>()
            + self.pieces.len() * size_of::<Piece>()
            + self.pieces.iter().map(text).sum::<usize>()
            + self.keys.len() * size_of::<KeyWrite>()
            + self.counters.len() * size_of::<(usize, Box<str>)>()
    }

    /// The text for the tables of a route; `Err` is a table for which the route has no number.
    pub(crate) fn render(
        &self,
        set: &TableSet,
        numbers: Option<TableNumbers>,
    ) -> Result<String, usize> {
        let mut text = String::with_capacity(self.size() + 24 * self.pieces.len() / 2);
        for piece in &self.pieces {
            let (index, quote) = match piece {
                Piece::Text(piece) => {
                    text.push_str(piece);
                    continue;
                }
                Piece::Table { index, quote } | Piece::Own { index, quote, .. } => (index, quote),
            };
            let table = &set.tables()[*index];
            let numbers = numbers.ok_or(*index)?;
            match piece {
                Piece::Text(_) => {}
                Piece::Own { name, .. } => {
                    let name = own_name(name, &table.mark(numbers).ok_or(*index)?);
                    text.push_str(&set.dialect.write_name(&name, *quote));
                }
                Piece::Table { .. } => {
                    let name = &*table.physical(numbers).ok_or(*index)?;
                    match quote {
                        // What Diesel writes: no need to think about it.
                        Some(quote @ ('"' | '`')) => {
                            text.push(*quote);
                            text.push_str(name);
                            text.push(*quote);
                        }
                        quote => text.push_str(&set.dialect.write_name(name, *quote)),
                    }
                }
            }
        }
        Ok(text)
    }
}

/// The longest name that every backend keeps whole, in bytes.
const LONGEST: usize = 63;

/// The name of what a physical table owns: with the number of the table, and with a hash in place of its
/// end where it would be too long.
pub(super) fn own_name(name: &str, mark: &str) -> String {
    let suffix = format!("_{mark}");
    if name.len() + suffix.len() <= LONGEST {
        return format!("{name}{suffix}");
    }
    // The lower half says enough: what must differ is few names of one schema.
    let hash = xxh3_64(name.as_bytes()) & 0xffff_ffff;
    let mut kept = LONGEST - suffix.len() - 9;
    while !name.is_char_boundary(kept) {
        kept -= 1;
    }
    format!("{}_{hash:08x}{suffix}", &name[..kept])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_unique_when_they_are_cut() {
        assert_eq!(own_name("ix_user", "3"), "ix_user_3");
        let long = |end: char| format!("{}{end}", "x".repeat(61));
        let names: Vec<String> = ['a', 'b']
            .into_iter()
            .flat_map(|end| ["10", "11"].map(|mark| own_name(&long(end), mark)))
            .collect();
        for (at, name) in names.iter().enumerate() {
            assert_eq!(name.len(), LONGEST);
            assert!(!names[..at].contains(name), "{names:?}");
        }
        assert_eq!(own_name(&"é".repeat(31), "12").len(), 63 - 1);
        // Frozen: the names are in databases.
        assert_eq!(
            own_name(&long('a'), "10"),
            format!(
                "{}_{:08x}_10",
                "x".repeat(51),
                xxh3_64(long('a').as_bytes()) & 0xffff_ffff
            )
        );
    }
}
