//! Calendar periods.

use super::super::super::reader::{Reader, Table};
use super::super::no_hint;
use super::{required, rows};
use crate::algorithm::{DateSpec, Every, Rounding};
use crate::key::{KeyType, ShardKey};

const KNOWN: &[&str] = &[
    "kind",
    "every",
    "anchor",
    "zone",
    "from",
    "until",
    "map",
    "precision",
    "rounding",
];

pub(super) fn date(reader: &mut Reader<'_>, table: Table<'_>) -> DateSpec {
    const MAP: &str = "[{ shard = \"a\", from = \"2023\", until = \"2024\" }, ..]";
    reader.known(table, KNOWN, no_hint);
    required(
        reader,
        table,
        &["every"],
        "say \"year\", \"quarter\", \"month\", \"week\", \"day\" or \"10 days\"",
    );
    let mut spec = DateSpec::new(every(reader, table).unwrap_or(Every::Month));
    spec.zone = reader.text(table, "zone");
    spec.from = reader.text(table, "from");
    spec.until = reader.text(table, "until");
    spec.precision = reader.number(table, "precision");
    if let Some(word) = reader.text(table, "rounding") {
        match Rounding::ALL.iter().find(|(_, name)| *name == word) {
            Some((rounding, _)) => spec.rounding = *rounding,
            None => reader.problem(
                table.key("rounding"),
                "is \"refuse\", \"postgres\", \"mysql\" or \"mariadb\"",
            ),
        }
    }
    if table.dict.contains_key("map") {
        let mut map = Vec::new();
        for (path, dict) in rows(reader, table, "map", MAP) {
            let row = Table { path: &path, dict };
            reader.known(row, &["shard", "from", "until"], no_hint);
            required(reader, row, &["shard", "from", "until"], MAP);
            let parts = ["shard", "from", "until"].map(|name| reader.text(row, name));
            if let [Some(shard), Some(from), Some(until)] = parts {
                map.push((shard, from, until));
            }
        }
        spec.map = Some(map);
    }
    spec
}

/// A word for a calendar period, or a number of days from an anchor.
fn every(reader: &mut Reader<'_>, table: Table<'_>) -> Option<Every> {
    let text = reader.text(table, "every")?;
    let anchor = table.dict.contains_key("anchor");
    let every = match text.as_str() {
        "year" => Some(Every::Year),
        "quarter" => Some(Every::Quarter),
        "month" => Some(Every::Month),
        "week" => Some(Every::Week),
        "day" => Some(Every::Day),
        _ => None,
    };
    if every.is_some() {
        if anchor {
            reader.problem(
                table.key("anchor"),
                "calendar periods begin where the calendar says: take it out",
            );
        }
        return every;
    }
    let days = text
        .strip_suffix(" days")
        .filter(|days| !days.is_empty() && days.bytes().all(|byte| byte.is_ascii_digit()));
    let Some(count) = days.and_then(|days| days.parse().ok()) else {
        reader.problem(
            table.key("every"),
            "is \"year\", \"quarter\", \"month\", \"week\", \"day\" or a number of days, \"10 days\"",
        );
        return None;
    };
    if !anchor {
        reader.missing(
            table.key("anchor"),
            "is missing: a number of days is counted from a day, anchor = \"2024-01-01\"",
        );
        return None;
    }
    let text = reader.text(table, "anchor")?;
    match KeyType::Date.parse_key(&text) {
        Ok(ShardKey::Date(anchor)) => Some(Every::Days { count, anchor }),
        _ => {
            reader.problem(
                table.key("anchor"),
                "a day is expected here: \"2024-01-01\"",
            );
            None
        }
    }
}
