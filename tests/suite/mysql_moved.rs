//! Statements that take a MySQL session away from its shard, or keep others out of it, reach no next
//! user.

use diesel::connection::SimpleConnection;
use diesel::prelude::*;

use super::backend::{Fleet, RAW_WAYS, Sharded, insert};
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
    type Move = Box<dyn Fn(&mut Sharded) -> QueryResult<()>>;
    let mut ways: Vec<Move> = vec![
        Box::new(|conn| conn.batch_execute("USE information_schema")),
        Box::new(|conn| conn.batch_execute("SELECT 1; /* x */ USE information_schema")),
        Box::new(|conn| {
            let text = diesel::sql_query("USE information_schema");
            text.execute(conn).map(drop)
        }),
    ];
    for (_, reach) in RAW_WAYS {
        ways.push(Box::new(|conn| {
            reach(conn, &mut |raw| raw.batch_execute("USE information_schema"))
        }));
        ways.push(Box::new(|conn| {
            let text = || diesel::sql_query("USE information_schema");
            reach(conn, &mut |raw| text().execute(raw).map(drop))
        }));
    }
    for (number, way) in ways.iter().enumerate() {
        let mut conn = shards.get_on("a").unwrap();
        way(&mut conn).unwrap();
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
