//! A fleet of which a part fails, cannot be reached, or is new.

use diesel_sharded::migrate::{FailureKind, Options, Outcome};

use super::stage::{Ground, ONE, THREE, TWO, ended, failure, of, ran};
use Outcome::{Done, Failed, NotTried, Skipped, UpToDate};

const FIVE: [&str; 5] = ["a", "b", "c", "d", "e"];

#[test]
fn one_shard_fails_and_no_new_one_is_started() {
    let ground = Ground::with_three(&FIVE);
    ground.direct("c", "CREATE TABLE two (id INT)");
    let report = ground.run(&Options::new());
    ended(
        &report,
        &[("a", Done), ("b", Done), ("c", Failed), ("d", NotTried), ("e", NotTried)],
    );
    assert!(!report.is_success());
    assert_eq!(ran(&report, "a"), [ONE, TWO, THREE]);
    assert_eq!(ran(&report, "c"), [ONE]);
    let told = failure(&report, "c");
    assert_eq!(told.kind, FailureKind::Statement);
    assert_eq!(told.version.as_deref(), Some(TWO));
    let statement = told.statement.unwrap();
    assert_eq!((statement.number, statement.of), (1, 1));
    assert!(statement.sql.starts_with("CREATE TABLE two"));
    assert!(told.database.unwrap().contains("exists"));
    // Nothing is reverted by itself, and nothing of `two` is recorded.
    assert_eq!(ground.versions("a"), [ONE, TWO, THREE]);
    assert_eq!(ground.versions("c"), [ONE]);
    assert!(ground.versions("d").is_empty());

    // Resuming is running again, once the cause is gone.
    ground.direct("c", "DROP TABLE two");
    let report = ground.run(&Options::new());
    ended(
        &report,
        &[("a", UpToDate), ("b", UpToDate), ("c", Done), ("d", Done), ("e", Done)],
    );
    assert_eq!(ran(&report, "c"), [TWO, THREE]);
    assert_eq!(ran(&report, "d"), [ONE, TWO, THREE]);
}

#[test]
fn others_go_on_where_more_failures_are_allowed() {
    let ground = Ground::with_three(&FIVE);
    for shard in ["b", "c"] {
        ground.direct(shard, "CREATE TABLE two (id INT)");
    }
    let report = ground.run(&Options::new().max_failures(2));
    ended(
        &report,
        &[("a", Done), ("b", Failed), ("c", Failed), ("d", NotTried), ("e", NotTried)],
    );
    let report = ground.run(&Options::new().max_failures(None).parallel(3));
    ended(
        &report,
        &[("a", UpToDate), ("b", Failed), ("c", Failed), ("d", Done), ("e", Done)],
    );
}

#[test]
fn the_canary_goes_first_and_alone() {
    let ground = Ground::with_three(&["a", "b", "c"]);
    ground.direct("c", "CREATE TABLE two (id INT)");
    let options = Options::new().canary("c").parallel(3).max_failures(None);
    let report = ground.run(&options);
    ended(&report, &[("a", NotTried), ("b", NotTried), ("c", Failed)]);
    assert!(ground.versions("a").is_empty());
    ground.direct("c", "DROP TABLE two");
    ended(
        &ground.run(&options),
        &[("a", Done), ("b", Done), ("c", Done)],
    );
    // One that is not among those that are worked on is a mistake.
    let mistake = ground
        .migrator()
        .run(&Options::new().shards(["a"]).canary("b"), &super::stage::quiet);
    assert!(mistake.unwrap_err().to_string().contains("canary"));
}

/// A new shard gets everything, one restored from a backup what it lacks: each database's own
/// record decides.
#[test]
fn each_database_decides_what_it_lacks() {
    let ground = Ground::with_three(&["a", "b", "f"]);
    let report = ground.run(&Options::new().shards(["a", "b"]));
    assert!(report.is_success());
    for table in ["two", "three"] {
        ground.direct("b", &format!("DROP TABLE {table}"));
    }
    let restored = format!("DELETE FROM __diesel_schema_migrations WHERE version > '{ONE}'");
    ground.direct("b", &restored);
    let status = ground.migrator().status(&Options::new()).unwrap();
    assert!(!status.is_up_to_date());
    let report = ground.run(&Options::new());
    ended(&report, &[("a", UpToDate), ("b", Done), ("f", Done)]);
    assert_eq!(ran(&report, "b"), [TWO, THREE]);
    assert_eq!(ran(&report, "f"), [ONE, TWO, THREE]);
    assert!(ground.migrator().status(&Options::new()).unwrap().is_up_to_date());
}

/// Replaces the database of a shard in the configuration by one that is not there.
fn lose(ground: &Ground, shard: &str) {
    let file = ground.stage.path().join("diesel-sharded.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let url = ground.fleet.url(shard);
    let lost = match super::backend::NAME {
        "sqlite" => "/no/such/folder/d.db".to_owned(),
        "postgres" => "postgres://nobody@127.0.0.1:9/nothing".to_owned(),
        _ => "mysql://nobody@127.0.0.1:9/nothing".to_owned(),
    };
    assert!(config.contains(&url));
    std::fs::write(&file, config.replace(&url, &lost)).unwrap();
}

#[test]
fn a_shard_out_of_reach_stops_everything_before_it_begins() {
    let ground = Ground::with_three(&FIVE);
    lose(&ground, "d");
    let report = ground.run(&Options::new());
    ended(
        &report,
        &[("a", NotTried), ("b", NotTried), ("c", NotTried), ("d", Failed), ("e", NotTried)],
    );
    assert_eq!(failure(&report, "d").kind, FailureKind::Unreachable);
    for shard in ["a", "b", "c", "e"] {
        assert!(!ground.has(shard, "__diesel_schema_migrations"), "{shard}");
    }

    let report = ground.run(&Options::new().skip_unreachable(true));
    ended(
        &report,
        &[("a", Done), ("b", Done), ("c", Done), ("d", Skipped), ("e", Done)],
    );
    assert!(!report.is_success());
    assert!(!of(&report, "d").failures.is_empty());
}

#[test]
fn a_shard_that_is_closed_by_configuration_is_out_of_reach() {
    for state in ["offline", "read-only"] {
        let ground = Ground::with_three(&["a", "b"]);
        let file = ground.stage.path().join("diesel-sharded.toml");
        let config = std::fs::read_to_string(&file).unwrap();
        let closed = config.replacen("[shards.b]\n", &format!("[shards.b]\nstate = {state:?}\n"), 1);
        std::fs::write(&file, closed).unwrap();
        let report = ground.run(&Options::new());
        ended(&report, &[("a", NotTried), ("b", Failed)]);
        assert_eq!(failure(&report, "b").kind, FailureKind::Closed);
        let report = ground.run(&Options::new().skip_unreachable(true));
        ended(&report, &[("a", Done), ("b", Skipped)]);
    }
}

/// Looking at a fleet changes nothing, whoever looks.
#[test]
fn plans_and_statuses_change_nothing() {
    let ground = Ground::with_three(&["a", "b"]);
    let migrator = ground.migrator();
    let plan = migrator
        .plan(diesel_sharded::migrate::Action::Run, &Options::new())
        .unwrap();
    assert!(plan.is_clean() && !plan.is_empty());
    assert_eq!(plan.shards[1].steps.len(), 3);
    assert!(plan.shards[0].steps[0].sql[0].starts_with("CREATE TABLE one"));
    let status = migrator.status(&Options::new()).unwrap();
    assert_eq!(status.versions.len(), 3);
    assert_eq!(
        status.shards[0].state(TWO).unwrap().as_str(),
        "pending"
    );
    migrator.schema(&Options::new()).unwrap();
    migrator.unlock(&Options::new()).unwrap();
    for shard in ["a", "b"] {
        for table in ["__diesel_schema_migrations", "diesel_sharded_internal", "one"] {
            assert!(!ground.has(shard, table), "{shard} {table}");
        }
    }
}
