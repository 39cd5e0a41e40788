//! Settings of a session by which its server reads texts otherwise than the rewriter does.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{Error, KeyspaceConfig, RuleSpec, UnavailableCause};

use super::backend::{Fleet, Manager, NAME, opened};
use super::tables::world::{World, add, key};
use crate::support::ours;

/// A statement that changes what a literal is.
fn changing() -> &'static str {
    match NAME {
        "mysql" => "SET sql_mode = 'ANSI_QUOTES'",
        _ => "SET standard_conforming_strings = off",
    }
}

/// How the session would have to be told to stay as it is.
fn named() -> &'static str {
    match NAME {
        "mysql" => "ANSI_QUOTES",
        _ => "standard_conforming_strings",
    }
}

fn refused(shards: &Manager, shard: &str) {
    // Not only the first: the host is not taken to be down.
    for _ in 0..2 {
        let error = shards.get_on(shard).expect_err("a session of that kind");
        let Error::Unavailable {
            shard: of,
            cause: UnavailableCause::Settings,
            source: Some(source),
            ..
        } = &error
        else {
            panic!("{error:?}");
        };
        assert_eq!(of.as_str(), shard);
        assert!(source.to_string().contains(named()), "{source}");
    }
    let status = shards.status();
    assert!(status.nodes.iter().all(|node| node.down.is_none()), "{status:?}");
}

#[test]
fn a_text_that_changes_how_texts_are_read_is_refused() {
    let (texts, allowed, asked): (&[&str], &[&str], &str) = match NAME {
        "mysql" => (
            &[
                "SET SESSION sql_mode = ansi",
                "SET @@sql_mode = 'STRICT_TRANS_TABLES,NO_BACKSLASH_ESCAPES'",
                "SET sql_mode = CONCAT(@@sql_mode, ',ANSI_QUOTES')",
                "SET STATEMENT sql_mode = 'ANSI_QUOTES' FOR SELECT 1",
                "SELECT 1; SET autocommit = 1, sql_mode = 'ORACLE'",
            ],
            &[
                "SET sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION'",
                "SET @sql_mode = 'ANSI_QUOTES'",
            ],
            "SELECT (@@sql_mode LIKE '%QUOTES%' OR @@sql_mode LIKE '%ESCAPES%') + 0 AS id",
        ),
        _ => (
            &[
                "SET LOCAL standard_conforming_strings TO 'off'",
                "SELECT set_config('standard_conforming_strings', 'off', false)",
                "DO $$ BEGIN SET standard_conforming_strings = off; END $$",
                "SELECT 1; SET standard_conforming_strings = off",
            ],
            &[
                "SET standard_conforming_strings = on",
                "RESET standard_conforming_strings",
                "SELECT set_config('standard_conforming_strings', 'on', false)",
            ],
            "SELECT (current_setting('standard_conforming_strings') <> 'on')::int::bigint AS id",
        ),
    };
    let world = World::new();
    let keyspace = world.shards.keyspace("orders").unwrap();
    let user = key("a", 0);
    keyspace
        .transaction_for(&user, |conn| {
            for text in texts.iter().chain([&changing()]) {
                for sent in [
                    conn.batch_execute(text),
                    diesel::sql_query(*text).execute(conn).map(drop),
                ] {
                    let error = sent.expect_err(text);
                    assert!(
                        matches!(ours(&error), Error::Unrewritable { shard, .. } if shard == "a"),
                        "{text}: {error:?}"
                    );
                }
            }
            for text in allowed {
                conn.batch_execute(text)?;
            }
            let row: super::tables::world::Id = diesel::sql_query(asked).get_result(conn)?;
            assert_eq!(row.id, 0);
            // What would be code after it is a literal.
            let literal = match NAME {
                "mysql" => "UPDATE orders SET note = \"' \\\" DELETE FROM orders -- '\"",
                _ => r"UPDATE orders SET note = '\', qty = 7 WHERE note = ' OR 1 = (DELETE FROM orders)'",
            };
            add(conn, 1, user)?;
            conn.batch_execute(literal)
        })
        .unwrap();
    let without_route = world.shards.get_on("b").unwrap().batch_execute(changing());
    assert!(
        matches!(ours(&without_route.unwrap_err()), Error::Unrewritable { .. }),
        "without a route"
    );
    world.assert_decoys();
}

#[test]
fn a_shard_without_tables_is_left_alone() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet
        .builder()
        .connect_with(|node| opened(node.url().expose(), changing()))
        .build()
        .unwrap();
    let mut conn = shards.get_on("a").unwrap();
    conn.batch_execute(changing()).unwrap();
}

#[test]
fn a_session_that_reads_texts_otherwise_is_refused() {
    let world = World::with(|builder| {
        builder.connect_with(|node| {
            let settings = match node.shard().as_str() {
                "a" => changing(),
                _ => "SELECT 1",
            };
            opened(node.url().expose(), settings)
        })
    });
    refused(&world.shards, "a");
    let keyspace = world.shards.keyspace("orders").unwrap();
    keyspace
        .transaction_for(&key("b", 0), |conn| add(conn, 1, key("b", 0)))
        .unwrap();
    let on_a = keyspace.transaction_for(&key("a", 0), |conn| add(conn, 1, key("a", 0)));
    assert!(
        matches!(ours(&on_a.unwrap_err()), Error::Unavailable { .. }),
        "by key"
    );
    world.assert_decoys();
}

/// In GBK the backslash is the second half of a character, and the literal ends before the `FROM`.
#[test]
fn a_character_set_of_the_client_hides_no_table() {
    let (set, text) = match NAME {
        "mysql" => ("SET NAMES gbk", "SELECT '\u{4e2d}\\' FROM orders -- '"),
        _ => ("SET client_encoding = 'GBK'", "SELECT E'\u{4e2d}\\' FROM orders --'"),
    };
    let world = World::with(|builder| {
        builder.connect_with(move |node| opened(node.url().expose(), set))
    });
    let keyspace = world.shards.keyspace("orders").unwrap();
    let user = key("a", 0);
    let read = keyspace.transaction_for(&user, |conn| conn.batch_execute(text));
    assert!(matches!(ours(&read.unwrap_err()), Error::Unrewritable { .. }), "with a route");
    let read = world.shards.get_on("a").unwrap().batch_execute(text);
    assert!(matches!(ours(&read.unwrap_err()), Error::Unrewritable { .. }), "without one");
    world.assert_decoys();
}

/// The reload finds open connections, and they were not asked as they were made.
#[test]
fn a_reload_that_brings_tables_asks_open_sessions() {
    let fleet = Fleet::new(&["a"]);
    fleet
        .direct("a")
        .batch_execute("CREATE TABLE orders_0 (id BIGINT, user_id BIGINT); CREATE TABLE orders_1 (id BIGINT, user_id BIGINT)")
        .unwrap();
    let shards = fleet.manager_of_size(1);
    let mut conn = shards.get_on("a").unwrap();
    conn.batch_execute(changing()).unwrap();
    drop(conn);
    let keyspace = KeyspaceConfig::new(RuleSpec::modulo(["a"])).table("orders", "user_id", 2);
    shards
        .reload_with(|topology| topology.keyspace("orders", keyspace.clone()))
        .unwrap();
    let error = shards.get_on("a").expect_err("it was set by hand");
    assert!(
        matches!(&error, Error::Unavailable { cause: UnavailableCause::Settings, .. }),
        "{error:?}"
    );
    // It was closed, and the next one is as the server makes it.
    let mut conn = shards.get_on("a").unwrap();
    conn.batch_execute("SELECT 1").unwrap();
}
