//! What takes SQLite's library in the same thread: functions and collations of the application, images.

use diesel::connection::{Connection, SimpleConnection};
use diesel::dsl::sql;
use diesel::prelude::*;
use diesel::sql_types::{Integer, Text};
use diesel::sqlite::SqliteAggregateFunction;

use super::backend::{Sharded, ids, insert};
use super::surface::{both, through_both};
use both::schema::{self, users};

#[diesel::declare_sql_function]
extern "SQL" {
    fn twice(x: Integer) -> Integer;
    fn nothing_at_all() -> Text;
    #[aggregate]
    fn longest(text: Text) -> diesel::sql_types::Nullable<Text>;
}

#[derive(Default)]
struct Longest(Option<String>);

impl SqliteAggregateFunction<String> for Longest {
    type Output = Option<String>;

    fn step(&mut self, text: String) {
        if self
            .0
            .as_ref()
            .is_none_or(|longest| longest.len() < text.len())
        {
            self.0 = Some(text);
        }
    }

    fn finalize(longest: Option<Self>) -> Option<String> {
        longest.and_then(|longest| longest.0)
    }
}

#[test]
fn functions_of_the_application() {
    through_both!(|conn| {
        schema::fill(conn);
        twice_utils::register_impl(conn, |x: i32| x * 2).unwrap();
        nothing_at_all_utils::register_impl(conn, || "nothing").unwrap();
        longest_utils::register_impl::<Longest, _>(conn).unwrap();
        let doubled: Vec<i32> = users::table
            .select(twice(users::id))
            .order(users::id)
            .load(conn)
            .unwrap();
        assert_eq!(doubled, [2, 4, 6]);
        let nothing: String = diesel::select(nothing_at_all()).first(conn).unwrap();
        assert_eq!(nothing, "nothing");
        let longest_name: Option<String> = users::table
            .select(longest(users::name))
            .first(conn)
            .unwrap();
        assert_eq!(longest_name.as_deref(), Some("Sean"));
        conn.register_collation("by_length", |one, two| one.len().cmp(&two.len()))
            .unwrap();
        let as_long_as: Vec<String> = users::table
            .filter(sql::<diesel::sql_types::Bool>(
                "name = 'Emma' COLLATE by_length",
            ))
            .order(users::id)
            .select(users::name)
            .load(conn)
            .unwrap();
        assert_eq!(as_long_as, ["Sean", "Tess"]);
    });
}

#[test]
fn a_database_can_be_copied_through_memory() {
    through_both!(|conn| {
        insert(conn, 5).unwrap();
        // A file in WAL mode cannot be opened as an image.
        conn.batch_execute("PRAGMA journal_mode = DELETE").unwrap();
        let image = conn.serialize_database_to_buffer();
        let mut copy = Sharded::establish(":memory:").unwrap();
        copy.deserialize_readonly_database_from_buffer(&image)
            .unwrap();
        assert_eq!(ids(&mut copy), Ok(vec![5]));
    });
}
