//! Transactions that a migration begins by itself: what is in them stays as a whole or not at all.

use diesel_sharded::migrate::{Options, Outcome, Repair, ShardReport};

use super::backend;
use super::stage::{Ground, ONE, failure, quiet};

const UP: &str = "INSERT INTO items (id) VALUES (1);\nBEGIN;\nINSERT INTO items (id) VALUES (2);\nINSERT INTO items (id) VALUES (1);\nCOMMIT;\nINSERT INTO items (id) VALUES (3);\n";

fn write(ground: &Ground, up: &str) {
    ground.stage.migration("2024-01-01-000000_by_hand", up, "DELETE FROM items;\n");
}

fn resume(ground: &Ground, from: usize, force: bool) -> ShardReport {
    let options = Options::new().force(force);
    ground
        .migrator()
        .repair("a", ONE, Repair::ResumeFrom(from), &options, &quiet)
        .unwrap()
}

/// Its fourth statement fails, in the transaction that its second begins.
fn stopped() -> Ground {
    let ground = Ground::new(&["a"]);
    write(&ground, UP);
    let report = ground.run(&Options::new());
    let told = failure(&report, "a");
    assert_eq!(told.statement.as_ref().unwrap().number, 4);
    for expected in [
        "1 of its 6 statements have run",
        "statement 4 failed in the transaction that statement 2 begins, and statements 2, 3 were rolled back",
        "--resume-from 2` to go on there",
    ] {
        assert!(told.message.contains(expected), "{expected}: {told:#?}");
    }
    // The first statement stays, the transaction is gone with its record.
    assert_eq!(ground.fleet.rows("a"), [1]);
    ground
}

#[test]
fn the_statement_that_failed_is_named_and_what_was_rolled_back() {
    let ground = stopped();
    let status = ground.migrator().status(&Options::new()).unwrap();
    let dirty = &status.shards[0].dirty[0];
    assert_eq!((dirty.done, dirty.of, dirty.failed), (1, 6, Some(4)));
    assert_eq!((dirty.rolled_back_from, dirty.resume_from), (Some(2), Some(2)));
    let shown = ground.stage.run(&["migration", "status"]).exits(0);
    for expected in [
        "stopped after 1 of 6 statements: statement 4 failed in the transaction that statement 2 begins",
        " --resume-from 2\n",
    ] {
        assert!(shown.stdout.contains(expected), "{expected}: {shown:#?}");
    }
}

#[test]
fn nobody_goes_on_in_its_middle_or_behind_it() {
    let ground = stopped();
    for from in 3..=6 {
        let report = resume(&ground, from, false);
        let message = &report.failures[0].message;
        assert!(message.contains("was not committed, so nothing of that has stayed"), "{message}");
        assert!(message.contains("resume from 2"), "{message}");
    }
    assert_eq!(ground.fleet.rows("a"), [1], "nothing was sent");
    write(&ground, &UP.replace("VALUES (1);\nCOMMIT", "VALUES (9);\nCOMMIT"));
    let report = resume(&ground, 2, false);
    assert_eq!(report.outcome, Outcome::Done, "{report:#?}");
    assert_eq!(ground.fleet.rows("a"), [1, 2, 3, 9]);
}

#[test]
fn what_it_committed_is_not_sent_again() {
    let ground = Ground::new(&["a"]);
    let up = UP.replace("VALUES (1);\nCOMMIT", "VALUES (9);\nCOMMIT");
    write(&ground, &up.replace("VALUES (3)", "VALUES (9)"));
    let told = failure(&ground.run(&Options::new()), "a");
    assert!(told.message.contains("5 of its 6 statements have run, statement 6 failed;"), "{told:#?}");
    assert_eq!(ground.fleet.rows("a"), [1, 2, 9]);
    assert!(resume(&ground, 2, false).failures[0].message.contains("have run already"));
    let middle = resume(&ground, 4, true);
    assert!(middle.failures[0].message.contains("resume from 2"), "{middle:#?}");
    ground.direct("a", "DELETE FROM items WHERE id > 1");
    write(&ground, &up);
    let report = resume(&ground, 2, true);
    assert_eq!(report.outcome, Outcome::Done, "{report:#?}");
    assert_eq!(ground.fleet.rows("a"), [1, 2, 3, 9]);
}

#[test]
fn one_that_is_never_committed_is_told() {
    let ground = Ground::new(&["a"]);
    write(&ground, "INSERT INTO items (id) VALUES (1);\nBEGIN;\nINSERT INTO items (id) VALUES (2);\n");
    let told = failure(&ground.run(&Options::new()), "a");
    for expected in [
        "begun a transaction by hand and not ended it",
        "1 of its 3 statements have run, the transaction that statement 2 begins was not committed",
    ] {
        assert!(told.message.contains(expected), "{expected}: {told:#?}");
    }
    assert_eq!(ground.fleet.rows("a"), [1]);
}

/// A transaction with which it begins: nothing of it stays, and nothing is to be repaired.
#[test]
fn nothing_is_left_of_a_first_transaction_that_failed() {
    let ground = Ground::new(&["a"]);
    write(&ground, "BEGIN;\nINSERT INTO items (id) VALUES (2);\nINSERT INTO items (id) VALUES (2);\nCOMMIT;\n");
    let told = failure(&ground.run(&Options::new()), "a");
    assert!(told.message.contains("nothing of the migration has run that was not rolled back"), "{told:#?}");
    assert!(ground.fleet.rows("a").is_empty());
    assert!(ground.migrator().status(&Options::new()).unwrap().shards[0].dirty.is_empty());
}

/// MySQL commits what is open before it changes the schema; elsewhere that is part of the transaction.
#[test]
fn a_change_of_the_schema_in_it_is_told_as_what_it_is() {
    let ground = Ground::new(&["a"]);
    write(
        &ground,
        "INSERT INTO items (id) VALUES (1);\nBEGIN;\nINSERT INTO items (id) VALUES (2);\nCREATE TABLE whoami (id INT);\nINSERT INTO items (id) VALUES (3);\nCOMMIT;\n",
    );
    let told = failure(&ground.run(&Options::new()), "a");
    if backend::NAME != "mysql" {
        assert!(told.message.contains("statements 2, 3 were rolled back"), "{told:#?}");
        assert_eq!(ground.fleet.rows("a"), [1]);
        return;
    }
    for expected in [
        "MySQL commits an open transaction before a change of the schema, so statements 2, 3 have stayed",
        "3 of its 6 statements have run, statement 4 failed;",
        "--resume-from 4`",
    ] {
        assert!(told.message.contains(expected), "{expected}: {told:#?}");
    }
    assert_eq!(ground.fleet.rows("a"), [1, 2]);
    let up = "INSERT INTO items (id) VALUES (1);\nBEGIN;\nINSERT INTO items (id) VALUES (2);\nCREATE TABLE other (id INT);\nINSERT INTO items (id) VALUES (3);\nCOMMIT;\n";
    write(&ground, up);
    let report = resume(&ground, 4, false);
    assert_eq!(report.outcome, Outcome::Done, "{report:#?}");
    assert_eq!(ground.fleet.rows("a"), [1, 2, 3]);
}
