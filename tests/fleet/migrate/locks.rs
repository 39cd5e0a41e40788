//! Several runners at once.

use std::sync::mpsc;
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use diesel_sharded::migrate::{Event, FailureKind, Migrator, Options, Outcome};

use super::backend;
use super::stage::{Ground, ended, failure, quiet};

/// Twenty migrations, every other one outside of a transaction.
fn with_twenty(shards: &[&str]) -> Ground {
    let ground = Ground::new(shards);
    for i in 1..=20 {
        let (name, table) = (format!("2024-01-{i:02}-000000_t{i}"), format!("t{i}"));
        ground.table(&name, &table);
        if i % 2 == 0 {
            let file = format!("migrations/{name}/metadata.toml");
            ground.stage.write(&file, "run_in_transaction = false\n");
        }
    }
    ground
}

#[test]
fn four_runners_at_once_do_everything_once() {
    let shards = ["a", "b", "c"];
    let ground = with_twenty(&shards);
    let barrier = Barrier::new(4);
    let reports = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let migrator = ground.migrator();
                barrier.wait();
                let report = migrator.run(&Options::new().parallel(2), &quiet).unwrap();
                reports.lock().unwrap().push(report);
            });
        }
    });
    let mut ran = 0;
    for report in reports.into_inner().unwrap() {
        assert!(report.is_success(), "{report:#?}");
        ran += report.shards.iter().map(|shard| shard.ran.len()).sum::<usize>();
    }
    assert_eq!(ran, 60);
    for shard in shards {
        assert_eq!(ground.versions(shard).len(), 20);
    }
    assert!(ground.migrator().status(&Options::new()).unwrap().is_up_to_date());
}

/// Starts a run whose first shard stands still after its first migration, until it is told to go on.
fn standing_still<'scope, 'env: 'scope>(
    scope: &'scope std::thread::Scope<'scope, 'env>,
    migrator: Migrator,
) -> (mpsc::Sender<()>, std::thread::ScopedJoinHandle<'scope, bool>) {
    let (go_on, told) = mpsc::channel::<()>();
    let (stands, still) = mpsc::channel::<()>();
    let told = Mutex::new(told);
    let run = scope.spawn(move || {
        let observer = |event: &Event| {
            if matches!(event, Event::MigrationFinished { .. }) {
                let _ = stands.send(());
                // An error: it was told, and goes on for good.
                let _ = told.lock().unwrap().recv();
            }
        };
        let stands = Mutex::new(observer);
        let observer = |event: &Event| (stands.lock().unwrap())(event);
        migrator.run(&Options::new(), &observer).unwrap().is_success()
    });
    still.recv().unwrap();
    (go_on, run)
}

#[test]
fn who_waits_is_told_for_whom_and_finds_nothing_to_do() {
    let ground = Ground::with_three(&["a"]);
    std::thread::scope(|scope| {
        let (go_on, run) = standing_still(scope, ground.migrator());

        // Impatient: it is named who is at it.
        let report = ground.run(&Options::new().wait(Duration::ZERO));
        let told = failure(&report, "a");
        assert_eq!(told.kind, FailureKind::Locked);
        let own = format!("process {}", std::process::id());
        assert!(told.message.contains(&own), "{told:#?}");
        assert!(told.message.contains("since 2"), "{told:#?}");
        let locks = ground.migrator().unlock(&Options::new()).unwrap();
        let holder = locks[0].holder.as_ref().unwrap();
        assert!(holder.who.contains(&own) && holder.since.is_some());
        let status = ground.migrator().status(&Options::new()).unwrap();
        assert_eq!(status.shards[0].locked_by.as_ref(), Some(holder));
        assert!(!status.shards[0].has_diverged());
        assert!(!locks[0].ended);

        // Patient: it waits, is told so, and then there is nothing left to do.
        let go_on = Mutex::new(Some(go_on));
        let waited = Mutex::new(false);
        let observer = |event: &Event| {
            if let Event::Waiting { holder, .. } = event {
                assert!(holder.as_ref().unwrap().who.contains(&own));
                *waited.lock().unwrap() = true;
                drop(go_on.lock().unwrap().take());
            }
        };
        let report = ground.migrator().run(&Options::new(), &observer).unwrap();
        assert!(*waited.lock().unwrap());
        ended(&report, &[("a", Outcome::UpToDate)]);
        assert!(run.join().unwrap());
    });
    let locks = ground.migrator().unlock(&Options::new()).unwrap();
    assert!(locks[0].holder.is_none(), "{locks:#?}");
}

/// Locks are each database's own, also where two are on one server (the first and the third of a fleet
/// are).
#[test]
fn databases_of_one_server_do_not_wait_for_each_other() {
    let ground = Ground::with_three(&["a", "b", "c"]);
    std::thread::scope(|scope| {
        let (go_on, run) = standing_still(scope, ground.migrator());
        let options = Options::new().shards(["b", "c"]).parallel(2).wait(Duration::ZERO);
        let report = ground.run(&options);
        ended(&report, &[("b", Outcome::Done), ("c", Outcome::Done)]);
        drop(go_on);
        assert!(run.join().unwrap());
    });
}

/// A session that is ended has lost its lock, and the runner its connection; a migration in a
/// transaction is gone with it, and running again does it.
#[test]
fn a_runner_that_loses_its_session_can_run_again() {
    if backend::NAME == "sqlite" {
        // Its lock is a process's, and is tested with processes.
        let ground = Ground::with_three(&["a"]);
        std::thread::scope(|scope| {
            let (go_on, run) = standing_still(scope, ground.migrator());
            let forced = ground.migrator().unlock(&Options::new().force(true)).unwrap();
            let told = forced[0].failure.as_ref().unwrap();
            assert!(!forced[0].ended && told.message.contains("end that process"), "{told:#?}");
            drop(go_on);
            assert!(run.join().unwrap());
        });
        return;
    }
    let ground = Ground::with_three(&["a"]);
    std::thread::scope(|scope| {
        let (go_on, run) = standing_still(scope, ground.migrator());
        let forced = ground.migrator().unlock(&Options::new().force(true)).unwrap();
        assert!(forced[0].ended, "{forced:#?}");
        crate::support::eventually("the lock is free", || {
            let locks = ground.migrator().unlock(&Options::new()).unwrap();
            locks[0].holder.is_none()
        });
        drop(go_on);
        assert!(!run.join().unwrap(), "it has lost its connection and says so");
    });
    assert_eq!(ground.versions("a").len(), 1);
    ground.run_well();
    assert_eq!(ground.versions("a").len(), 3);
}

/// What lets go of all locks of the session, as a pooler in between would, is noticed.
#[test]
fn a_lock_that_is_lost_on_the_way_is_an_error() {
    let release = match backend::NAME {
        // A file's lock cannot be lost by SQL.
        "sqlite" => "SELECT 1",
        "postgres" => "SELECT pg_advisory_unlock_all()",
        _ => "DO RELEASE_ALL_LOCKS()",
    };
    for last in [false, true] {
        let ground = Ground::new(&["a"]);
        ground.table("2024-01-01-000000_one", "one");
        ground.stage.migration("2024-01-02-000000_release", release, "");
        if !last {
            ground.table("2024-01-03-000000_three", "three");
        }
        let report = ground.run(&Options::new());
        if backend::NAME == "sqlite" {
            assert!(report.is_success());
            continue;
        }
        assert_eq!(failure(&report, "a").kind, FailureKind::LockLost, "{report:#?}");
        assert!(!ground.has("a", "three"));
        // What ran has run, and switching the lock off is a way around.
        assert_eq!(ground.versions("a").len(), 2);
        assert!(ground.run(&Options::new().lock(false)).is_success());
    }
}
