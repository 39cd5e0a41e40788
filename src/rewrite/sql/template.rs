//! A text with holes where sharded tables are named.

#[cfg(feature = "migrations")]
use std::borrow::Cow;

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
    /// Names of what they own that the server may have made, folded.
    doubts: Vec<Box<str>>,
    /// Words and names in it, folded, that may be a physical name.
    beside: Vec<Box<str>>,
    /// What it writes that is no sharded table.
    #[cfg(feature = "migrations")]
    elsewhere: Option<Box<str>>,
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
    /// In a new row that takes the place of one that is there, which must be in the same table.
    Replace,
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
            doubts: Vec::new(),
            beside: Vec::new(),
            #[cfg(feature = "migrations")]
            elsewhere: None,
        }
    }

    /// The same with the columns that the database numbers.
    pub(super) fn with_counters(self, counters: Vec<(usize, Box<str>)>) -> Self {
        Self { counters, ..self }
    }

    /// The same with the names that the server may have made.
    pub(super) fn with_doubts(self, doubts: Vec<Box<str>>) -> Self {
        Self { doubts, ..self }
    }

    /// The same with the words and names in it that may be a physical name.
    pub(super) fn with_beside(self, beside: Vec<Box<str>>) -> Self {
        Self { beside, ..self }
    }

    /// Names of what the tables own, folded, that are other ones in each table if the server made them.
    pub(super) fn doubts(&self) -> impl Iterator<Item = &str> {
        self.doubts.iter().map(|name| &**name)
    }

    /// The columns that it has the database number, with the table of each.
    #[cfg(feature = "migrations")]
    pub(crate) fn counters(&self) -> impl Iterator<Item = (usize, &str)> {
        self.counters
            .iter()
            .map(|(table, column)| (*table, &**column))
    }

    /// The same with what it writes that is no sharded table.
    #[cfg(feature = "migrations")]
    pub(super) fn with_elsewhere(self, elsewhere: Option<Box<str>>) -> Self {
        Self { elsewhere, ..self }
    }

    /// The first thing that it writes and that is no sharded table.
    #[cfg(feature = "migrations")]
    pub(crate) fn elsewhere(&self) -> Option<&str> {
        self.elsewhere.as_deref()
    }

    /// The names of what the tables own, whether each is quoted, and its table.
    #[cfg(feature = "migrations")]
    pub(super) fn owned(&self) -> impl Iterator<Item = (&str, bool, usize)> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Own { name, index, quote } => Some((name.as_str(), quote.is_some(), *index)),
            Piece::Text(_) | Piece::Table { .. } => None,
        })
    }

    /// The text as somebody wrote it.
    pub(crate) fn as_written(&self, set: &TableSet) -> String {
        let written = self.pieces.iter().map(|piece| match piece {
            Piece::Text(text) => text,
            Piece::Table { index, .. } => set.tables()[*index].name.as_str(),
            Piece::Own { name, .. } => name,
        });
        written.collect()
    }

    fn names(&self, folded: &str) -> bool {
        self.beside.iter().any(|name| **name == *folded)
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
            + self
                .beside
                .iter()
                .map(|name| size_of::<Box<str>>() + name.len())
                .sum::<usize>()
    }

    /// The text for the tables of a route.
    pub(crate) fn render(
        &self,
        set: &TableSet,
        numbers: Option<TableNumbers>,
    ) -> Result<String, Unfilled> {
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
            let numbers = numbers.ok_or(Unfilled::NoNumber(*index))?;
            match piece {
                Piece::Text(_) => {}
                Piece::Own { name, .. } => {
                    let mark = table.mark(numbers).ok_or(Unfilled::NoNumber(*index))?;
                    let name = own_name(name, &mark);
                    text.push_str(&set.dialect.write_name(&name, *quote));
                }
                Piece::Table { .. } => {
                    let name = &*table.physical(numbers).ok_or(Unfilled::NoNumber(*index))?;
                    if !self.beside.is_empty() && self.names(&set.dialect.fold(name, true)) {
                        return Err(Unfilled::Taken(format!(
                            "{name} is the physical table of {} under this route, and that name is in it already: give the alias or common table expression another, or write one of the two alone",
                            table.name
                        )));
                    }
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

/// Why a template has no text for the tables of a route.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unfilled {
    /// The route has no number for this table.
    NoNumber(usize),
    /// The text names the physical table itself, or something else by that name; in words.
    Taken(String),
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
    let kept = begin(name, LONGEST - suffix.len() - 9);
    format!("{kept}_{}{suffix}", hash(name))
}

/// What stands in place of the end of a name. The lower half says enough: what must differ is few names of one schema.
fn hash(name: &str) -> String {
    format!("{:08x}", xxh3_64(name.as_bytes()) & 0xffff_ffff)
}

/// The first bytes of a name, at most so many.
fn begin(name: &str, most: usize) -> &str {
    let mut kept = most.min(name.len());
    while !name.is_char_boundary(kept) {
        kept -= 1;
    }
    &name[..kept]
}

/// What an [`own_name`] without its mark is compared by. How much of a long name is kept depends on the length of the
/// mark; its first bytes and its hash do not.
#[cfg(feature = "migrations")]
pub(crate) fn comparable(unmarked: &str) -> Cow<'_, str> {
    const ALWAYS_WHOLE: usize = 50;
    const ALWAYS_KEPT: usize = 36;
    if unmarked.len() < ALWAYS_WHOLE {
        return unmarked.into();
    }
    let is_hash = |end: &&str| end.len() == 8 && end.bytes().all(|byte| byte.is_ascii_hexdigit());
    let cut = unmarked
        .rsplit_once('_')
        .map(|(_, end)| end)
        .filter(is_hash);
    let hash = cut.map_or_else(|| hash(unmarked), str::to_owned);
    format!("{}_{hash}", begin(unmarked, ALWAYS_KEPT)).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(feature = "migrations")]
    #[test]
    fn a_cut_name_is_compared_without_what_its_mark_changed() {
        for length in [3, 49, 50, 59, 60, 61, 62, 80] {
            let name = format!("{}é{}", "x".repeat(length / 2), "y".repeat(length / 2));
            let compared: Vec<String> = ["3", "10", "123", "202401"]
                .into_iter()
                .map(|mark| {
                    let own = own_name(&name, mark);
                    let unmarked = own.strip_suffix(&format!("_{mark}")).expect("a mark");
                    comparable(unmarked).into_owned()
                })
                .collect();
            assert!(
                compared.iter().all(|one| *one == compared[0]),
                "{compared:?}"
            );
        }
        assert_ne!(comparable(&"x".repeat(60)), comparable(&"x".repeat(61)));
    }

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
