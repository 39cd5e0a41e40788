//! Whether the shard keys that a statement writes belong to the tables of the route.

use std::borrow::Cow;

use super::binds::BindValue;
use super::tables::told;
use crate::error::Error;
use crate::key::{KeyType, ShardKey};
use crate::name::ShardName;
use crate::rewrite::{KeyUse, KeyWrite, ShardedTable, TableNumbers, TableSet, Which, Written};
use crate::topology::Snapshot;

/// The keys that a statement writes.
pub(super) struct WrittenKeys<'a> {
    keys: &'a [KeyWrite],
    set: &'a TableSet,
    numbers: TableNumbers,
}

impl<'a> WrittenKeys<'a> {
    /// `None`: there is nothing to look at. What is put where under a route by number, the application
    /// says.
    pub(super) fn of(
        keys: &'a [KeyWrite],
        set: &'a TableSet,
        numbers: TableNumbers,
    ) -> Option<Self> {
        let of_interest = |key: &KeyWrite| key.in_ != KeyUse::Insert || numbers.by_key();
        keys.iter()
            .any(of_interest)
            .then_some(Self { keys, set, numbers })
    }

    pub(super) fn have_binds(&self) -> bool {
        let is_bind = |key: &KeyWrite| matches!(key.value, Written::Bind(_));
        self.keys.iter().any(is_bind)
    }

    pub(super) fn check(
        &self,
        shard: ShardName,
        snapshot: &Snapshot,
        binds: &[BindValue],
    ) -> Result<(), Error> {
        for key in self.keys {
            if key.in_ == KeyUse::Insert && !self.numbers.by_key() {
                continue;
            }
            let table = &self.set.tables()[key.table];
            WrittenKey { key, table, shard }
                .check(snapshot, self.numbers, binds)
                .map_err(told)?;
        }
        Ok(())
    }
}

/// One of them.
struct WrittenKey<'a> {
    key: &'a KeyWrite,
    table: &'a ShardedTable,
    shard: ShardName,
}

/// What can be known of a written key.
enum Value {
    Key(ShardKey<'static>),
    Null,
    /// A value of a type that says no key of the keyspace by itself: a time without a zone, a part of a
    /// key of several columns.
    Unsaid,
    Unknown,
}

impl WrittenKey<'_> {
    fn check(
        &self,
        snapshot: &Snapshot,
        numbers: TableNumbers,
        binds: &[BindValue],
    ) -> Result<(), Error> {
        let keyspace =
            &snapshot.keyspaces()[snapshot.find_keyspace(self.table.keyspace.as_str())?];
        if keyspace.placed_by() != self.table.placed_by {
            // The connection is from before a reload: where a key belongs now is not where its rows are.
            return Err(Error::StaleRoute {
                shard: self.shard,
                keyspace: self.table.keyspace,
            });
        }
        let key = match (self.value(keyspace.rule.key_type(), binds), self.key.in_) {
            (Value::Key(key), _) => key,
            (Value::Unsaid, KeyUse::Insert) => return Ok(()),
            (_, KeyUse::Update | KeyUse::Replace) => return Err(self.update()),
            (Value::Null, KeyUse::Insert) => {
                return Err(Error::NullShardKey {
                    keyspace: self.table.keyspace,
                });
            }
            (Value::Unknown, KeyUse::Insert) => {
                return Err(Error::UnreadableShardKey {
                    shard: self.shard,
                    table: self.table.full_name(),
                    column: self.table.key_column.clone(),
                });
            }
        };
        let placement = keyspace.locate(&key)?;
        let own = self.table.physical(TableNumbers {
            keyspace: self.table.keyspace,
            which: Which::Spread(placement.spread()),
            placed_by: self.table.placed_by,
        });
        let routed = self.table.physical(numbers);
        if placement.shard() == self.shard && own == routed {
            return Ok(());
        }
        let name =
            |name: Option<Cow<'_, str>>| name.map_or_else(Box::default, |name| Box::from(&*name));
        Err(match self.key.in_ {
            KeyUse::Update => self.update(),
            KeyUse::Insert | KeyUse::Replace => Error::WrongTable {
                shard: self.shard,
                table: self.table.full_name(),
                owner: placement.shard(),
                belongs: name(own),
                routed: name(routed),
            },
        })
    }

    fn update(&self) -> Error {
        Error::ShardKeyUpdate {
            shard: self.shard,
            table: self.table.full_name(),
            column: self.table.key_column.clone(),
        }
    }

    /// What is written, as a key of the keyspace.
    fn value(&self, wanted: KeyType, binds: &[BindValue]) -> Value {
        let key = match &self.key.value {
            Written::Bind(at) => match binds.get(*at) {
                Some(BindValue::Null) => return Value::Null,
                Some(bind) => of_bind(wanted, bind),
                None => None,
            },
            Written::Integer(number) if wanted == KeyType::Integer => {
                Some(ShardKey::Integer(*number))
            }
            Written::Text(text) => of_text(wanted, text),
            Written::Null => return Value::Null,
            Written::Other => return Value::Unknown,
            Written::Integer(_) => None,
        };
        match key {
            Some(key) => Value::Key(key),
            None if says_no_key(wanted) => Value::Unsaid,
            None => Value::Unknown,
        }
    }
}

/// Whether a value of the key column may be of a type that is no key by itself, and right all the same.
fn says_no_key(wanted: KeyType) -> bool {
    matches!(
        wanted,
        KeyType::Date | KeyType::Timestamp | KeyType::Composite(_)
    )
}

fn of_bind(wanted: KeyType, bind: &BindValue) -> Option<ShardKey<'static>> {
    Some(match (wanted, bind) {
        (KeyType::Integer, BindValue::Integer(number)) => ShardKey::Integer(*number),
        (KeyType::Uuid, BindValue::Uuid(bytes)) => ShardKey::Uuid(*bytes),
        // Where there is no type for it, a UUID is stored as its bytes.
        (KeyType::Uuid, BindValue::Bytes(bytes)) => {
            ShardKey::Uuid(bytes.as_slice().try_into().ok()?)
        }
        (KeyType::Bytes, BindValue::Bytes(bytes)) => ShardKey::Bytes(bytes.clone().into()),
        (KeyType::Date, BindValue::Date(days)) => ShardKey::Date(*days),
        (KeyType::Timestamp, BindValue::Timestamp(micros)) => ShardKey::Timestamp {
            micros: *micros,
            sub_micro_nanos: 0,
        },
        (_, BindValue::Text(text)) => return of_text(wanted, text),
        _ => return None,
    })
}

fn of_text(wanted: KeyType, text: &str) -> Option<ShardKey<'static>> {
    match wanted {
        KeyType::Text => Some(ShardKey::Text(text.to_owned().into())),
        KeyType::Integer => text.parse().ok().map(ShardKey::Integer),
        // SQLite and MySQL keep them as text.
        KeyType::Uuid => uuid(text),
        // In the spelling that keys are written in.
        #[cfg(feature = "config")]
        KeyType::Date | KeyType::Timestamp => wanted.parse_key(text).ok(),
        _ => None,
    }
}

/// A UUID in any of its usual spellings.
fn uuid(text: &str) -> Option<ShardKey<'static>> {
    let text = text.strip_prefix("urn:uuid:").unwrap_or(text);
    let digits: String = text
        .chars()
        .filter(|c| !matches!(c, '-' | '{' | '}'))
        .collect();
    if digits.len() != 32 || !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let number = u128::from_str_radix(&digits, 16).ok()?;
    Some(ShardKey::Uuid(number.to_be_bytes()))
}
