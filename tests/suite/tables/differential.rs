//! Random statements: on a physical table through the crate, and on a plain table without it. The answers
//! are equal, and so are the rows afterwards.

use std::fmt::Debug;

use diesel::connection::{LoadConnection, SimpleConnection};
use diesel::prelude::*;
use diesel::sql_types::BigInt;
use diesel_sharded::{KeyspaceConfig, RuleSpec};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::{Conn, Fleet, NAME};

#[path = "differential/typed.rs"]
mod typed;
#[path = "differential/written.rs"]
mod written;

type Db = <Conn as diesel::Connection>::Backend;

#[derive(QueryableByName, Debug, PartialEq)]
struct Number {
    #[diesel(sql_type = diesel::sql_types::Nullable<BigInt>)]
    n: Option<i64>,
}

/// A number of each row, or how many rows were changed.
type Answer = Vec<Option<i64>>;

/// A statement, whatever the connection.
trait Step: Clone + Debug {
    fn answer<C: LoadConnection<Backend = Db>>(&self, conn: &mut C) -> QueryResult<Answer>;
}

/// Whose rows these are: the key of table 2.
const USER: i64 = 2;

const CREATE: &str = "CREATE TABLE {o} (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, orders BIGINT, qty BIGINT NOT NULL DEFAULT 0);
    CREATE TABLE {l} (id BIGINT PRIMARY KEY, user_id BIGINT NOT NULL, order_id BIGINT NOT NULL)";
const FILL: &str =
    "INSERT INTO {o} (id, user_id, orders, qty) VALUES (1, 2, 7, 5), (2, 2, NULL, 7), (3, 2, 1, 0);
    INSERT INTO {l} (id, user_id, order_id) VALUES (1, 2, 2), (2, 2, 2), (3, 2, 9)";

fn text(template: &str, orders: &str, parcels: &str) -> String {
    template.replace("{o}", orders).replace("{l}", parcels)
}

/// What a statement answers, in no order: few of them ask for one. A refusal of the server is an answer
/// too, one of our own is none.
fn answer<C: LoadConnection<Backend = Db>>(conn: &mut C, step: &impl Step) -> Option<Answer> {
    match step.answer(conn) {
        Ok(mut answer) => {
            answer.sort_unstable();
            Some(answer)
        }
        Err(diesel::result::Error::DatabaseError(..)) => None,
        Err(error) => panic!("{step:?}: {error:?}"),
    }
}

fn rows<C: LoadConnection<Backend = Db>>(conn: &mut C) -> Vec<Number> {
    diesel::sql_query("SELECT id * 1000000 + qty * 1000 + COALESCE(orders, 999) AS n FROM orders ORDER BY id")
        .load(conn)
        .unwrap()
}

/// Runs sequences of such statements on both.
fn alike<S: Step>(step: impl Strategy<Value = S>) {
    let fleet = Fleet::new(&["a", "plain"]);
    for (shard, orders, parcels) in [
        ("a", "orders_2", "parcels_2"),
        ("a", "orders", "parcels"),
        ("plain", "orders", "parcels"),
    ] {
        let conn = &mut fleet.direct(shard);
        conn.batch_execute(&text(CREATE, orders, parcels)).unwrap();
    }
    let keyspace = KeyspaceConfig::new(RuleSpec::modulo(["a"]))
        .table("orders", "user_id", 4)
        .table("parcels", "user_id", 4);
    let shards = fleet.builder().keyspace("k", keyspace).build().unwrap();
    let keyspace = shards.keyspace("k").unwrap();
    let _route = keyspace.table_route("a", 2).unwrap().enter().unwrap();

    let mut runner = TestRunner::new(Config {
        cases: 24,
        failure_persistence: None,
        ..Config::default()
    });
    let (answered, given) = (std::cell::Cell::new(0), std::cell::Cell::new(0));
    runner
        .run(&prop::collection::vec(step, 1..8), |steps| {
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
                given.set(given.get() + 1);
                answered.set(answered.get() + usize::from(ours.is_some()));
                prop_assert_eq!(rows(&mut routed), rows(&mut direct), "after {:?}", step);
            }
            Ok(())
        })
        .unwrap();
    assert!(
        answered.get() * 2 > given.get(),
        "only {} statements of {} were answered",
        answered.get(),
        given.get()
    );
    let decoy: Vec<Number> = diesel::sql_query("SELECT count(*) AS n FROM orders")
        .load(&mut fleet.direct("a"))
        .unwrap();
    assert_eq!(decoy, [Number { n: Some(0) }]);
}
