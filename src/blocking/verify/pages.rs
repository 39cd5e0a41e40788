//! One column of keys, page by page.

use std::time::{Duration, Instant};

use super::super::backend::NodeConnection;
use super::session::Session;
use crate::driver::verify::sql::Column;
use crate::driver::verify::{ScannedKey, Tail, VerifyOptions};
use crate::error::Error;

/// Keeps the reading of one shard, of all its tables together, below so many rows a second.
pub(super) struct Pace {
    rows_per_second: Option<u32>,
    begun: Instant,
    rows: u64,
}

impl Pace {
    pub(super) fn new(options: &VerifyOptions) -> Self {
        Self {
            rows_per_second: options.rows_per_second,
            begun: Instant::now(),
            rows: 0,
        }
    }

    /// Waits until the rows that were read have had their time.
    fn wait(&self) {
        if let Some(limit) = self.rows_per_second {
            let due = Duration::from_secs_f64(self.rows as f64 / f64::from(limit));
            std::thread::sleep(due.saturating_sub(self.begun.elapsed()));
        }
    }
}

/// Reads the keys of a column in their order. `each` gets every key; after each page `end` gets the number of
/// its rows, and the key after which the next one begins, `None` at the end.
pub(super) fn read<C: NodeConnection, T>(
    session: &mut Session<C>,
    column: &Column<'_>,
    after: Option<String>,
    (options, pace): (&VerifyOptions, &mut Pace),
    to: &mut T,
    each: impl Fn(&mut T, ScannedKey<'_>),
    mut end: impl FnMut(&mut T, u64, Option<String>),
) -> Result<(), Error> {
    let limit = options.rows_at_once();
    let mut after = after;
    loop {
        pace.wait();
        let mut tail = Tail::default();
        let mut rows = 0;
        session.scan(
            &column.page(after.as_deref(), limit),
            column.as_numbers(),
            &mut |key| {
                rows += 1;
                tail.see(key);
                each(to, key);
            },
        )?;
        let last = tail.last().filter(|_| rows >= u64::from(limit));
        if let Some(last) = &last {
            // The database may take several texts for equal, and the next page begins after all of
            // them: those that did not fit into this page are looked at now.
            let mut seen = tail.rows;
            session.scan(&column.equal(last), column.as_numbers(), &mut |key| {
                if !Tail::take(key, &mut seen) {
                    rows += 1;
                    each(to, key);
                }
            })?;
        }
        pace.rows += rows;
        end(to, rows, last.clone());
        if last.is_none() {
            return Ok(());
        }
        after = last;
    }
}
