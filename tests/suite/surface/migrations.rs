//! Diesel's migrations on one shard, by Diesel's own harness.

use std::path::Path;

use diesel::migration::{Migration, MigrationSource};
use diesel::prelude::*;
use diesel_migrations::{
    EmbeddedMigrations, FileBasedMigrations, HarnessWithOutput, MigrationHarness, embed_migrations,
};

use super::{Db, both, ids};

const EMBEDDED: EmbeddedMigrations = embed_migrations!("tests/suite/migrations");

diesel::table! {
    gadgets (id) {
        id -> Integer,
        name -> VarChar,
    }
}

#[test]
fn embedded_migrations_run_and_are_reverted() {
    through_both!(|conn| {
        assert!(conn.has_pending_migration(EMBEDDED).unwrap());
        assert_eq!(conn.run_pending_migrations(EMBEDDED).unwrap().len(), 2);
        assert!(!conn.has_pending_migration(EMBEDDED).unwrap());
        assert_eq!(conn.applied_migrations().unwrap().len(), 2);
        assert_eq!(conn.run_pending_migrations(EMBEDDED).unwrap().len(), 0);
        let names: Vec<String> = gadgets::table.select(gadgets::name).load(conn).unwrap();
        assert_eq!(names, ["torch"]);

        let reverted = conn.revert_last_migration(EMBEDDED).unwrap();
        assert_eq!(reverted.to_string(), "20240102000000");
        assert_eq!(gadgets::table.count().get_result(conn), Ok(0_i64));
        assert_eq!(conn.pending_migrations(EMBEDDED).unwrap().len(), 1);
        conn.run_next_migration(EMBEDDED).unwrap();
        assert_eq!(conn.revert_all_migrations(EMBEDDED).unwrap().len(), 2);
        assert!(gadgets::table.count().get_result::<i64>(conn).is_err());
        assert_eq!(conn.applied_migrations().unwrap().len(), 0);
    });
}

fn write(folder: &Path, name: &str, up: &str, down: &str, in_transaction: bool) {
    let folder = folder.join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("up.sql"), up).expect("a file");
    std::fs::write(folder.join("down.sql"), down).expect("a file");
    if !in_transaction {
        std::fs::write(folder.join("metadata.toml"), "run_in_transaction = false").expect("a file");
    }
}

#[test]
fn migrations_from_files_run_with_and_without_a_transaction() {
    through_both!(|conn| {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path();
        write(
            path,
            "2024-01-01-000000_one",
            "INSERT INTO items (id) VALUES (1);",
            "DELETE FROM items WHERE id = 1;",
            true,
        );
        write(
            path,
            "2024-01-02-000000_two",
            "INSERT INTO items (id) VALUES (2);",
            "DELETE FROM items WHERE id = 2;",
            false,
        );
        let source = FileBasedMigrations::from_path(path).unwrap();
        let mut output = Vec::new();
        HarnessWithOutput::new(&mut *conn, &mut output)
            .run_pending_migrations(source.clone())
            .unwrap();
        let output = String::from_utf8(output).unwrap();
        assert!(output.contains("2024-01-02-000000_two"), "{output}");
        assert_eq!(ids(conn), Ok(vec![1, 2]));

        // One that fails in its second statement leaves nothing of the first.
        write(
            path,
            "2024-01-03-000000_three",
            "INSERT INTO items (id) VALUES (3); NONSENSE;",
            "",
            true,
        );
        let source = FileBasedMigrations::from_path(path).unwrap();
        conn.run_pending_migrations(source.clone()).unwrap_err();
        assert_eq!(ids(conn), Ok(vec![1, 2]));
        assert!(conn.has_pending_migration(source.clone()).unwrap());
        conn.revert_last_migration(source).unwrap();
        assert_eq!(ids(conn), Ok(vec![1]));
    });
}

#[test]
fn a_migration_runs_on_a_boxed_connection() {
    through_both!(|conn| {
        let migrations: Vec<Box<dyn Migration<Db>>> = EMBEDDED.migrations().unwrap();
        for migration in &migrations {
            migration.run(&mut *conn).unwrap();
        }
        assert_eq!(gadgets::table.count().get_result(conn), Ok(1_i64));
        for migration in migrations.iter().rev() {
            migration.revert(&mut *conn).unwrap();
        }
        assert!(gadgets::table.count().get_result::<i64>(conn).is_err());
    });
}
