//! The binary, run as a process: exit codes, what it prints, what it does to real databases.
//!
//! As in the behaviour suite, a file that holds on every backend is compiled once for each; inside
//! it, `backend` is that backend's module of [`support`].

#![expect(
    clippy::duplicate_mod,
    reason = "a behaviour file is compiled once per backend, with that backend's types"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod harness;
#[expect(
    dead_code,
    unused_imports,
    unused_macros,
    reason = "the behaviour suite uses all of it"
)]
#[path = "../suite/support/mod.rs"]
mod support;

mod config;
mod help;
mod locate;
mod secrets;
mod skew;
#[cfg(unix)]
mod terminal;

/// What holds on every backend.
macro_rules! everywhere {
    () => {
        #[path = "migrate/mod.rs"]
        mod migrate;
        #[path = "migration/mod.rs"]
        mod migration;
        #[path = "ping.rs"]
        mod ping;
        #[path = "verify.rs"]
        mod verify;
        #[path = "verify_key.rs"]
        mod verify_key;
        #[path = "verify_plan.rs"]
        mod verify_plan;
        #[path = "verify_spelling.rs"]
        mod verify_spelling;
    };
}

#[path = "."]
mod sqlite {
    pub(crate) use crate::support::sqlite as backend;

    everywhere!();
    #[path = "migrate/sqlite.rs"]
    mod migrate_sqlite;
    #[cfg(unix)]
    #[path = "rights.rs"]
    mod rights;
}

#[path = "."]
mod postgres {
    pub(crate) use crate::support::postgres as backend;

    everywhere!();
    #[path = "migrate/postgres.rs"]
    mod migrate_postgres;
    #[path = "partitions.rs"]
    mod partitions;
}

#[path = "."]
mod mysql {
    pub(crate) use crate::support::mysql as backend;

    everywhere!();
    #[path = "migrate/mysql.rs"]
    mod migrate_mysql;
}
