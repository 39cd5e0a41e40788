//! `schema diff`, and the schema files of diesel.toml.

use std::os::unix::fs::PermissionsExt;

use super::support::{World, text};
use crate::harness::Output;

#[test]
fn a_column_made_by_hand_is_found() {
    let world = World::with_tables(&["a", "b", "c"], 2);
    world.run(&["migration", "run"]).exits(0);
    let diff = world.run(&["schema", "diff"]).exits(0);
    assert!(diff.stdout.contains("3 databases: 0 differ"), "{diff:#?}");
    world.sql("b", "ALTER TABLE t1 ADD COLUMN by_hand INT");
    world.run(&["migration", "status", "--check"]).exits(0);
    let diff = world.run(&["schema", "diff"]).exits(3);
    assert!(diff.stdout.contains("shard b has: "), "{diff:#?}");
    assert!(diff.stdout.contains("by_hand"), "{diff:#?}");
    let diff = world.run(&["schema", "diff", "--format", "json"]).exits(3);
    let shards = diff.events_named("shard_schema");
    assert_eq!(shards[0]["fingerprint"], shards[2]["fingerprint"]);
    assert_ne!(shards[0]["fingerprint"], shards[1]["fingerprint"]);
    assert_eq!(diff.events_named("schema_finished")[0]["differing"], 1);
    world.run(&["schema", "diff", "-s", "a", "-s", "c"]).exits(0);
}

/// The same folder, named for each shard by itself.
#[test]
fn shards_that_name_the_same_folder_are_compared() {
    let world = World::with_tables(&["a", "b"], 2);
    let shards: String = ["a", "b"]
        .iter()
        .map(|name| {
            format!("[shards.{name}]\nurl = {:?}\nmigrations = \"migrations\"\n", world.fleet.url(name))
        })
        .collect();
    world.stage.write("diesel-sharded.toml", &shards);
    world.run(&["migration", "run"]).exits(0);
    world.run(&["schema", "diff"]).exits(0);
    world.sql("b", "ALTER TABLE t1 ADD COLUMN by_hand INT");
    let diff = world.run(&["schema", "diff"]).exits(3);
    assert!(diff.stdout.contains("shard b has: "), "{diff:#?}");
    world.run(&["migration", "revert", "-s", "b"]).exits(0);
    let refused = world.run(&["migration", "redo"]).exits(1);
    assert!(refused.stdout.contains("its last versions are not those"), "{refused:#?}");
}

/// A `diesel` that prints what it was asked and its configuration, in the place of Diesel's own program.
fn with_diesel(world: &World) -> String {
    let script = world.stage.write(
        "bin/diesel",
        "#!/bin/sh\nprintf '// %s\\n' \"$1 $2\"\ncat \"$3\"\ntest -n \"$DATABASE_URL\" || exit 1\n",
    );
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let bin = script.parent().unwrap().display().to_string();
    format!("{bin}:{}", std::env::var("PATH").unwrap_or_default())
}

fn run(world: &World, path: &str, args: &[&str]) -> Output {
    Output::of(world.stage.command(args).env("PATH", path))
}

#[test]
fn the_schema_file_is_written_when_all_agree() {
    let world = World::with_tables(&["a", "b"], 1);
    let toml = "[print_schema]\nfile = \"src/schema.rs\"\n";
    world.stage.write("diesel.toml", toml);
    let file = world.stage.path().join("src/schema.rs");
    let path = with_diesel(&world);

    // Without the program the databases are migrated all the same, and the warning says what to do.
    let nothing = run(&world, "/nowhere", &["migration", "run", "-s", "a"]).exits(0);
    assert!(nothing.stderr.contains("schema.rs was not written"), "{nothing:#?}");
    let json = ["migration", "run", "-s", "a", "--format", "json"];
    let nothing = run(&world, "/nowhere", &json).exits(0);
    let failed = &nothing.events_named("schema_file_failed")[0];
    assert!(text(&failed["file"]).ends_with("src/schema.rs"), "{failed}");
    assert!(text(&failed["message"]).contains("have not the same versions"), "{failed}");
    assert!(!file.exists());

    let ran = run(&world, &path, &["migration", "run"]).exits(0);
    assert!(ran.stdout.contains("src/schema.rs: written, from shard a"), "{ran:#?}");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(text.starts_with("// print-schema --config-file\n"), "{text}");
    let again = run(&world, &path, &["migration", "run"]).exits(0);
    assert!(again.stdout.contains("src/schema.rs: up to date"), "{again:#?}");

    run(&world, &path, &["schema", "print", "--check"]).exits(0);
    std::fs::write(&file, "stale").unwrap();
    run(&world, &path, &["schema", "print", "--check"]).exits(3);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "stale");
    run(&world, &path, &["schema", "print"]).exits(0);
    assert_ne!(std::fs::read_to_string(&file).unwrap(), "stale");

    let missing = run(&world, "/nowhere", &["schema", "print"]).exits(1);
    assert!(missing.stderr.contains("cargo install diesel_cli"), "{missing:#?}");
    world.sql("b", "ALTER TABLE t1 ADD COLUMN by_hand INT");
    let differ = run(&world, &path, &["schema", "print"]).exits(1);
    assert!(differ.stderr.contains("do not look the same"), "{differ:#?}");
}

/// Our own tables are no business of the application, as Diesel's are none; what else is to be left out
/// is said by diesel.toml, and whoever names the tables to take is taken at their word.
#[test]
fn our_own_tables_are_not_in_the_schema_file() {
    let world = World::with_tables(&["a"], 1);
    let path = with_diesel(&world);
    for entry in ["print_schema", "print_schema.orders"] {
        for (filter, expected) in [
            ("", r#"except_tables = ["^diesel_sharded_"]"#),
            (
                r#"filter = { except_tables = ["^whoami$"] }"#,
                r#"except_tables = ["^whoami$", "^diesel_sharded_"]"#,
            ),
            (r#"filter = { only_tables = ["^t1$"] }"#, r#"only_tables = ["^t1$"]"#),
        ] {
            let toml = format!(
                "[{entry}]\nfile = \"src/schema.rs\"\npatch_file = \"x.patch\"\n{filter}\n"
            );
            world.stage.write("diesel.toml", &toml);
            run(&world, &path, &["migration", "run"]).exits(0);
            let text = std::fs::read_to_string(world.stage.path().join("src/schema.rs")).unwrap();
            // What Diesel gets is a file elsewhere, in which paths are whole.
            let asked = text.split_once('\n').unwrap().1;
            let asked: toml::Table = asked.parse().unwrap();
            let entry = &asked["print_schema"];
            let wanted: toml::Table = expected.parse().unwrap();
            assert_eq!(entry["filter"].as_table(), Some(&wanted), "{text}");
            let patch = std::path::Path::new(entry["patch_file"].as_str().unwrap());
            assert!(patch.is_absolute() && patch.ends_with("x.patch"), "{text}");
        }
    }
}

#[test]
fn each_keyspace_has_its_own_entry() {
    let world = World::with_tables(&["a", "b"], 1);
    let config = std::fs::read_to_string(world.stage.path().join("diesel-sharded.toml")).unwrap();
    let config = config.replace("[\"a\", \"b\"]", "[\"a\"]");
    let config = format!(
        "{config}[keyspaces.stock]\nshards = [\"b\"]\nmigrations = \"migrations\"\n"
    );
    world.stage.write("diesel-sharded.toml", &config);
    let path = with_diesel(&world);
    world.stage.write("diesel.toml", "[print_schema]\nfile = \"src/schema.rs\"\n");
    let one = run(&world, &path, &["schema", "print"]).exits(2);
    assert!(one.stderr.contains("[print_schema.KEYSPACE]"), "{one:#?}");
    // Exit code 2 says that no database was changed.
    run(&world, &path, &["migration", "run"]).exits(2);
    assert_eq!(world.versions("a"), Vec::<String>::new());
    world.stage.write(
        "diesel.toml",
        "[print_schema.orders]\nfile = \"src/orders.rs\"\n[print_schema.stock]\nfile = \"src/stock.rs\"\n",
    );
    let ran = run(&world, &path, &["migration", "run"]).exits(0);
    assert!(ran.stdout.contains("src/orders.rs: written, from shard a"), "{ran:#?}");
    assert!(ran.stdout.contains("src/stock.rs: written, from shard b"), "{ran:#?}");
    let text = std::fs::read_to_string(world.stage.path().join("src/stock.rs")).unwrap();
    assert!(text.contains("src/stock.rs") && !text.contains("src/orders.rs"), "{text}");
}
