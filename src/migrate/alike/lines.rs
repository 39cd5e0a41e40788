//! One line of a schema: which physical table it is about, and what it says by logical names.

use std::collections::HashMap;

use super::super::parts::TableParts;
use super::Part;
use crate::rewrite::{Parts, TableSet, comparable, end_made_by_postgres};

/// Names are compared without case: there are no two tables whose names differ in nothing else.
pub(super) fn fold(name: &str) -> String {
    name.to_ascii_lowercase()
}

/// A line as names and what is between them.
fn words(line: &str) -> impl Iterator<Item = (bool, &str)> {
    let is_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
    let mut rest = line;
    std::iter::from_fn(move || {
        let first = rest.chars().next()?;
        let name = is_name(first);
        let end = rest.find(|c| is_name(c) != name).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        rest = after;
        Some((name, word))
    })
}

/// Whether a line is about a table that was retired by renaming it: each shard has other ones.
pub(super) fn retired(line: &str, set: &TableSet, by_rule: &[TableParts]) -> bool {
    !is_code(line)
        && by_rule.iter().filter(|own| own.is_dated()).any(|own| {
            let table = &set.tables()[own.at];
            let Parts::ByRule { rule, pattern } = &table.parts else {
                return false;
            };
            let part = own.parts.first().and_then(|part| rule.suffix(part.spread));
            let names = words(line).filter(|(is_name, _)| *is_name);
            part.is_some_and(|part| {
                names
                    .map(|(_, word)| fold(word))
                    .any(|name| pattern.may_have_named(&table.name, &part, &name))
            })
        })
}

/// Whether a line is about something that only uses tables.
fn is_code(line: &str) -> bool {
    let first = line.split([' ', ':']).next().unwrap_or_default();
    matches!(
        first,
        "view" | "materialized" | "function" | "procedure" | "type"
    )
}

/// What a line is about: the first physical table that it names, in lines that are about tables.
pub(super) fn owner<'p>(
    line: &str,
    places: &'p HashMap<String, (String, usize)>,
) -> Option<&'p (String, usize)> {
    if is_code(line) {
        return None;
    }
    let first = line.split(' ').next().unwrap_or_default();
    let names = || {
        words(line)
            .filter(|(is_name, _)| *is_name)
            .map(|(_, word)| fold(word))
    };
    let owned_by = line.split_once(" of ").filter(|_| first == "sequence");
    if let Some((_, table)) = owned_by {
        let words = words(table).filter(|(is_name, _)| *is_name);
        return words
            .map(|(_, word)| fold(word))
            .find_map(|name| places.get(&name));
    }
    if first == "sequence" {
        // orders_3_id_seq: it is named after its table.
        let name = names().last()?;
        let stems = name.match_indices('_').map(|(at, _)| &name[..at]);
        return stems.rev().find_map(|stem| places.get(stem));
    }
    names().find_map(|name| places.get(&name))
}

/// The logical table and the kind of a thing that PostgreSQL may have named: after the physical table, its columns
/// and the kind. It cuts such names, the table's too, and numbers those that are taken, so that the rest of a name says nothing.
fn made<'l>(
    name: &str,
    part: &Part,
    logical: &'l HashMap<String, (String, String)>,
) -> Option<(&'l str, &'static str)> {
    /// What is left of a name that was cut: the longest is 63 bytes, fewer where a character would be cut.
    const CUT: usize = 57;
    /// Table and columns are left the same number of bytes, if both were long.
    const LEFT: usize = 20;
    let physical = part.namesake.as_deref()?;
    let end = end_made_by_postgres(name)?;
    let rest = name.strip_prefix(physical);
    let is_whole = rest.is_some_and(|rest| rest.starts_with('_'));
    let same = std::iter::zip(name.bytes(), physical.bytes());
    let is_cut =
        || name.len() >= CUT && same.take_while(|(one, other)| one == other).count() >= LEFT;
    let (table, _) = logical.get(physical)?;
    (is_whole || is_cut()).then_some((table, end))
}

/// The line in logical names.
pub(super) fn normalized(
    line: &str,
    part: &Part,
    logical: &HashMap<String, (String, String)>,
) -> String {
    let mut text = String::with_capacity(line.len());
    let kind = line.split([' ', ':', '.']).next().unwrap_or_default();
    // Lines that begin with what they are about: TABLE.NAME.
    let owns = matches!(kind, "constraint" | "index" | "unique" | "foreign");
    let mark = part.marks.first().map_or("", String::as_str);
    let end_of = |name: &str| -> Option<usize> {
        let (stem, end) = part.marks.iter().find_map(|mark| {
            let stem = name.strip_suffix(mark.as_str())?.strip_suffix('_')?;
            Some((stem, mark))
        })?;
        (!stem.is_empty() && !end.is_empty()).then_some(stem.len())
    };
    let (mut before, mut last) = (String::new(), String::new());
    let mut is_first = true;
    for (is_name, word) in words(line) {
        if !is_name {
            // A name is a name with and without quotes.
            last = word.replace(['"', '`'], "");
            text.push_str(&last);
            continue;
        }
        let folded = fold(word);
        let is_own_name = matches!(
            before.as_str(),
            "constraint" | "index" | "exists" | "trigger" | "sequence" if !is_first
        ) || owns && last == "." && logical.contains_key(&before);
        let same_part = |name: &str| {
            let (table, of) = logical.get(name)?;
            (of == mark).then_some(table)
        };
        let stem = || {
            let own = (folded.match_indices('_').map(|(at, _)| at)).rev();
            own.filter_map(|at| Some((at, same_part(&folded[..at])?)))
                .next()
        };
        if let Some(table) = same_part(&folded) {
            text.push_str(table);
        } else if let Some((table, end)) = made(&folded, part, logical) {
            text.push_str(table);
            text.push_str(end);
        } else if let Some((at, table)) = stem() {
            // orders_3_pkey, orders_3_id_seq: the database named it.
            text.push_str(table);
            text.push_str(&word[at..]);
        } else if let Some(stem) = end_of(&folded).filter(|_| is_own_name) {
            text.push_str(&comparable(&word[..stem]));
        } else {
            text.push_str(word);
        }
        before = folded;
        is_first = false;
    }
    text
}
