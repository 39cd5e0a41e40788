//! What only MySQL has: locks of metadata, commits that nobody asked for, routines.

use std::time::Duration;

use diesel::RunQueryDsl;
use diesel::connection::SimpleConnection;
use diesel_sharded::migrate::{Event, FailureKind, Options, Outcome, Repair};

use super::migrate::stage::{Ground, ended, failure, quiet};

/// A table that is locked by hand leaves none to record the progress in, and so on.
#[test]
fn a_session_is_not_taken_from_where_progress_is_recorded() {
    for (text, instead) in [
        (
            "LOCK TABLES k WRITE; INSERT INTO k VALUES (1); UNLOCK TABLES;",
            "leave LOCK TABLES",
        ),
        ("USE mysql;", "leave USE out"),
        ("SET autocommit = 0;", "write BEGIN and COMMIT"),
    ] {
        let ground = Ground::new(&["a"]);
        let up = format!("CREATE TABLE k (id INT);\n{text}\n");
        ground.stage.migration("2024-01-01-000000_taken", &up, "");
        let told = failure(&ground.run(&Options::new()), "a");
        assert!(
            told.message
                .contains("after its statement 2 nobody could record")
                && told.message.contains(instead),
            "{told:#?}"
        );
        assert!(!ground.has("a", "k") && ground.versions("a").is_empty());
    }
}

/// What a variable of the session holds is gone with it.
#[test]
fn what_the_session_had_set_is_told_when_the_rest_is_sent() {
    let ground = Ground::new(&["a"]);
    let up = "SET @x = 7;\nCREATE TABLE t (n INT);\nINSERT INTO nope VALUES (1);\nINSERT INTO t VALUES (@x);\n";
    ground.stage.migration("2024-01-01-000000_set", up, "");
    failure(&ground.run(&Options::new()), "a");
    ground.direct("a", "CREATE TABLE nope (n INT)");
    let repair = |from: usize, options: &Options| {
        ground
            .migrator()
            .repair(
                "a",
                "2024-01-01-000000",
                Repair::ResumeFrom(from),
                options,
                &quiet,
            )
            .unwrap()
    };
    let report = repair(3, &Options::new());
    let warned = "statement 1 has set something in the session of then";
    assert!(
        report.warnings.iter().any(|one| one.contains(warned)),
        "{report:#?}"
    );
    assert_eq!(
        ground.number("a", "SELECT count(*) AS n FROM t WHERE n IS NULL"),
        1
    );
}

/// Somebody's open transaction keeps a table from being altered.
#[test]
fn a_busy_table_is_given_up_and_tried_again() {
    let ground = Ground::new(&["a", "b"]);
    ground.stage.migration(
        "2024-01-01-000000_alter",
        "CREATE TABLE fresh (id INT);\nALTER TABLE items ADD COLUMN more INT;\n",
        "",
    );
    let busy = std::sync::Mutex::new(ground.fleet.direct("b"));
    busy.lock()
        .unwrap()
        .batch_execute("BEGIN; SELECT count(*) FROM items")
        .unwrap();
    let options = Options::new()
        .lock_timeout(Duration::from_secs(1))
        .max_failures(None);
    let report = ground.run(&options);
    ended(&report, &[("a", Outcome::Done), ("b", Outcome::Failed)]);
    let told = failure(&report, "b");
    assert_eq!(told.kind, FailureKind::LockTimeout);
    assert!(
        told.message.contains("1 of its 2 statements have run"),
        "{told:#?}"
    );

    // With a retry that comes late enough, it goes through at once.
    ground.direct("b", "DROP TABLE fresh; DELETE FROM diesel_sharded_progress");
    let observer = |event: &Event| {
        if matches!(event, Event::Retrying { .. }) {
            busy.lock().unwrap().batch_execute("ROLLBACK").unwrap();
        }
    };
    let report = ground
        .migrator()
        .run(&options.retries(2), &observer)
        .unwrap();
    assert!(report.is_success(), "{report:#?}");
}

#[test]
fn a_statement_that_takes_too_long_is_ended() {
    let ground = Ground::new(&["a"]);
    ground.stage.migration(
        "2024-01-01-000000_slow",
        "SELECT count(*) FROM items, (SELECT SLEEP(60)) AS slow;\n",
        "",
    );
    let options = Options::new().statement_timeout(Duration::from_millis(200));
    let told = failure(&ground.run(&options), "a");
    assert_eq!(told.kind, FailureKind::StatementTimeout, "{told:#?}");
    assert!(ground.versions("a").is_empty());
}

/// Bodies need no DELIMITER, and each is one statement.
#[test]
fn routines_and_triggers_are_sent_whole() {
    let ground = Ground::new(&["a"]);
    ground.stage.migration(
        "2024-01-01-000000_routines",
        "CREATE TRIGGER never_negative BEFORE INSERT ON items FOR EACH ROW BEGIN IF NEW.id < 0 THEN SET NEW.id = -NEW.id; END IF; SET NEW.note = 'a;b'; END;
         CREATE PROCEDURE three() BEGIN DECLARE i INT DEFAULT 0; WHILE i < 3 DO SET i = i + 1; INSERT INTO items (id) VALUES (-i); END WHILE; END;
         CALL three();
         CREATE FUNCTION twice(n INT) RETURNS INT DETERMINISTIC RETURN IF(n > 0, 2 * n, 0);",
        "DROP FUNCTION twice; DROP PROCEDURE three; DROP TRIGGER never_negative;",
    );
    ground.run_well();
    assert_eq!(ground.fleet.rows("a"), [1, 2, 3]);
    assert_eq!(ground.number("a", "SELECT twice(4)"), 8);
    let schema = ground.migrator().schema(&Options::new()).unwrap();
    assert!(schema.agrees());
}

/// MariaDB takes compound statements without a routine around them.
#[test]
fn code_without_a_routine_is_sent_whole() {
    let ground = Ground::new(&["a"]);
    let version: String = diesel::dsl::sql::<diesel::sql_types::Text>("SELECT VERSION()")
        .get_result(&mut ground.fleet.direct("a"))
        .unwrap();
    if !version.contains("MariaDB") {
        return;
    }
    ground.stage.migration(
        "2024-01-01-000000_code",
        "begin not atomic create table h2(i int); insert into h2 values (1); end;
         if (select count(*) from h2) = 1 then insert into items (id) values (1); insert into items (id) values (2); end if;
         for i in 3..4 do insert into items (id) values (i); end for;
         begin not atomic declare exit handler for sqlexception begin end; insert into nowhere values (1); end;
         begin; insert into items (id) values (5); commit;",
        "drop table h2;",
    );
    ground.run_well();
    assert_eq!(ground.fleet.rows("a"), [1, 2, 3, 4, 5]);
    assert_eq!(ground.number("a", "SELECT count(*) FROM h2"), 1);
}

#[test]
fn a_migration_that_changes_how_texts_are_quoted_is_told() {
    let ground = Ground::new(&["a"]);
    let up =
        r"set sql_mode = 'NO_BACKSLASH_ESCAPES'; insert into items (id, note) values (1, 'a\');";
    ground.stage.migration("2024-01-01-000000_quoted", up, "");
    let run = ground.stage.run(&["migration", "run"]).exits(2);
    for expected in [
        "NO_BACKSLASH_ESCAPES in its statement 1",
        "default rules",
        "backslash twice",
    ] {
        assert!(run.stderr.contains(expected), "{expected}: {run:#?}");
    }
}
