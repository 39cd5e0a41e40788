//! Prepared statements stay with the physical connection and are used again.

use diesel::connection::{CacheSize, Connection};
use diesel::prelude::*;

use super::both;
use super::recorder::Recorder;
use super::schema::{User, users};
use super::{Fleet, Pool, ids, insert};

#[test]
fn a_statement_is_prepared_once() {
    through_both!(|conn| {
        let recorder = Recorder::default();
        conn.set_instrumentation(recorder.clone());
        for id in 0..5 {
            assert_eq!(
                users::table.find(id).first::<User>(conn).optional(),
                Ok(None)
            );
        }
        assert_eq!(recorder.cached(), 1);
    });
}

#[test]
fn the_next_user_finds_it_prepared() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let recorder = Recorder::default();
    for id in 0..3 {
        let mut conn = shards.get_on("a").unwrap();
        conn.set_instrumentation(recorder.clone());
        insert(&mut conn, id).unwrap();
    }
    shards
        .transaction_on("a", |conn| {
            conn.set_instrumentation(recorder.clone());
            insert(conn, 9)
        })
        .unwrap();
    assert_eq!(recorder.cached(), 1);
}

#[test]
fn switched_off_it_prepares_each_time() {
    through_both!(|conn| {
        let recorder = Recorder::default();
        conn.set_instrumentation(recorder.clone());
        conn.set_prepared_statement_cache_size(CacheSize::Disabled);
        for id in 0..3 {
            insert(conn, id).unwrap();
        }
        assert_eq!(recorder.cached(), 0);
        assert_eq!(ids(conn), Ok(vec![0, 1, 2]));
        conn.set_prepared_statement_cache_size(CacheSize::Unbounded);
        for id in 3..6 {
            insert(conn, id).unwrap();
        }
        assert_eq!(recorder.cached(), 1);
    });
}

#[test]
fn switched_off_by_one_user_it_is_on_for_the_next() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    {
        let mut conn = shards.get_on("a").unwrap();
        conn.set_prepared_statement_cache_size(CacheSize::Disabled);
        insert(&mut conn, 1).unwrap();
    }
    let recorder = Recorder::default();
    let mut conn = shards.get_on("a").unwrap();
    conn.set_instrumentation(recorder.clone());
    for id in 2..4 {
        insert(&mut conn, id).unwrap();
    }
    assert_eq!(recorder.cached(), 1);
}

#[test]
fn the_size_belongs_to_a_handle_of_an_outer_pool() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = fleet.manager_of_size(1);
    let pool = Pool::builder().max_size(1).build(shards.clone()).unwrap();
    let recorder = Recorder::default();
    {
        // Set while the handle is bound to nothing.
        let mut conn = pool.get().unwrap();
        conn.set_prepared_statement_cache_size(CacheSize::Disabled);
        conn.set_instrumentation(recorder.clone());
    }
    for shard in ["a", "b"] {
        shards
            .on(shard, || {
                let mut conn = pool.get().unwrap();
                insert(&mut conn, 1)?;
                insert(&mut conn, 2)
            })
            .unwrap();
        assert_eq!(recorder.cached(), 0);
        // The node's connection is as it was for everybody else.
        let direct = Recorder::default();
        let mut conn = shards.get_on(shard).unwrap();
        conn.set_instrumentation(direct.clone());
        insert(&mut conn, 3).unwrap();
        insert(&mut conn, 4).unwrap();
        assert_eq!(direct.cached(), 1);
    }
}
