//! Statements of Diesel's builder, at random.

use diesel::connection::LoadConnection;
use diesel::dsl::{exists, max};
use diesel::prelude::*;
use diesel::sql_types::{Bool, Nullable};
use proptest::prelude::*;

use super::{Answer, Db, Step, USER, alike};

diesel::table! {
    orders (id) {
        id -> BigInt,
        user_id -> BigInt,
        #[sql_name = "orders"]
        other -> Nullable<BigInt>,
        qty -> BigInt,
    }
}

diesel::table! {
    parcels (id) {
        id -> BigInt,
        user_id -> BigInt,
        order_id -> BigInt,
    }
}

diesel::allow_tables_to_appear_in_same_query!(orders, parcels);

#[derive(Clone, Debug)]
enum Condition {
    Below(i64),
    OneOf(Vec<i64>),
    NoOther,
    OtherIsQty,
    HasParcel,
    InParcels,
    OtherIsAnOrder,
    Not(Box<Condition>),
    Both(Box<Condition>, Box<Condition>),
    Either(Box<Condition>, Box<Condition>),
}

type Boxed = Box<dyn BoxableExpression<orders::table, Db, SqlType = Nullable<Bool>>>;

impl Condition {
    fn expression(&self) -> Boxed {
        match self {
            Self::Below(n) => Box::new(orders::qty.lt(*n).nullable()),
            Self::OneOf(ids) => Box::new(orders::id.eq_any(ids.clone()).nullable()),
            Self::NoOther => Box::new(orders::other.is_null().nullable()),
            Self::OtherIsQty => Box::new(orders::other.eq(orders::qty.nullable())),
            Self::HasParcel => Box::new(
                exists(parcels::table.filter(parcels::order_id.eq(orders::id))).nullable(),
            ),
            Self::InParcels => Box::new(
                orders::id
                    .eq_any(parcels::table.select(parcels::order_id))
                    .nullable(),
            ),
            Self::OtherIsAnOrder => {
                let there = diesel::alias!(orders as there);
                Box::new(orders::other.eq_any(there.select(there.field(orders::id).nullable())))
            }
            Self::Not(inner) => Box::new(diesel::dsl::not(inner.expression())),
            Self::Both(a, b) => Box::new(a.expression().and(b.expression())),
            Self::Either(a, b) => Box::new(a.expression().or(b.expression())),
        }
    }
}

fn condition() -> impl Strategy<Value = Condition> + Clone {
    let leaf = prop_oneof![
        (0..9_i64).prop_map(Condition::Below),
        prop::collection::vec(0..9_i64, 0..4).prop_map(Condition::OneOf),
        Just(Condition::NoOther),
        Just(Condition::OtherIsQty),
        Just(Condition::HasParcel),
        Just(Condition::InParcels),
        Just(Condition::OtherIsAnOrder),
    ];
    leaf.prop_recursive(3, 8, 2, |inner| {
        let pair = (inner.clone().prop_map(Box::new), inner.clone().prop_map(Box::new));
        prop_oneof![
            inner.prop_map(|inner| Condition::Not(Box::new(inner))),
            pair.clone().prop_map(|(a, b)| Condition::Both(a, b)),
            pair.prop_map(|(a, b)| Condition::Either(a, b)),
        ]
    })
}

#[derive(AsChangeset, Clone, Debug)]
#[diesel(table_name = orders)]
struct Changes {
    qty: i64,
    other: Option<Option<i64>>,
}

#[derive(Clone, Debug)]
enum Typed {
    First(Condition, i64),
    Greatest(Condition),
    Joined(i64),
    LeftJoined(i64),
    WithItself(i64),
    Add(Condition, i64),
    Save(i64, Changes),
    Insert(Vec<i64>),
    Copy(Condition, i64),
    Delete(Condition),
}

impl Step for Typed {
    fn answer<C: LoadConnection<Backend = Db>>(&self, conn: &mut C) -> QueryResult<Answer> {
        match self {
            Self::First(condition, n) => orders::table
                .filter(condition.expression())
                .order((orders::qty.desc(), orders::id))
                .limit(*n)
                .select(orders::id.nullable())
                .into_boxed()
                .load(conn),
            Self::Greatest(condition) => orders::table
                .filter(condition.expression())
                .group_by(orders::user_id)
                .having(max(orders::qty).gt(1))
                .select(max(orders::other))
                .load(conn),
            Self::Joined(n) => orders::table
                .inner_join(parcels::table.on(parcels::order_id.eq(orders::id)))
                .filter(orders::qty.lt(*n).or(parcels::id.eq(2)))
                .select((parcels::id + orders::qty).nullable())
                .load(conn),
            Self::LeftJoined(n) => orders::table
                .left_join(parcels::table.on(parcels::order_id.eq(orders::id)))
                .filter(parcels::id.is_null().or(orders::qty.gt(*n)))
                .select(parcels::id.nullable())
                .load(conn),
            Self::WithItself(n) => {
                let there = diesel::alias!(orders as there);
                orders::table
                    .inner_join(
                        there.on(there.field(orders::qty).gt(orders::qty + *n)),
                    )
                    .select((orders::id * 10 + there.field(orders::id)).nullable())
                    .load(conn)
            }
            Self::Add(condition, n) => {
                diesel::update(orders::table.filter(condition.expression()))
                    .set((
                        orders::qty.eq(orders::qty + *n),
                        orders::other.eq(orders::id.nullable()),
                    ))
                    .execute(conn)
                    .map(changed)
            }
            Self::Save(id, changes) => diesel::update(orders::table.find(id))
                .set(changes)
                .execute(conn)
                .map(changed),
            Self::Insert(ids) => {
                let rows: Vec<_> = ids
                    .iter()
                    .map(|id| {
                        (
                            orders::id.eq(*id),
                            orders::user_id.eq(USER),
                            orders::other.eq((id % 2 == 0).then_some(*id)),
                            orders::qty.eq(id % 5),
                        )
                    })
                    .collect();
                diesel::insert_into(orders::table)
                    .values(rows)
                    .execute(conn)
                    .map(changed)
            }
            Self::Copy(condition, n) => orders::table
                .filter(condition.expression())
                .select((orders::id + *n, orders::user_id, orders::qty))
                .insert_into(orders::table)
                .into_columns((orders::id, orders::user_id, orders::qty))
                .execute(conn)
                .map(changed),
            Self::Delete(condition) => diesel::delete(orders::table.filter(condition.expression()))
                .execute(conn)
                .map(changed),
        }
    }
}

fn changed(rows: usize) -> Answer {
    vec![i64::try_from(rows).ok()]
}

fn step() -> impl Strategy<Value = Typed> {
    prop_oneof![
        3 => (condition(), 1..9_i64).prop_map(|(condition, n)| Typed::First(condition, n)),
        1 => condition().prop_map(Typed::Greatest),
        1 => (0..9_i64).prop_map(Typed::Joined),
        1 => (0..9_i64).prop_map(Typed::LeftJoined),
        1 => (0..5_i64).prop_map(Typed::WithItself),
        2 => (condition(), 0..9_i64).prop_map(|(condition, n)| Typed::Add(condition, n)),
        1 => (0..9_i64, 0..9_i64, prop::option::of(prop::option::of(0..9_i64)))
            .prop_map(|(id, qty, other)| Typed::Save(id, Changes { qty, other })),
        2 => prop::collection::vec(3..40_i64, 1..4).prop_map(Typed::Insert),
        1 => (condition(), 50..99_i64).prop_map(|(condition, n)| Typed::Copy(condition, n)),
        1 => condition().prop_map(Typed::Delete),
    ]
}

#[test]
fn statements_of_the_builder_answer_as_on_a_plain_table() {
    alike(step());
}
