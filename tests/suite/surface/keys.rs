//! Keyspaces from the key to the row.

use std::collections::BTreeMap;

use diesel::QueryResult;
use diesel_sharded::{Error, KeyType, KeyspaceConfig, Normalize, RuleSpec, ShardKey, ToShardKey};

use super::{Fleet, Manager, ids, insert, whoami};
use crate::support::ours;

/// A newtype, as applications have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct UserId(i64);

impl ToShardKey for UserId {
    fn to_shard_key(&self) -> ShardKey<'_> {
        self.0.to_shard_key()
    }
}

fn sharded(fleet: &Fleet) -> Manager {
    fleet
        .builder()
        .keyspace(
            "orders",
            KeyspaceConfig::new(RuleSpec::hash(["a", "b"], 64)),
        )
        .keyspace("turns", KeyspaceConfig::new(RuleSpec::modulo(["a", "b"])))
        .keyspace(
            "countries",
            KeyspaceConfig::new(
                RuleSpec::list([("a", vec!["DE", "FR"]), ("b", vec!["US"])])
                    .key(KeyType::Text)
                    .normalize([Normalize::Trim]),
            ),
        )
        .build()
        .expect("the topology is valid")
}

#[test]
fn a_row_is_stored_and_found_by_its_key() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = sharded(&fleet);
    let orders = shards.keyspace("orders").unwrap();
    let mut expected: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for id in 0..20 {
        let home = orders.locate(&UserId(id)).unwrap().shard();
        expected.entry(home.to_string()).or_default().push(id);
        // Each way to work with a key leads to the same place.
        match id % 4 {
            0 => orders
                .transaction_for(&UserId(id), |conn| insert(conn, id))
                .unwrap(),
            1 => insert(&mut orders.get(&id).unwrap(), id).unwrap(),
            2 => orders
                .on(&i16::try_from(id).unwrap(), || {
                    insert(&mut shards.get()?, id)
                })
                .unwrap(),
            _ => orders
                .transaction_builder(&Some(UserId(id)))
                .run(|conn| insert(conn, id))
                .unwrap(),
        };
        let route = orders.route(&UserId(id)).unwrap();
        assert_eq!(route.shard(), home);
        assert_eq!(orders.resolve(&UserId(id)).unwrap().shard(), home);
        assert_eq!(orders.get(&UserId(id)).unwrap().shard(), Some(home));
        assert_eq!(
            whoami(&mut orders.get(&UserId(id)).unwrap()).unwrap(),
            home.as_str()
        );
    }
    assert_eq!(expected.len(), 2, "{expected:?}");
    for (shard, rows) in expected {
        assert_eq!(fleet.rows(&shard), rows);
    }
}

#[test]
fn a_key_without_a_place_is_refused_everywhere() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = sharded(&fleet);
    let (orders, countries) = (
        shards.keyspace("orders").unwrap(),
        shards.keyspace("countries").unwrap(),
    );
    assert!(matches!(
        shards.keyspace("order"),
        Err(Error::UnknownKeyspace { .. })
    ));

    let none = None::<UserId>;
    assert!(matches!(
        orders.locate(&none),
        Err(Error::NullShardKey { .. })
    ));
    assert!(matches!(
        orders.route(&none),
        Err(Error::NullShardKey { .. })
    ));
    assert!(matches!(orders.get(&none), Err(Error::NullShardKey { .. })));
    let ran = orders.on(&none, || -> QueryResult<()> { panic!("it must not run") });
    assert!(matches!(
        ours(&ran.unwrap_err()),
        Error::NullShardKey { .. }
    ));
    let ran = orders.transaction_for(&none, |_| -> QueryResult<()> { panic!("it must not run") });
    assert!(matches!(
        ours(&ran.unwrap_err()),
        Error::NullShardKey { .. }
    ));

    assert!(matches!(orders.locate("7"), Err(Error::KeyType { .. })));
    assert!(matches!(countries.locate(&7), Err(Error::KeyType { .. })));
    let ran = countries.transaction_for("ES", |_| -> Result<(), Error> { panic!("must not run") });
    assert!(matches!(ran, Err(Error::NotCovered { .. })));
    assert_eq!(countries.locate(" DE ").unwrap().shard(), "a");
    assert_eq!(
        orders.locate(&i64::MIN).unwrap(),
        orders.locate(&i128::from(i64::MIN)).unwrap()
    );
}

#[test]
fn items_are_grouped_by_shard_in_their_order() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = sharded(&fleet);
    let turns = shards.keyspace("turns").unwrap();
    let items = [4, 1, -1, 2, 3, 0].map(Some);
    let items = [&items[..3], &[None], &items[3..], &[None]].concat();
    let grouped = turns.group_by_shard(items, |item| *item);
    let by_shard: Vec<(&str, &[Option<i32>])> = grouped
        .by_shard
        .iter()
        .map(|(shard, items)| (shard.as_str(), items.as_slice()))
        .collect();
    assert_eq!(
        by_shard,
        [
            ("a", [4, 2, 0].map(Some).as_slice()),
            ("b", [1, -1, 3].map(Some).as_slice())
        ]
    );
    let refused: Vec<_> = grouped
        .refused
        .iter()
        .map(|one| (one.index, one.item))
        .collect();
    assert_eq!(refused, [(3, None), (7, None)]);
    assert!(
        grouped
            .refused
            .iter()
            .all(|one| matches!(one.error, Error::NullShardKey { .. }))
    );

    // One transaction per shard, with items that are not Copy.
    let rows: Vec<String> = (0..6).map(|id| id.to_string()).collect();
    let parse = |text: &String| text.parse::<i64>().expect("a number");
    for (shard, rows) in turns.group_by_shard(rows, parse).by_shard {
        shards
            .transaction_on(shard, |conn| {
                rows.iter()
                    .try_for_each(|row| insert(conn, parse(row)).map(|_| ()))
            })
            .unwrap();
    }
    assert_eq!(
        (fleet.rows("a"), fleet.rows("b")),
        (vec![0, 2, 4], vec![1, 3, 5])
    );
}

#[test]
fn a_connection_knows_which_keys_are_its_own() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = sharded(&fleet);
    shards
        .transaction_on("a", |conn| {
            conn.ensure_owns("turns", &UserId(2))?;
            let Err(Error::WrongShard { owner, bound, .. }) = conn.ensure_owns("turns", &3) else {
                panic!("3 belongs to b");
            };
            assert_eq!((owner.as_str(), bound.as_str()), ("b", "a"));
            assert!(matches!(
                conn.ensure_owns("turns", &None::<i32>),
                Err(Error::NullShardKey { .. })
            ));
            assert!(matches!(
                conn.ensure_owns("turns", "2"),
                Err(Error::KeyType { .. })
            ));
            assert!(matches!(
                conn.ensure_owns("nothing", &2),
                Err(Error::UnknownKeyspace { .. })
            ));
            // None of this hurts the transaction.
            insert(conn, 2)?;
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(fleet.rows("a"), [2]);

    let pool = shards.clone().into_pool();
    let mut conn = pool.get().unwrap();
    assert!(matches!(
        conn.ensure_owns("turns", &2),
        Err(Error::NoRoute { .. })
    ));
    drop(conn);
    let mut conn = shards
        .on("b", || Ok::<_, Error>(pool.get().unwrap()))
        .unwrap();
    conn.ensure_owns("turns", &3).unwrap();
    assert_eq!(conn.shard().unwrap().as_str(), "b");
}

#[test]
fn a_transaction_for_a_key_pins_its_shard() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = sharded(&fleet);
    let turns = shards.keyspace("turns").unwrap();
    turns
        .transaction_for(&0, |conn| {
            assert!(matches!(turns.get(&1), Err(Error::PinnedElsewhere { .. })));
            assert!(matches!(
                turns.get(&2),
                Err(Error::AlreadyInTransaction { .. })
            ));
            let nested = turns.transaction_for(&1, |_| Ok::<_, Error>(()));
            assert!(matches!(nested, Err(Error::PinnedElsewhere { .. })));
            insert(conn, 0)?;
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(ids(&mut turns.get(&0).unwrap()), Ok(vec![0]));
    let clone = turns.clone();
    let elsewhere = std::thread::spawn(move || whoami(&mut clone.get(&1).unwrap()));
    assert_eq!(elsewhere.join().unwrap(), Ok("b".to_owned()));
}
