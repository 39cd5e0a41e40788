//! Migrations that stop half-way: what stays, what is told, how it ends.

use diesel_sharded::migrate::{FailureKind, Options, Outcome, Repair, Steps, VersionState};

use super::backend;
use super::stage::{Ground, ONE, THREE, TWO, ended, failure, kinds, of, quiet, ran};

const HALF: &str = "CREATE TABLE half (id INT);\nCREATE TABLE ok1 (id INT);\nCREATE TABLE end1 (id INT);\n";
const BACK: &str = "DROP TABLE half;\nDROP TABLE ok1;\nDROP TABLE end1;\n";

/// Three migrations, the second of which stops at its second of three statements on shard b.
fn half_way() -> Ground {
    let ground = Ground::new(&["a", "b", "c"]);
    ground.table("2024-01-01-000000_one", "one");
    ground.untransacted("2024-01-02-000000_half", HALF, BACK);
    ground.table("2024-01-03-000000_three", "three");
    ground.direct("b", "CREATE TABLE ok1 (id INT)");
    let report = ground.run(&Options::new());
    ended(
        &report,
        &[("a", Outcome::Done), ("b", Outcome::Failed), ("c", Outcome::NotTried)],
    );
    let told = failure(&report, "b");
    assert_eq!(told.statement.as_ref().unwrap().number, 2);
    assert!(told.message.contains("1 of its 3 statements have run"), "{told:#?}");
    assert!(told.message.contains(&format!("repair b {TWO} --resume-from 2")), "{told:#?}");
    assert!(told.database.as_ref().unwrap().contains("exists"), "{told:#?}");
    ground
}

#[test]
fn a_migration_that_stopped_half_way_is_dirty_until_it_is_repaired() {
    let ground = half_way();
    assert!(ground.has("b", "half"), "what ran stays");
    assert_eq!(ground.versions("b"), [ONE], "and is not recorded as applied");

    let status = ground.migrator().status(&Options::new()).unwrap();
    let b = &status.shards[1];
    assert_eq!(b.state(TWO), Some(VersionState::Dirty));
    assert!(b.has_diverged() && !status.is_up_to_date());
    let dirty = &b.dirty[0];
    assert_eq!((dirty.done, dirty.of), (1, 3));
    assert!(dirty.error.as_ref().unwrap().contains("exists"));

    // Nothing runs there, nor anywhere else, until somebody has decided.
    for action in [
        ground.run(&Options::new()),
        ground.migrator().revert(Steps::Last(1), &Options::new().shards(["b"]), &quiet).unwrap(),
    ] {
        assert_eq!(kinds(&action, "b"), [FailureKind::Dirty], "{action:#?}");
    }
    assert!(ground.versions("c").is_empty());

    ground.direct("b", "DROP TABLE ok1");
    let repaired = ground
        .migrator()
        .repair("b", "2024-01-02-000000", Repair::ResumeFrom(2), &Options::new(), &quiet)
        .unwrap();
    assert_eq!(repaired.outcome, Outcome::Done, "{repaired:#?}");
    assert!(ground.has("b", "ok1") && ground.has("b", "end1"));
    assert_eq!(ground.versions("b"), [ONE, TWO]);
    let report = ground.run(&Options::new());
    assert_eq!(ran(&report, "b"), [THREE]);
    assert!(ground.migrator().status(&Options::new()).unwrap().is_up_to_date());
}

#[test]
fn a_half_way_state_can_be_marked_either_way() {
    let ground = half_way();
    ground.direct("b", "CREATE TABLE end1 (id INT)");
    let marked = ground
        .migrator()
        .repair("b", TWO, Repair::MarkApplied, &Options::new(), &quiet)
        .unwrap();
    assert!(marked.outcome.is_success(), "{marked:#?}");
    assert_eq!(ground.versions("b"), [ONE, TWO]);
    ground.run_well();

    let ground = half_way();
    ground.direct("b", "DROP TABLE half; DROP TABLE ok1");
    let marked = ground
        .migrator()
        .repair("b", TWO, Repair::MarkReverted, &Options::new(), &quiet)
        .unwrap();
    assert!(marked.outcome.is_success(), "{marked:#?}");
    assert_eq!(ran(&ground.run(&Options::new()), "b"), [TWO, THREE]);
}

#[test]
fn a_repair_that_makes_no_sense_is_refused() {
    let ground = half_way();
    let repair = |shard: &str, version: &str, how| {
        ground.migrator().repair(shard, version, how, &Options::new(), &quiet)
    };
    for from in [0, 5] {
        let report = repair("b", TWO, Repair::ResumeFrom(from)).unwrap();
        assert_eq!(report.failures[0].kind, FailureKind::Dirty);
        assert!(report.failures[0].message.contains("resume from 1 to 4"), "{report:#?}");
    }
    // Not dirty there.
    let report = repair("a", TWO, Repair::ResumeFrom(2)).unwrap();
    assert_eq!(report.outcome, Outcome::Failed);
    let report = repair("b", "2999", Repair::MarkApplied).unwrap();
    assert_eq!(report.failures[0].kind, FailureKind::Unknown);
    assert!(repair("x", TWO, Repair::MarkApplied).is_err());
    // Nothing of this has changed anything.
    assert_eq!(ground.versions("b"), [ONE]);
    let status = ground.migrator().status(&Options::new()).unwrap();
    assert_eq!(status.shards[1].dirty.len(), 1);
}

/// Statement by statement also means: where the first one fails, nothing has run, and there is
/// nothing to repair.
#[test]
fn a_first_statement_that_fails_leaves_nothing_behind() {
    let ground = Ground::new(&["a"]);
    ground.untransacted("2024-01-01-000000_half", HALF, BACK);
    ground.direct("a", "CREATE TABLE half (id INT)");
    let report = ground.run(&Options::new());
    assert!(failure(&report, "a").message.contains("nothing of the migration has run"));
    ground.direct("a", "DROP TABLE half");
    ground.run_well();
}

#[test]
fn a_revert_that_stops_half_way_is_dirty_too() {
    let ground = Ground::new(&["a"]);
    ground.untransacted("2024-01-01-000000_half", HALF, BACK);
    ground.run_well();
    ground.direct("a", "DROP TABLE ok1");
    let report = ground.migrator().revert(Steps::Last(1), &Options::new(), &quiet).unwrap();
    let told = failure(&report, "a");
    assert!(told.message.contains("while it was reverted: 1 of its 3"), "{told:#?}");
    assert_eq!(ground.versions("a"), [ONE]);
    let report = ground
        .migrator()
        .repair("a", ONE, Repair::ResumeFrom(3), &Options::new(), &quiet)
        .unwrap();
    assert_eq!(report.outcome, Outcome::Done, "{report:#?}");
    assert!(ground.versions("a").is_empty() && !ground.has("a", "end1"));
}

/// In a transaction nothing stays; MySQL has none around a change of the schema, and says so.
#[test]
fn a_migration_in_a_transaction_leaves_nothing_where_that_is_possible() {
    let ground = Ground::new(&["a"]);
    ground.stage.migration(
        "2024-01-01-000000_mixed",
        "CREATE TABLE a1 (id INT);\nINSERT INTO a1 VALUES (1);\nCREATE TABLE a2 (id INT);\nINSERT INTO nowhere VALUES (1);\n",
        "DROP TABLE a1;\nDROP TABLE a2;\n",
    );
    let report = ground.run(&Options::new());
    let told = failure(&report, "a");
    assert_eq!(told.statement.unwrap().number, 4);
    assert!(ground.versions("a").is_empty());
    if backend::NAME == "mysql" {
        assert!(ground.has("a", "a1") && ground.has("a", "a2"));
        assert_eq!(ground.number("a", "SELECT count(*) FROM a1"), 1);
        assert!(told.message.contains("3 of its 4 statements have run"), "{}", told.message);
        assert_eq!(kinds(&ground.run(&Options::new()), "a"), [FailureKind::Dirty]);
    } else {
        assert!(!ground.has("a", "a1") && !ground.has("a", "a2"));
        assert!(told.message.contains("nothing of the migration has stayed"), "{}", told.message);
    }
}

#[test]
fn a_migration_of_rows_alone_is_a_transaction_everywhere() {
    let ground = Ground::new(&["a"]);
    ground.stage.migration(
        "2024-01-01-000000_rows",
        "INSERT INTO items (id) VALUES (1);\nINSERT INTO items (id) VALUES (2), (1);\n",
        "DELETE FROM items;\n",
    );
    let report = ground.run(&Options::new());
    assert!(failure(&report, "a").message.contains("nothing of the migration has stayed"));
    assert!(ground.fleet.rows("a").is_empty());
    ground.stage.migration(
        "2024-01-01-000000_rows",
        "INSERT INTO items (id) VALUES (1);\nINSERT INTO items (id) VALUES (2);\n",
        "DELETE FROM items;\n",
    );
    ground.run_well();
    assert_eq!(ground.fleet.rows("a"), [1, 2]);
}

/// What is left out is told as left out, and what has run does not run again unasked.
#[test]
fn going_on_elsewhere_is_told_or_asked_for() {
    let ground = half_way();
    let repair = |from, options: &Options| {
        let how = Repair::ResumeFrom(from);
        ground.migrator().repair("b", TWO, how, options, &quiet).unwrap()
    };
    let dirty = || ground.migrator().status(&Options::new()).unwrap().shards[1].dirty[0].clone();

    let again = repair(1, &Options::new());
    let message = &again.failures[0].message;
    assert!(message.contains("statement 1 has run already, and would run again"), "{message}");
    assert!(message.contains("resume from 2, or say --force"), "{message}");
    assert_eq!(dirty().done, 1, "nothing was sent");

    // Behind the statement that failed, into one that fails as well.
    ground.direct("b", "CREATE TABLE end1 (id INT)");
    let skipped = repair(3, &Options::new());
    assert!(skipped.warnings[0].contains("statement 2 is skipped"), "{skipped:#?}");
    let message = &skipped.failures[0].message;
    assert!(
        message.contains("1 of its 3 statements have run, statement 2 was skipped, statement 3 failed"),
        "{message}"
    );
    let found = dirty();
    assert_eq!((found.done, found.skipped, found.resume_from), (1, vec![2], Some(3)));

    // What was skipped can be sent after all; that is no second time.
    let back = repair(2, &Options::new());
    assert!(back.failures[0].message.contains("statement 2 failed"), "{back:#?}");
    assert_eq!((dirty().done, dirty().skipped), (1, Vec::<usize>::new()));

    // Sent again with its own text, a first statement that fails is no reason to forget what has run.
    let forced = repair(1, &Options::new().force(true));
    assert!(forced.warnings[0].contains("statement 1 has run already and runs again"), "{forced:#?}");
    let message = &forced.failures[0].message;
    assert!(message.contains("statement 1 had run in an earlier attempt, statement 1 failed"), "{message}");
    assert_eq!(dirty().ran_before, [1]);

    for table in ["half", "ok1", "end1"] {
        ground.direct("b", &format!("DROP TABLE {table}"));
    }
    let forced = repair(1, &Options::new().force(true));
    assert_eq!(forced.outcome, Outcome::Done, "{forced:#?}");
    ground.run_well();

    let ground = half_way();
    let how = Repair::ResumeFrom(3);
    let done = ground.migrator().repair("b", TWO, how, &Options::new(), &quiet).unwrap();
    assert_eq!(done.outcome, Outcome::Done, "{done:#?}");
    assert_eq!(done.ran[0].skipped, [2]);
    let report = ground.run(&Options::new());
    assert!(of(&report, "b").ran[0].skipped.is_empty());
}

/// What cannot go on is not told to go on.
#[test]
fn going_on_is_only_offered_where_it_is_taken() {
    let ground = half_way();
    let look = || ground.migrator().status(&Options::new()).unwrap().shards[1].dirty[0].clone();
    assert_eq!(look().resume_from, Some(2));
    let changed = HALF.replace("half (id INT)", "half (id INT, more INT)");
    ground.untransacted("2024-01-02-000000_half", &changed, BACK);
    let found = look();
    assert_eq!(found.resume_from, None);
    let why = found.not_resumable.unwrap();
    assert!(why.contains("its statement 1 is not the one that ran here"), "{why}");
    let told = failure(&ground.run(&Options::new().shards(["b"])), "b");
    assert!(!told.message.contains("--resume-from"), "{told:#?}");
    assert!(told.message.contains("--mark applied"), "{told:#?}");

    let folder = ground.stage.path().join("migrations/2024-01-02-000000_half");
    std::fs::remove_dir_all(folder).unwrap();
    let found = look();
    assert_eq!(found.resume_from, None);
    assert!(found.not_resumable.unwrap().contains("restore its folder"));
    let report = ground
        .migrator()
        .repair("b", TWO, Repair::ResumeFrom(2), &Options::new(), &quiet)
        .unwrap();
    assert!(failure_of(&report).contains("no source has it"), "{report:#?}");
}

fn failure_of(report: &diesel_sharded::migrate::ShardReport) -> &str {
    &report.failures[0].message
}
