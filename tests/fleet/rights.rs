//! SQLite files that this user may read, and not write.

use std::fs::{Permissions, set_permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;

use diesel::connection::SimpleConnection;

use super::backend::direct;
use crate::harness::{Output, Stage, shards};

/// Somebody who owns nothing.
const NOBODY: &str = "65534";

/// A fleet of two files in the folder of its configuration, migrated, that everybody may read.
fn stage() -> Stage {
    let text = format!(
        "{}[keyspaces.orders]\nshards = [\"a\", \"b\"]\nmigrations = \"migrations\"\n",
        shards(["a", "b"].map(|shard| (shard, format!("{shard}.db"))))
    );
    let stage = Stage::new(&text);
    stage.migration(
        "2024-01-01-000000_t1",
        "CREATE TABLE t1 (id BIGINT PRIMARY KEY)",
        "DROP TABLE t1",
    );
    stage.run(&["migration", "run"]).exits(0);
    stage
}

fn set_mode(path: &Path, mode: u32) {
    set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// Gives every file and folder of a stage these rights; folders can be looked into.
fn everything(stage: &Stage, mode: u32) {
    let mut folders: Vec<PathBuf> = vec![stage.path().to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                set_mode(&path, mode);
            }
        }
        set_mode(&folder, 0o755);
    }
}

/// Runs the binary as a user whom the rights of files stop: root becomes somebody else, whoever is not
/// root stays who they are.
fn without_privileges(stage: &Stage, args: &[&str]) -> Output {
    if stage.path().metadata().unwrap().uid() != 0 {
        return stage.run(args);
    }
    // Where the binary was built, others may have no way in.
    let bin = tempfile::tempdir().unwrap();
    set_mode(bin.path(), 0o755);
    let program = bin.path().join("diesel-sharded");
    let built = env!("CARGO_BIN_EXE_diesel-sharded");
    if std::fs::hard_link(built, &program).is_err() {
        std::fs::copy(built, &program).unwrap();
    }
    let mut command = Command::new("setpriv");
    command.arg(format!("--reuid={NOBODY}"));
    command
        .arg(format!("--regid={NOBODY}"))
        .arg("--clear-groups");
    command.arg(&program).args(args);
    command
        .current_dir(stage.path())
        .env_remove("DIESEL_SHARDED_CONFIG")
        .env_remove("DIESEL_SHARDED_PROFILE");
    let output = command.output();
    Output::from(output.expect("root needs setpriv (util-linux) to run this as somebody else"))
}

#[test]
fn reading_needs_no_right_to_write() {
    let stage = stage();
    everything(&stage, 0o444);
    for args in [
        &["migration", "status", "--check"][..],
        &["migration", "list"],
        &["migration", "pending"],
        &["migration", "plan"],
        &["migration", "unlock"],
        &["schema", "diff"],
        &["tables", "list"],
    ] {
        let output = without_privileges(&stage, args).exits(0);
        assert_eq!(output.stderr, "", "{args:?}");
    }
}

/// The runner's lock is seen by somebody who may only read its file, and who does not get in its way.
#[test]
fn the_holder_is_told_to_those_who_may_only_read() {
    let stage = stage();
    everything(&stage, 0o444);
    let lock = stage.path().join("a.db.migration-lock");
    set_mode(&lock, 0o644);
    let held = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&lock)
        .unwrap();
    rustix::fs::flock(&held, rustix::fs::FlockOperation::NonBlockingLockExclusive).unwrap();
    std::fs::write(&lock, "1767225600\nprocess 7 on elsewhere\n").unwrap();
    set_mode(&lock, 0o444);
    let said = "locked by process 7 on elsewhere since 2026-01-01T00:00:00Z";
    let unlock = without_privileges(&stage, &["migration", "unlock"]).exits(0);
    assert!(unlock.stdout.contains(said), "{unlock:#?}");
    let status = without_privileges(&stage, &["migration", "status"]).exits(0);
    assert!(
        status.stdout.contains("process 7 on elsewhere"),
        "{status:#?}"
    );
}

#[test]
fn a_lock_file_that_cannot_even_be_read_stops_nobody_from_reading() {
    let stage = stage();
    everything(&stage, 0o444);
    set_mode(&stage.path().join("a.db.migration-lock"), 0o000);
    let status = without_privileges(&stage, &["migration", "status", "--check"]).exits(0);
    assert!(status.stdout.contains("2 up to date"), "{status:#?}");
    // Whoever asks for the lock itself is told that it is not known.
    let unlock = without_privileges(&stage, &["migration", "unlock"]).exits(1);
    assert!(
        unlock
            .stdout
            .contains("who has the lock cannot be found out"),
        "{unlock:#?}"
    );
    assert!(unlock.stdout.contains("Permission denied"), "{unlock:#?}");
    assert!(!unlock.stdout.contains("database: "), "{unlock:#?}");
}

#[test]
fn a_runner_that_may_not_use_the_lock_file_says_what_to_do() {
    let stage = stage();
    stage.migration(
        "2024-01-02-000000_t2",
        "CREATE TABLE t2 (id BIGINT PRIMARY KEY)",
        "DROP TABLE t2",
    );
    everything(&stage, 0o444);
    let run = without_privileges(&stage, &["migration", "run"]).exits(1);
    assert!(
        run.stdout
            .contains("a.db.migration-lock cannot be used: Permission denied"),
        "{run:#?}"
    );
    assert!(!run.stdout.contains("database: "), "{run:#?}");
}

#[test]
fn ping_tells_a_file_that_takes_no_writes() {
    let stage = stage();
    everything(&stage, 0o644);
    set_mode(&stage.path().join("b.db"), 0o444);
    if stage.path().metadata().unwrap().uid() == 0 {
        // Nobody may write a file of root's; `a` is theirs.
        let owner: u32 = NOBODY.parse().unwrap();
        std::os::unix::fs::chown(stage.path().join("a.db"), Some(owner), None).unwrap();
    }
    let ping = without_privileges(&stage, &["ping", "--format", "json"]).exits(1);
    assert_eq!(ping.events_named("node_answered")[0]["shard"], "a");
    let failed = &ping.events_named("node_failed")[0];
    assert_eq!(failed["shard"], "b");
    let message = failed["message"].as_str().unwrap();
    assert!(
        message.contains("takes no writes: this user may not write its file"),
        "{message}"
    );
}

#[test]
fn ping_tells_a_url_that_takes_no_writes() {
    let stage = stage();
    for option in ["mode=ro", "immutable=1"] {
        let text = std::fs::read_to_string(stage.path().join("diesel-sharded.toml")).unwrap();
        let url = format!("file:{}?{option}", stage.path().join("b.db").display());
        stage.write(
            "read-only.toml",
            &text.replace("\"b.db\"", &format!("{url:?}")),
        );
        let ping = stage.run(&["ping", "-c", "read-only.toml"]).exits(1);
        assert!(
            ping.stdout.contains("shard b (primary) takes no writes"),
            "{ping:#?}"
        );
        let closed = std::fs::read_to_string(stage.path().join("read-only.toml")).unwrap();
        let closed = closed.replace("[shards.b]", "[shards.b]\nstate = \"read-only\"");
        stage.write("closed.toml", &closed);
        let ping = stage.run(&["ping", "-c", "closed.toml"]).exits(0);
        assert_eq!(ping.stdout.matches("read-only").count(), 1, "{ping:#?}");
        assert_eq!(ping.stdout.matches("read-write").count(), 1, "{ping:#?}");
    }
}

/// Somebody in the middle of a write is no reason to call the database read-only, nor to wait.
#[test]
fn ping_neither_waits_for_a_busy_database_nor_misjudges_it() {
    let stage = stage();
    let path = stage.path().join("a.db").display().to_string();
    let mut writer = direct(&path);
    writer
        .batch_execute("BEGIN IMMEDIATE; INSERT INTO t1 VALUES (1)")
        .unwrap();
    let begun = std::time::Instant::now();
    let ping = stage.run(&["ping"]).exits(0);
    assert_eq!(ping.stdout.matches("read-write").count(), 2, "{ping:#?}");
    assert!(
        begun.elapsed().as_secs() < 4,
        "the patience of a connection is 5 s"
    );
    writer.batch_execute("COMMIT").unwrap();
}

/// What nobody can see is said to be in doubt, not lost.
#[test]
fn a_runner_that_cannot_be_seen_is_in_doubt() {
    let stage = stage();
    let path = stage.path().join("a.db").display().to_string();
    direct(&path)
        .batch_execute(
            "INSERT INTO diesel_sharded_progress VALUES ('20240102000000', '2024-01-02-000000_t2', 'up', 1, 2, NULL, 1); \
             PRAGMA journal_mode = DELETE",
        )
        .unwrap();
    stage.migration("2024-01-02-000000_t2", "BEGIN; COMMIT", "SELECT 1");
    everything(&stage, 0o444);
    let status = without_privileges(&stage, &["migration", "status"]).exits(0);
    assert!(status.stdout.contains("may have run or not"), "{status:#?}");
    set_mode(&stage.path().join("a.db.migration-lock"), 0o000);
    let status = without_privileges(&stage, &["migration", "status"]).exits(0);
    for expected in [
        "in_doubt",
        "1 in doubt",
        "a.db.migration-lock: Permission denied",
    ] {
        assert!(status.stdout.contains(expected), "{expected}: {status:#?}");
    }
    assert!(!status.stdout.contains("was lost"), "{status:#?}");
    let json = without_privileges(&stage, &["migration", "status", "--format", "json"]).exits(0);
    let row = &json.events_named("shard_status")[0];
    assert_eq!(row["versions"][1]["state"], "in_doubt", "{row}");
    assert!(
        row["dirty"].is_null() && row["in_doubt"][0]["doubt"].is_string(),
        "{row}"
    );
    let plan = without_privileges(&stage, &["migration", "plan", "--format", "json"]).exits(1);
    assert_eq!(
        plan.events_named("shard_plan")[0]["failures"][0]["kind"],
        "in_doubt",
        "{plan:#?}"
    );
}

/// In WAL mode SQLite writes beside the database even to read it.
#[test]
fn a_database_in_wal_mode_says_what_reading_it_takes() {
    let stage = stage();
    let path = stage.path().join("a.db").display().to_string();
    let wal = "PRAGMA journal_mode = WAL; CREATE TABLE more (id INT)";
    direct(&path).batch_execute(wal).unwrap();
    everything(&stage, 0o444);
    let folder = format!(
        "give this user the right to write in the folder {}",
        stage.path().display()
    );
    for args in [
        &["migration", "status"][..],
        &["migration", "plan"],
        &["schema", "diff"],
        &["ping"],
    ] {
        let output = without_privileges(&stage, args).exits(1);
        for expected in ["it is in WAL mode", "a.db-shm", &folder] {
            assert!(output.stdout.contains(expected), "{expected}: {output:#?}");
        }
    }
    let json = without_privileges(&stage, &["migration", "status", "--format", "json"]).exits(1);
    assert_eq!(
        json.events_named("shard_status")[0]["failures"][0]["kind"],
        "unreachable"
    );
    // While somebody who may has it open, those who may only read can look.
    let mut open = direct(&path);
    open.batch_execute("INSERT INTO more VALUES (1)").unwrap();
    for end in ["wal", "shm"] {
        set_mode(&stage.path().join(format!("a.db-{end}")), 0o644);
    }
    without_privileges(&stage, &["migration", "status", "--check"]).exits(0);
}

#[test]
fn tables_are_tried_again_after_a_pause() {
    let text = format!(
        "{}[keyspaces.events]\nshards = [\"a\"]\nmigrations = \"migrations\"\nkey = \"date\"\n\
         algorithm = {{ kind = \"date\", every = \"year\", from = \"2024\", until = \"2999\" }}\n\
         [keyspaces.events.tables]\nevent = {{ key_column = \"day\", by_rule = true }}\n",
        shards([("a", "a.db".to_owned())])
    );
    let stage = Stage::new(&text);
    stage.migration(
        "2024-01-01-000000_event",
        "CREATE TABLE event (id BIGINT PRIMARY KEY, day DATE)",
        "DROP TABLE event",
    );
    stage.run(&["migration", "run"]).exits(0);
    let mut writer = direct(&stage.path().join("a.db").display().to_string());
    writer.batch_execute("BEGIN IMMEDIATE").unwrap();
    let ensure = ["tables", "ensure", "--ahead", "2", "--format", "json"];
    let busy = ["--retries", "2", "--lock-timeout", "1ms"];
    let begun = std::time::Instant::now();
    let failed = stage.run(&[&ensure[..], &busy].concat()).exits(1);
    let retries = failed.events_named("retrying");
    assert_eq!(retries.len(), 2, "{failed:#?}");
    assert_eq!(retries[1]["retry"], 2);
    // 100 ms, and twice as long.
    assert!(begun.elapsed().as_millis() >= 300, "{:?}", begun.elapsed());
    writer.batch_execute("ROLLBACK").unwrap();
    stage.run(&ensure).exits(0);
}
