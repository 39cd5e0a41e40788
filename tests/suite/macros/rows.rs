//! The derives: rows that know their own key.

use diesel::prelude::*;
use diesel_sharded::{Error, HasShardKey, ShardKey, ToShardKey};

use super::super::backend::Fleet;
use super::Service;
use crate::support::{items, ours};

// As it is written where the crate has another name.
use diesel_sharded as sharded;

#[derive(ToShardKey)]
#[sharded(crate = sharded)]
struct ItemId(i64);

#[derive(Insertable, ShardKey)]
#[diesel(table_name = items, treat_none_as_default_value = false)]
#[sharded(keyspace = "items")]
struct Item {
    #[shard_key]
    id: i64,
    note: Option<String>,
}

#[derive(ShardKey)]
#[sharded(keyspace = "items")]
struct Event<'a, T> {
    #[shard_key(path = "inner.item.id")]
    inner: Inner<'a>,
    _payload: T,
}

struct Inner<'a> {
    item: &'a Item,
}

#[derive(ShardKey)]
#[sharded(keyspace = "items")]
struct Wrapped(#[shard_key] Option<ItemId>);

#[derive(Debug, ShardKey)]
#[sharded(keyspace = "elsewhere")]
struct Foreign {
    #[shard_key]
    id: i64,
}

fn item(id: i64) -> Item {
    Item { id, note: None }
}

#[test]
fn rows_know_their_own_key() {
    let fleet = Fleet::new(&["a", "b"]);
    let Service { keys, .. } = Service::new(&fleet);
    assert_eq!(Item::KEYSPACE, "items");
    assert_eq!(keys.route_of(&item(3)).unwrap().shard(), "b");
    let event = Event {
        inner: Inner { item: &item(3) },
        _payload: 1.5,
    };
    assert_eq!(keys.route_of(&event).unwrap().shard(), "b");
    assert_eq!(keys.route_of(&&event).unwrap().shard(), "b");
    assert_eq!(
        keys.route_of(&Wrapped(Some(ItemId(4)))).unwrap().shard(),
        "a"
    );
    let error = keys.route_of(&Wrapped(None)).unwrap_err();
    assert!(matches!(error, Error::NullShardKey { .. }), "{error:?}");

    let grouped = keys.group_rows([3, 2, 1].map(item)).unwrap();
    let shards: Vec<_> = grouped
        .by_shard
        .iter()
        .map(|(shard, items)| (shard.as_str(), items.iter().map(|item| item.id).collect()))
        .collect::<Vec<(_, Vec<_>)>>();
    assert_eq!(shards, [("a", vec![2]), ("b", vec![3, 1])]);
    let grouped = keys
        .group_rows([Wrapped(None), Wrapped(Some(ItemId(1)))])
        .unwrap();
    assert_eq!((grouped.refused.len(), grouped.refused[0].index), (1, 0));
}

#[test]
fn a_row_of_another_keyspace_is_not_placed_by_this_ones_rule() {
    let fleet = Fleet::new(&["a", "b"]);
    let Service { keys, .. } = Service::new(&fleet);
    for error in [
        keys.route_of(&Foreign { id: 1 }).unwrap_err(),
        keys.group_rows([Foreign { id: 1 }]).unwrap_err(),
    ] {
        assert!(
            matches!(&error, Error::WrongKeyspace { asked, own: "elsewhere" } if *asked == "items"),
            "{error:?}"
        );
        assert!(error.to_string().contains("elsewhere"), "{error}");
    }
}

#[test]
fn a_checked_insert_refuses_a_row_of_another_shard() {
    let fleet = Fleet::new(&["a", "b"]);
    let service = Service::new(&fleet);
    let mut conn = service.shards.get_on("a").unwrap();
    assert_eq!(item(2).insert_checked(&mut conn).unwrap(), 1);
    let error = item(3).insert_checked(&mut conn).unwrap_err();
    assert!(
        matches!(ours(&error), Error::WrongShard { owner, bound, .. } if *owner == "b" && *bound == "a"),
        "{error:?}"
    );
    let error = item(2).insert_checked(&mut conn).unwrap_err();
    assert!(
        matches!(
            error,
            diesel::result::Error::DatabaseError(
                diesel::result::DatabaseErrorKind::UniqueViolation,
                _
            )
        ),
        "{error:?}"
    );
    drop(conn);
    service
        .keys
        .transaction_for(&5, |conn| item(5).insert_checked(conn))
        .unwrap();
    assert_eq!(fleet.rows("a"), [2]);
    assert_eq!(fleet.rows("b"), [5]);
}
