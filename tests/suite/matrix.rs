//! Which test runs on which backend with which driver, and why not where it does not.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

const BACKENDS: [&str; 3] = ["sqlite", "postgres", "mysql"];
const DRIVER: &str = "blocking";

/// Every empty cell: a test (or `module::*`), the backend, the reason.
const NOT_THERE: &[(&str, &str, &str)] = &[
    ("broken::*", "sqlite", "no session that could be killed"),
    ("probe_servers::*", "sqlite", "no wire to count on"),
    ("unavailable::*", "sqlite", "no server that could be away"),
    ("wire::*", "sqlite", "no wire to count on"),
    ("deferred::*", "mysql", "no deferred constraints"),
    ("sqlite_own::*", "postgres", "of SQLite alone"),
    ("sqlite_own::*", "mysql", "of SQLite alone"),
    ("postgres_own::*", "sqlite", "of PostgreSQL alone"),
    ("postgres_own::*", "mysql", "of PostgreSQL alone"),
    ("mysql_moved::*", "sqlite", "of MySQL alone"),
    ("mysql_moved::*", "postgres", "of MySQL alone"),
    ("mysql_own::*", "sqlite", "of MySQL alone"),
    ("mysql_own::*", "postgres", "of MySQL alone"),
    (
        "production_servers::*",
        "sqlite",
        "no server that could be down, full, killed or restarted, and no password; its own: production_sqlite",
    ),
    ("production_deferred::*", "mysql", "no deferred constraints"),
    ("production_sqlite::*", "postgres", "of SQLite alone"),
    ("production_sqlite::*", "mysql", "of SQLite alone"),
    ("production_postgres::*", "sqlite", "of PostgreSQL alone"),
    ("production_postgres::*", "mysql", "of PostgreSQL alone"),
    ("surface_mysql::*", "sqlite", "of MySQL alone"),
    ("surface_mysql::*", "postgres", "of MySQL alone"),
    ("surface_postgres::*", "sqlite", "of PostgreSQL alone"),
    ("surface_postgres::*", "mysql", "of PostgreSQL alone"),
    (
        "surface_returning::*",
        "mysql",
        "Diesel has no RETURNING there; upserts of its own kind: surface_mysql",
    ),
    ("surface_sqlite::*", "postgres", "of SQLite alone"),
    ("surface_sqlite::*", "mysql", "of SQLite alone"),
    ("tables_postgres::*", "sqlite", "of PostgreSQL alone"),
    ("tables_postgres::*", "mysql", "of PostgreSQL alone"),
    (
        "tables_returning::*",
        "mysql",
        "Diesel has no RETURNING there; upserts by hand: tables::keys",
    ),
];

#[test]
fn print() {
    let tests = tests();
    let mut faults = Vec::new();
    let mut cells: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let mut others = Vec::new();
    for test in &tests {
        match test.split_once("::") {
            Some((backend, name)) if BACKENDS.contains(&backend) => {
                cells.entry(name).or_default().insert(backend);
            }
            _ => others.push(test.as_str()),
        }
    }
    assert!(!cells.is_empty(), "the suite lists its tests");

    let mut used = BTreeSet::new();
    let widest = cells.keys().map(|name| name.len()).max().unwrap_or(0);
    println!("driver: {DRIVER}");
    println!("{:widest$}  {}", "test", BACKENDS.join("  "));
    for (name, backends) in &cells {
        let mut line = format!("{name:widest$}");
        let mut reasons = Vec::new();
        for backend in BACKENDS {
            let there = backends.contains(backend);
            line += &format!("  {:1$}", if there { "yes" } else { "-" }, backend.len());
            let found = NOT_THERE
                .iter()
                .position(|(test, on, _)| *on == backend && covers(test, name));
            match (there, found) {
                (true, None) => {}
                (true, Some(at)) => faults.push(format!(
                    "{name} runs on {backend}, yet there is a reason why not: {}",
                    NOT_THERE[at].2
                )),
                (false, Some(at)) => {
                    used.insert(at);
                    reasons.push(format!("{backend}: {}", NOT_THERE[at].2));
                }
                (false, None) => {
                    faults.push(format!(
                        "{name} does not run on {backend}, and no reason is given"
                    ));
                }
            }
        }
        println!("{line}  {}", reasons.join("; ").trim_end());
    }
    println!("without a backend: {}", others.join(", "));
    for (at, (test, backend, _)) in NOT_THERE.iter().enumerate() {
        if !used.contains(&at) && !faults.iter().any(|fault| fault.contains(test)) {
            faults.push(format!("there is no test {test} that {backend} would miss"));
        }
    }
    let cells_filled: usize = cells.values().map(BTreeSet::len).sum();
    println!(
        "{} tests on {} backends: {cells_filled} cells filled, {} empty with a reason",
        cells.len(),
        BACKENDS.len(),
        cells.len() * BACKENDS.len() - cells_filled
    );
    assert!(
        faults.is_empty(),
        "the matrix has faults:\n{}",
        faults.join("\n")
    );
}

fn covers(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(module) => name.starts_with(module),
        None => name == pattern,
    }
}

/// The names of all tests of this program.
fn tests() -> Vec<String> {
    let program = std::env::current_exe().expect("the test program knows itself");
    let listed = Command::new(program)
        .args(["--list", "--format", "terse"])
        .output()
        .expect("the test program can list its tests");
    assert!(listed.status.success(), "{listed:?}");
    String::from_utf8(listed.stdout)
        .expect("test names are UTF-8")
        .lines()
        .filter_map(|line| line.strip_suffix(": test"))
        .map(str::to_owned)
        .collect()
}
