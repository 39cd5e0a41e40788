//! What an observer sees of a rewritten statement.

use diesel::connection::InstrumentationEvent;
use diesel::prelude::*;
use std::sync::{Arc, Mutex};

use super::surface::schema::users;
use super::surface::{both, through_both};

#[test]
fn instrumentation_is_told_the_physical_names() {
    through_both!(|conn| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let recorder = Arc::clone(&seen);
        conn.set_instrumentation(move |event: InstrumentationEvent<'_>| {
            if let InstrumentationEvent::StartQuery { query, .. } = event {
                recorder.lock().unwrap().push(query.to_string());
            }
        });
        diesel::insert_into(users::table)
            .values(users::name.eq("Tess"))
            .execute(conn)
            .unwrap();
        let found: i64 = users::table
            .filter(users::name.eq("Tess"))
            .count()
            .get_result(conn)
            .unwrap();
        assert_eq!(found, 1);
        diesel::sql_query("DELETE FROM users")
            .execute(conn)
            .unwrap();
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 3, "{seen:?}");
        for text in seen.iter() {
            assert!(
                text.contains("users_3") || text.contains("users_1"),
                "{text}"
            );
            assert!(!text.replace("users_", "").contains("users"), "{text}");
        }
        // The binds are those of the query within.
        assert!(
            seen[0].contains("Tess") && seen[1].contains("Tess"),
            "{seen:?}"
        );
    });
}
