//! Two topologies in one process, with equal shard names, are strangers.

use diesel_sharded::{Error, Route};

use super::backend::{Fleet, Manager, insert, whoami};

fn here(shards: &Manager) -> Result<String, Error> {
    Ok(whoami(&mut shards.get()?)?)
}

#[test]
fn routes_of_one_topology_mean_nothing_to_another() {
    let (fleet, other_fleet) = (Fleet::new(&["a", "b"]), Fleet::new(&["a", "b"]));
    let (one, other) = (fleet.manager(), other_fleet.manager());
    insert(&mut other_fleet.direct("a"), 1).unwrap();
    one.on("b", || {
        assert!(matches!(other.get(), Err(Error::NoRoute { .. })));
        other.on("a", || {
            assert_eq!((here(&one)?, here(&other)?), ("b".into(), "a".into()));
            // A connection of one is not measured by a route of the other.
            let mut conn = one.get()?;
            other.on("b", || Ok::<_, Error>(assert_eq!(whoami(&mut conn)?, "b")))?;
            one.on("a", || {
                assert_eq!((here(&one)?, here(&other)?), ("a".into(), "a".into()));
                Ok::<_, Error>(())
            })
        })?;
        assert!(matches!(other.get(), Err(Error::NoRoute { .. })));
        Ok::<_, Error>(())
    })
    .unwrap();
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn a_pin_of_one_topology_does_not_hold_another() {
    let (fleet, other_fleet) = (Fleet::new(&["a", "b"]), Fleet::new(&["a", "b"]));
    let (one, other) = (fleet.manager(), other_fleet.manager());
    one.transaction_on("a", |conn| {
        insert(conn, 1)?;
        assert_eq!(other.on("b", || here(&other))?, "b");
        assert_eq!(whoami(&mut other.get_on("a")?)?, "a");
        other.transaction_on("a", |inner| {
            insert(inner, 2)?;
            assert!(matches!(
                one.get_on("b"),
                Err(Error::PinnedElsewhere { .. })
            ));
            assert!(matches!(
                one.get_on("a"),
                Err(Error::AlreadyInTransaction { .. })
            ));
            // Independent of one topology, still pinned in the other.
            one.independent(|| {
                assert_eq!(whoami(&mut one.get_on("b")?)?, "b");
                assert!(matches!(
                    other.get_on("b"),
                    Err(Error::PinnedElsewhere { .. })
                ));
                Ok::<_, Error>(())
            })?;
            whoami(conn)?;
            Ok::<_, Error>(())
        })
    })
    .unwrap();
    assert_eq!(fleet.rows("a"), [1]);
    assert_eq!(other_fleet.rows("a"), [2]);
}

#[test]
fn capturing_takes_the_topmost_route_of_each_topology() {
    let (fleet, other_fleet) = (Fleet::new(&["a", "b"]), Fleet::new(&["a", "b"]));
    let (one, other) = (fleet.manager(), other_fleet.manager());
    let captured = one
        .on("a", || {
            other.on("a", || one.on("b", || Ok::<_, Error>(Route::capture())))
        })
        .unwrap();
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                captured
                    .run(|| {
                        assert_eq!(Route::stack_depth(), 2);
                        assert_eq!((here(&one)?, here(&other)?), ("b".into(), "a".into()));
                        Ok::<_, Error>(())
                    })
                    .unwrap();
            })
            .join()
            .unwrap();
    });
}

#[test]
fn managers_of_one_topology_share_routes_and_pins() {
    let fleet = Fleet::new(&["a", "b"]);
    let one = fleet.manager();
    let second = Manager::from_topology(one.topology()).unwrap();
    one.on("b", || Ok::<_, Error>(assert_eq!(here(&second)?, "b")))
        .unwrap();
    one.transaction_on("a", |_| {
        assert!(matches!(
            second.get_on("b"),
            Err(Error::PinnedElsewhere { .. })
        ));
        assert!(matches!(
            second.get_on("a"),
            Err(Error::AlreadyInTransaction { .. })
        ));
        Ok::<_, Error>(())
    })
    .unwrap();
    // A route of one is a route of the other.
    let route = second.route("a").unwrap();
    assert_eq!(route.run(|| here(&one)).unwrap(), "a");
}

#[test]
fn one_database_under_two_names_is_refused_unless_it_is_said() {
    let fleet = Fleet::new(&["a"]);
    let twice = || fleet.builder().shard("b", fleet.url("a"));
    let error = twice().build().unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error:?}");
    let text = crate::support::said(&error);
    assert!(
        text.contains("shards.a") || text.contains("shards.b"),
        "{text}"
    );

    let shards = twice().shared_database(true).build().unwrap();
    for name in ["a", "b"] {
        assert_eq!(shards.on(name, || here(&shards)).unwrap(), "a");
        assert_eq!(shards.get_on(name).unwrap().shard().unwrap(), name);
    }
    // The pin is of the shard by name, whatever the database.
    shards
        .transaction_on("a", |_| {
            assert!(matches!(
                shards.get_on("b"),
                Err(Error::PinnedElsewhere { .. })
            ));
            Ok::<_, Error>(())
        })
        .unwrap();
}
