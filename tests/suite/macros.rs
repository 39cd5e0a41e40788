//! The attributes and derives: the same rules as for the closures, from the head of a function.

use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use diesel::prelude::*;
use diesel_sharded::blocking::Keyspace;
use diesel_sharded::{Error, KeyspaceConfig, Route, RuleSpec, routed, sharded_transaction};

use super::backend::{Conn, Fleet, Manager, NAME, Sharded, ids, insert, whoami};
use crate::support::ours;

#[path = "macros/retried.rs"]
mod retried;
#[path = "macros/rows.rs"]
mod rows;

/// Remainder 0 lives on `a`, remainder 1 on `b`.
struct Service {
    shards: Manager,
    keys: Keyspace<Conn>,
}

impl Service {
    fn new(fleet: &Fleet) -> Self {
        let shards = fleet
            .builder_of_size(1)
            .keyspace("items", KeyspaceConfig::new(RuleSpec::modulo(["a", "b"])))
            .build()
            .unwrap();
        let keys = shards.keyspace("items").unwrap();
        Self { shards, keys }
    }

    /// Where a checkout goes at this moment, says the database.
    fn here(&self) -> Result<String, Error> {
        Ok(whoami(&mut self.shards.get()?)?)
    }

    #[routed(shards = self.shards, shard = "b")]
    fn by_name(&self) -> Result<String, Error> {
        self.here()
    }

    #[routed(keyspace = self.keys, key = key)]
    fn by_key(&self, key: i64) -> Result<String, Error> {
        self.here()
    }

    #[routed(keyspace = self.keys, key = key)]
    fn before_and_after(&self, key: i64) -> Result<[String; 3], Error> {
        Ok([self.here()?, self.by_key(key + 1)?, self.here()?])
    }

    #[routed(keyspace = self.keys, key = 1)]
    fn early(&self, way: Way) -> Result<String, Error> {
        match way {
            Way::Return => return self.here(),
            Way::Question => Err(Error::NoRoute { known: vec![] })?,
            Way::Panic => panic!("half-way"),
            Way::End => {}
        }
        self.here()
    }

    #[sharded_transaction(keyspace = self.keys, key = id)]
    fn create(&self, #[conn] conn: &mut Sharded, id: i64, way: Way) -> Result<String, Error> {
        insert(conn, id)?;
        match way {
            Way::Return => return Ok(whoami(conn)?),
            Way::Question => Err(Error::NoRoute { known: vec![] })?,
            Way::Panic => panic!("half-way"),
            Way::End => {}
        }
        Ok(whoami(conn)?)
    }

    #[sharded_transaction(keyspace = self.keys, key = 0)]
    fn calls_itself_a(&self, #[conn] conn: &mut Sharded) -> Result<(), Error> {
        insert(conn, 10)?;
        self.create(12, Way::End).map(drop)
    }

    #[sharded_transaction(keyspace = self.keys, key = 0)]
    fn calls_another(&self, #[conn] conn: &mut Sharded) -> Result<(), Error> {
        insert(conn, 10)?;
        self.create(11, Way::End).map(drop)
    }

    #[sharded_transaction(keyspace = self.keys, key = 0)]
    fn routes_elsewhere(&self, #[conn] conn: &mut Sharded) -> Result<String, Error> {
        insert(conn, 10)?;
        self.by_key(1)
    }

    #[sharded_transaction(shards = self.shards, shard = "a")]
    fn swallows(&self, #[conn] conn: &mut Sharded) -> QueryResult<()> {
        insert(conn, 1)?;
        let _ = insert(conn, 1);
        Ok(())
    }

    #[sharded_transaction(shards = self.shards, shard = "a", read_only)]
    fn reads_only(&self, #[conn] conn: &mut Sharded) -> QueryResult<usize> {
        insert(conn, 1)
    }

    #[sharded_transaction(shards = self.shards, shard = "a", immediate)]
    fn at_once(&self, #[conn] conn: &mut Sharded) -> Result<usize, Error> {
        Ok(insert(conn, 1)?)
    }

    #[routed(keyspace = self.keys, key = 1)]
    fn uses_a_connection_of_its_caller(&self, conn: &mut Sharded) -> QueryResult<String> {
        whoami(conn)
    }
}

#[derive(Clone, Copy)]
enum Way {
    End,
    Return,
    Question,
    Panic,
}

#[test]
fn the_body_runs_under_the_route_that_its_head_names() {
    let fleet = Fleet::new(&["a", "b"]);
    let service = Service::new(&fleet);
    assert_eq!(service.by_name().unwrap(), "b");
    for key in -4..4 {
        let home = ["a", "b"][usize::from(key & 1 == 1)];
        assert_eq!(service.by_key(key).unwrap(), home);
    }
    assert!(matches!(service.here(), Err(Error::NoRoute { .. })));
}

#[test]
fn the_outer_route_is_back_after_a_nested_one() {
    let fleet = Fleet::new(&["a", "b"]);
    let service = Service::new(&fleet);
    assert_eq!(service.before_and_after(0).unwrap(), ["a", "b", "a"]);
    assert_eq!(service.before_and_after(1).unwrap(), ["b", "a", "b"]);
}

#[test]
fn the_route_is_left_on_return_error_and_panic() {
    let fleet = Fleet::new(&["a", "b"]);
    let service = Service::new(&fleet);
    for way in [Way::End, Way::Return] {
        assert_eq!(service.early(way).unwrap(), "b");
        assert_eq!(Route::stack_depth(), 0);
    }
    assert!(service.early(Way::Question).is_err());
    assert_eq!(Route::stack_depth(), 0);
    catch_unwind(AssertUnwindSafe(|| service.early(Way::Panic))).unwrap_err();
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn a_transaction_is_committed_by_ok_alone() {
    let fleet = Fleet::new(&["a", "b"]);
    let service = Service::new(&fleet);
    assert_eq!(service.create(1, Way::End).unwrap(), "b");
    assert_eq!(service.create(3, Way::Return).unwrap(), "b");
    assert_eq!(service.create(2, Way::End).unwrap(), "a");
    assert!(service.create(5, Way::Question).is_err());
    catch_unwind(AssertUnwindSafe(|| service.create(7, Way::Panic))).unwrap_err();
    assert_eq!(fleet.rows("b"), [1, 3]);
    assert_eq!(fleet.rows("a"), [2]);
    for shard in ["a", "b"] {
        fleet.assert_nothing_open(shard);
    }
}

#[test]
fn a_switch_inside_a_transaction_is_a_typed_error_and_all_of_it_is_undone() {
    let fleet = Fleet::new(&["a", "b"]);
    let service = Service::new(&fleet);
    let error = service.routes_elsewhere().unwrap_err();
    assert!(
        matches!(&error, Error::PinnedElsewhere { pinned, wanted } if *pinned == "a" && *wanted == "b"),
        "{error:?}"
    );
    let error = service.calls_another().unwrap_err();
    assert!(
        matches!(&error, Error::PinnedElsewhere { pinned, wanted } if *pinned == "a" && *wanted == "b"),
        "{error:?}"
    );
    let error = service.calls_itself_a().unwrap_err();
    assert!(
        matches!(&error, Error::AlreadyInTransaction { shard } if *shard == "a"),
        "{error:?}"
    );
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
    assert_eq!(fleet.rows("b"), [0_i64; 0]);
}

#[test]
fn a_connection_of_another_route_is_refused_in_the_body() {
    let fleet = Fleet::new(&["a", "b"]);
    let service = Service::new(&fleet);
    let result = service.shards.on("a", || {
        let mut conn = service.shards.get()?;
        service.uses_a_connection_of_its_caller(&mut conn)
    });
    let error = result.unwrap_err();
    assert!(
        matches!(ours(&error), Error::RouteMismatch { bound, routed } if *bound == "a" && *routed == "b"),
        "{error:?}"
    );
}

#[test]
fn a_swallowed_error_is_no_commit_where_the_server_rolled_back() {
    let fleet = Fleet::new(&["a", "b"]);
    let result = Service::new(&fleet).swallows();
    if NAME == "postgres" {
        let error = result.unwrap_err();
        assert!(
            matches!(ours(&error), Error::RolledBack { .. }),
            "{error:?}"
        );
        assert_eq!(fleet.rows("a"), [0_i64; 0]);
    } else {
        result.unwrap();
        assert_eq!(fleet.rows("a"), [1]);
    }
}

#[test]
fn options_reach_the_database() {
    let fleet = Fleet::new(&["a", "b"]);
    let service = Service::new(&fleet);
    service.reads_only().unwrap_err();
    assert_eq!(fleet.rows("a"), [0_i64; 0]);
    let result = service.at_once();
    if NAME == "sqlite" {
        assert_eq!(result.unwrap(), 1);
    } else {
        let error = result.unwrap_err();
        assert!(
            matches!(
                error,
                Error::Unsupported {
                    what: "immediate",
                    ..
                }
            ),
            "{error:?}"
        );
    }
}

/// Counts how often each expression of a head is evaluated.
struct Counted<'a> {
    service: &'a Service,
    order: RefCell<Vec<&'static str>>,
}

impl Counted<'_> {
    fn said(&self, what: &'static str) {
        self.order.borrow_mut().push(what);
    }

    fn keys(&self) -> &Keyspace<Conn> {
        self.said("keyspace");
        &self.service.keys
    }

    fn key(&self) -> Option<i64> {
        self.said("key");
        Some(1)
    }

    fn no_key(&self) -> Option<i64> {
        self.said("no key");
        None
    }

    #[routed(keyspace = self.keys(), key = self.key())]
    fn routed(&self) -> Result<(), Error> {
        self.said("body");
        Ok(())
    }

    #[sharded_transaction(keyspace = self.keys(), key = self.key(), retries = { self.said("retries"); 2 })]
    fn in_transaction(&self, #[conn] _conn: &mut Sharded) -> Result<(), Error> {
        self.said("body");
        Ok(())
    }

    #[routed(keyspace = self.keys(), key = self.no_key())]
    fn without_a_key(&self) -> Result<(), Error> {
        self.said("body");
        Ok(())
    }

    #[sharded_transaction(keyspace = self.keys(), key = self.no_key())]
    fn in_transaction_without_a_key(&self, #[conn] _conn: &mut Sharded) -> Result<(), Error> {
        self.said("body");
        Ok(())
    }
}

#[test]
fn each_expression_is_evaluated_once_and_before_the_body() {
    let fleet = Fleet::new(&["a", "b"]);
    let service = Service::new(&fleet);
    let counted = Counted {
        service: &service,
        order: RefCell::default(),
    };
    counted.routed().unwrap();
    assert_eq!(counted.order.take(), ["keyspace", "key", "body"]);
    counted.in_transaction().unwrap();
    assert_eq!(counted.order.take(), ["keyspace", "key", "retries", "body"]);
    for result in [
        counted.without_a_key(),
        counted.in_transaction_without_a_key(),
    ] {
        assert!(
            matches!(result, Err(Error::NullShardKey { .. })),
            "{result:?}"
        );
    }
    assert_eq!(
        counted.order.take(),
        ["keyspace", "no key", "keyspace", "no key"]
    );
}

// Forms of functions. `route` and `conn` are names that the expansion must not mix up with its own.

#[routed(keyspace = keys, key = *route)]
fn free<'a, T>(
    keys: &Keyspace<Conn>,
    shards: &Manager,
    route: &'a i64,
    text: impl Into<String>,
    value: T,
) -> Result<(String, &'a i64), Error>
where
    T: Clone + Default + Into<String>,
{
    let place = whoami(&mut shards.get()?)?;
    let other = T::default().into();
    Ok((
        format!("{place}{}{}{other}", text.into(), value.clone().into()),
        route,
    ))
}

impl Service {
    #[routed(keyspace = self.keys, key = 1)]
    fn consumes_itself(self) -> Result<Self, Error> {
        assert_eq!(self.here()?, "b");
        Ok(self)
    }

    #[routed(keyspace = self.keys, key = 1)]
    fn unnamed(&self) -> Result<impl Iterator<Item = String> + use<>, Error> {
        Ok(vec![self.here()?].into_iter())
    }

    #[tracing::instrument(skip_all, err)]
    #[routed(keyspace = self.keys, key = 1)]
    fn instrumented_above(&self) -> Result<String, Error> {
        self.here()
    }

    #[routed(keyspace = self.keys, key = 1)]
    #[tracing::instrument(skip_all, err)]
    fn instrumented_below(&self) -> Result<String, Error> {
        self.here()
    }

    #[tracing::instrument(skip_all, err)]
    #[sharded_transaction(keyspace = self.keys, key = 1)]
    fn transaction_instrumented(&self, #[conn] conn: &mut Sharded) -> Result<String, Error> {
        Ok(whoami(conn)?)
    }

    #[rustfmt::skip]
    #[sharded_transaction(keyspace = self.keys, key = 1)]
    fn on_one_line(&self, #[conn] conn: &mut Sharded) -> QueryResult<String> { whoami(conn) }

    #[routed(keyspace = self.keys, key = 1)]
    fn says_something_of_itself(&self) -> Result<String, Error> {
        //! The body of this function has an attribute.
        #![expect(unused_variables, reason = "the attribute is what is tried")]
        let unused = 1;
        self.here()
    }

    #[routed(shards = self.shards, shard = name)]
    fn looks_at_the_name(&self, name: String) -> Result<String, Error> {
        Ok(format!("{name}{}", self.here()?))
    }

    #[routed(shards = self.shards, shard = name)]
    fn own_error(&self, name: &str) -> Result<String, Box<dyn std::error::Error + Send + Sync>> {
        let number: i64 = "7".parse()?;
        Ok(format!("{}{number}", self.here()?))
    }
}

/// The keyspace behind pointers of all kinds.
struct Pointed {
    counted: std::sync::Arc<Service>,
    lazy: std::sync::LazyLock<Keyspace<Conn>, Box<dyn FnOnce() -> Keyspace<Conn> + Send>>,
}

impl Pointed {
    #[routed(keyspace = self.counted.keys, key = 1)]
    fn counted(&self) -> Result<String, Error> {
        self.counted.here()
    }

    #[routed(keyspace = self.lazy, key = 1)]
    fn lazy(&self) -> Result<String, Error> {
        self.counted.here()
    }

    #[sharded_transaction(shards = std::sync::Arc::new(&self.counted.shards), shard = "b")]
    fn counted_for_a_moment(&self, #[conn] conn: &mut Sharded) -> QueryResult<String> {
        whoami(conn)
    }
}

trait Store {
    fn count(&self, key: i64) -> Result<usize, Error>;

    fn twice(&mut self, add: &mut i64) -> Result<String, Error>;
}

impl Store for Service {
    #[sharded_transaction(keyspace = self.keys, key = key)]
    fn count(&self, #[conn] conn: &mut Sharded, key: i64) -> Result<usize, Error> {
        Ok(ids(conn)?.len())
    }

    #[routed(keyspace = self.keys, key = 1)]
    fn twice(&mut self, add: &mut i64) -> Result<String, Error> {
        *add *= 2;
        self.here()
    }
}

#[test]
fn functions_of_every_form_can_be_routed() {
    let fleet = Fleet::new(&["a", "b"]);
    let mut service = Service::new(&fleet);
    let key = 1;
    let (text, same) = free(&service.keys, &service.shards, &key, "-", String::from("x")).unwrap();
    assert_eq!((text.as_str(), same), ("b-x", &1));
    assert_eq!(service.unnamed().unwrap().collect::<Vec<_>>(), ["b"]);
    assert_eq!(service.instrumented_above().unwrap(), "b");
    assert_eq!(service.instrumented_below().unwrap(), "b");
    assert_eq!(service.transaction_instrumented().unwrap(), "b");
    assert_eq!(service.on_one_line().unwrap(), "b");
    assert_eq!(service.says_something_of_itself().unwrap(), "b");
    assert_eq!(service.looks_at_the_name("b".to_owned()).unwrap(), "bb");
    assert_eq!(service.own_error("a").unwrap(), "a7");
    let unknown = service.own_error("c").unwrap_err();
    assert!(
        matches!(Error::find(&*unknown), Some(Error::UnknownShard { .. })),
        "{unknown}"
    );
    insert(&mut service.shards.get_on("a").unwrap(), 6).unwrap();
    assert_eq!(service.count(2).unwrap(), 1);
    let mut add = 4;
    assert_eq!(service.twice(&mut add).unwrap(), "b");
    assert_eq!(add, 8);
    service.consumes_itself().unwrap();
}

#[test]
fn keyspaces_and_managers_are_found_behind_pointers() {
    let fleet = Fleet::new(&["a", "b"]);
    let service = Service::new(&fleet);
    let keys = service.keys.clone();
    let pointed = Pointed {
        counted: std::sync::Arc::new(service),
        lazy: std::sync::LazyLock::new(Box::new(move || keys)),
    };
    assert_eq!(pointed.counted().unwrap(), "b");
    assert_eq!(pointed.lazy().unwrap(), "b");
    assert_eq!(pointed.counted_for_a_moment().unwrap(), "b");
}
