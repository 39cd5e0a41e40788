//! Runners that nobody can see: they take no lock.

use std::sync::Mutex;

use diesel_sharded::migrate::{
    Action, Event, FailureKind, Options, Outcome, Repair, VersionState,
};

use super::stage::{Ground, ONE, failure, kinds, quiet};

const UP: &str = "CREATE TABLE x1 (id INT);\nCREATE TABLE x2 (id INT);\nCREATE TABLE x3 (id INT);\n";

fn ground() -> Ground {
    let ground = Ground::new(&["a"]);
    let down = "DROP TABLE x3;\nDROP TABLE x2;\nDROP TABLE x1;\n";
    ground.untransacted("2024-01-01-000000_x", UP, down);
    ground
}

/// Runs without the lock, and does something after the first statement.
fn meanwhile(ground: &Ground, work: impl Fn() + Sync) -> diesel_sharded::migrate::Report {
    let observer = |event: &Event| {
        if matches!(event, Event::StatementDone { number: 1, .. }) {
            work();
        }
    };
    ground.migrator().run(&Options::new().lock(false), &observer).unwrap()
}

#[test]
fn whether_a_runner_without_a_lock_is_alive_is_not_known() {
    let ground = ground();
    let seen = Mutex::new(0);
    let report = meanwhile(&ground, || {
        let status = ground.migrator().status(&Options::new()).unwrap();
        let a = &status.shards[0];
        assert_eq!(a.state(ONE), Some(VersionState::InDoubt), "{status:#?}");
        assert!(a.dirty.is_empty() && a.is_in_doubt() && !a.has_diverged());
        let doubt = a.in_doubt[0].doubt.as_ref().unwrap();
        assert!(doubt.contains(&format!("process {}", std::process::id())), "{doubt}");
        let plan = ground.migrator().plan(Action::Run, &Options::new()).unwrap();
        let told = &plan.shards[0].failures[0];
        assert_eq!(told.kind, FailureKind::InDoubt);
        assert!(told.message.contains("not known whether its runner is still at work"), "{told:#?}");
        // Whoever has the lock knows no better, and leaves it alone.
        assert_eq!(kinds(&ground.run(&Options::new()), "a"), [FailureKind::InDoubt]);
        let shown = ground.stage.run(&["migration", "status", "--check"]).exits(3);
        for expected in ["in_doubt", "1 in doubt", "make sure that it has ended"] {
            assert!(shown.stdout.contains(expected), "{expected}: {shown:#?}");
        }
        let json = ground.stage.run(&["migration", "status", "--format", "json"]).exits(0);
        let row = &json.events_named("shard_status")[0];
        assert_eq!(row["versions"][0]["state"], "in_doubt", "{row}");
        assert_eq!(json.events_named("status_finished")[0]["in_doubt"], 1);
        *seen.lock().unwrap() += 1;
    });
    assert_eq!(*seen.lock().unwrap(), 1);
    assert!(report.is_success(), "{report:#?}");
    assert!(ground.migrator().status(&Options::new()).unwrap().is_up_to_date());
}

/// One that has the lock can be seen, also by one that takes none.
#[test]
fn a_runner_without_a_lock_leaves_the_work_of_one_that_has_it_alone() {
    let ground = ground();
    let observer = |event: &Event| {
        if matches!(event, Event::StatementDone { number: 1, .. }) {
            let report = ground.run(&Options::new().lock(false));
            assert_eq!(kinds(&report, "a"), [FailureKind::InDoubt], "{report:#?}");
        }
    };
    let report = ground.migrator().run(&Options::new(), &observer).unwrap();
    assert!(report.is_success(), "{report:#?}");
}

#[test]
fn a_runner_notices_that_its_record_was_ended() {
    let ground = ground();
    let report = meanwhile(&ground, || {
        let options = Options::new();
        let marked = ground
            .migrator()
            .repair("a", ONE, Repair::MarkReverted, &options, &quiet)
            .unwrap();
        assert_eq!(marked.outcome, Outcome::Done, "{marked:#?}");
    });
    let told = failure(&report, "a");
    assert_eq!(told.kind, FailureKind::Bookkeeping);
    for expected in ["somebody else has ended its record while it ran", "2 of its 3 statements have run"] {
        assert!(told.message.contains(expected), "{expected}: {told:#?}");
    }
    // What ran is there, and so it is written down again.
    assert!(ground.has("a", "x2") && !ground.has("a", "x3"));
    assert!(ground.versions("a").is_empty());
    let status = ground.migrator().status(&Options::new()).unwrap();
    assert_eq!(status.shards[0].dirty[0].resume_from, Some(3), "{status:#?}");
    let how = Repair::ResumeFrom(3);
    let report = ground.migrator().repair("a", ONE, how, &Options::new(), &quiet).unwrap();
    assert_eq!(report.outcome, Outcome::Done, "{report:#?}");
}

/// What somebody else has recorded since is not written over.
#[test]
fn a_runner_whose_migration_was_marked_applied_says_so() {
    let ground = ground();
    let report = meanwhile(&ground, || {
        let how = Repair::MarkApplied;
        let marked = ground.migrator().repair("a", ONE, how, &Options::new(), &quiet).unwrap();
        assert_eq!(marked.outcome, Outcome::Done, "{marked:#?}");
    });
    let told = failure(&report, "a");
    assert!(told.message.contains("something else is recorded now"), "{told:#?}");
    assert_eq!(ground.versions("a"), [ONE]);
    assert!(ground.migrator().status(&Options::new()).unwrap().shards[0].dirty.is_empty());
}
