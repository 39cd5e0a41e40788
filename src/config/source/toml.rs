//! TOML.

use figment::value::{Dict, Empty, Num, Tag, Value};
use toml::de::{DeInteger, DeTable, DeValue};

use crate::topology::Problem;

/// The parser's word for a key or table that is given twice.
const DUPLICATE: &str = "duplicate key";

pub(super) fn parse(text: &str) -> Result<(Dict, Vec<Problem>), Vec<Problem>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    // After a duplicate the rest of the text still means what it says; after another error it may
    // not.
    let fatal = errors.iter().any(|error| error.message() != DUPLICATE);
    let problems: Vec<Problem> = errors
        .iter()
        .map(|error| {
            let place = match error.span() {
                Some(span) => {
                    let (line, column) = position(text, span.start);
                    format!("line {line}, column {column}: ")
                }
                None => String::new(),
            };
            let name = error
                .span()
                .and_then(|span| text.get(span))
                .filter(|name| !name.is_empty() && name.bytes().all(is_bare));
            match name {
                Some(name) if error.message() == DUPLICATE => Problem::new(
                    "",
                    format!(
                        "{place}{name} is given twice: one of the two would be lost, remove it"
                    ),
                ),
                // The message is made of fixed words; the `Display` of the error would show the line.
                _ => Problem::new("", format!("{place}not valid TOML: {}", error.message())),
            }
        })
        .collect();
    if fatal {
        return Err(problems);
    }
    Ok((dict(text, table.get_ref()), problems))
}

/// Whether a byte may stand in a key without quotes.
fn is_bare(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-')
}

fn position(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |end| end + 1);
    (
        before.matches('\n').count() + 1,
        before[line_start..].chars().count() + 1,
    )
}

fn dict(text: &str, table: &DeTable<'_>) -> Dict {
    table
        .iter()
        .map(|(key, value)| {
            let span = value.span();
            let raw = text.get(span).unwrap_or_default();
            (
                key.get_ref().to_string(),
                convert(text, raw, value.get_ref()),
            )
        })
        .collect()
}

fn convert(text: &str, raw: &str, value: &DeValue<'_>) -> Value {
    match value {
        DeValue::String(string) => Value::String(Tag::Default, string.to_string()),
        DeValue::Integer(number) => integer(number),
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(number) => Value::Num(Tag::Default, Num::F64(number)),
            Err(_) => Value::Empty(Tag::Default, Empty::Unit),
        },
        DeValue::Boolean(value) => Value::Bool(Tag::Default, *value),
        // figment knows no dates, and the keys of a list may be some: as they are written.
        DeValue::Datetime(_) => Value::String(Tag::Default, raw.to_owned()),
        DeValue::Array(items) => Value::Array(
            Tag::Default,
            items
                .iter()
                .map(|item| {
                    let raw = text.get(item.span()).unwrap_or_default();
                    convert(text, raw, item.get_ref())
                })
                .collect(),
        ),
        DeValue::Table(table) => Value::Dict(Tag::Default, dict(text, table)),
    }
}

fn integer(number: &DeInteger<'_>) -> Value {
    match i128::from_str_radix(number.as_str(), number.radix()) {
        Ok(number) => Value::Num(Tag::Default, Num::I128(number)),
        // Only keys can be as large as this, and they are read from text.
        Err(_) => Value::String(Tag::Default, number.to_string()),
    }
}
