//! Expressions, literals, and text written by hand.

use diesel::dsl::{case_when, select, sql, sql_query};
use diesel::prelude::*;
use diesel::sql_types::{Bool, Integer, Text, VarChar};

use super::both;
use super::schema::{self, users};
use super::{Db, NAME};

#[test]
fn expressions_and_literals() {
    through_both!(|conn| {
        schema::fill(conn);
        let words: Vec<String> = users::table
            .select(
                case_when(users::id.eq(1), "first".into_sql::<VarChar>())
                    .when(users::id.eq(2), "second".into_sql::<VarChar>())
                    .otherwise("other".into_sql::<VarChar>()),
            )
            .order(users::id)
            .load(conn)
            .unwrap();
        assert_eq!(words, ["first", "second", "other"]);
        let next: Vec<i32> = users::table
            .select(sql::<Integer>("id + 1"))
            .filter(sql::<Bool>("id < ").bind::<Integer, _>(3))
            .order(users::id)
            .load(conn)
            .unwrap();
        assert_eq!(next, [2, 3]);
        let plus: Vec<i32> = users::table
            .select(users::id * 2 + 1)
            .order(users::id)
            .load(conn)
            .unwrap();
        assert_eq!(plus, [3, 5, 7]);
        assert_eq!(
            select(sql::<Text>("'a text'"))
                .get_result::<String>(conn)
                .unwrap(),
            "a text"
        );
        assert_eq!(
            select(1_i32.into_sql::<Integer>()).get_result::<i32>(conn),
            Ok(1)
        );
        let upper: Vec<String> = users::table
            .filter(users::id.eq(1))
            .select(
                diesel::dsl::sql::<VarChar>("UPPER(")
                    .bind::<VarChar, _>("abc")
                    .sql(")"),
            )
            .load(conn)
            .unwrap();
        assert_eq!(upper, ["ABC"]);
    });
}

#[derive(Debug, PartialEq, QueryableByName)]
struct ByName {
    #[diesel(sql_type = Integer)]
    id: i32,
    #[diesel(sql_type = VarChar)]
    name: String,
}

/// The n-th placeholder of a text written by hand.
fn placeholder(n: u8) -> String {
    match NAME {
        "postgres" => format!("${n}"),
        _ => "?".to_owned(),
    }
}

#[test]
fn text_written_by_hand_takes_binds() {
    through_both!(|conn| {
        schema::fill(conn);
        let (one, two) = (placeholder(1), placeholder(2));
        let rows: Vec<ByName> = sql_query(format!(
            "SELECT id, name FROM users WHERE id > {one} AND name <> {two} ORDER BY id"
        ))
        .bind::<Integer, _>(1)
        .bind::<VarChar, _>("Jim")
        .load(conn)
        .unwrap();
        assert_eq!(
            rows,
            [ByName {
                id: 2,
                name: "Tess".to_owned()
            }]
        );

        let changed = sql_query(format!("UPDATE users SET name = {one} WHERE id = {two}"))
            .bind::<VarChar, _>("Theresa")
            .bind::<Integer, _>(2)
            .execute(conn);
        assert_eq!(changed, Ok(1));
        assert_eq!(schema::names(conn), ["Sean", "Theresa", "Jim"]);

        let mut boxed = sql_query("SELECT id, name FROM users WHERE 1 = 1").into_boxed::<Db>();
        boxed = boxed.sql(format!(" AND id = {one}")).bind::<Integer, _>(3);
        assert_eq!(boxed.get_result::<ByName>(conn).unwrap().name, "Jim");
    });
}
