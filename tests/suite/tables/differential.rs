//! Random statements: on a physical table through the crate, and on a plain table without it. The answers
//! are equal, and so are the rows afterwards.

use diesel::connection::{LoadConnection, SimpleConnection};
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_sharded::{KeyspaceConfig, RuleSpec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Conn, Fleet, NAME};

type Db = <Conn as diesel::Connection>::Backend;

#[derive(QueryableByName, Debug, PartialEq)]
struct Number {
    #[diesel(sql_type = diesel::sql_types::Nullable<BigInt>)]
    n: Option<i64>,
}

/// A statement, and whether it answers rows.
#[derive(Clone, Debug)]
enum Step {
    Query(String),
    Change(String),
}

const CREATE: &str = "CREATE TABLE {o} (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, orders BIGINT, qty BIGINT NOT NULL DEFAULT 0);
    CREATE TABLE {l} (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, order_id BIGINT NOT NULL)";
const FILL: &str =
    "INSERT INTO {o} (id, user_id, orders, qty) VALUES (1, 1, 7, 5), (2, 1, NULL, 7), (3, 1, 1, 0);
    INSERT INTO {l} (id, user_id, order_id) VALUES (1, 1, 2), (2, 1, 2), (3, 1, 9)";

fn text(template: &str, orders: &str, parcels: &str) -> String {
    template.replace("{o}", orders).replace("{l}", parcels)
}

/// What is asked: counts, so that the order of rows does not matter.
fn answer<C: LoadConnection<Backend = Db>>(
    conn: &mut C,
    step: &Step,
) -> Result<Vec<Option<i64>>, ()> {
    match step {
        Step::Query(sql) => diesel::sql_query(sql)
            .load::<Number>(conn)
            .map(|rows| rows.into_iter().map(|row| row.n).collect()),
        Step::Change(sql) => diesel::sql_query(sql)
            .execute(conn)
            .map(|rows| vec![i64::try_from(rows).ok()]),
    }
    // A refusal of our own is no answer.
    .map_err(|error| {
        assert!(
            matches!(error, diesel::result::Error::DatabaseError(..)),
            "{step:?}: {error:?}"
        )
    })
}

fn number() -> impl Strategy<Value = String> + Clone {
    prop_oneof![
        prop::sample::select(vec![
            "orders.qty",
            "orders.id",
            "orders.orders",
            "qty",
            "1",
            "7"
        ])
        .prop_map(str::to_owned),
        (0..9).prop_map(|n: i32| n.to_string()),
        Just("(SELECT max(orders.id) FROM orders)".to_owned()),
        Just("(SELECT count(*) FROM parcels WHERE parcels.order_id = orders.id)".to_owned()),
        Just("CASE WHEN orders.qty > 5 THEN orders.orders ELSE 0 END".to_owned()),
        Just("length('orders, \"orders\" and `orders`')".to_owned()),
    ]
}

fn condition() -> impl Strategy<Value = String> + Clone {
    let leaf = prop_oneof![
        (
            number(),
            prop::sample::select(vec!["=", "<>", "<", ">="]),
            number()
        )
            .prop_map(|(a, op, b)| format!("{a} {op} {b}")),
        Just("EXISTS (SELECT 1 FROM parcels WHERE parcels.order_id = orders.id)".to_owned()),
        Just("orders.id IN (SELECT parcels.order_id FROM parcels)".to_owned()),
        Just("orders.orders IS NULL".to_owned()),
        Just("'orders' = 'orders' /* orders */".to_owned()),
        number().prop_map(|a| format!("{a} BETWEEN 1 AND 5")),
    ];
    leaf.prop_recursive(2, 6, 2, |inner| {
        (
            inner.clone(),
            prop::sample::select(vec!["AND", "OR"]),
            inner,
        )
            .prop_map(|(a, op, b)| format!("({a} {op} {b})"))
    })
}

fn step() -> impl Strategy<Value = Step> {
    let source = prop::sample::select(vec![
        "orders",
        "orders JOIN parcels ON parcels.order_id = orders.id",
        "orders LEFT JOIN parcels ON parcels.order_id = orders.id",
        "parcels, orders",
        "(SELECT * FROM orders) orders",
        "(SELECT id AS order_id FROM orders) parcels JOIN orders ON orders.id = parcels.order_id",
    ]);
    let query = (number(), source, condition());
    prop_oneof![
        3 => query.clone().prop_map(|(n, source, condition)| Step::Query(format!(
            "SELECT CAST(sum({n}) AS {}) AS n FROM {source} WHERE {condition}",
            if NAME == "mysql" { "SIGNED" } else { "BIGINT" }
        ))),
        1 => query.clone().prop_map(|(n, source, condition)| Step::Query(format!(
            "WITH w AS (SELECT {n} AS x FROM {source} WHERE {condition}) SELECT count(w.x) AS n FROM w"
        ))),
        1 => condition().prop_map(|condition| Step::Query(format!(
            "SELECT count(*) AS n FROM orders WHERE {condition} GROUP BY orders.user_id HAVING count(orders.id) > 0"
        ))),
        1 => (number(), condition()).prop_map(|(n, condition)| Step::Query(format!(
            "SELECT count(*) AS n FROM (SELECT orders.id FROM orders WHERE {condition} UNION SELECT parcels.id FROM parcels WHERE parcels.id = {}) u",
            if n.contains("orders") || n == "qty" { "2".to_owned() } else { n }
        ))),
        2 => (0..9, condition()).prop_map(|(n, condition)| Step::Change(format!(
            "UPDATE orders SET qty = qty + {n}, orders = id WHERE {}",
            // MySQL reads no table that it changes.
            if condition.contains("SELECT") { "orders.id > 1".to_owned() } else { condition }
        ))),
        1 => (4..40, 0..9).prop_map(|(id, qty)| Step::Change(format!(
            "INSERT INTO orders (id, user_id, orders, qty) VALUES ({id}, 1, {qty}, {qty}), ({id} + 100, 1, NULL, 1)"
        ))),
        1 => (200..300).prop_map(|id| Step::Change(format!(
            "INSERT INTO orders (id, user_id, orders, qty) SELECT parcels.id + {id}, parcels.user_id, parcels.order_id, 1 FROM parcels"
        ))),
        1 => (0..9).prop_map(|n| Step::Change(format!("DELETE FROM orders WHERE orders.qty = {n}"))),
    ]
}

#[test]
fn random_statements_answer_as_on_a_plain_table() {
    let fleet = Fleet::new(&["a", "plain"]);
    for (shard, orders, parcels) in [
        ("a", "orders_2", "parcels_2"),
        ("a", "orders", "parcels"),
        ("plain", "orders", "parcels"),
    ] {
        let conn = &mut fleet.direct(shard);
        conn.batch_execute(&text(CREATE, orders, parcels)).unwrap();
    }
    let keyspace = KeyspaceConfig::new(RuleSpec::hash(["a"], 4096))
        .table("orders", "user_id", 4)
        .table("parcels", "user_id", 4);
    let shards = fleet.builder().keyspace("k", keyspace).build().unwrap();
    let keyspace = shards.keyspace("k").unwrap();
    let _route = keyspace.table_route("a", 2).unwrap().enter().unwrap();

    let mut runner = TestRunner::new(Config {
        cases: 40,
        failure_persistence: None,
        ..Config::default()
    });
    let cases = prop::collection::vec(step(), 1..8);
    let all = Step::Query(
        "SELECT id * 1000000 + qty * 1000 + COALESCE(orders, 999) AS n FROM orders ORDER BY id"
            .to_owned(),
    );
    let answered = std::cell::Cell::new(0);
    runner
        .run(&cases, |steps| {
            for (conn, orders, parcels) in [
                (&mut fleet.direct("a"), "orders_2", "parcels_2"),
                (&mut fleet.direct("plain"), "orders", "parcels"),
            ] {
                conn.batch_execute(&text("DELETE FROM {o}; DELETE FROM {l}", orders, parcels))
                    .unwrap();
                conn.batch_execute(&text(FILL, orders, parcels)).unwrap();
            }
            let mut routed = shards.get().unwrap();
            let mut direct = fleet.direct("plain");
            for step in &steps {
                let (ours, theirs) = (answer(&mut routed, step), answer(&mut direct, step));
                prop_assert_eq!(&ours, &theirs, "{:?} on {}", step, NAME);
                answered.set(answered.get() + usize::from(ours.is_ok()));
                prop_assert_eq!(
                    answer(&mut routed, &all),
                    answer(&mut direct, &all),
                    "after {:?}",
                    step
                );
            }
            Ok(())
        })
        .unwrap();
    assert!(
        answered.get() > 40,
        "only {answered:?} statements were answered"
    );
    let decoy: Vec<Number> = diesel::sql_query("SELECT count(*) AS n FROM orders")
        .load(&mut fleet.direct("a"))
        .unwrap();
    assert_eq!(decoy, [Number { n: Some(0) }]);
}
