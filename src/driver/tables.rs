//! The rewriter of one physical connection: from a query to the text for the tables of the route.
//!
//! What was found out about a text is kept with the connection, and so are the texts for the tables of a
//! route, so that only the first use of a query costs more than a look-up. Both what is kept and how many
//! prepared statements come of it is bounded.

use std::any::TypeId;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use diesel::QueryResult;

use super::binds::{BindValue, QueryText};
use super::kept_texts::{KeptTexts, LONGEST, Metered, TextMeter};
use super::text_settings;
use super::written_keys::WrittenKeys;
use crate::error::Error;
use crate::name::{KeyspaceName, ShardName};
#[cfg(feature = "r2d2")]
use crate::rewrite::TextScope;
use crate::rewrite::{
    Analysis, Origin, Parts, Refusal, Rewritten, TableNumbers, TableSet, Template, TextId,
    Unfilled, analyze,
};
use crate::telemetry;
use crate::topology::Snapshot;

/// How many bytes of templates a connection keeps; where there are more it starts anew.
const KEPT_BYTES: usize = 512 * 1024;

/// How much of a statement an error repeats.
const EXCERPT: usize = 120;

/// See the module.
#[derive(Default)]
pub(crate) struct Rewriter {
    set: Option<Arc<TableSet>>,
    /// Queries of fixed text, by their type.
    by_type: HashMap<TypeId, Known, BuildHasherDefault<IdHasher>>,
    by_text: HashMap<Box<str>, Known>,
    kept_bytes: usize,
    texts: KeptTexts,
    metered: Metered,
}

/// What is known about a text.
struct Found {
    /// `None`: it is sent as it is.
    template: Option<Template>,
    /// Diesel would keep a prepared statement of it.
    cacheable: bool,
    /// The keyspace and the count of its tables, where they have numbers and all the same one.
    split: Option<(KeyspaceName, u32)>,
}

/// The same with the texts that have come of it.
struct Known {
    found: Arc<Found>,
    /// The texts that are kept prepared, by the number of the tables.
    filled: Vec<Option<Filled>>,
}

#[derive(Clone)]
struct Filled {
    text: Arc<str>,
    id: Option<TextId>,
}

/// A text for the tables of a route.
pub(crate) struct Plan {
    pub(crate) text: Arc<str>,
    /// Whether a prepared statement of it may be kept.
    keep: bool,
    #[cfg_attr(
        not(feature = "r2d2"),
        expect(dead_code, reason = "the nonblocking driver prepares by text")
    )]
    id: Option<TextId>,
    /// Where it writes shard keys.
    writes: Option<(Arc<Found>, Arc<TableSet>)>,
}

impl Rewriter {
    /// Sets how many prepared statements of rewritten texts the connection may keep, and where it tells
    /// what it keeps.
    pub(crate) fn set_up(&mut self, limit: u32, meter: &Arc<TextMeter>) {
        self.texts.limit(limit);
        self.metered = Metered::of(Arc::clone(meter));
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
            self.tell();
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
        self.texts.forget();
        let known = self.by_type.values_mut().chain(self.by_text.values_mut());
        known.for_each(|known| known.filled.clear());
        self.tell();
    }

    fn tell(&mut self) {
        self.metered
            .tell(self.texts.kept(), self.kept_bytes + self.texts.bytes());
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
        let Some(id) = query_type else {
            return self.plan_text_of(shard, numbers, text()?);
        };
        if let Some(known) = self.by_type.get(&id) {
            if known.found.template.is_none() {
                return Ok(None);
            }
            if let Some(plan) = known.filled(set, numbers) {
                return Ok(Some(plan));
            }
        } else {
            let known = self.look(shard, Origin::Builder, &text()?)?;
            self.make_room(known.size());
            self.by_type.insert(id, known);
            self.tell();
        }
        let (Some(set), Some(known)) = (&self.set, self.by_type.get_mut(&id)) else {
            unreachable!("it was found or put there");
        };
        let plan = known.fill(set, shard, numbers, query_type, &mut self.texts)?;
        self.tell();
        Ok(plan)
    }

    /// The text of a batch for the tables of the route; `None`: it is sent as it is. The keys that it
    /// writes are checked: it has no binds.
    pub(crate) fn plan_text(
        &mut self,
        shard: ShardName,
        numbers: Option<TableNumbers>,
        text: &str,
        snapshot: impl FnOnce(&dyn Fn(&Snapshot) -> Result<(), Error>) -> Result<(), Error>,
    ) -> QueryResult<Option<Plan>> {
        let query = QueryText {
            text: text.to_owned(),
            cacheable: false,
        };
        let plan = self.plan_text_of(shard, numbers, query)?;
        if let Some(plan) = &plan {
            plan.check_keys(shard, numbers, snapshot, || Ok(Vec::new()))?;
        }
        Ok(plan)
    }

    fn plan_text_of(
        &mut self,
        shard: ShardName,
        numbers: Option<TableNumbers>,
        query: QueryText,
    ) -> QueryResult<Option<Plan>> {
        let text = query.text.as_str();
        if !self.by_text.contains_key(text) {
            let mut known = self.look(shard, Origin::Anyone, &query)?;
            if known.found.template.is_none() {
                return Ok(None);
            }
            let Some(set) = self.set.as_ref().filter(|_| text.len() > LONGEST) else {
                self.make_room(known.size() + text.len());
                self.kept_bytes += text.len();
                self.by_text.insert(text.into(), known);
                return self.plan_text_of(shard, numbers, query);
            };
            return known.fill(set, shard, numbers, None, &mut self.texts);
        }
        let (Some(set), Some(known)) = (&self.set, self.by_text.get_mut(text)) else {
            return Ok(None);
        };
        if let Some(plan) = known.filled(set, numbers) {
            return Ok(Some(plan));
        }
        let plan = known.fill(set, shard, numbers, None, &mut self.texts)?;
        self.tell();
        Ok(plan)
    }

    fn look(&self, shard: ShardName, origin: Origin, query: &QueryText) -> QueryResult<Known> {
        let template = match &self.set {
            None => None,
            Some(set) => {
                let analysis = match text_settings::refusal(set.dialect, &query.text) {
                    Some(reason) => Err(Refusal::Unclear(reason.into())),
                    None => analyze(set, &query.text, origin),
                };
                match analysis {
                    Ok(Analysis::Template(template)) => Some(template),
                    Ok(Analysis::Untouched) => None,
                    Err(refusal) => {
                        return Err(told(refused(refusal, set, shard, &query.text)).into());
                    }
                }
            }
        };
        let split = self
            .set
            .as_ref()
            .zip(template.as_ref())
            .and_then(|(set, template)| {
                let mut split = template.tables().iter().map(|at| &set.tables()[*at]);
                let first = split.next()?;
                (matches!(first.parts, Parts::Numbered(_))
                    && split.all(|other| other.is_bound_to(first)))
                .then(|| (first.keyspace, first.count()))
            });
        Ok(Known {
            found: Arc::new(Found {
                template,
                cacheable: query.cacheable,
                split,
            }),
            filled: Vec::new(),
        })
    }

    /// Forgets everything where there would be too much.
    fn make_room(&mut self, size: usize) {
        if self.kept_bytes + size > KEPT_BYTES {
            self.forget();
        }
        self.kept_bytes += size;
    }
}

impl Known {
    fn size(&self) -> usize {
        let found = &self.found;
        let filled =
            found.split.map_or(0, |(_, count)| count as usize) * size_of::<Option<Filled>>();
        size_of::<Self>()
            + size_of::<Found>()
            + filled
            + found.template.as_ref().map_or(0, Template::size)
    }

    /// The place of the text for the tables of a route.
    #[inline]
    fn place(&self, set: &TableSet, numbers: TableNumbers) -> Option<usize> {
        let (keyspace, count) = self.found.split?;
        let table = *self.found.template.as_ref()?.tables().first()?;
        if set.tables()[table].is_stale(numbers) {
            return None;
        }
        Some(numbers.of(keyspace, count)? as usize)
    }

    /// A text that has been made already.
    #[inline]
    fn filled(&self, set: &Arc<TableSet>, numbers: Option<TableNumbers>) -> Option<Plan> {
        let filled = self.filled.get(self.place(set, numbers?)?)?.as_ref()?;
        Some(Plan {
            text: Arc::clone(&filled.text),
            keep: true,
            id: filled.id,
            writes: self.writes(set),
        })
    }

    #[inline]
    fn writes(&self, set: &Arc<TableSet>) -> Option<(Arc<Found>, Arc<TableSet>)> {
        let template = self.found.template.as_ref()?;
        (!template.keys().is_empty()).then(|| (Arc::clone(&self.found), Arc::clone(set)))
    }

    /// Makes the text for the tables of a route.
    fn fill(
        &mut self,
        set: &Arc<TableSet>,
        shard: ShardName,
        numbers: Option<TableNumbers>,
        query_type: Option<TypeId>,
        texts: &mut KeptTexts,
    ) -> QueryResult<Option<Plan>> {
        let Some(template) = &self.found.template else {
            return Ok(None);
        };
        let text: Arc<str> = template
            .render(set, numbers)
            .map_err(|unfilled| match unfilled {
                Unfilled::NoNumber(table) => told(no_table(set, table, shard, numbers)),
                Unfilled::Taken(reason) => told(Error::Unrewritable {
                    shard,
                    statement: excerpt(&template.as_written(set)),
                    reason,
                }),
            })?
            .into();
        let kept = self
            .found
            .cacheable
            .then(|| texts.may_keep(query_type, &text))
            .flatten();
        if let Some(id) = kept
            && let Some(place) = numbers.and_then(|numbers| self.place(set, numbers))
        {
            if self.filled.len() <= place {
                self.filled.resize(place + 1, None);
            }
            self.filled[place] = Some(Filled {
                text: Arc::clone(&text),
                id,
            });
        }
        Ok(Some(Plan {
            text,
            keep: kept.is_some(),
            id: kept.flatten(),
            writes: self.writes(set),
        }))
    }
}

impl Plan {
    /// The query with this text in place of its own; Diesel keeps its statement by the text.
    #[cfg(feature = "bb8")]
    pub(crate) fn of<T>(self, query: T) -> Rewritten<T, false> {
        Rewritten::new(query, self.text, self.keep)
    }

    /// The query with this text in place of its own; Diesel keeps its statement by the number of the
    /// text while the scope lasts, which is to be no longer than the call.
    #[cfg(feature = "r2d2")]
    #[inline]
    pub(crate) fn numbered<T>(self, query: T) -> (TextScope, Rewritten<T, true>) {
        (
            TextScope::enter(self.id),
            Rewritten::new(query, self.text, self.keep),
        )
    }

    /// Checks that the keys which the statement writes belong to the tables of the route.
    ///
    /// # Errors
    ///
    /// [`Error::ShardKeyUpdate`], [`Error::WrongTable`], [`Error::UnreadableShardKey`] and
    /// [`Error::NullShardKey`].
    #[inline]
    pub(crate) fn check_keys(
        &self,
        shard: ShardName,
        numbers: Option<TableNumbers>,
        snapshot: impl FnOnce(&dyn Fn(&Snapshot) -> Result<(), Error>) -> Result<(), Error>,
        binds: impl FnOnce() -> QueryResult<Vec<BindValue>>,
    ) -> QueryResult<()> {
        let (Some((found, set)), Some(numbers)) = (&self.writes, numbers) else {
            return Ok(());
        };
        let keys = found.template.as_ref().map_or(&[][..], Template::keys);
        let Some(keys) = WrittenKeys::of(keys, set, numbers) else {
            return Ok(());
        };
        let binds = if keys.have_binds() {
            binds()?
        } else {
            Vec::new()
        };
        Ok(snapshot(&|snapshot| keys.check(shard, snapshot, &binds))?)
    }
}

/// Type ids are hashes already.
#[derive(Default)]
struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 ^= number;
    }
}

#[cold]
fn no_table(
    set: &TableSet,
    table: usize,
    shard: ShardName,
    numbers: Option<TableNumbers>,
) -> Error {
    let table = &set.tables()[table];
    if numbers.is_some_and(|numbers| table.is_stale(numbers)) {
        return Error::StaleRoute {
            shard,
            keyspace: table.keyspace,
        };
    }
    Error::NoTableRoute {
        shard,
        keyspace: table.keyspace,
        table: table.full_name(),
    }
}

/// The raw connection was asked for where statements on it would reach logical names.
#[cold]
pub(crate) fn raw_under_table_route(shard: ShardName) -> Error {
    told(Error::Unrewritable {
        shard,
        statement: String::new(),
        reason: "the route in force, or the key that the connection was checked out for, means physical tables, and on the raw connection table names are not rewritten; enter a route without tables first (`on(shard, ..)`), or check out by shard (`get_on(shard)`)".to_owned(),
    })
}

/// What a dereference panics with that cannot answer an error. There is no statement that could be written
/// otherwise.
#[cfg(feature = "r2d2")]
#[cold]
pub(crate) fn panic_of_deref(error: &Error) -> String {
    match error {
        Error::Unrewritable { shard, reason, .. } => format!(
            "the raw connection to shard {shard} is out of reach: {reason}, or use the sharded connection itself"
        ),
        other => other.to_string(),
    }
}

pub(super) fn told(error: Error) -> Error {
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
            let column = set.tables()[table].key_column.clone();
            key_update(set, table, shard, column)
        }
        Refusal::RowNumber { table } => {
            let column = format!("rowid (which may be {})", set.tables()[table].key_column);
            key_update(set, table, shard, column)
        }
    }
}

fn key_update(set: &TableSet, table: usize, shard: ShardName, column: String) -> Error {
    Error::ShardKeyUpdate {
        shard,
        table: set.tables()[table].full_name(),
        column,
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
            .field("prepared", &self.texts)
            .finish_non_exhaustive()
    }
}
