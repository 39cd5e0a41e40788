//! `after_commit`: once, after the COMMIT, as after the call; never for what was rolled back.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{Error, KeyspaceConfig, Route, RuleSpec};

use super::backend::{Fleet, Manager, NAME, Outcome, Sharded, direct, ids, insert, whoami};

/// What the hooks have said, in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn say(&self, what: &str) {
        self.0.lock().unwrap().push(what.to_owned());
    }

    fn hook(&self, what: &'static str) -> impl FnOnce() + Send + 'static {
        let log = self.clone();
        move || log.say(what)
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn failed() -> Error {
    Error::NoRoute { known: vec![] }
}

#[test]
fn a_hook_runs_once_after_the_commit_with_the_pin_left_and_the_connection_back() {
    let fleet = Fleet::new(&["a", "b"]);
    // One connection: a hook that ran before it is back could not get one.
    let shards = fleet.manager_of_size(1);
    let log = Log::default();
    shards
        .on("b", || {
            shards.transaction_on("a", |conn| {
                insert(conn, 1)?;
                let (shards, url, said) = (shards.clone(), fleet.url("a"), log.clone());
                conn.after_commit(move || {
                    let seen = ids(&mut direct(&url)).unwrap();
                    said.say(&format!("committed {seen:?}"));
                    said.say(&format!("depth {}", Route::stack_depth()));
                    // The outer route is in force again, and any shard may be used.
                    said.say(&whoami(&mut shards.get().unwrap()).unwrap());
                    shards
                        .transaction_on("a", |conn| Ok::<_, Error>(insert(conn, 2)?))
                        .unwrap();
                });
                log.say("closure");
                Ok::<_, Error>(())
            })
        })
        .unwrap();
    assert_eq!(log.take(), ["closure", "committed [1]", "depth 1", "b"]);
    assert_eq!(fleet.rows("a"), [1, 2]);
}

#[test]
fn hooks_run_in_the_order_they_were_asked_for() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let log = Log::default();
    shards
        .transaction_on("a", |conn| {
            conn.after_commit(log.hook("1"));
            conn.transaction(|conn| {
                conn.after_commit(log.hook("2"));
                conn.transaction(|conn| {
                    conn.after_commit(log.hook("3"));
                    QueryResult::Ok(())
                })?;
                conn.after_commit(log.hook("4"));
                QueryResult::Ok(())
            })?;
            conn.after_commit(log.hook("5"));
            assert_eq!(log.take(), [""; 0], "nothing before the commit");
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(log.take(), ["1", "2", "3", "4", "5"]);
}

#[test]
fn hooks_of_a_savepoint_that_was_rolled_back_are_void_with_all_beneath() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let log = Log::default();
    shards
        .transaction_on("a", |conn| {
            conn.after_commit(log.hook("outer"));
            let inner = conn.transaction(|conn| {
                conn.after_commit(log.hook("void"));
                conn.transaction(|conn| {
                    conn.after_commit(log.hook("void too, though released"));
                    QueryResult::Ok(())
                })?;
                Err::<(), _>(diesel::result::Error::RollbackTransaction)
            });
            assert!(inner.is_err());
            let panicked = catch_unwind(AssertUnwindSafe(|| {
                conn.transaction(|conn| -> QueryResult<()> {
                    conn.after_commit(log.hook("void by panic"));
                    panic!("of the application")
                })
            }));
            assert!(panicked.is_err());
            conn.transaction(|conn| {
                conn.after_commit(log.hook("inner"));
                insert(conn, 1)
            })?;
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(log.take(), ["outer", "inner"]);
}

#[test]
fn no_hook_runs_for_a_transaction_that_was_not_committed() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    let log = Log::default();
    type End = fn(&mut Sharded) -> Result<Outcome<()>, Error>;
    let ends: [(&str, End); 6] = [
        ("an error", |_| Err(failed())),
        ("a panic", |_| panic!("of the application")),
        ("a rollback on purpose", |_| Ok(Outcome::Rollback(()))),
        ("a rollback by hand", |conn| {
            conn.batch_execute("ROLLBACK")?;
            Ok(Outcome::Commit(()))
        }),
        ("a statement that failed, let out", |conn| {
            insert(conn, 1)?;
            insert(conn, 1)?;
            Ok(Outcome::Commit(()))
        }),
        ("a statement that failed, swallowed", |conn| match NAME {
            // Elsewhere the transaction goes on, and is committed.
            "postgres" => {
                let _ = conn.batch_execute("SELECT * FROM nothing_of_that_name");
                Ok(Outcome::Commit(()))
            }
            _ => Err(failed()),
        }),
    ];
    for (what, end) in ends {
        let result = catch_unwind(AssertUnwindSafe(|| {
            shards.transaction_builder("b").run_outcome(|conn| {
                conn.after_commit(log.hook("first"));
                conn.transaction(|conn| {
                    conn.after_commit(log.hook("second"));
                    QueryResult::Ok(())
                })?;
                end(conn)
            })
        }));
        println!("{what}: {result:?}");
        assert_eq!(log.take(), [""; 0], "{what}");
        // Nor with the next commit, on this shard or another.
        for shard in ["a", "b"] {
            shards
                .transaction_on(shard, |_| Ok::<_, Error>(()))
                .unwrap();
        }
        assert_eq!(log.take(), [""; 0], "{what}, later");
    }
}

#[test]
fn outside_of_a_transaction_a_hook_runs_at_once() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let log = Log::default();
    let mut conn = shards.get_on("a").unwrap();
    conn.after_commit(log.hook("at once"));
    assert_eq!(log.take(), ["at once"]);
    conn.transaction(|_| QueryResult::Ok(())).unwrap();
    conn.after_commit(log.hook("between"));
    assert_eq!(log.take(), ["between"]);
    drop(conn);
    // A handle of an outer pool that is bound to nothing yet.
    let pool = shards.into_pool();
    pool.get().unwrap().after_commit(log.hook("unbound"));
    assert_eq!(log.take(), ["unbound"]);
}

#[test]
fn a_panic_in_a_hook_undoes_nothing_and_stops_no_other() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let log = Log::default();
    let result = shards.transaction_on("a", |conn| {
        insert(conn, 1)?;
        conn.after_commit(|| panic!("in a hook"));
        conn.after_commit(log.hook("the next"));
        Ok::<_, Error>(7)
    });
    assert_eq!(result.unwrap(), 7);
    assert_eq!(log.take(), ["the next"]);
    assert_eq!(fleet.rows("a"), [1]);
    assert_eq!(Route::stack_depth(), 0);
    let mut conn = shards.get_on("a").unwrap();
    conn.transaction(|conn| {
        conn.after_commit(|| panic!("in a hook"));
        insert(conn, 2)
    })
    .unwrap();
    conn.after_commit(|| panic!("in a hook, at once"));
    assert_eq!(ids(&mut conn), Ok(vec![1, 2]));
    drop(conn);
    let node = shards.status().nodes.remove(0);
    assert_eq!((node.connections, node.idle), (1, 1));
}

#[test]
fn hooks_work_for_transactions_of_a_plain_checkout_too() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(2);
    let log = Log::default();
    let hook = |conn: &mut Sharded| {
        let (url, log) = (fleet.url("a"), log.clone());
        conn.after_commit(move || log.say(&format!("{:?}", ids(&mut direct(&url)).unwrap())));
    };
    let mut conn = shards.get_on("a").unwrap();
    conn.transaction(|conn| {
        hook(conn);
        conn.transaction(|conn| insert(conn, 1))?;
        assert_eq!(log.take(), [""; 0]);
        QueryResult::Ok(())
    })
    .unwrap();
    assert_eq!(log.take(), ["[1]"]);
    let rolled_back = conn.transaction(|conn| {
        hook(conn);
        Err::<(), _>(diesel::result::Error::RollbackTransaction)
    });
    assert!(rolled_back.is_err());
    drop(conn);
    // Through an outer pool.
    let pool = shards.clone().into_pool();
    shards
        .on("a", || {
            let mut conn = pool.get().unwrap();
            conn.transaction(|conn| {
                hook(conn);
                insert(conn, 2)
            })
        })
        .unwrap();
    assert_eq!(log.take(), ["[1, 2]"]);
}

#[test]
fn a_hook_may_open_a_transaction_with_a_hook_of_its_own() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet
        .builder_of_size(1)
        .keyspace("k", KeyspaceConfig::new(RuleSpec::modulo(["a"])))
        .build()
        .unwrap();
    let log = Log::default();
    fn again(shards: &Manager, log: &Log, left: i64) {
        let keyspace = shards.keyspace("k").unwrap();
        keyspace
            .transaction_for(&left, |conn| {
                insert(conn, left)?;
                let (shards, log) = (shards.clone(), log.clone());
                conn.after_commit(move || {
                    log.say(&left.to_string());
                    if left > 0 {
                        again(&shards, &log, left - 1);
                    }
                });
                Ok::<_, Error>(())
            })
            .unwrap();
    }
    again(&shards, &log, 3);
    assert_eq!(log.take(), ["3", "2", "1", "0"]);
    assert_eq!(fleet.rows("a"), [0, 1, 2, 3]);
}

#[test]
fn hooks_of_an_independent_transaction_follow_its_own_fate() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager();
    let log = Log::default();
    let outer = shards.transaction_on("a", |conn| {
        conn.after_commit(log.hook("outer"));
        shards.independent(|| {
            shards.transaction_on("b", |conn| {
                conn.after_commit(log.hook("inner"));
                Ok::<_, Error>(())
            })
        })?;
        assert_eq!(
            log.take(),
            ["inner"],
            "committed, whatever becomes of the outer one"
        );
        Err::<(), Error>(failed())
    });
    assert!(outer.is_err());
    assert_eq!(log.take(), [""; 0]);
}
