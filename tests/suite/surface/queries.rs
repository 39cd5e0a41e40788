//! Every form of a query of Diesel's builder, and text written by hand.

use diesel::dsl::{count, count_star, exists, max, min, not, select, sum};
use diesel::prelude::*;
use diesel::sql_types::{Bool, Nullable};

use super::Db;
use super::both;
use super::schema::{self, Post, User, posts, users};

/// A condition put together at run time.
type Filter = Box<dyn BoxableExpression<users::table, Db, SqlType = Nullable<Bool>>>;

#[test]
fn columns_filters_order_limit_and_offset() {
    through_both!(|conn| {
        schema::fill(conn);
        let all: Vec<User> = users::table.order(users::id).load(conn).unwrap();
        assert_eq!(all.len(), 3);
        assert_eq!((all[1].name.as_str(), &all[1].hair_color), ("Tess", &None));
        assert_eq!(
            all,
            users::table
                .order(users::id.asc())
                .select(User::as_select())
                .load(conn)
                .unwrap()
        );

        let filters: Vec<(Filter, Vec<&str>)> = vec![
            (Box::new(users::name.eq("Tess").nullable()), vec!["Tess"]),
            (
                Box::new(users::name.ne("Tess").nullable()),
                vec!["Sean", "Jim"],
            ),
            (
                Box::new(users::hair_color.is_null().nullable()),
                vec!["Tess"],
            ),
            (Box::new(users::hair_color.eq("black")), vec!["Sean", "Jim"]),
            (
                Box::new(users::name.like("%e%").nullable()),
                vec!["Sean", "Tess"],
            ),
            (
                Box::new(users::id.between(2, 3).nullable()),
                vec!["Tess", "Jim"],
            ),
            (
                Box::new(users::id.eq_any(vec![1, 3]).nullable()),
                vec!["Sean", "Jim"],
            ),
            (
                Box::new(users::id.ne_all(vec![1, 3]).nullable()),
                vec!["Tess"],
            ),
            (Box::new(not(users::id.gt(1)).nullable()), vec!["Sean"]),
            (
                Box::new(users::id.lt(2).or(users::name.eq("Jim")).nullable()),
                vec!["Sean", "Jim"],
            ),
            (
                Box::new(users::id.ge(2).and(users::id.le(2)).nullable()),
                vec!["Tess"],
            ),
        ];
        for (filter, expected) in filters {
            let names = users::table
                .filter(filter)
                .order(users::id)
                .select(users::name);
            assert_eq!(names.load::<String>(conn).unwrap(), expected);
        }

        let page: Vec<String> = users::table
            .order((users::hair_color.is_null().desc(), users::id.desc()))
            .select(users::name)
            .limit(2)
            .offset(1)
            .load(conn)
            .unwrap();
        assert_eq!(page, ["Jim", "Sean"]);
        let then: Vec<String> = users::table
            .order_by(users::hair_color.is_null())
            .then_order_by(users::name)
            .select(users::name)
            .load(conn)
            .unwrap();
        assert_eq!(then, ["Jim", "Sean", "Tess"]);
    });
}

#[test]
fn one_row_or_none() {
    through_both!(|conn| {
        schema::fill(conn);
        let tess: User = users::table.find(2).first(conn).unwrap();
        assert_eq!(tess.name, "Tess");
        assert_eq!(users::table.find(2).get_result::<User>(conn).unwrap(), tess);
        assert_eq!(
            users::table.find(2).get_results::<User>(conn).unwrap(),
            [tess]
        );
        let nobody = users::table.find(9);
        assert_eq!(nobody.first::<User>(conn), Err(diesel::NotFound));
        assert_eq!(nobody.get_result::<User>(conn), Err(diesel::NotFound));
        assert_eq!(nobody.first::<User>(conn).optional(), Ok(None));
        assert_eq!(nobody.load::<User>(conn), Ok(vec![]));
        // No row is an answer, not a failure of the connection.
        assert_eq!(users::table.count().get_result(conn), Ok(3_i64));
    });
}

#[test]
fn groups_and_aggregates() {
    through_both!(|conn| {
        schema::fill(conn);
        let groups: Vec<(i32, i64)> = posts::table
            .group_by(posts::user_id)
            .select((posts::user_id, count(posts::id)))
            .order(posts::user_id)
            .load(conn)
            .unwrap();
        assert_eq!(groups, [(1, 2), (2, 1)]);
        let busy: Vec<i32> = posts::table
            .group_by(posts::user_id)
            .having(count(posts::id).gt(1))
            .select(posts::user_id)
            .load(conn)
            .unwrap();
        assert_eq!(busy, [1]);

        let counted: (i64, i64) = users::table
            .select((count_star(), count(users::hair_color)))
            .first(conn)
            .unwrap();
        assert_eq!(counted, (3, 2));
        assert_eq!(
            users::table
                .select(count(users::hair_color).aggregate_distinct())
                .first(conn),
            Ok(1_i64)
        );
        let extremes: (Option<i32>, Option<i32>, Option<i64>) = users::table
            .select((min(users::id), max(users::id), sum(users::id)))
            .first(conn)
            .unwrap();
        assert_eq!(extremes, (Some(1), Some(3), Some(6)));
        let nothing: Option<i64> = users::table
            .filter(users::id.gt(99))
            .select(sum(users::id))
            .first(conn)
            .unwrap();
        assert_eq!(nothing, None);
        let mut colors: Vec<Option<String>> = users::table
            .select(users::hair_color)
            .distinct()
            .load(conn)
            .unwrap();
        colors.sort_unstable();
        assert_eq!(colors, [None, Some("black".to_owned())]);
    });
}

#[test]
fn joins() {
    through_both!(|conn| {
        schema::fill(conn);
        let inner: Vec<(User, Post)> = users::table
            .inner_join(posts::table)
            .select((User::as_select(), Post::as_select()))
            .order(posts::id)
            .load(conn)
            .unwrap();
        let pairs: Vec<_> = inner
            .iter()
            .map(|(u, p)| (u.name.as_str(), p.title.as_str()))
            .collect();
        assert_eq!(pairs, [("Sean", "one"), ("Sean", "two"), ("Tess", "three")]);

        let left: Vec<(String, Option<String>)> = users::table
            .left_join(posts::table)
            .filter(posts::id.is_null())
            .select((users::name, posts::title.nullable()))
            .load(conn)
            .unwrap();
        assert_eq!(left, [("Jim".to_owned(), None)]);

        let on: Vec<String> = posts::table
            .inner_join(users::table.on(users::id.eq(posts::user_id).and(users::name.eq("Tess"))))
            .select(posts::title)
            .load(conn)
            .unwrap();
        assert_eq!(on, ["three"]);

        let (one, two) = diesel::alias!(users as one, users as two);
        let older: Vec<(String, String)> = one
            .inner_join(two.on(one.field(users::id).lt(two.field(users::id))))
            .select((one.field(users::name), two.field(users::name)))
            .filter(two.field(users::name).eq("Tess"))
            .load(conn)
            .unwrap();
        assert_eq!(older, [("Sean".to_owned(), "Tess".to_owned())]);
    });
}

#[test]
fn queries_within_queries() {
    through_both!(|conn| {
        schema::fill(conn);
        let has = |id: i32| posts::table.filter(posts::user_id.eq(id));
        assert_eq!(select(exists(has(1))).get_result(conn), Ok(true));
        assert_eq!(select(exists(has(3))).get_result(conn), Ok(false));
        let authors: Vec<String> = users::table
            .filter(users::id.eq_any(posts::table.select(posts::user_id)))
            .order(users::id)
            .select(users::name)
            .load(conn)
            .unwrap();
        assert_eq!(authors, ["Sean", "Tess"]);
        let silent: Vec<String> = users::table
            .filter(not(exists(
                posts::table.filter(posts::user_id.eq(users::id)),
            )))
            .select(users::name)
            .load(conn)
            .unwrap();
        assert_eq!(silent, ["Jim"]);
        let newest: Vec<(i32, Option<String>)> = users::table
            .select((
                users::id,
                posts::table
                    .filter(posts::user_id.eq(users::id))
                    .select(max(posts::title))
                    .single_value(),
            ))
            .order(users::id)
            .load(conn)
            .unwrap();
        assert_eq!(
            newest,
            [
                (1, Some("two".to_owned())),
                (2, Some("three".to_owned())),
                (3, None)
            ]
        );
        let mut both: Vec<String> = users::table
            .select(users::name)
            .union(posts::table.select(posts::title))
            .load(conn)
            .unwrap();
        both.sort_unstable();
        assert_eq!(both, ["Jim", "Sean", "Tess", "one", "three", "two"]);
        let all: Vec<i32> = users::table
            .select(users::id)
            .union_all(users::table.select(users::id))
            .load(conn)
            .unwrap();
        assert_eq!(all.len(), 6);
    });
}

#[test]
fn queries_put_together_at_run_time() {
    through_both!(|conn| {
        schema::fill(conn);
        for (name, color, expected) in [
            (None, None, vec!["Sean", "Tess", "Jim"]),
            (Some("Jim"), None, vec!["Jim"]),
            (None, Some("black"), vec!["Sean", "Jim"]),
            (Some("Tess"), Some("black"), vec![]),
        ] {
            let mut query = users::table.select(users::name).into_boxed::<Db>();
            if let Some(name) = name {
                query = query.filter(users::name.eq(name));
            }
            if let Some(color) = color {
                query = query.filter(users::hair_color.eq(color));
            }
            let query = query.order(users::id).limit(10);
            assert_eq!(query.load::<String>(conn).unwrap(), expected);
        }
        let mut either = users::table.into_boxed::<Db>().filter(users::id.eq(1));
        for id in [3, 9] {
            either = either.or_filter(users::id.eq(id));
        }
        assert_eq!(either.count().get_result(conn), Ok(2_i64));
    });
}

#[test]
fn rows_are_read_one_by_one() {
    through_both!(|conn| {
        schema::fill(conn);
        let lengths = users::table
            .order(users::id)
            .select(users::name)
            .load_iter::<String, diesel::connection::DefaultLoadingMode>(conn)
            .unwrap()
            .map(|name| name.map(|name| name.len()))
            .collect::<QueryResult<Vec<_>>>();
        assert_eq!(lengths, Ok(vec![4, 4, 3]));
        // Half-read results leave the connection usable.
        let first = users::table
            .order(users::id)
            .load_iter::<User, diesel::connection::DefaultLoadingMode>(conn)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(first.name, "Sean");
        assert_eq!(schema::names(conn).len(), 3);
        // An error in the middle of the rows is an error of that row.
        let mut rows = users::table
            .order(users::id)
            .select(users::hair_color.assume_not_null())
            .load_iter::<String, diesel::connection::DefaultLoadingMode>(conn)
            .unwrap();
        assert_eq!(rows.next().unwrap().unwrap(), "black");
        assert!(matches!(
            rows.next().unwrap(),
            Err(diesel::result::Error::DeserializationError(_))
        ));
    });
}
