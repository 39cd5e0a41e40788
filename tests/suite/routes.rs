//! Routes as scopes: what is left behind, what comes back, what is never guessed.

use std::panic::{AssertUnwindSafe, catch_unwind};

use diesel_sharded::{Error, Route};

use super::backend::{Fleet, Manager, whoami};
use crate::support::{ours, said};

/// Where a checkout of this moment lands, says the database.
fn here(shards: &Manager) -> Result<String, Error> {
    Ok(whoami(&mut shards.get()?)?)
}

fn with_default(fleet: &Fleet) -> Manager {
    fleet.builder().default_shard("a").build().unwrap()
}

#[test]
fn a_panicking_closure_leaves_no_route_behind() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = with_default(&fleet);
    type Never = Result<(), Error>;

    let panics: [(&str, &dyn Fn()); 5] = [
        ("closure", &|| {
            let _: Never = shards.on("b", || panic!("on purpose"));
        }),
        ("nested closures", &|| {
            let _: Never = shards.on("b", || shards.on("c", || panic!("on purpose")));
        }),
        ("guard", &|| {
            let _guard = shards.route("b").unwrap().enter().unwrap();
            panic!("on purpose");
        }),
        ("guard in a closure", &|| {
            let _: Never = shards.on("b", || {
                let _guard = shards.route("c").unwrap().enter().unwrap();
                panic!("on purpose");
            });
        }),
        ("captured routes", &|| {
            let captured = shards.on("b", || Ok::<_, Error>(Route::capture())).unwrap();
            let _: Never = captured.run(|| panic!("on purpose"));
        }),
    ];
    for (form, panics) in panics {
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err(), "{form}");
        assert_eq!(Route::stack_depth(), 0, "{form}");
        assert_eq!(here(&shards).unwrap(), "a", "{form}");
    }
}

#[test]
fn a_panic_between_two_scopes_removes_the_inner_one_only() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = fleet.manager();
    shards
        .on("a", || {
            let inner = catch_unwind(AssertUnwindSafe(|| {
                let _: Result<(), Error> = shards.on("b", || panic!("on purpose"));
            }));
            assert!(inner.is_err());
            assert_eq!(Route::stack_depth(), 1);
            assert_eq!(here(&shards)?, "a");
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn leaving_an_inner_route_brings_the_outer_one_back() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = with_default(&fleet);
    shards
        .on("b", || {
            assert_eq!(shards.on("c", || here(&shards))?, "c");
            assert_eq!(here(&shards)?, "b");
            let failed: Result<(), Error> =
                shards.on("c", || Err(Error::NoRoute { known: vec![] }));
            assert!(failed.is_err());
            assert_eq!(here(&shards)?, "b", "an error closes one scope too");
            // Neither checking out nor giving back touches the stack.
            let first = shards.get()?;
            let second = shards.get()?;
            drop(first);
            assert_eq!(here(&shards)?, "b");
            drop(second);
            assert_eq!(here(&shards)?, "b");
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(here(&shards).unwrap(), "a");
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn routes_nested_forty_deep_come_back_one_by_one() {
    let fleet = Fleet::new(&["a", "b", "c"]);
    let shards = fleet.manager();
    fn nest(shards: &Manager, depth: usize) -> Result<(), Error> {
        let name = ["a", "b", "c"][depth % 3];
        shards.on(name, || {
            assert_eq!(shards.get()?.shard().unwrap(), name);
            if depth < 40 {
                nest(shards, depth + 1)?;
            }
            assert_eq!(here(shards)?, name, "back at depth {depth}");
            Ok(())
        })
    }
    nest(&shards, 0).unwrap();
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn an_unknown_shard_is_never_taken_for_another() {
    let fleet = Fleet::new(&["order-0", "order-1", "dap", "dap_gp", "dap_sr"]);
    let shards = fleet.builder().default_shard("order-0").build().unwrap();
    let known = ["dap", "dap_gp", "dap_sr", "order-0", "order-1"];
    assert_eq!(shards.shards(), known);

    for (asked, nearest) in [
        ("ordr-0", Some("order-0")),
        ("order-2", None),
        ("ORDER-0", Some("order-0")),
        ("Order-1", Some("order-1")),
        ("", None),
        (" order-0", Some("order-0")),
        ("order-0 ", Some("order-0")),
        ("order-0\0", Some("order-0")),
        ("order_0", Some("order-0")),
        ("order-00", Some("order-0")),
        ("dap_", None),
        ("dap_g", None),
        ("da", None),
        ("order", None),
        ("order-0;shard=order-1", None),
        ("*", None),
        ("örder-0", Some("order-0")),
    ] {
        let refusals: [(&str, Error); 8] = [
            ("on", shards.on(asked, || Ok::<_, Error>(())).unwrap_err()),
            ("route", shards.route(asked).unwrap_err()),
            ("get_on", shards.get_on(asked).unwrap_err()),
            (
                "transaction_on",
                shards
                    .transaction_on(asked, |_| -> Result<(), Error> {
                        panic!("the closure is not run")
                    })
                    .unwrap_err(),
            ),
            (
                "transaction_builder",
                shards
                    .transaction_builder(asked)
                    .run(|_| Ok::<_, Error>(()))
                    .unwrap_err(),
            ),
            (
                "on, in Diesel's words",
                shards
                    .on(asked, || diesel::QueryResult::Ok(()))
                    .unwrap_err()
                    .into(),
            ),
            (
                "on, inside another route",
                shards
                    .on("order-1", || shards.on(asked, || Ok::<_, Error>(())))
                    .unwrap_err(),
            ),
            (
                "on, inside a transaction",
                shards
                    .transaction_on("order-1", |_| shards.on(asked, || Ok::<_, Error>(())))
                    .unwrap_err(),
            ),
        ];
        for (form, error) in refusals {
            let Error::UnknownShard {
                shard,
                known: told,
                nearest: guess,
            } = &error
            else {
                panic!("{form}({asked:?}): {error:?}");
            };
            assert_eq!(shard, asked, "{form}");
            assert_eq!(*told, known, "{form}");
            if nearest.is_some() {
                assert_eq!(
                    guess.map(|guess| guess.as_str()),
                    nearest,
                    "{form}({asked:?})"
                );
            }
            let text = said(&error);
            assert!(
                text.contains(&format!("{asked:?}")) && text.contains("dap_gp"),
                "{text}"
            );
        }
    }
    assert_eq!(shards.status().default_fallbacks, 0);
    assert_eq!(Route::stack_depth(), 0);
}

#[test]
fn a_name_is_not_a_prefix_of_a_group() {
    let fleet = Fleet::new(&["dap", "dap_gp", "dap_sr"]);
    let shards = fleet.manager();
    for _ in 0..100 {
        assert_eq!(shards.on("dap", || here(&shards)).unwrap(), "dap");
    }
}

#[test]
fn without_route_and_default_nothing_is_guessed() {
    let fleet = Fleet::new(&["b", "a"]);
    let shards = fleet.manager();
    let error = shards.get().unwrap_err();
    let Error::NoRoute { known } = &error else {
        panic!("{error:?}");
    };
    assert_eq!(*known, ["a", "b"]);
    assert!(said(&error).contains("a, b"));
    // One shard alone is no default either.
    let lonely = Fleet::new(&["only"]);
    assert!(matches!(lonely.manager().get(), Err(Error::NoRoute { .. })));
    // Afterwards routes work as before.
    assert_eq!(shards.on("b", || here(&shards)).unwrap(), "b");
    assert!(matches!(shards.get(), Err(Error::NoRoute { .. })));
}

#[test]
fn every_fall_to_the_default_shard_is_counted() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = with_default(&fleet);
    assert_eq!(here(&shards).unwrap(), "a");
    assert_eq!(here(&shards.clone()).unwrap(), "a");
    assert_eq!(shards.status().default_fallbacks, 2);
    // Who says where to go does not fall.
    shards.on("b", || here(&shards)).unwrap();
    shards.on("a", || here(&shards)).unwrap();
    shards.get_on("a").unwrap();
    shards.transaction_on("a", |_| Ok::<_, Error>(())).unwrap();
    shards.independent(|| shards.on("b", || here(&shards)).unwrap());
    assert_eq!(shards.status().default_fallbacks, 2);
    // Under `independent` there is no route, so it falls again.
    shards
        .on("b", || {
            assert_eq!(shards.independent(|| here(&shards))?, "a");
            assert_eq!(here(&shards)?, "b");
            Ok::<_, Error>(())
        })
        .unwrap();
    assert_eq!(shards.status().default_fallbacks, 3);
}

#[test]
fn a_default_that_does_not_exist_is_found_before_the_first_checkout() {
    let fleet = Fleet::new(&["a"]);
    let error = fleet.builder().default_shard("b").build().unwrap_err();
    assert!(matches!(error, Error::Config(_)), "{error:?}");
    assert!(
        said(&error).contains("\"b\"") || said(&error).contains('b'),
        "{error}"
    );
}

#[test]
fn refusals_come_out_of_application_errors_again() {
    #[derive(Debug)]
    enum App {
        Db(diesel::result::Error),
    }
    impl From<diesel::result::Error> for App {
        fn from(error: diesel::result::Error) -> Self {
            Self::Db(error)
        }
    }
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    let App::Db(error) = shards.on("nowhere", || Ok::<_, App>(())).unwrap_err();
    assert!(matches!(ours(&error), Error::UnknownShard { .. }));
    type Dyn = Box<dyn std::error::Error + Send + Sync>;
    let error = shards.on("nowhere", || Ok::<_, Dyn>(())).unwrap_err();
    assert!(matches!(
        Error::find(&*error),
        Some(Error::UnknownShard { .. })
    ));
}
