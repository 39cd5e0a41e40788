//! One table under examination: each key that comes in is compared with where it belongs.

use super::report::{About, Finding, FindingKind};
use super::{Plan, TableJob};
use crate::algorithm::Placement;
use crate::key::{KeyType, ShardKey};

/// Follows the keys of one table.
#[derive(Debug)]
pub(crate) struct TableCheck<'p> {
    plan: &'p Plan,
    job: &'p TableJob,
    /// Whether rows of this spread belong to this table: what was asked last.
    last_spread: Option<(u64, bool)>,
    pub(crate) findings: Vec<Finding>,
    /// How many findings are kept, and how many more there are.
    keep: usize,
    pub(crate) more: u64,
    /// What the last finding is about, kept or not.
    last_found: About,
}

/// A key that a database gave, as [`NodeConnection::scan_keys`](crate::blocking::NodeConnection) hands it
/// on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScannedKey<'a> {
    /// A number.
    Number(i64),
    /// A text with a letter before it, as the statement made it.
    Text(&'a str),
}

/// The same, to keep.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RawKey {
    Number(i64),
    Text(String),
}

impl ScannedKey<'_> {
    pub(crate) fn to_raw(self) -> RawKey {
        match self {
            Self::Number(number) => RawKey::Number(number),
            Self::Text(text) => RawKey::Text(text.to_owned()),
        }
    }
}

impl RawKey {
    /// The form that goes into a statement, and into the state of a run.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Number(number) => format!("n{number}"),
            Self::Text(text) => text.clone(),
        }
    }
}

impl<'p> TableCheck<'p> {
    pub(crate) fn new(plan: &'p Plan, job: &'p TableJob, keep: usize) -> Self {
        Self {
            plan,
            job,
            last_spread: None,
            findings: Vec::new(),
            keep,
            more: 0,
            last_found: About::Table,
        }
    }

    /// One row's key.
    pub(crate) fn see(&mut self, key: ScannedKey<'_>) {
        match key {
            ScannedKey::Number(number) => self.judge(&ShardKey::Integer(number.into())),
            ScannedKey::Text(raw) => match parse(self.plan.key, raw) {
                Some(parsed) => self.judge(&parsed),
                None => {
                    let text = raw.get(1..).unwrap_or("").to_owned();
                    self.add(FindingKind::Unreadable, text, None);
                }
            },
        }
    }

    #[inline]
    fn judge(&mut self, key: &ShardKey<'_>) {
        match self.plan.keyspace.locate(key) {
            Ok(placement) if placement.shard() == self.job.shard && self.is_home(placement) => {}
            Ok(placement) => self.misplaced(key, placement),
            Err(error) => {
                let reason = error.to_string();
                self.add(FindingKind::Unplaced { reason }, key.to_string(), Some(key));
            }
        }
    }

    /// Whether rows of a placement belong to this table of its shard.
    fn is_home(&mut self, placement: Placement) -> bool {
        let table = &self.plan.keyspace.tables[self.job.logical];
        if let Some(number) = self.job.number {
            return placement.table_number(table.count) == number;
        }
        if !table.by_rule {
            return true;
        }
        let spread = placement.spread();
        match self.last_spread {
            Some((last, home)) if last == spread => home,
            _ => {
                let physical = table.physical(&self.plan.keyspace.rule, placement);
                let home = physical == self.job.physical;
                self.last_spread = Some((spread, home));
                home
            }
        }
    }

    #[cold]
    fn misplaced(&mut self, key: &ShardKey<'_>, placement: Placement) {
        let table = &self.plan.keyspace.tables[self.job.logical];
        let kind = FindingKind::Misplaced {
            home_shard: placement.shard(),
            home_table: table.physical(&self.plan.keyspace.rule, placement),
            also_at_home: false,
        };
        self.add(kind, key.to_string(), Some(key));
    }

    fn add(&mut self, kind: FindingKind, shown: String, key: Option<&ShardKey<'_>>) {
        let about = match key {
            Some(key) => About::Key(self.plan.keyspace.rule.normalized(key)),
            None => About::Text(shown.clone()),
        };
        // Equal keys come one after the other, those of one spelling all in one page, and are one
        // finding, whether or not it is kept.
        if self.last_found == about {
            match self.findings.last_mut() {
                _ if self.more > 0 => return,
                Some(last) => {
                    last.rows += 1;
                    return;
                }
                // The page before had it: it is put together with that where it was kept.
                None => {}
            }
        }
        self.last_found = about.clone();
        if self.findings.len() >= self.keep {
            self.more += 1;
            return;
        }
        self.findings.push(Finding {
            shard: self.job.shard,
            table: self.job.physical.clone(),
            key: Some(shown),
            about,
            rows: 1,
            kind,
        });
    }

    /// The table is not there, although the rule places rows in it.
    pub(crate) fn missing_table(&mut self) {
        self.findings.push(Finding::missing_table(self.job));
    }

    /// Rows that share something and have no readable key.
    pub(crate) fn without_key(&mut self, kind: FindingKind, rows: u64) {
        self.findings.push(Finding::of_table(self.job, kind, rows));
    }
}

/// The key of a text with its letter.
fn parse(key: KeyType, raw: &str) -> Option<ShardKey<'static>> {
    let (letter, rest) = raw.split_at_checked(1)?;
    let bytes = || -> Option<Vec<u8>> {
        let digits = rest.as_bytes().chunks(2);
        digits
            .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
            .collect()
    };
    match (letter, key) {
        ("t" | "n", KeyType::Timestamp) => {
            let text = rest.replacen(' ', "T", 1);
            let zoned =
                text.ends_with('Z') || text.get(10..).is_some_and(|t| t.contains(['+', '-']));
            let text = if zoned { text } else { text + "Z" };
            let instant: jiff::Timestamp = text.parse().ok()?;
            Some(ShardKey::Timestamp {
                micros: instant.as_microsecond(),
                sub_micro_nanos: (instant.subsec_nanosecond().rem_euclid(1_000)) as u16,
            })
        }
        ("t" | "n", KeyType::Bytes) => Some(ShardKey::Bytes(rest.as_bytes().to_vec().into())),
        ("t" | "n", key) => simple(key, rest),
        ("x", KeyType::Bytes) => Some(ShardKey::Bytes(bytes()?.into())),
        ("x", KeyType::Uuid) => {
            let bytes = bytes()?;
            match <[u8; 16]>::try_from(bytes.as_slice()) {
                Ok(uuid) => Some(ShardKey::Uuid(uuid)),
                Err(_) => simple(key, std::str::from_utf8(&bytes).ok()?),
            }
        }
        _ => None,
    }
}

fn simple(key: KeyType, text: &str) -> Option<ShardKey<'static>> {
    match key {
        KeyType::Text => Some(ShardKey::Text(text.to_owned().into())),
        KeyType::Integer => {
            // A decimal column writes the digits of its fraction, also where there is none.
            let whole = match text.split_once('.') {
                Some((whole, zeros)) if !zeros.is_empty() && zeros.bytes().all(|b| b == b'0') => {
                    whole
                }
                _ => text,
            };
            match whole.parse::<i128>() {
                Ok(number) => Some(ShardKey::Integer(number)),
                Err(_) => whole.parse::<u128>().ok().map(ShardKey::from),
            }
        }
        KeyType::Uuid => {
            let digits = text.replace('-', "");
            let number = u128::from_str_radix(&digits, 16).ok()?;
            (digits.len() == 32).then(|| ShardKey::Uuid(number.to_be_bytes()))
        }
        KeyType::Date => {
            let day: jiff::civil::Date = text.parse().ok()?;
            let epoch = jiff::civil::date(1970, 1, 1);
            Some(ShardKey::Date(day.since(epoch).ok()?.get_days()))
        }
        _ => None,
    }
}

impl Plan {
    /// The key that a database gave, as the rule takes it; `None` where it is of another type.
    pub(crate) fn key_of(&self, scanned: ScannedKey<'_>) -> Option<ShardKey<'static>> {
        match scanned {
            ScannedKey::Number(number) => Some(ShardKey::Integer(number.into())),
            ScannedKey::Text(raw) => {
                parse(self.key, raw).map(|key| self.keyspace.rule.normalized(&key))
            }
        }
    }
}
