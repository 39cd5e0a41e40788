//! Where one page of keys ends and the next one begins.

use super::{RawKey, ScannedKey};

/// The keys at the end of a page, each with how often it came.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    pub(crate) rows: Vec<(RawKey, u64)>,
}

impl Tail {
    /// How many different keys are remembered: texts that differ in case or blanks alone.
    const KEPT: usize = 64;

    #[inline]
    pub(crate) fn see(&mut self, key: ScannedKey<'_>) {
        if let Some((last, times)) = self.rows.last_mut()
            && same(last, key)
        {
            *times += 1;
            return;
        }
        match key {
            // Numbers are equal where they are the same.
            ScannedKey::Number(number) => {
                self.rows.clear();
                self.rows.push((RawKey::Number(number), 1));
            }
            ScannedKey::Text(_) => {
                if self.rows.len() == Self::KEPT {
                    self.rows.remove(0);
                }
                self.rows.push((key.to_raw(), 1));
            }
        }
    }

    /// The last key of the page, in the form that goes into a statement.
    pub(crate) fn last(&self) -> Option<String> {
        self.rows.last().map(|(key, _)| key.text())
    }

    /// Whether a row was in the page already; each counts once.
    pub(crate) fn take(key: ScannedKey<'_>, seen: &mut [(RawKey, u64)]) -> bool {
        match seen
            .iter_mut()
            .find(|(known, left)| *left > 0 && same(known, key))
        {
            Some((_, left)) => {
                *left -= 1;
                true
            }
            None => false,
        }
    }
}

fn same(raw: &RawKey, key: ScannedKey<'_>) -> bool {
    match (raw, key) {
        (RawKey::Number(a), ScannedKey::Number(b)) => *a == b,
        (RawKey::Text(a), ScannedKey::Text(b)) => a == b,
        _ => false,
    }
}
