//! Which test runs on which backend with which driver, and why not where it does not.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

/// A backend with a driver: the module whose tests it runs.
struct Column {
    module: &'static str,
    backend: &'static str,
    driver: &'static str,
}

const fn column(module: &'static str, backend: &'static str, driver: &'static str) -> Column {
    Column {
        module,
        backend,
        driver,
    }
}

const COLUMNS: [Column; 6] = [
    column("sqlite", "sqlite", "blocking"),
    column("postgres", "postgres", "blocking"),
    column("mysql", "mysql", "blocking"),
    column("async_sqlite", "sqlite", "nonblocking"),
    column("async_postgres", "postgres", "nonblocking"),
    column("async_mysql", "mysql", "nonblocking"),
];

/// Every empty cell: a test (or `module::*`), where (a backend, a driver, or both), the reason.
const NOT_THERE: &[(&str, &str, &str)] = &[
    ("broken::*", "sqlite", "no session that could be killed"),
    ("probe_servers::*", "sqlite", "no wire to count on"),
    ("unavailable::*", "sqlite", "no server that could be away"),
    ("wire::*", "sqlite", "no wire to count on"),
    ("deferred::*", "mysql", "no deferred constraints"),
    ("sqlite_own::*", "postgres", OF_SQLITE),
    ("sqlite_own::*", "mysql", OF_SQLITE),
    ("postgres_own::*", "sqlite", OF_POSTGRES),
    ("postgres_own::*", "mysql", OF_POSTGRES),
    ("mysql_moved::*", "sqlite", OF_MYSQL),
    ("mysql_moved::*", "postgres", OF_MYSQL),
    ("mysql_own::*", "sqlite", OF_MYSQL),
    ("mysql_own::*", "postgres", OF_MYSQL),
    (
        "production_servers::*",
        "sqlite",
        "no server that could be down, full, killed or restarted, and no password; its own: production_sqlite",
    ),
    ("production_deferred::*", "mysql", "no deferred constraints"),
    ("production_sqlite::*", "postgres", OF_SQLITE),
    ("production_sqlite::*", "mysql", OF_SQLITE),
    ("production_postgres::*", "sqlite", OF_POSTGRES),
    ("production_postgres::*", "mysql", OF_POSTGRES),
    ("surface_mysql::*", "sqlite", OF_MYSQL),
    ("surface_mysql::*", "postgres", OF_MYSQL),
    ("surface_postgres::*", "sqlite", OF_POSTGRES),
    ("surface_postgres::*", "mysql", OF_POSTGRES),
    (
        "surface_returning::*",
        "mysql",
        "Diesel has no RETURNING there; upserts of its own kind: surface_mysql",
    ),
    ("surface_sqlite::*", "postgres", OF_SQLITE),
    ("surface_sqlite::*", "mysql", OF_SQLITE),
    (
        "surface_blocking::*",
        "nonblocking",
        "about Deref to Diesel's connection and about r2d2, which that driver does not have",
    ),
    ("blocking_sqlite::*", "postgres", OF_SQLITE),
    ("blocking_sqlite::*", "mysql", OF_SQLITE),
    (
        "blocking_sqlite::*",
        "nonblocking sqlite",
        "wants the library in the caller's thread",
    ),
    ("blocking_postgres::*", "sqlite", OF_POSTGRES),
    ("blocking_postgres::*", "mysql", OF_POSTGRES),
    (
        "blocking_postgres::*",
        "nonblocking postgres",
        "diesel-async has no COPY, and hands notifications out as a stream",
    ),
    ("nonblocking::postgres_own::*", "sqlite", OF_POSTGRES),
    ("nonblocking::postgres_own::*", "mysql", OF_POSTGRES),
    ("nonblocking::mysql_own::*", "sqlite", OF_MYSQL),
    ("nonblocking::mysql_own::*", "postgres", OF_MYSQL),
    ("nonblocking::pipelined::*", "sqlite", PIPELINES),
    ("nonblocking::pipelined::*", "mysql", PIPELINES),
    (
        "nonblocking::*",
        "blocking",
        "about tasks and dropped futures; a blocking call is neither",
    ),
    (
        "tables_mutated::*",
        "mysql",
        "texts that make no sense end MariaDB's process now and then, and other tests use it too",
    ),
    (
        "tables_mutated::*",
        "nonblocking",
        "texts are read by the same code beneath both drivers",
    ),
    ("tables_mysql::*", "sqlite", OF_MYSQL),
    ("tables_mysql::*", "postgres", OF_MYSQL),
    ("tables_postgres::*", "sqlite", OF_POSTGRES),
    ("tables_postgres::*", "mysql", OF_POSTGRES),
    (
        "tables_settings::*",
        "sqlite",
        "no setting there changes what a literal is",
    ),
    (
        "tables_returning::*",
        "mysql",
        "Diesel has no RETURNING there; upserts by hand: tables::keys",
    ),
    ("futures::*", "nonblocking", WITHOUT_DRIVER),
    ("streams::*", "nonblocking", WITHOUT_DRIVER),
    ("tasks::*", "nonblocking", WITHOUT_DRIVER),
    (
        "macros::*",
        "nonblocking",
        "about what the attributes write into a blocking function; the others: nonblocking::macros",
    ),
    (
        "guards::a_guard_that_outlives_a_closure_keeps_its_own_route",
        "nonblocking",
        "a future's scope has a stack of its own, and what is left in it goes with it",
    ),
    (
        "handles::a_handle_whose_binding_failed_never_ends_up_on_another_shard",
        "nonblocking",
        BOUND_AT_CHECKOUT,
    ),
    (
        "surface::outer_pool::a_handle_taken_under_no_route_is_bound_by_its_first_statement",
        "nonblocking",
        BOUND_AT_CHECKOUT,
    ),
    (
        "surface::outer_pool::everything_that_can_come_first_binds",
        "nonblocking",
        BOUND_AT_CHECKOUT,
    ),
    (
        "surface::outer_pool::a_failed_binding_is_told_by_the_first_statement_and_forgotten",
        "nonblocking",
        BOUND_AT_CHECKOUT,
    ),
    (
        "surface::outer_pool::a_handle_that_was_not_tested_at_checkout_takes_a_test_transaction",
        "nonblocking",
        BOUND_AT_CHECKOUT,
    ),
    (
        "surface::instrumentation::it_stays_with_a_handle_of_an_outer_pool",
        "nonblocking",
        BOUND_AT_CHECKOUT,
    ),
    (
        "surface::instrumentation::the_default_comes_back",
        "nonblocking",
        "the default instrumentation of these tests hears the test's own thread alone",
    ),
    (
        "probe::*",
        "nonblocking",
        "Diesel's internals behind the blocking probe",
    ),
    (
        "probe_servers::*",
        "nonblocking",
        "Diesel's internals behind the blocking probe",
    ),
];

const BOUND_AT_CHECKOUT: &str = "that driver binds a handle where it is taken, not by its first statement; its own: nonblocking::outer";
const PIPELINES: &str = "only PostgreSQL's protocol takes a statement before the last is answered";
const WITHOUT_DRIVER: &str =
    "about the stack at each poll, read through the blocking driver; its own: nonblocking::*";
const OF_SQLITE: &str = "of SQLite alone";
const OF_POSTGRES: &str = "of PostgreSQL alone";
const OF_MYSQL: &str = "of MySQL alone";

impl Column {
    /// `postgres`, `nonblocking` or `nonblocking postgres`.
    fn is(&self, place: &str) -> bool {
        place
            .split(' ')
            .all(|word| word == self.backend || word == self.driver)
    }
}

#[test]
fn print() {
    let tests = tests();
    let mut faults = Vec::new();
    let mut cells: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    let mut others = Vec::new();
    for test in &tests {
        match place(test) {
            Some((column, name)) => {
                cells.entry(name).or_default().insert(column.module);
            }
            None => others.push(test.as_str()),
        }
    }
    assert!(!cells.is_empty(), "the suite lists its tests");

    let mut used = BTreeSet::new();
    let widest = cells.keys().map(|name| name.len()).max().unwrap_or(0);
    println!("{:widest$}  {}", "test", row(|column| column.driver));
    println!("{:widest$}  {}", "", row(|column| column.backend));
    for (name, modules) in &cells {
        let mut reasons = BTreeSet::new();
        for column in &COLUMNS {
            let there = modules.contains(column.module);
            let found = NOT_THERE
                .iter()
                .position(|(test, place, _)| column.is(place) && covers(test, name));
            let place = format!("{} with the {} driver", column.backend, column.driver);
            match (there, found) {
                (true, None) => {}
                (true, Some(at)) => faults.push(format!(
                    "{name} runs on {place}, yet there is a reason why not: {}",
                    NOT_THERE[at].2
                )),
                (false, Some(at)) => {
                    used.insert(at);
                    reasons.insert(format!("{}: {}", NOT_THERE[at].1, NOT_THERE[at].2));
                }
                (false, None) => {
                    faults.push(format!(
                        "{name} does not run on {place}, and no reason is given"
                    ));
                }
            }
        }
        let there = row(|column| match modules.contains(column.module) {
            true => "yes",
            false => "-",
        });
        let reasons: Vec<_> = reasons.into_iter().collect();
        println!("{name:widest$}  {there}  {}", reasons.join("; "));
    }
    println!("without a backend: {}", others.join(", "));
    for (at, (test, place, _)) in NOT_THERE.iter().enumerate() {
        if !used.contains(&at) && !faults.iter().any(|fault| fault.contains(test)) {
            faults.push(format!("there is no test {test} that {place} would miss"));
        }
    }
    let filled: usize = cells.values().map(BTreeSet::len).sum();
    println!(
        "{} tests on 3 backends with 2 drivers: {filled} cells filled, {} empty with a reason",
        cells.len(),
        cells.len() * COLUMNS.len() - filled
    );
    assert!(
        faults.is_empty(),
        "the matrix has faults:\n{}",
        faults.join("\n")
    );
}

/// Where a test runs, and its name there. Those of `nonblocking` have their backend one level deeper.
fn place(test: &str) -> Option<(&'static Column, String)> {
    let (module, name) = test.split_once("::")?;
    if module == "nonblocking" {
        let (backend, name) = name.split_once("::")?;
        let column = COLUMNS
            .iter()
            .find(|column| column.driver == module && column.backend == backend)?;
        return Some((column, format!("{module}::{name}")));
    }
    let column = COLUMNS.iter().find(|column| column.module == module)?;
    Some((column, name.to_owned()))
}

/// One cell for each column.
fn row(cell: impl Fn(&Column) -> &str) -> String {
    COLUMNS
        .iter()
        .map(|column| format!("{:11}", cell(column)))
        .collect::<Vec<_>>()
        .join(" ")
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
