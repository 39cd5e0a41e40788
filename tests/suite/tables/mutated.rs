//! Statements with words taken out, put in and exchanged, sent through the crate to a database that has no table of
//! the logical name: whatever reaches the server under that name is told by its error.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::{Error, KeyspaceConfig, RuleSpec};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};

use super::backend::{Fleet, NAME, Sharded};

/// How many statements a run sends, and from which seed on: the same ones each time, so that a finding stays one. More
/// and others are asked for by `DIESEL_SHARDED_TEST_MUTATED=100000:7`.
const MUTATED: (u32, u8) = (3_000, 1);

const STATEMENTS: &[&str] = &[
    "SELECT id , note FROM orders WHERE qty > 1 ORDER BY id",
    "SELECT o . id FROM orders AS o JOIN parcels p ON p . order_id = o . id",
    "SELECT orders . id FROM orders LEFT JOIN parcels USING ( id ) , notes",
    "SELECT note AS v FROM ( SELECT note FROM orders ) t",
    "SELECT id FROM notes WHERE EXISTS ( SELECT 1 FROM orders WHERE orders . id = notes . id )",
    "WITH x AS ( SELECT id FROM orders ) SELECT id FROM x",
    "WITH orders AS ( SELECT 1 AS id ) SELECT id FROM orders",
    "SELECT id FROM orders UNION SELECT id FROM parcels",
    "SELECT count ( * ) OVER ( PARTITION BY orders . qty ) FROM orders",
    "SELECT CASE WHEN qty > 1 THEN note ELSE 'orders' END FROM orders",
    "INSERT INTO orders ( id , user_id , note ) VALUES ( 7 , 2 , 'x' )",
    "INSERT INTO orders ( id , user_id ) SELECT id + 10 , user_id FROM parcels ON CONFLICT ( id ) DO UPDATE SET qty = orders . qty + 1",
    "INSERT INTO notes ( id , orders ) SELECT id , qty FROM orders",
    "UPDATE orders SET qty = qty + 1 WHERE orders . id = 1 RETURNING orders . id",
    "UPDATE orders AS o SET qty = 3 FROM parcels WHERE parcels . order_id = o . id",
    "UPDATE notes SET orders = ( SELECT max ( qty ) FROM orders )",
    "DELETE FROM orders WHERE id IN ( SELECT order_id FROM parcels )",
    "SELECT notes . orders FROM notes WHERE notes . orders IS NOT NULL",
    "SELECT notes . id , notes . orders FROM notes , orders",
    "SELECT p . id , - p . id FROM parcels p , orders o WHERE p . order_id = o . id",
    "SELECT n . id , n . orders FROM notes n , parcels p , ( orders )",
    "SELECT trim ( note ) , extract ( year FROM note ) FROM orders , notes",
    "DELETE FROM notes USING parcels , orders WHERE notes . id = orders . id",
    "UPDATE notes SET id = 1 FROM parcels , orders WHERE parcels . id = orders . id",
    "SELECT id FROM orders /* orders */ WHERE note = 'orders' -- orders",
];

const WORDS: &[&str] = &[
    "orders", "\"orders\"", "Orders", "orders_2", "parcels", "notes", "o", "t", "x", "id", "note", "qty", "SELECT",
    "FROM", "JOIN", "LEFT", "NATURAL", "CROSS", "LATERAL", "TABLE", "ONLY", "AS", "ON", "USING", "WHERE", "GROUP BY",
    "HAVING", "ORDER BY", "LIMIT 1", "OFFSET", "UNION", "INTERSECT", "EXCEPT", "ALL", "DISTINCT", "WITH",     "VALUES", "VALUES ( 1 )", "INSERT", "INTO", "UPDATE", "SET", "DELETE", "RETURNING", "DO NOTHING", "DEFAULT",
    "LIKE", "ILIKE", "COLLATE", "AND", "OR", "NOT", "IS", "NULL", "ISNULL", "BETWEEN", "IN", "SYMMETRIC", "XOR",
    "RLIKE", "REGEXP", "OVERLAPS", "AT TIME ZONE", "FOR UPDATE", "FOR NO KEY UPDATE", "OF", "NOWAIT", "WINDOW",
    "OVER", "FILTER", "CAST", "EXPLAIN", "IGNORE", "LOW_PRIORITY", "QUICK", "(", ")", ",", ".", "*", ";", "=", "<",
    "+", "-", "--", "--\n", "/*", "*/", "'", "''", "\"", "E'\\'' '", "$$", "1", "main .", "public .", "pg_temp .",
    "INDEXED BY", "NOT INDEXED", "MATERIALIZED", "TABLESAMPLE", "WITH ORDINALITY", "GLOB", "MATCH", "END", "CASE",
    "INTERVAL", "BINARY", "PRIOR", "DELAYED", "HIGH_PRIORITY", "QUALIFY", "SEMI", "ASOF", "FINAL", "SAMPLE", "APPLY",
    "TOP", "RECURSIVE", "EXCLUDE", "REPLACE", "FETCH", "WITHIN", "EXTRACT (", "TRIM (", "SUBSTRING (", "POSITION (",
    "GROUPING", "ROLLUP (", "ARRAY", "[", "]", "ROW", "ROWS", "::", "~", "||", "->", "@", "ESCAPE", "SOME (", "ANY (",
    "SIMILAR TO", "UNNEST (", "VARIADIC", "OPERATOR", "CURRENT_DATE", "DATE", "TIME", "TIMESTAMP", "PARTITION", "RANGE",
    "PRECEDING", "NOTNULL", "IS DISTINCT FROM", "CONNECT", "MEMBER", "DIV", "MOD", "INTO STRICT", "FORMAT", "UNKNOWN",
    ">/*", "|/* '", "||/* -- */", "->--", "||--\n", "*/ '", "'x'\n'\\'", "E'x'\n'\\'", "E'x' --\n'\\' --'", "#/* -- */", "e'\\''",
    "orders_2 AS", "( orders_2 )", "PIVOT (", "STRUCT", "LAMBDA", "EXISTS", "WHEN", "THEN", "ELSE", "OUTER", "FULL", "INNER", "RIGHT", "ROWID",
];

/// One change: where, what, and by which word.
type Change = (prop::sample::Index, u8, &'static str);

fn statement() -> impl Strategy<Value = String> {
    let change = (any::<prop::sample::Index>(), 0..4_u8, prop::sample::select(WORDS));
    (
        prop::sample::select(STATEMENTS),
        prop::collection::vec(change, 0..4),
    )
        .prop_map(|(statement, changes)| changed(statement, &changes))
}

fn changed(statement: &str, changes: &[Change]) -> String {
    let mut words: Vec<&str> = statement.split(' ').collect();
    for (at, how, word) in changes {
        if words.is_empty() {
            break;
        }
        let at = at.index(words.len());
        match how {
            0 => drop(words.remove(at)),
            1 => words.insert(at, word),
            2 => words[at] = word,
            _ => {
                let other = (at + 1) % words.len();
                words.swap(at, other);
            }
        }
    }
    words.join(" ")
}

/// Whether the server says that it has been asked for the logical table.
fn tells_of_it(message: &str) -> bool {
    let message = message.to_lowercase();
    ["no such table: ", "no such table: main.", "relation \"", "relation \"public."]
        .iter()
        .any(|before| {
            message
                .split(before)
                .skip(1)
                .any(|after| after == "orders" || after.starts_with("orders\" does not exist"))
        })
}

/// Sends it, and takes back what it has done.
fn send(conn: &mut Sharded, text: &str) -> Option<String> {
    let sent = conn.transaction(|conn| {
        conn.batch_execute(text)?;
        Err::<(), _>(diesel::result::Error::RollbackTransaction)
    });
    match Error::from(sent.expect_err("it is rolled back")) {
        Error::Database { source, .. } => Some(source.to_string()),
        _ => None,
    }
}

#[test]
fn the_logical_name_reaches_no_server() {
    let (count, seed) = match std::env::var("DIESEL_SHARDED_TEST_MUTATED") {
        Ok(asked) => {
            let (count, seed) = asked.split_once(':').expect("COUNT:SEED");
            (count.parse().expect("a count"), seed.parse().expect("a seed of one byte"))
        }
        Err(_) => MUTATED,
    };
    let fleet = Fleet::new(&["a"]);
    let create = "CREATE TABLE orders_2 (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, qty BIGINT DEFAULT 0, note TEXT);
        CREATE TABLE parcels_2 (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, order_id BIGINT);
        CREATE TABLE notes (id BIGINT PRIMARY KEY, orders BIGINT);
        INSERT INTO orders_2 (id, user_id, note) VALUES (1, 2, 'a'), (2, 2, 'b');
        INSERT INTO parcels_2 (id, user_id, order_id) VALUES (1, 2, 1)";
    fleet.direct("a").batch_execute(create).unwrap();
    let keyspace = KeyspaceConfig::new(RuleSpec::modulo(["a"]))
        .table("orders", "user_id", 4)
        .table("parcels", "user_id", 4);
    let shards = fleet.builder().keyspace("k", keyspace).build().unwrap();
    let keyspace = shards.keyspace("k").unwrap();
    let conn = &mut shards.get_on("a").unwrap();
    let route = keyspace.table_route("a", 2).unwrap();

    // The error is told where it does reach the server.
    let direct = fleet.direct("a").batch_execute("SELECT id FROM orders");
    let message = direct.unwrap_err().to_string();
    assert!(tells_of_it(&message), "{message}");

    let config = Config {
        cases: count,
        failure_persistence: None,
        max_shrink_iters: 500,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
    let sent = std::cell::Cell::new(0);
    let conn = std::cell::RefCell::new(conn);
    let ran = TestRunner::new_with_rng(config, rng).run(&statement(), |text| {
        for routed in [true, false] {
            let conn = &mut **conn.borrow_mut();
            let told = if routed {
                route.run(|| Ok::<_, Error>(send(conn, &text))).unwrap()
            } else {
                send(conn, &text)
            };
            if let Some(message) = &told {
                prop_assert!(
                    !tells_of_it(message),
                    "with a route {routed}, on {NAME}: {text:?} was told {message}"
                );
                sent.set(sent.get() + 1);
            }
        }
        Ok(())
    });
    if let Err(found) = ran {
        panic!("{found}");
    }
    assert!(sent.get() > 0, "none has reached the server");
}
