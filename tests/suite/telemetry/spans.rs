//! Spans: the user's own log lines say where they belong.

use diesel_sharded::{Error, KeyspaceConfig, Route, RuleSpec};

use super::log::{Line, Log};
use super::plain;
use crate::support::sqlite::{Fleet, Manager};

fn shards(fleet: &Fleet) -> Manager {
    plain(fleet)
        .keyspace("keys", KeyspaceConfig::new(RuleSpec::modulo(["a", "b"])))
        .build()
        .unwrap()
}

/// The lines `mine` in the order they were logged: the shard of each.
fn shards_of(log: &Log) -> Vec<Option<String>> {
    let lines = log.lines("mine");
    let shard = |line: &Line| line.shard().map(str::to_owned);
    lines.iter().map(shard).collect()
}

fn mine() -> Result<(), Error> {
    tracing::info!("mine");
    Ok(())
}

#[test]
fn a_users_log_line_carries_the_shard_of_its_scope() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = shards(&fleet);
    let keys = shards.keyspace("keys").unwrap();
    let log = Log::default();
    log.during(|| {
        mine().unwrap();
        shards.on("a", mine).unwrap();
        shards.route("b").unwrap().run(mine).unwrap();
        shards.route("a").unwrap().wrap(mine)().unwrap();
        {
            let _guard = shards.route("b").unwrap().enter().unwrap();
            mine().unwrap();
        }
        keys.on(&0, mine).unwrap();
        let captured = shards.on("b", || Ok::<_, Error>(Route::capture())).unwrap();
        captured.run(mine).unwrap();
        shards.transaction_on("a", |_| mine()).unwrap();
        keys.transaction_for(&1, |_| mine()).unwrap();
        keys.transaction_builder(&1)
            .retries(1)
            .run(|_| mine())
            .unwrap();
        mine().unwrap();
    });
    let expected = [
        None,
        Some("a"),
        Some("b"),
        Some("a"),
        Some("b"),
        Some("a"),
        Some("b"),
        Some("a"),
        Some("b"),
        Some("b"),
        None,
    ];
    assert_eq!(
        shards_of(&log),
        expected.map(|shard| shard.map(str::to_owned))
    );
}

#[test]
fn the_innermost_scope_counts_and_the_outer_one_comes_back() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = shards(&fleet);
    let log = Log::default();
    log.during(|| {
        shards
            .on("a", || {
                shards.transaction_on("b", |_| mine())?;
                mine()?;
                let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    shards.on("b", || -> Result<(), Error> {
                        mine()?;
                        std::panic::resume_unwind(Box::new("over"))
                    })
                }));
                assert!(caught.is_err());
                mine()?;
                Err::<(), Error>(diesel::result::Error::NotFound.into())
            })
            .unwrap_err();
        mine().unwrap();
    });
    let expected = [Some("b"), Some("a"), Some("b"), Some("a"), None];
    assert_eq!(
        shards_of(&log),
        expected.map(|shard| shard.map(str::to_owned))
    );
}

#[test]
fn spans_have_the_names_and_fields_of_the_contract() {
    let fleet = Fleet::new(&["a"]);
    let shards = fleet.manager();
    let log = Log::default();
    log.during(|| {
        shards
            .on("a", || shards.transaction_on("a", |_| mine()))
            .unwrap();
    });
    let lines = log.lines("mine");
    let spans: Vec<_> = lines[0]
        .spans
        .iter()
        .map(|span| (span.name.as_str(), span.fields.clone()))
        .collect();
    let fields = |pairs: &[(&str, &str)]| {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    };
    assert_eq!(
        spans,
        [
            ("route", fields(&[("shard", "a")])),
            (
                "transaction",
                fields(&[("shard", "a"), ("role", "primary")])
            ),
        ]
    );
}

/// `after_commit` runs when the transaction is over: its lines are not the transaction's.
#[test]
fn hooks_log_outside_of_the_transaction() {
    let fleet = Fleet::new(&["a", "b"]);
    let shards = shards(&fleet);
    let log = Log::default();
    log.during(|| {
        shards
            .on("b", || {
                shards.transaction_on("a", |conn| {
                    conn.after_commit(|| tracing::info!("mine"));
                    Ok::<_, Error>(())
                })
            })
            .unwrap();
    });
    assert_eq!(shards_of(&log), [Some("b".to_owned())]);
}
