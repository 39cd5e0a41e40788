//! Which rewritten texts a connection keeps prepared, and how much it remembers.

use std::any::TypeId;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::rewrite::TextId;

/// Texts longer than this are neither remembered nor kept prepared: batch inserts, of which no two are
/// alike.
pub(crate) const LONGEST: usize = 16 * 1024;

/// The rewritten texts of one connection whose prepared statements may be kept.
#[derive(Debug, Default)]
pub(super) struct KeptTexts {
    texts: HashMap<Statement, Kept>,
    /// How many of them are kept.
    kept: usize,
    /// The most of those.
    limit: usize,
    /// How many have a number, which is never given again: Diesel may have a statement of it.
    numbered: usize,
    bytes: usize,
}

/// What a prepared statement is of: a text, and the query of fixed text that it is the text of. Two of them may have
/// one text and bind values of other types, which PostgreSQL's statements are prepared for.
type Statement = (Option<TypeId>, Arc<str>);

#[derive(Clone, Copy, Debug)]
struct Kept {
    id: Option<TextId>,
    /// Diesel has been told to keep it since its cache was last emptied.
    now: bool,
}

impl KeptTexts {
    pub(super) fn limit(&mut self, limit: u32) {
        self.limit = limit as usize;
    }

    /// Whether one more prepared statement may be kept, or this one is kept already; and its number, which only those of
    /// queries with a type have.
    pub(super) fn may_keep(
        &mut self,
        query_type: Option<TypeId>,
        text: &Arc<str>,
    ) -> Option<Option<TextId>> {
        let statement = (query_type, Arc::clone(text));
        if let Some(known) = self.texts.get_mut(&statement) {
            if !known.now {
                if self.kept >= self.limit {
                    return None;
                }
                known.now = true;
                self.kept += 1;
            }
            return Some(known.id);
        }
        if self.kept >= self.limit || text.len() > LONGEST {
            return None;
        }
        let id = query_type.and_then(|_| TextId::of(self.numbered));
        self.numbered += usize::from(id.is_some());
        self.kept += 1;
        self.bytes += Self::size(text);
        self.texts.insert(statement, Kept { id, now: true });
        Some(id)
    }

    /// Diesel's cache has been emptied, or somebody has asked for that.
    pub(super) fn forget(&mut self) {
        self.kept = 0;
        let bytes = &mut self.bytes;
        self.texts.retain(|(_, text), known| {
            known.now = false;
            if known.id.is_none() {
                *bytes -= Self::size(text);
            }
            known.id.is_some()
        });
    }

    pub(super) fn kept(&self) -> usize {
        self.kept
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn size(text: &str) -> usize {
        text.len() + size_of::<(Statement, Kept)>()
    }
}

/// What the connections of a node remember of statements over sharded tables, all together.
#[derive(Debug, Default)]
pub(crate) struct TextMeter {
    statements: AtomicUsize,
    bytes: AtomicUsize,
}

impl TextMeter {
    /// Prepared statements that are kept, and bytes of texts and templates.
    pub(crate) fn read(&self) -> (usize, usize) {
        (
            self.statements.load(Ordering::Relaxed),
            self.bytes.load(Ordering::Relaxed),
        )
    }
}

/// The part of one connection in a [`TextMeter`].
#[derive(Debug, Default)]
pub(super) struct Metered {
    meter: Option<Arc<TextMeter>>,
    statements: usize,
    bytes: usize,
}

impl Metered {
    pub(super) fn of(meter: Arc<TextMeter>) -> Self {
        Self {
            meter: Some(meter),
            statements: 0,
            bytes: 0,
        }
    }

    pub(super) fn tell(&mut self, statements: usize, bytes: usize) {
        if let Some(meter) = &self.meter {
            change(&meter.statements, self.statements, statements);
            change(&meter.bytes, self.bytes, bytes);
        }
        (self.statements, self.bytes) = (statements, bytes);
    }
}

impl Drop for Metered {
    fn drop(&mut self) {
        self.tell(0, 0);
    }
}

fn change(counter: &AtomicUsize, from: usize, to: usize) {
    if to >= from {
        counter.fetch_add(to - from, Ordering::Relaxed);
    } else {
        counter.fetch_sub(from - to, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(limit: u32) -> KeptTexts {
        let mut kept = KeptTexts::default();
        kept.limit(limit);
        kept
    }

    fn text(number: usize) -> Arc<str> {
        format!("SELECT {number}").into()
    }

    /// A query of fixed text.
    fn typed() -> Option<TypeId> {
        Some(TypeId::of::<u8>())
    }

    #[test]
    fn no_number_is_given_to_two_texts() {
        let mut kept = kept(1_000);
        let mut given = Vec::new();
        for round in 0..3 {
            for number in 0..200 {
                let text = text(number * (round + 1));
                let id = kept.may_keep(typed(), &text).expect("room");
                assert_eq!(kept.may_keep(typed(), &text), Some(id));
                given.push((number * (round + 1), id));
            }
            kept.forget();
        }
        for (number, id) in &given {
            for (other, of_other) in &given {
                assert!(id.is_none() || (id == of_other) == (number == other));
            }
        }
        assert!(given.iter().any(|(_, id)| id.is_none()), "they do run out");
    }

    #[test]
    fn queries_that_share_a_text_share_no_number() {
        let mut kept = kept(3);
        let one = kept.may_keep(Some(TypeId::of::<u8>()), &text(0)).flatten();
        let other = kept.may_keep(Some(TypeId::of::<u16>()), &text(0)).flatten();
        assert!(one.is_some() && other.is_some() && one != other);
        assert_eq!(kept.may_keep(None, &text(0)), Some(None));
        assert_eq!(kept.kept(), 3);
    }

    #[test]
    fn no_more_are_kept_than_allowed() {
        let mut kept = kept(2);
        let keep = |kept: &mut KeptTexts, number| kept.may_keep(typed(), &text(number)).is_some();
        assert!(keep(&mut kept, 0) && keep(&mut kept, 1));
        assert!(!keep(&mut kept, 2));
        assert!(keep(&mut kept, 0));
        kept.forget();
        assert!(keep(&mut kept, 2) && keep(&mut kept, 1));
        assert!(!keep(&mut kept, 0));
        assert_eq!(kept.kept(), 2);
        let long = "x".repeat(LONGEST + 1).into();
        assert!(kept.may_keep(typed(), &long).is_none());
    }

    #[test]
    fn a_meter_sums_up_and_forgets_who_is_gone() {
        let meter = Arc::new(TextMeter::default());
        let mut one = Metered::of(Arc::clone(&meter));
        one.tell(3, 100);
        one.tell(2, 150);
        {
            let mut other = Metered::of(Arc::clone(&meter));
            other.tell(1, 10);
            assert_eq!(meter.read(), (3, 160));
        }
        assert_eq!(meter.read(), (2, 150));
    }
}
