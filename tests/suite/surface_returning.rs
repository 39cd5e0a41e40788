//! `RETURNING` and upserts, where Diesel has them in this form: PostgreSQL and SQLite. MariaDB has a
//! `RETURNING` too, but Diesel's MySQL backend does not know it.

use diesel::prelude::*;
use diesel::upsert::excluded;

use super::surface::{both, through_both};
use both::schema::{self, NewUser, User, posts, users};

/// A row without defaults: SQLite takes many of them in one statement, PostgreSQL by `COPY`.
#[derive(Insertable)]
#[diesel(table_name = users, treat_none_as_default_value = false)]
pub(crate) struct WholeUser<'a> {
    pub(crate) name: &'a str,
    pub(crate) hair_color: Option<&'a str>,
}

#[test]
fn inserts_return_their_rows() {
    through_both!(|conn| {
        let sean: User = diesel::insert_into(users::table)
            .values(&NewUser {
                name: "Sean",
                hair_color: None,
            })
            .get_result(conn)
            .unwrap();
        assert_eq!((sean.id, sean.name.as_str()), (1, "Sean"));
        let row: User = diesel::insert_into(users::table)
            .values(users::name.eq("Ann"))
            .returning(User::as_returning())
            .get_result(conn)
            .unwrap();
        assert_eq!(row.id, 2);
        let (id, note): (i32, String) = diesel::insert_into(schema::defaults::table)
            .default_values()
            .returning((schema::defaults::id, schema::defaults::note))
            .get_result(conn)
            .unwrap();
        assert_eq!((id, note.as_str()), (1, "none"));
    });
}

#[test]
fn updates_and_deletes_return_their_rows() {
    through_both!(|conn| {
        schema::fill(conn);
        let names: Vec<String> = diesel::update(users::table.filter(users::hair_color.eq("black")))
            .set(users::hair_color.eq("grey"))
            .returning(users::name)
            .load(conn)
            .unwrap();
        assert_eq!(names, ["Sean", "Jim"]);
        let none = diesel::update(users::table.find(99))
            .set(users::name.eq("x"))
            .get_result::<User>(conn)
            .optional();
        assert_eq!(none, Ok(None));
        let deleted: String = diesel::delete(posts::table.find(3))
            .returning(posts::title)
            .get_result(conn)
            .unwrap();
        assert_eq!(deleted, "three");
    });
}

#[test]
fn a_row_that_is_there_is_updated_or_left_alone() {
    through_both!(|conn| {
        schema::fill(conn);
        let sean = NewUser {
            name: "Sean",
            hair_color: Some("white"),
        };
        let nothing = diesel::insert_into(users::table)
            .values(&sean)
            .on_conflict_do_nothing();
        assert_eq!(nothing.execute(conn), Ok(0));
        let nothing = diesel::insert_into(users::table)
            .values(&sean)
            .on_conflict(users::name)
            .do_nothing();
        assert_eq!(nothing.execute(conn), Ok(0));
        let updated: User = diesel::insert_into(users::table)
            .values(&sean)
            .on_conflict(users::name)
            .do_update()
            .set(users::hair_color.eq(excluded(users::hair_color)))
            .get_result(conn)
            .unwrap();
        assert_eq!(
            (updated.id, updated.hair_color.as_deref()),
            (1, Some("white"))
        );
        let conditional = diesel::insert_into(users::table)
            .values(&sean)
            .on_conflict(users::name)
            .do_update()
            .set(users::hair_color.eq("red"));
        let conditional = diesel::query_dsl::methods::FilterDsl::filter(
            conditional,
            users::hair_color.ne("white"),
        );
        assert_eq!(conditional.execute(conn), Ok(0));
        let batch = ["Tess", "Zoe"].map(|name| WholeUser {
            name,
            hair_color: Some("blue"),
        });
        let batch = diesel::insert_into(users::table)
            .values(&batch)
            .on_conflict(users::name)
            .do_update()
            .set(users::hair_color.eq(excluded(users::hair_color)));
        assert_eq!(batch.execute(conn), Ok(2));
        assert_eq!(schema::names(conn).len(), 4);
        let blue: Vec<String> = users::table
            .filter(users::hair_color.eq("blue"))
            .order(users::id)
            .select(users::name)
            .load(conn)
            .unwrap();
        assert_eq!(blue, ["Tess", "Zoe"]);
    });
}
