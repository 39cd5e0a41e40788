//! Query forms that only PostgreSQL has.

use diesel::dsl::sql_query;
use diesel::prelude::*;
use diesel::result::Error as DieselError;
use diesel::sql_types::{Array, Integer};

use super::{both, through_both};
use both::schema::{self, NewUser, User, posts, users};

#[test]
fn distinct_on_arrays_and_case_blind_likes() {
    through_both!(|conn| {
        schema::fill(conn);
        let firsts: Vec<String> = posts::table
            .distinct_on(posts::user_id)
            .order((posts::user_id, posts::id))
            .select(posts::title)
            .load(conn)
            .unwrap();
        assert_eq!(firsts, ["one", "three"]);
        let any: Vec<String> = users::table
            .filter(users::name.ilike("%E%"))
            .filter(users::id.eq_any([1, 3]))
            .select(users::name)
            .load(conn)
            .unwrap();
        assert_eq!(any, ["Sean"]);
        let array: Vec<i32> = diesel::select(vec![3, 1, 2].into_sql::<Array<Integer>>())
            .get_result(conn)
            .unwrap();
        assert_eq!(array, [3, 1, 2]);
        let except: Vec<i32> = users::table
            .select(users::id)
            .except(posts::table.select(posts::user_id))
            .load(conn)
            .unwrap();
        assert_eq!(except, [3]);
    });
}

#[test]
fn batches_return_their_rows() {
    through_both!(|conn| {
        let ids: Vec<i32> = diesel::insert_into(users::table)
            .values(vec![users::name.eq("Tess"), users::name.eq("Jim")])
            .returning(users::id)
            .get_results(conn)
            .unwrap();
        assert_eq!(ids, [1, 2]);
        let both: Vec<User> = diesel::insert_into(users::table)
            .values(&["Tess", "Zoe"].map(|name| NewUser {
                name,
                hair_color: Some("blue"),
            }))
            .on_conflict(users::name)
            .do_update()
            .set(users::hair_color.eq(diesel::upsert::excluded(users::hair_color)))
            .get_results(conn)
            .unwrap();
        assert_eq!(
            both.iter()
                .map(|user| user.name.as_str())
                .collect::<Vec<_>>(),
            ["Tess", "Zoe"]
        );
    });
}

#[test]
fn rows_are_locked() {
    through_both!(|conn| {
        schema::fill(conn);
        conn.transaction(|conn| {
            let locked: User = users::table
                .find(1)
                .for_update()
                .skip_locked()
                .first(conn)?;
            assert_eq!(locked.name, "Sean");
            let shared: Vec<User> = users::table.for_key_share().no_wait().load(conn)?;
            assert_eq!(shared.len(), 3);
            Ok::<_, DieselError>(())
        })
        .unwrap();
    });
}

#[test]
fn explained_queries_and_common_table_expressions() {
    through_both!(|conn| {
        schema::fill(conn);
        let ids: Vec<User> = sql_query(
            "WITH old AS (SELECT * FROM users WHERE id < $1) SELECT * FROM old ORDER BY id",
        )
        .bind::<Integer, _>(3)
        .load::<NamedUser>(conn)
        .unwrap()
        .into_iter()
        .map(|named| named.0)
        .collect();
        assert_eq!(ids.len(), 2);
    });
}

/// A user read by the names of the columns.
struct NamedUser(User);

impl diesel::deserialize::QueryableByName<diesel::pg::Pg> for NamedUser {
    fn build<'a>(
        row: &impl diesel::row::NamedRow<'a, diesel::pg::Pg>,
    ) -> diesel::deserialize::Result<Self> {
        Ok(Self(User {
            id: diesel::row::NamedRow::get::<Integer, _>(row, "id")?,
            name: diesel::row::NamedRow::get::<diesel::sql_types::VarChar, _>(row, "name")?,
            hair_color: diesel::row::NamedRow::get::<
                diesel::sql_types::Nullable<diesel::sql_types::VarChar>,
                _,
            >(row, "hair_color")?,
        }))
    }
}
