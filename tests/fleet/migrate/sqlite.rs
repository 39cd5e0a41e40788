//! What only SQLite has: files, and many of them.

use diesel_sharded::migrate::{FailureKind, Migrator, Options, Outcome};
use diesel_sharded::{Config, Topology};

use super::migrate::stage::{Ground, ended, failure, quiet};
use crate::harness::Stage;

/// A stage with this many shards, whose files are not there yet.
fn many(shards: usize) -> (Stage, Migrator) {
    let stage = Stage::empty();
    let mut config =
        String::from("[keyspaces.all]\nkey = \"integer\"\nmigrations = \"migrations\"\nshards = [");
    for i in 0..shards {
        config += &format!("\"s{i:03}\", ");
    }
    config += "]\n";
    for i in 0..shards {
        let file = stage.path().join(format!("s{i:03}.db"));
        config += &format!("[shards.s{i:03}]\nurl = {file:?}\n");
    }
    let file = stage.write("diesel-sharded.toml", &config);
    for i in 1..=3 {
        stage.migration(
            &format!("2024-01-0{i}-000000_t{i}"),
            &format!("CREATE TABLE t{i} (id INT);\n"),
            &format!("DROP TABLE t{i};\n"),
        );
    }
    let migrator = Migrator::from_config(&Config::from_file(file).unwrap()).unwrap();
    (stage, migrator)
}

#[test]
fn sixty_four_shards_of_which_the_twentieth_fails() {
    let (stage, migrator) = many(64);
    let bad = Stage::empty();
    let migrations = bad.write(
        "2024-01-04-000000_bad/up.sql",
        "CREATE TABLE t4 (id INT); INSERT INTO nowhere VALUES (1);",
    );
    let config = Config::from_file(stage.path().join("diesel-sharded.toml")).unwrap();
    let one_bad = Migrator::builder(&config.topology().unwrap())
        .base_folder(stage.path())
        .shard_source(
            "s019",
            diesel_sharded::migrate::Source::folder(migrations.parent().unwrap().parent().unwrap()),
        )
        .build()
        .unwrap();
    let report = one_bad.run(&Options::new(), &quiet).unwrap();
    let outcomes: Vec<Outcome> = report.shards.iter().map(|shard| shard.outcome).collect();
    assert!(
        outcomes[..19]
            .iter()
            .all(|outcome| *outcome == Outcome::Done)
    );
    assert_eq!(outcomes[19], Outcome::Failed);
    assert!(
        outcomes[20..]
            .iter()
            .all(|outcome| *outcome == Outcome::NotTried)
    );
    assert_eq!(report.shards[19].ran.len(), 3);
    for i in 20..64 {
        assert!(
            !stage.path().join(format!("s{i:03}.db")).exists(),
            "not touched"
        );
    }
    // What has begun is ended, what has not is not begun, also where several run at once.
    let report = one_bad.run(&Options::new().parallel(8), &quiet).unwrap();
    assert!(!report.is_success());
    assert!(
        report
            .shards
            .iter()
            .all(|shard| shard.seconds.as_secs() < 3600)
    );

    let report = migrator.run(&Options::new().parallel(4), &quiet).unwrap();
    assert!(report.is_success());
    assert!(migrator.status(&Options::new()).unwrap().is_up_to_date());
}

#[test]
fn a_file_that_is_no_database_is_out_of_reach() {
    let (stage, migrator) = many(2);
    stage.write("s001.db", &"not a database ".repeat(100));
    let report = migrator.run(&Options::new(), &quiet).unwrap();
    ended(
        &report,
        &[("s000", Outcome::NotTried), ("s001", Outcome::Failed)],
    );
    assert_eq!(
        failure(&report, "s001").kind,
        FailureKind::Unreachable,
        "{report:#?}"
    );
}

/// Two names of one file have one lock, and are one database.
#[cfg(unix)]
#[test]
fn links_to_one_file_are_one_database() {
    let (stage, migrator) = many(1);
    assert!(migrator.run(&Options::new(), &quiet).unwrap().is_success());
    let link = stage.path().join("link.db");
    std::os::unix::fs::symlink(stage.path().join("s000.db"), &link).unwrap();
    let topology = Topology::builder()
        .shared_database(true)
        .shard("s000", stage.path().join("s000.db").display().to_string())
        .shard("link", link.display().to_string())
        .build()
        .unwrap();
    let migrator = Migrator::builder(&topology)
        .source(diesel_sharded::migrate::Source::folder(
            stage.path().join("migrations"),
        ))
        .build()
        .unwrap();
    assert_eq!(migrator.databases().len(), 1);
    let report = migrator.run(&Options::new(), &quiet).unwrap();
    assert_eq!(report.shards.len(), 1);
}

/// Databases in memory are gone with their connection: they are migrated each time, and have no lock.
#[test]
fn a_database_in_memory_has_no_lock() {
    let stage = Stage::empty();
    stage.write("2024-01-01-000000_one/up.sql", "CREATE TABLE one (id INT);");
    let topology = Topology::builder().shard("a", ":memory:").build().unwrap();
    let migrator = Migrator::builder(&topology)
        .source(diesel_sharded::migrate::Source::folder(stage.path()))
        .build()
        .unwrap();
    for _ in 0..2 {
        let report = migrator.run(&Options::new(), &quiet).unwrap();
        ended(&report, &[("a", Outcome::Done)]);
    }
}

/// Triggers have bodies.
#[test]
fn triggers_are_sent_whole() {
    let ground = Ground::new(&["a"]);
    ground.untransacted(
        "2024-01-01-000000_trigger",
        "CREATE TABLE log (id INT);
         CREATE TRIGGER noted AFTER INSERT ON items BEGIN INSERT INTO log VALUES (NEW.id); INSERT INTO log SELECT CASE WHEN NEW.id > 1 THEN 0 ELSE -1 END; END;
         INSERT INTO items (id) VALUES (7);",
        "DROP TRIGGER noted; DROP TABLE log; DELETE FROM items;",
    );
    ground.run_well();
    assert_eq!(ground.number("a", "SELECT count(*) FROM log"), 2);
}

/// A statement that has run is not said to have left nothing, whatever became of its record.
#[test]
fn a_statement_whose_record_fails_has_run_all_the_same() {
    let ground = Ground::new(&["a"]);
    ground.untransacted(
        "2024-01-01-000000_trigger",
        "CREATE TRIGGER not_now BEFORE UPDATE ON diesel_sharded_progress BEGIN SELECT RAISE(ABORT, 'not now'); END;
         CREATE TABLE log (id INT);",
        "DROP TABLE log; DROP TRIGGER not_now;",
    );
    let told = failure(&ground.run(&Options::new()), "a");
    assert!(
        told.message
            .contains("statement 1 has run, and recording how far it has come failed"),
        "{told:#?}"
    );
    assert!(
        !told.message.contains("nothing of the migration has run"),
        "{told:#?}"
    );
    let status = ground.migrator().status(&Options::new()).unwrap();
    assert_eq!(status.shards[0].dirty.len(), 1, "{status:#?}");
}

/// A run holds what it is working on and a line for each shard, not the shards.
#[cfg(target_os = "linux")]
#[test]
fn memory_does_not_grow_with_the_number_of_shards() {
    /// The most memory that a run over so many shards has had, in KiB.
    fn most(shards: usize) -> u64 {
        use std::io::{BufRead, BufReader};

        let (stage, _) = many(shards);
        let args = ["migration", "run", "--parallel", "4", "--format", "json"];
        let mut runner = stage.command(&args).spawn().unwrap();
        let status = format!("/proc/{}/status", runner.id());
        let mut most = 0;
        let mut finished = 0;
        // The mark only ever rises, so the last look before the end is enough.
        for line in BufReader::new(runner.stdout.take().unwrap()).lines() {
            finished += usize::from(line.unwrap().contains("\"shard_finished\""));
            let status = std::fs::read_to_string(&status).unwrap_or_default();
            let mark = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let mark = mark.and_then(|mark| mark.trim().strip_suffix(" kB")?.parse().ok());
            most = mark.unwrap_or(0).max(most);
        }
        assert!(runner.wait().unwrap().success());
        assert_eq!(finished, shards);
        assert!(most > 0, "nothing could be read of the process");
        most
    }
    let (few, all) = (most(16), most(256));
    eprintln!("16 shards: {few} KiB, 256 shards: {all} KiB");
    // Sixteen times the shards; the room is for what an allocator rounds up, and the report.
    assert!(
        all < few + few / 2,
        "16 shards: {few} KiB, 256 shards: {all} KiB"
    );
}
