//! Inserts, updates and deletes in the forms that every backend has.

use diesel::prelude::*;

use super::both;
use super::schema::{self, NewUser, Post, User, defaults, posts, users};

#[test]
fn one_row_and_many_rows_are_inserted() {
    through_both!(|conn| {
        let tuple = diesel::insert_into(users::table)
            .values((users::name.eq("Sean"), users::hair_color.eq("black")))
            .execute(conn);
        assert_eq!(tuple, Ok(1));
        let structure = NewUser {
            name: "Tess",
            hair_color: None,
        };
        let structure = diesel::insert_into(users::table)
            .values(&structure)
            .execute(conn);
        assert_eq!(structure, Ok(1));
        let batch = ["Jim", "Joe", "Jane"].map(|name| NewUser {
            name,
            hair_color: Some("red"),
        });
        assert_eq!(
            diesel::insert_into(users::table)
                .values(&batch)
                .execute(conn),
            Ok(3)
        );
        let as_vec: Vec<_> = ["Ann", "Bob"].map(|name| users::name.eq(name)).into();
        assert_eq!(
            diesel::insert_into(users::table)
                .values(as_vec)
                .execute(conn),
            Ok(2)
        );
        let nothing: Vec<NewUser<'_>> = vec![];
        assert_eq!(
            diesel::insert_into(users::table)
                .values(nothing)
                .execute(conn),
            Ok(0)
        );
        assert_eq!(
            schema::names(conn),
            ["Sean", "Tess", "Jim", "Joe", "Jane", "Ann", "Bob"]
        );
        let colors: Vec<Option<String>> = users::table
            .order(users::id)
            .select(users::hair_color)
            .limit(3)
            .load(conn)
            .unwrap();
        assert_eq!(
            colors,
            [Some("black".to_owned()), None, Some("red".to_owned())]
        );
    });
}

#[test]
fn default_values_and_rows_of_a_query_are_inserted() {
    through_both!(|conn| {
        let all_defaults = diesel::insert_into(defaults::table)
            .default_values()
            .execute(conn);
        assert_eq!(all_defaults, Ok(1));
        let row: (i32, String, i64) = defaults::table.first(conn).unwrap();
        assert_eq!(row, (1, "none".to_owned(), 42));

        schema::fill(conn);
        let copied = posts::table
            .filter(posts::user_id.eq(1))
            .order(posts::id)
            .select(posts::title)
            .insert_into(defaults::table)
            .into_columns(defaults::note)
            .execute(conn);
        assert_eq!(copied, Ok(2));
        let notes: Vec<(String, i64)> = defaults::table
            .order(defaults::id)
            .select((defaults::note, defaults::amount))
            .load(conn)
            .unwrap();
        let expected = [("none", 42), ("one", 42), ("two", 42)];
        assert_eq!(
            notes,
            expected.map(|(note, amount)| (note.to_owned(), amount))
        );
    });
}

#[derive(AsChangeset)]
#[diesel(table_name = users)]
struct Renaming {
    name: Option<String>,
}

#[test]
fn rows_are_updated() {
    through_both!(|conn| {
        schema::fill(conn);
        let one = diesel::update(users::table.find(2))
            .set(users::hair_color.eq("green"))
            .execute(conn);
        assert_eq!(one, Ok(1));
        let several = diesel::update(users::table.filter(users::hair_color.eq("black")))
            .set((
                users::hair_color.eq(None::<String>),
                users::name.eq(users::name),
            ))
            .execute(conn);
        assert_eq!(several, Ok(2));
        let computed = diesel::update(posts::table)
            .filter(posts::id.gt(1))
            .set(posts::user_id.eq(posts::user_id * 1))
            .execute(conn);
        assert_eq!(computed, Ok(2));
        let none = diesel::update(users::table.find(99))
            .set(users::name.eq("x"))
            .execute(conn);
        assert_eq!(none, Ok(0));
        let colors: Vec<Option<String>> = users::table
            .order(users::id)
            .select(users::hair_color)
            .load(conn)
            .unwrap();
        assert_eq!(colors, [None, Some("green".to_owned()), None]);

        let mut tess: User = users::table.find(2).first(conn).unwrap();
        tess.name = "Theresa".to_owned();
        tess.hair_color = None;
        assert_eq!(diesel::update(&tess).set(&tess).execute(conn), Ok(1));
        assert_eq!(users::table.find(2).first::<User>(conn), Ok(tess));
        let nothing = diesel::update(users::table.find(2))
            .set(&Renaming { name: None })
            .execute(conn);
        assert!(matches!(
            nothing,
            Err(diesel::result::Error::QueryBuilderError(_))
        ));
    });
}

#[test]
fn changes_are_saved_and_read_back() {
    through_both!(|conn| {
        schema::fill(conn);
        let mut tess: User = users::table.find(2).first(conn).unwrap();
        tess.hair_color = Some("grey".to_owned());
        let saved: User = tess.save_changes(conn).unwrap();
        assert_eq!(saved, tess);
        assert_eq!(users::table.find(2).first::<User>(conn), Ok(tess));

        let ghost = User {
            id: 99,
            name: "Ghost".to_owned(),
            hair_color: None,
        };
        assert_eq!(ghost.save_changes::<User>(conn), Err(diesel::NotFound));
    });
}

#[test]
fn rows_are_deleted() {
    through_both!(|conn| {
        schema::fill(conn);
        assert_eq!(diesel::delete(posts::table.find(3)).execute(conn), Ok(1));
        let post: Post = posts::table.find(2).first(conn).unwrap();
        assert_eq!(diesel::delete(&post).execute(conn), Ok(1));
        let more = diesel::delete(posts::table)
            .filter(posts::title.eq("one"))
            .execute(conn);
        assert_eq!(more, Ok(1));
        assert_eq!(diesel::delete(users::table).execute(conn), Ok(3));
        assert_eq!(diesel::delete(users::table).execute(conn), Ok(0));
        assert_eq!(schema::names(conn), [""; 0]);
    });
}
