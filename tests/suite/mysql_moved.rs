//! Statements that take a MySQL session away from its shard, or keep others out of it, reach no next
//! user.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;

use super::backend::{Fleet, RAW_WAYS, Raw, Sharded, insert};
use crate::support::whoami::dsl as whoami;

diesel::define_sql_function! {
    /// The database of the session.
    fn database() -> Nullable<Text>;
}

fn here(conn: &mut Sharded) -> Option<String> {
    diesel::select(database()).get_result(conn).unwrap()
}

#[test]
fn a_session_that_was_sent_to_another_database_reaches_no_next_user() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager_of_size(1);
    let home = here(&mut shards.get_on("a").unwrap());
    let ways: [fn(&mut Sharded); 4] = [
        |conn| conn.batch_execute("USE information_schema").unwrap(),
        |conn| {
            conn.batch_execute("SELECT 1; /* x */ USE information_schema")
                .unwrap()
        },
        |conn| {
            diesel::sql_query("USE information_schema")
                .execute(conn)
                .unwrap();
        },
        |conn| {
            let use_it =
                |raw: &mut Raw<'_>| diesel::sql_query("USE information_schema").execute(raw);
            use_it(&mut *conn.inner().unwrap()).unwrap();
        },
    ];
    let mut ways: Vec<Box<dyn Fn(&mut Sharded)>> =
        ways.into_iter().map(|way| Box::new(way) as _).collect();
    for (_, reach) in RAW_WAYS {
        ways.push(Box::new(|conn| {
            reach(conn, &mut |raw| raw.batch_execute("USE information_schema")).unwrap();
        }));
    }
    for (number, way) in ways.iter().enumerate() {
        let mut conn = shards.get_on("a").unwrap();
        way(&mut conn);
        drop(conn);
        let mut next = shards.get_on("a").unwrap();
        assert_eq!(here(&mut next), home, "way {number}");
        let name: String = whoami::whoami
            .select(whoami::name)
            .first(&mut next)
            .unwrap();
        assert_eq!(name, "a", "way {number}");
    }
}

#[test]
fn a_locked_table_is_let_go_with_its_connection() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    for raw in [false, true] {
        let mut conn = shards.get_on("a").unwrap();
        if raw {
            let locked = conn
                .inner()
                .unwrap()
                .batch_execute("LOCK TABLES items WRITE");
            locked.unwrap();
        } else {
            conn.batch_execute("LOCK TABLES items WRITE").unwrap();
        }
        drop(conn);
        let mut other = fleet.direct("a");
        other
            .batch_execute("SET SESSION lock_wait_timeout = 2")
            .unwrap();
        insert(&mut other, i64::from(raw)).unwrap();
    }
}
