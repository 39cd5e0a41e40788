//! Versions: their order, those that differ, those that nobody knows.

use diesel_migrations::{FileBasedMigrations, MigrationHarness};
use diesel_sharded::migrate::{
    Action, FailureKind, Options, Outcome, Repair, Steps, VersionState,
};

use super::stage::{Ground, ONE, THREE, TWO, ended, failure, kinds, quiet, ran};

fn diesels(ground: &Ground) -> FileBasedMigrations {
    FileBasedMigrations::from_path(ground.stage.path().join("migrations")).unwrap()
}

#[test]
fn what_diesel_has_applied_is_applied_and_the_other_way_round() {
    let ground = Ground::with_three(&["a", "b"]);
    let mut conn = ground.fleet.direct("a");
    conn.run_pending_migrations(diesels(&ground)).unwrap();
    let report = ground.run(&Options::new());
    assert_eq!(ran(&report, "a"), Vec::<String>::new());
    assert_eq!(ran(&report, "b"), [ONE, TWO, THREE]);
    assert!(ground.migrator().status(&Options::new()).unwrap().is_up_to_date());

    let mut conn = ground.fleet.direct("b");
    assert!(!conn.has_pending_migration(diesels(&ground)).unwrap());
    conn.revert_last_migration(diesels(&ground)).unwrap();
    let report = ground.run(&Options::new());
    assert_eq!(ran(&report, "b"), [THREE]);
    ended(&report, &[("a", Outcome::UpToDate), ("b", Outcome::Done)]);
}

#[test]
fn reverts_run_newest_first_and_redos_come_back() {
    let ground = Ground::with_three(&["a", "b"]);
    ground.run_well();
    let report = ground.migrator().revert(Steps::Last(2), &Options::new(), &quiet).unwrap();
    assert_eq!(ran(&report, "a"), [format!("-{THREE}"), format!("-{TWO}")]);
    assert_eq!(ground.versions("b"), [ONE]);
    ground.run_well();
    let report = ground.migrator().redo(Steps::Last(2), &Options::new(), &quiet).unwrap();
    let expected = [format!("-{THREE}"), format!("-{TWO}"), TWO.to_owned(), THREE.to_owned()];
    assert_eq!(ran(&report, "b"), expected);
    let report = ground.migrator().revert(Steps::All, &Options::new(), &quiet).unwrap();
    assert!(report.is_success());
    assert!(ground.versions("a").is_empty() && !ground.has("a", "one"));
    // And nothing more is nothing to do.
    let report = ground.migrator().revert(Steps::Last(1), &Options::new(), &quiet).unwrap();
    ended(&report, &[("a", Outcome::UpToDate), ("b", Outcome::UpToDate)]);
}

#[test]
fn shards_at_different_versions_are_not_reverted_unless_forced() {
    let ground = Ground::with_three(&["a", "b"]);
    ground.run_well();
    let behind = Options::new().shards(["b"]);
    let report = ground.migrator().revert(Steps::Last(1), &behind, &quiet).unwrap();
    assert!(report.is_success());
    for steps in [Steps::Last(1), Steps::Last(2)] {
        for report in [
            ground.migrator().revert(steps, &Options::new(), &quiet).unwrap(),
            ground.migrator().redo(steps, &Options::new(), &quiet).unwrap(),
        ] {
            assert_eq!(kinds(&report, "a"), [FailureKind::ShardsDiffer]);
            assert_eq!(kinds(&report, "b"), [FailureKind::ShardsDiffer]);
        }
    }
    assert_eq!(ground.versions("a"), [ONE, TWO, THREE]);
    // Each its own last one.
    let forced = Options::new().force(true);
    let report = ground.migrator().redo(Steps::Last(1), &forced, &quiet).unwrap();
    assert_eq!(ran(&report, "a"), [format!("-{THREE}"), THREE.to_owned()]);
    assert_eq!(ran(&report, "b"), [format!("-{TWO}"), TWO.to_owned()]);
}

/// a has all, b lacks the last, c lacks the middle one, d has one that nobody knows, e a column made by
/// hand.
#[test]
fn shards_that_have_diverged_are_told_before_anything_runs() {
    let ground = Ground::with_three(&["a", "b", "c", "d", "e"]);
    ground.run_well();
    let forget = |shard, version, table| {
        ground.direct(shard, &format!("DROP TABLE {table}"));
        ground.direct(
            shard,
            &format!("DELETE FROM __diesel_schema_migrations WHERE version = '{version}'"),
        );
    };
    forget("b", THREE, "three");
    forget("c", TWO, "two");
    ground.direct("d", "INSERT INTO __diesel_schema_migrations (version) VALUES ('9')");
    ground.direct("e", "ALTER TABLE one ADD COLUMN handmade INT");

    let migrator = ground.migrator();
    let status = migrator.status(&Options::new()).unwrap();
    let state = |shard: usize, version| status.shards[shard].state(version);
    assert_eq!(state(0, THREE), Some(VersionState::Applied));
    assert_eq!(state(1, THREE), Some(VersionState::Pending));
    assert_eq!(state(2, TWO), Some(VersionState::Diverged));
    assert_eq!(state(3, "9"), Some(VersionState::Unknown));
    assert_eq!(state(0, "9"), None);
    let diverged: Vec<bool> = status.shards.iter().map(|shard| shard.has_diverged()).collect();
    assert_eq!(diverged, [false, false, true, true, false]);
    assert_eq!(status.versions.last().map(|last| &*last.version), Some("9"));

    let plan = migrator.plan(Action::Run, &Options::new()).unwrap();
    assert_eq!(plan.shards[1].steps.len(), 1);
    assert_eq!(plan.shards[2].failures[0].kind, FailureKind::OutOfOrder);
    assert_eq!(plan.shards[3].failures[0].kind, FailureKind::Unknown);
    assert!(plan.shards[4].failures.is_empty(), "only the schema tells");

    let report = ground.run(&Options::new());
    assert_eq!(kinds(&report, "c"), [FailureKind::OutOfOrder]);
    assert_eq!(kinds(&report, "d"), [FailureKind::Unknown]);
    assert_eq!(ground.versions("b"), [ONE, TWO], "nothing has run");

    // Only the schema shows what was made by hand.
    let options = Options::new().allow_out_of_order(true).allow_unknown(true);
    let report = ground.run(&options);
    assert!(report.is_success(), "{report:#?}");
    assert_eq!(ran(&report, "c"), [TWO]);
    let schema = migrator.schema(&Options::new()).unwrap();
    assert!(!schema.agrees());
    for shard in &schema.shards {
        let is_e = shard.shard == "e";
        assert_eq!(!shard.extra.is_empty(), is_e, "{shard:#?}");
        if is_e {
            assert!(shard.extra.iter().any(|line| line.contains("handmade")), "{shard:#?}");
        }
    }
}

#[test]
fn an_edited_migration_is_told_and_can_be_accepted() {
    let ground = Ground::with_three(&["a", "b"]);
    ground.run_well();
    // Line ends and a blank at the end are nobody's edit.
    let file = "migrations/20240102000000_two/up.sql";
    ground.stage.write(file, "CREATE TABLE two (id INT NOT NULL PRIMARY KEY);\r\n\n");
    ground.run_well();
    ground.stage.write(file, "CREATE TABLE two (id INT NOT NULL PRIMARY KEY, n INT);\n");
    let report = ground.run(&Options::new());
    let told = failure(&report, "a");
    assert_eq!((told.kind, told.version.as_deref()), (FailureKind::Edited, Some(TWO)));
    let status = ground.migrator().status(&Options::new()).unwrap();
    assert_eq!(status.shards[1].state(TWO), Some(VersionState::Edited));
    assert!(ground.run(&Options::new().allow_edited(true)).is_success());
    for shard in ["a", "b"] {
        let report = ground
            .migrator()
            .repair(shard, TWO, Repair::MarkApplied, &Options::new(), &quiet)
            .unwrap();
        assert!(report.outcome.is_success());
    }
    ground.run_well();
    assert_eq!(ground.versions("a"), [ONE, TWO, THREE]);
}

#[test]
fn a_version_that_nobody_knows_can_be_struck_out() {
    let ground = Ground::with_three(&["a"]);
    ground.run_well();
    std::fs::remove_dir_all(ground.stage.path().join("migrations/2024-01-03-000000_three")).unwrap();
    let report = ground.migrator().revert(Steps::Last(1), &Options::new(), &quiet).unwrap();
    assert_eq!(kinds(&report, "a"), [FailureKind::Unknown]);
    let status = ground.migrator().status(&Options::new()).unwrap();
    // The database remembers how it was called.
    let name = status.versions[2].name.as_deref();
    assert_eq!(name, Some("2024-01-03-000000_three"));
    ground
        .migrator()
        .repair("a", THREE, Repair::MarkReverted, &Options::new(), &quiet)
        .unwrap();
    assert!(ground.migrator().status(&Options::new()).unwrap().is_up_to_date());
}

#[test]
fn a_migration_without_a_way_back_is_told_before_anything_is_reverted() {
    let ground = Ground::with_three(&["a"]);
    ground.run_well();
    std::fs::remove_file(ground.stage.path().join("migrations/20240102000000_two/down.sql")).unwrap();
    let report = ground.migrator().revert(Steps::Last(2), &Options::new(), &quiet).unwrap();
    assert_eq!(kinds(&report, "a"), [FailureKind::NotRevertible]);
    assert_eq!(ground.versions("a"), [ONE, TWO, THREE]);
}

/// All that is wrong with the sources is told at once, and before anything is reached.
#[test]
fn sources_that_are_wrong_are_told_all_at_once() {
    let ground = Ground::with_three(&["a", "b"]);
    // The same version in another spelling.
    ground.table("20240101000000_again", "again");
    ground.stage.write("migrations/2024-01-05-000000_nothing/README.md", "");
    ground.stage.write("migrations/2024-01-06-000000_empty/up.sql", "");
    ground.table("2024-01-07-000000_typo", "typo");
    ground.stage.write("migrations/2024-01-07-000000_typo/metadata.toml", "run_in_transaction = flase");
    ground.table(&format!("{}_long", "9".repeat(51)), "long");
    ground.stage.write("migrations/.hidden/anything", "");
    ground.stage.write("migrations/README.md", "files are passed over");
    let error = ground.try_migrator().unwrap_err().to_string();
    for expected in [
        "20240101000000_again",
        "is there twice",
        "no up.sql",
        "empty up.sql",
        "metadata.toml that cannot be read",
        "longer than 50 bytes",
        "keyspaces.all.migrations",
    ] {
        assert!(error.contains(expected), "{expected:?} is not in {error}");
    }
    assert!(!error.contains("hidden"));
}

#[test]
fn a_shard_in_two_keyspaces_gets_the_union() {
    let ground = Ground::with_three(&["a", "b"]);
    let file = ground.stage.path().join("diesel-sharded.toml");
    let config = std::fs::read_to_string(&file).unwrap();
    let other = "[keyspaces.other]\nshards = [\"b\"]\nkey = \"integer\"\nmigrations = [\"more\", \"migrations\"]\n";
    std::fs::write(&file, format!("{config}{other}")).unwrap();
    ground.stage.write("more/2024-01-02-120000_more/up.sql", "CREATE TABLE more (id INT);");
    let report = ground.run(&Options::new());
    assert_eq!(ran(&report, "a"), [ONE, TWO, THREE]);
    assert_eq!(ran(&report, "b"), [ONE, TWO, "20240102120000", THREE]);
    // Two keyspaces with one version of different migrations.
    ground.stage.write("more/20240103000000_clash/up.sql", "CREATE TABLE clash (id INT);");
    let error = ground.try_migrator().unwrap_err().to_string();
    assert!(error.contains("is there twice"), "{error}");
    assert!(error.contains("keyspaces.all.migrations") || error.contains("keyspaces.other.migrations"));
}
