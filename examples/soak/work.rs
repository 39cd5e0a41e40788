//! One thread's share of the work: every way in which the crate is used, picked at random.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use diesel::prelude::*;
use diesel_sharded::blocking::{Isolation, Outcome};
use diesel_sharded::{Error, Route};

use crate::faults;
use crate::fleet::{ALL, HOT_ROWS, SHARDS, SPARE, Sharded, hot, whoami, writes};
use crate::ledger::Fate;
use crate::rng::Rng;
use crate::world::World;

pub(crate) const WANTED_PANIC: &str = "a panic of the soak's own";
/// In `writes.part`: the rows of transactions that count up, and rows of savepoints that are undone.
pub(crate) const COUNTED: i32 = 7;
pub(crate) const UNDONE: i32 = 99;

/// A write that is under way.
struct Write {
    id: i64,
    shard: usize,
    /// From here on an error does not say whether the write is there.
    committing: Cell<bool>,
}

impl Write {
    fn insert(&self, conn: &mut Sharded, part: i32) -> QueryResult<()> {
        diesel::insert_into(writes::table)
            .values((
                writes::id.eq(self.id),
                writes::part.eq(part),
                writes::shard.eq(ALL[self.shard]),
            ))
            .execute(conn)
            .map(drop)
    }
}

type Work<'w> = fn(&Worker<'w>, &mut Rng);

fn kinds<'w>() -> [Work<'w>; 14] {
    [
        Worker::by_key,
        Worker::by_key,
        Worker::by_name,
        Worker::without_transaction,
        Worker::through_the_outer_pool,
        Worker::counting_up,
        Worker::counting_up,
        Worker::ending_in_an_error,
        Worker::rolling_back,
        Worker::swallowing_an_error,
        Worker::in_the_batch_class,
        Worker::with_an_audit,
        Worker::leaving_begin_open,
        Worker::reading,
    ]
}

pub(crate) struct Worker<'w> {
    world: &'w World,
}

/// Works until the world stops.
pub(crate) fn run(world: &World, thread: u64) {
    let mut rng = Rng::new(world.seed, thread);
    let worker = Worker { world };
    let kinds = kinds();
    while !world.stopped() {
        let began = Instant::now();
        rng.pick(&kinds)(&worker, &mut rng);
        let millis = u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX);
        world.counts.slowest.fetch_max(millis, Ordering::Relaxed);
        if Route::stack_depth() != 0 {
            world.counts.leaked_routes.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(Duration::from_millis(rng.below(25) as u64));
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Worker<'_> {
    fn any_shard(&self, rng: &mut Rng) -> usize {
        if rng.one_in(24) {
            SPARE
        } else {
            rng.below(SHARDS.len())
        }
    }

    /// A key and the shard that owns it.
    fn key(&self, rng: &mut Rng) -> Option<(i64, usize)> {
        let key = rng.next() as i64;
        let owner = self.world.keyspace.locate(&key).ok()?.shard();
        let shard = SHARDS.iter().position(|name| owner == *name)?;
        Some((key, shard))
    }

    /// Runs one write and records what its answer says; `Ok(false)`: it was to be rolled back.
    fn attempt(
        &self,
        shard: usize,
        rows: usize,
        f: impl FnOnce(&Write) -> Result<bool, Error>,
    ) -> Fate {
        let Some(id) = self.world.ledger.begin(shard, rows) else {
            self.world.stop();
            return Fate::Open;
        };
        let write = Write {
            id,
            shard,
            committing: Cell::new(false),
        };
        let fate = match catch_unwind(AssertUnwindSafe(|| f(&write))) {
            Ok(Ok(true)) => Fate::Acknowledged,
            Ok(Ok(false)) => Fate::RolledBack,
            Ok(Err(error)) => {
                self.world.note(&error);
                if write.committing.get() && !faults::says_not_there(&error) {
                    Fate::Unknown
                } else {
                    Fate::RolledBack
                }
            }
            Err(panic) => {
                if panic.downcast_ref::<&str>() != Some(&WANTED_PANIC) {
                    std::panic::resume_unwind(panic);
                }
                Fate::RolledBack
            }
        };
        self.world.ledger.settle(id, fate);
        fate
    }

    /// Asks the database where we are.
    fn look(&self, conn: &mut Sharded, shard: usize) -> QueryResult<()> {
        let name: String = whoami::table.select(whoami::name).first(conn)?;
        if name != ALL[shard] {
            add(&self.world.counts.misrouted);
        }
        Ok(())
    }

    fn by_key(&self, rng: &mut Rng) {
        let Some((key, shard)) = self.key(rng) else {
            return;
        };
        self.attempt(shard, 2, |write| {
            self.world.keyspace.transaction_for(&key, |conn| {
                self.look(conn, shard)?;
                write.insert(conn, 0)?;
                let undone = conn.transaction(|conn| {
                    write.insert(conn, UNDONE)?;
                    Err::<(), _>(diesel::result::Error::RollbackTransaction)
                });
                match undone {
                    Err(diesel::result::Error::RollbackTransaction) => {}
                    other => other?,
                }
                write.insert(conn, 1)?;
                write.committing.set(true);
                Ok(true)
            })
        });
    }

    fn by_name(&self, rng: &mut Rng) {
        let shard = self.any_shard(rng);
        let panics = rng.one_in(8);
        self.attempt(shard, 1, |write| {
            self.world.shards.transaction_on(ALL[shard], |conn| {
                self.look(conn, shard)?;
                write.insert(conn, 0)?;
                if panics {
                    std::panic::panic_any(WANTED_PANIC);
                }
                write.committing.set(true);
                Ok(true)
            })
        });
    }

    fn without_transaction(&self, rng: &mut Rng) {
        let shard = self.any_shard(rng);
        self.attempt(shard, 1, |write| {
            self.world.shards.on(ALL[shard], || {
                let mut conn = self.world.shards.get()?;
                write.committing.set(true);
                write.insert(&mut conn, 0)?;
                Ok(true)
            })
        });
    }

    fn through_the_outer_pool(&self, rng: &mut Rng) {
        let shard = self.any_shard(rng);
        self.attempt(shard, 2, |write| {
            // As it arrives in a message header.
            let text = self.world.shards.route(ALL[shard])?.to_string();
            self.world.shards.parse_route(&text)?.run(|| {
                let mut conn =
                    self.world.outer.get().map_err(|error| {
                        diesel::result::Error::QueryBuilderError(Box::new(error))
                    })?;
                conn.transaction(|conn| {
                    self.look(conn, shard)?;
                    write.insert(conn, 0)?;
                    write.insert(conn, 1)?;
                    write.committing.set(true);
                    Ok(true)
                })
            })
        });
    }

    /// Two rows that everybody wants, in any order: deadlocks and serialization failures.
    fn counting_up(&self, rng: &mut Rng) {
        let Some((key, shard)) = self.key(rng) else {
            return;
        };
        let first = rng.below(HOT_ROWS as usize) as i64;
        let second = (first + 1 + rng.below(HOT_ROWS as usize - 1) as i64) % HOT_ROWS;
        let transaction = self.world.keyspace.transaction_builder(&key);
        let transaction = if ALL[shard].starts_with("file") {
            transaction.immediate()
        } else {
            transaction.isolation(*rng.pick(&[
                Isolation::Serializable,
                Isolation::RepeatableRead,
                Isolation::ReadCommitted,
            ]))
        };
        let mut runs = 0;
        self.attempt(shard, 1, |write| {
            transaction.retries(6).run(|conn| {
                runs += 1;
                write.committing.set(false);
                for row in [first, second] {
                    diesel::update(hot::table.filter(hot::id.eq(row)))
                        .set(hot::n.eq(hot::n + 1))
                        .execute(conn)?;
                }
                write.insert(conn, COUNTED)?;
                write.committing.set(true);
                Ok(true)
            })
        });
        let retries = &self.world.counts.retries;
        retries.fetch_add(u64::saturating_sub(runs, 1), Ordering::Relaxed);
    }

    fn ending_in_an_error(&self, rng: &mut Rng) {
        let shard = self.any_shard(rng);
        self.attempt(shard, 1, |write| {
            self.world.shards.transaction_on(ALL[shard], |conn| {
                write.insert(conn, 0)?;
                Err(diesel::result::Error::RollbackTransaction.into())
            })
        });
    }

    fn rolling_back(&self, rng: &mut Rng) {
        let shard = self.any_shard(rng);
        self.attempt(shard, 1, |write| {
            let transaction = self.world.shards.transaction_builder(ALL[shard]);
            transaction.run_outcome(|conn| {
                write.insert(conn, 0)?;
                Ok(Outcome::Rollback(false))
            })
        });
    }

    /// PostgreSQL commits nothing of such a transaction, the others commit what succeeded.
    fn swallowing_an_error(&self, rng: &mut Rng) {
        let shard = self.any_shard(rng);
        self.attempt(shard, 1, |write| {
            self.world.shards.transaction_on(ALL[shard], |conn| {
                write.insert(conn, 0)?;
                let _ = diesel::insert_into(hot::table)
                    .values((hot::id.eq(0), hot::n.eq(0)))
                    .execute(conn);
                write.committing.set(true);
                Ok(true)
            })
        });
    }

    fn in_the_batch_class(&self, rng: &mut Rng) {
        let shard = self.any_shard(rng);
        self.attempt(shard, 1, |write| {
            let route = self.world.shards.route(ALL[shard])?.workload("batch")?;
            route.run(|| {
                self.world.shards.transaction_on(ALL[shard], |conn| {
                    self.look(conn, shard)?;
                    write.insert(conn, 0)?;
                    write.committing.set(true);
                    Ok(true)
                })
            })
        });
    }

    /// A second write with a fate of its own, and a hook that runs if, and only if, the first is
    /// committed.
    fn with_an_audit(&self, rng: &mut Rng) {
        let shard = self.any_shard(rng);
        let audit = self.any_shard(rng);
        let hooks = Arc::clone(&self.world.counts.hooks);
        let fate = self.attempt(shard, 1, |write| {
            self.world.shards.transaction_on(ALL[shard], |conn| {
                conn.after_commit(move || add(&hooks));
                write.insert(conn, 0)?;
                if audit != shard {
                    self.world.shards.independent(|| {
                        self.attempt(audit, 1, |write| {
                            let mut conn = self.world.shards.get_on(ALL[audit])?;
                            write.committing.set(true);
                            write.insert(&mut conn, 0)?;
                            Ok(true)
                        })
                    });
                }
                write.committing.set(true);
                Ok(true)
            })
        });
        if fate == Fate::Acknowledged {
            add(&self.world.counts.hooks_due);
        }
    }

    /// A transaction begun by hand and forgotten.
    fn leaving_begin_open(&self, rng: &mut Rng) {
        use diesel::connection::SimpleConnection;
        let shard = self.any_shard(rng);
        self.attempt(shard, 1, |write| {
            let mut conn = self.world.shards.get_on(ALL[shard])?;
            conn.batch_execute("BEGIN")?;
            write.insert(&mut conn, 0)?;
            Ok(false)
        });
    }

    fn reading(&self, rng: &mut Rng) {
        let shard = self.any_shard(rng);
        let read: Result<(), Error> = self.world.shards.on(ALL[shard], || {
            let mut conn = self.world.shards.get()?;
            Ok(self.look(&mut conn, shard)?)
        });
        match read {
            Ok(()) => add(&self.world.counts.reads),
            Err(error) => self.world.note(&error),
        }
    }
}
