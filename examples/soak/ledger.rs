//! What became of each write, in one byte per write.

use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};

/// More writes than this are not attempted, so the ledger's size is known from the start.
const CAPACITY: usize = 4_000_000;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fate {
    /// The call has not returned.
    Open = 0,
    /// The call returned `Ok`.
    Acknowledged = 1,
    /// The call's answer means: not there.
    RolledBack = 2,
    /// The connection was lost while the commit was under way: it may be there or not.
    Unknown = 3,
}

const FATE: u8 = 0b11;
const SHARD: u8 = 2;
const TWO_ROWS: u8 = 1 << 6;

pub(crate) struct Ledger {
    next: AtomicUsize,
    entries: Box<[AtomicU8]>,
}

/// One write as the ledger knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    pub(crate) fate: Fate,
    pub(crate) shard: usize,
    /// 1 or 2: how many rows it has.
    pub(crate) rows: usize,
}

impl Ledger {
    pub(crate) fn new() -> Self {
        Self {
            next: AtomicUsize::new(0),
            entries: (0..CAPACITY).map(|_| AtomicU8::new(0)).collect(),
        }
    }

    /// The id of a new write; `None` when the ledger is full.
    pub(crate) fn begin(&self, shard: usize, rows: usize) -> Option<i64> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let entry = self.entries.get(id)?;
        let two = if rows == 2 { TWO_ROWS } else { 0 };
        entry.store(u8::try_from(shard).ok()? << SHARD | two, Ordering::Relaxed);
        i64::try_from(id).ok()
    }

    pub(crate) fn settle(&self, id: i64, fate: Fate) {
        if let Some(entry) = usize::try_from(id).ok().and_then(|id| self.entries.get(id)) {
            entry.fetch_or(fate as u8, Ordering::Relaxed);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.next.load(Ordering::Relaxed).min(CAPACITY)
    }

    pub(crate) fn get(&self, id: i64) -> Option<Entry> {
        let id = usize::try_from(id).ok().filter(|id| *id < self.len())?;
        let byte = self.entries[id].load(Ordering::Relaxed);
        Some(Entry {
            fate: match byte & FATE {
                0 => Fate::Open,
                1 => Fate::Acknowledged,
                2 => Fate::RolledBack,
                _ => Fate::Unknown,
            },
            shard: usize::from(byte >> SHARD & 0b1111),
            rows: if byte & TWO_ROWS == 0 { 1 } else { 2 },
        })
    }

    pub(crate) fn count(&self, fate: Fate) -> usize {
        let entries = &self.entries[..self.len()];
        entries
            .iter()
            .filter(|entry| entry.load(Ordering::Relaxed) & FATE == fate as u8)
            .count()
    }
}
