//! The rewriter of one physical connection: from a query to the text for the tables of the route.
//!
//! What was found out about a text is kept with the connection, so that only the first use of a query
//! costs more than a look-up. Both what is kept and how many prepared statements come of it is bounded.

use std::any::TypeId;
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use diesel::QueryResult;
use xxhash_rust::xxh3::xxh3_64;

use super::binds::{BindValue, QueryText};
use crate::error::Error;
use crate::key::{KeyType, ShardKey};
use crate::name::ShardName;
use crate::rewrite::{
    Analysis, KeyUse, KeyWrite, Origin, Refusal, Rewritten, ShardedTable, TableNumbers, TableSet,
    Template, Which, Written, analyze,
};
use crate::telemetry;
use crate::topology::Snapshot;

/// How many bytes of templates a connection keeps; where there are more it starts anew.
const KEPT_BYTES: usize = 512 * 1024;

/// Texts longer than this are read again each time: batch inserts, of which no two are alike.
const KEPT_TEXT: usize = 16 * 1024;

/// How much of a statement an error repeats.
const EXCERPT: usize = 120;

/// See the module.
#[derive(Default)]
pub(crate) struct Rewriter {
    set: Option<Arc<TableSet>>,
    /// Queries of fixed text, by their type.
    by_type: HashMap<TypeId, Arc<Known>>,
    by_text: HashMap<Box<str>, Arc<Known>>,
    kept_bytes: usize,
    /// Hashes of the rewritten texts that may be prepared for good.
    prepared: HashSet<u64>,
    /// The most of those.
    limit: usize,
}

/// What is known about a text.
struct Known {
    /// `None`: it is sent as it is.
    template: Option<Template>,
    /// Diesel would keep a prepared statement of it.
    cacheable: bool,
}

/// A text for the tables of a route.
pub(crate) struct Plan {
    pub(crate) text: String,
    /// Whether a prepared statement of it may be kept.
    pub(crate) keep: bool,
    known: Arc<Known>,
    set: Arc<TableSet>,
}

impl Rewriter {
    /// Sets how many prepared statements of rewritten texts the connection may keep.
    pub(crate) fn limit_prepared(&mut self, limit: u32) {
        self.limit = limit as usize;
    }

    /// Works with the tables of a shard from now on.
    #[inline]
    pub(crate) fn adopt(&mut self, set: Option<&Arc<TableSet>>) {
        let same = match (&self.set, set) {
            (None, None) => true,
            (Some(old), Some(new)) => Arc::ptr_eq(old, new),
            _ => false,
        };
        if !same {
            self.change(set);
        }
    }

    #[cold]
    fn change(&mut self, set: Option<&Arc<TableSet>>) {
        let alike = match (&self.set, set) {
            (Some(old), Some(new)) => old.is_like(new),
            _ => false,
        };
        if !alike {
            self.forget();
        }
        self.set = set.map(Arc::clone);
    }

    fn forget(&mut self) {
        self.by_type.clear();
        self.by_text.clear();
        self.kept_bytes = 0;
    }

    /// Diesel's cache has been emptied.
    pub(crate) fn forget_prepared(&mut self) {
        self.prepared.clear();
    }

    /// Whether the shard has any sharded table.
    #[inline]
    pub(crate) fn is_needed(&self) -> bool {
        self.set.is_some()
    }

    /// The text of a query for the tables of the route; `None`: the query is sent as it is.
    ///
    /// `query_type` is known of queries whose text is fixed by their type.
    #[inline]
    pub(crate) fn plan(
        &mut self,
        shard: ShardName,
        query_type: Option<TypeId>,
        numbers: Option<TableNumbers>,
        text: impl FnOnce() -> QueryResult<QueryText>,
    ) -> QueryResult<Option<Plan>> {
        let Some(set) = &self.set else {
            return Ok(None);
        };
        let known = match query_type.and_then(|id| self.by_type.get(&id)) {
            Some(known) => known,
            None => {
                let set = Arc::clone(set);
                &self.look(&set, shard, query_type, text()?)?
            }
        };
        if known.template.is_none() {
            return Ok(None);
        }
        let known = Arc::clone(known);
        self.fill(known, shard, numbers).map(Some)
    }

    /// The text of a batch for the tables of the route; `None`: it is sent as it is.
    pub(crate) fn plan_text(
        &mut self,
        shard: ShardName,
        numbers: Option<TableNumbers>,
        text: &str,
    ) -> QueryResult<Option<Plan>> {
        self.plan(shard, None, numbers, || {
            Ok(QueryText {
                text: text.to_owned(),
                cacheable: false,
            })
        })
    }

    fn look(
        &mut self,
        set: &TableSet,
        shard: ShardName,
        query_type: Option<TypeId>,
        query: QueryText,
    ) -> QueryResult<Arc<Known>> {
        if query_type.is_none()
            && let Some(known) = self.by_text.get(query.text.as_str())
        {
            return Ok(Arc::clone(known));
        }
        let origin = match query_type {
            Some(_) => Origin::Builder,
            None => Origin::Anyone,
        };
        let template = match analyze(set, &query.text, origin) {
            Ok(Analysis::Template(template)) => Some(template),
            Ok(Analysis::Untouched) => None,
            Err(refusal) => return Err(told(refused(refusal, set, shard, &query.text)).into()),
        };
        let keep_text = template.is_some() && query.text.len() <= KEPT_TEXT;
        let known = Arc::new(Known {
            template,
            cacheable: query.cacheable,
        });
        let size = known.size();
        if self.kept_bytes + size + query.text.len() > KEPT_BYTES {
            self.forget();
        }
        match query_type {
            Some(id) => {
                self.by_type.insert(id, Arc::clone(&known));
                self.kept_bytes += size;
            }
            None if keep_text => {
                self.kept_bytes += size + query.text.len();
                self.by_text.insert(query.text.into(), Arc::clone(&known));
            }
            None => {}
        }
        Ok(known)
    }

    fn fill(
        &mut self,
        known: Arc<Known>,
        shard: ShardName,
        numbers: Option<TableNumbers>,
    ) -> QueryResult<Plan> {
        let (Some(set), Some(template)) = (&self.set, &known.template) else {
            unreachable!("only a template is filled in");
        };
        let set = Arc::clone(set);
        let text = template.render(&set, numbers).map_err(|table| {
            let table = &set.tables()[table];
            told(Error::NoTableRoute {
                shard,
                keyspace: table.keyspace,
                table: table.full_name(),
            })
        })?;
        let keep = known.cacheable && self.may_keep(&text);
        Ok(Plan {
            text,
            keep,
            known,
            set,
        })
    }

    /// Whether one more prepared statement may be kept, or this one is kept already.
    fn may_keep(&mut self, text: &str) -> bool {
        let hash = xxh3_64(text.as_bytes());
        self.prepared.contains(&hash)
            || self.prepared.len() < self.limit && self.prepared.insert(hash)
    }
}

impl Known {
    fn size(&self) -> usize {
        size_of::<Self>() + self.template.as_ref().map_or(0, Template::size)
    }
}

impl Plan {
    /// The query with this text in place of its own.
    pub(crate) fn of<T>(self, query: T) -> Rewritten<T> {
        Rewritten {
            query,
            text: self.text,
            keep: self.keep,
        }
    }

    /// Checks that the keys which the statement writes belong to the tables of the route.
    ///
    /// # Errors
    ///
    /// [`Error::ShardKeyUpdate`] and [`Error::WrongTable`].
    #[inline]
    pub(crate) fn check_keys(
        &self,
        shard: ShardName,
        numbers: Option<TableNumbers>,
        snapshot: impl FnOnce(&dyn Fn(&Snapshot) -> Result<(), Error>) -> Result<(), Error>,
        binds: impl FnOnce() -> QueryResult<Vec<BindValue>>,
    ) -> QueryResult<()> {
        let (Some(template), Some(numbers)) = (&self.known.template, numbers) else {
            return Ok(());
        };
        let of_interest = |key: &KeyWrite| key.in_ == KeyUse::Update || numbers.by_key();
        if !template.keys().iter().any(of_interest) {
            return Ok(());
        }
        let has_binds = |key: &KeyWrite| matches!(key.value, Written::Bind(_));
        let binds = if template.keys().iter().any(has_binds) {
            binds()?
        } else {
            Vec::new()
        };
        snapshot(&|snapshot| {
            for key in template.keys().iter().filter(|key| of_interest(key)) {
                let table = &self.set.tables()[key.table];
                WrittenKey { key, table, shard }
                    .check(snapshot, numbers, &binds)
                    .map_err(told)?;
            }
            Ok(())
        })?;
        Ok(())
    }
}

/// One key that is written.
struct WrittenKey<'a> {
    key: &'a KeyWrite,
    table: &'a ShardedTable,
    shard: ShardName,
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
        let Some(key) = self.value(keyspace.rule.key_type(), binds) else {
            return match self.key.in_ {
                KeyUse::Insert => Ok(()),
                KeyUse::Update => Err(self.update()),
            };
        };
        let placement = keyspace.locate(&key)?;
        let own = self.table.physical(TableNumbers {
            keyspace: self.table.keyspace,
            which: Which::Spread(placement.spread()),
        });
        let routed = self.table.physical(numbers);
        if placement.shard() == self.shard && own == routed {
            return Ok(());
        }
        let name =
            |name: Option<Cow<'_, str>>| name.map_or_else(Box::default, |name| Box::from(&*name));
        Err(match self.key.in_ {
            KeyUse::Update => self.update(),
            KeyUse::Insert => Error::WrongTable {
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

    /// What is written, as a key of the keyspace; `None` where that cannot be known.
    fn value(&self, wanted: KeyType, binds: &[BindValue]) -> Option<ShardKey<'static>> {
        match &self.key.value {
            Written::Bind(at) => of_bind(wanted, binds.get(*at)?),
            Written::Integer(number) if wanted == KeyType::Integer => {
                Some(ShardKey::Integer(*number))
            }
            Written::Text(text) => of_text(wanted, text),
            Written::Integer(_) | Written::Other => None,
        }
    }
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
        // SQLite and MySQL keep them as text, in the spelling that keys are written in.
        #[cfg(feature = "config")]
        KeyType::Uuid | KeyType::Date | KeyType::Timestamp => wanted.parse_key(text).ok(),
        _ => None,
    }
}

/// The raw connection was asked for where statements on it would reach logical names.
#[cold]
pub(crate) fn raw_under_table_route(shard: ShardName) -> Error {
    told(Error::Unrewritable {
        shard,
        statement: "(access to the raw connection)".to_owned(),
        reason: "the route in force means physical tables, and on the raw connection table names are not rewritten; enter a route without tables first (`on(shard, ..)`)".to_owned(),
    })
}

fn told(error: Error) -> Error {
    telemetry::refused(&error);
    error
}

#[cold]
fn refused(refusal: Refusal, set: &TableSet, shard: ShardName, text: &str) -> Error {
    match refusal {
        Refusal::Unclear(reason) => Error::Unrewritable {
            shard,
            statement: excerpt(text),
            reason: reason.into_owned(),
        },
        Refusal::Unbound { one, other } => Error::UnboundTables {
            shard,
            one: set.tables()[one].full_name(),
            other: set.tables()[other].full_name(),
        },
        Refusal::KeyExpression { table } => {
            let table = &set.tables()[table];
            Error::ShardKeyUpdate {
                shard,
                table: table.full_name(),
                column: table.key_column.clone(),
            }
        }
    }
}

/// The beginning of a statement.
fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT) {
        None => text.to_owned(),
        Some((end, _)) => format!("{}..", &text[..end]),
    }
}

impl fmt::Debug for Rewriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rewriter")
            .field("types", &self.by_type.len())
            .field("texts", &self.by_text.len())
            .field("kept_bytes", &self.kept_bytes)
            .field("prepared", &self.prepared.len())
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
