//! The behaviour suite: what the crate promises, asked of real databases.
//!
//! Each behaviour file is compiled once for every backend and driver it applies to; inside it,
//! `backend` is their module of [`support`]. `matrix::print` shows which test exists where, and asks
//! a reason for every gap.

#![expect(
    clippy::duplicate_mod,
    reason = "a behaviour file is compiled once per backend, with that backend's types"
)]
#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(
    clippy::unit_arg,
    reason = "`Ok(assert_eq!(..))` is how a short closure asserts"
)]

mod support;

mod architecture;
mod compile_fail;
mod matrix;
mod nonblocking;
#[path = "production/support.rs"]
mod production_support;
mod secrets;
mod stress;
mod surface_multi;
mod telemetry;
mod twins;

/// Behaviour files as modules of the backend around them.
macro_rules! files {
    ($($name:ident: $file:literal,)+) => {
        $(
            #[path = $file]
            mod $name;
        )+
    };
}

/// What holds on every backend, with every driver.
macro_rules! everywhere {
    () => {
        files! {
            bound: "bound.rs",
            by_hand: "by_hand.rs",
            exchanged: "exchanged.rs",
            guards: "guards.rs",
            handles: "handles.rs",
            independent: "independent.rs",
            options: "options.rs",
            outcomes: "outcomes.rs",
            pinning: "pinning.rs",
            pool: "pool.rs",
            production: "production/mod.rs",
            route_text: "route_text.rs",
            routes: "routes.rs",
            surface: "surface.rs",
            threads: "threads.rs",
            topologies: "topologies.rs",
        }
    };
}

/// Routes across `await`, looked at through the blocking driver.
macro_rules! across_await {
    () => {
        files! {
            futures: "futures.rs",
            streams: "streams.rs",
            tasks: "tasks.rs",
        }
    };
}

/// What takes a server: one that can be killed, refused, watched on the wire.
macro_rules! on_servers {
    () => {
        files! {
            broken: "broken.rs",
            production_open: "production/open_sessions.rs",
            production_servers: "production/on_servers.rs",
            unavailable: "unavailable.rs",
            wire: "wire.rs",
        }
    };
}

#[path = "."]
mod sqlite {
    pub(crate) use crate::support::sqlite as backend;

    everywhere!();
    across_await!();
    files! {
        macros: "macros.rs",
        tables: "tables/mod.rs",
        probe: "probe.rs",
        surface_blocking: "surface_blocking.rs",
        blocking_sqlite: "blocking_sqlite.rs",
        deferred: "deferred.rs",
        production_deferred: "production/deferred.rs",
        production_open: "production/open_files.rs",
        production_sqlite: "production/sqlite.rs",
        sqlite_own: "sqlite_own.rs",
        surface_returning: "surface_returning.rs",
        surface_sqlite: "surface_sqlite.rs",
        tables_mutated: "tables/mutated.rs",
        tables_returning: "tables/returning.rs",
    }
}

#[path = "."]
mod postgres {
    pub(crate) use crate::support::postgres as backend;

    everywhere!();
    across_await!();
    on_servers!();
    files! {
        macros: "macros.rs",
        tables: "tables/mod.rs",
        probe: "probe.rs",
        probe_servers: "probe_servers.rs",
        surface_blocking: "surface_blocking.rs",
        blocking_postgres: "blocking_postgres.rs",
        deferred: "deferred.rs",
        postgres_own: "postgres_own.rs",
        production_deferred: "production/deferred.rs",
        production_postgres: "production/postgres.rs",
        surface_postgres: "surface_postgres.rs",
        surface_returning: "surface_returning.rs",
        tables_postgres: "tables/postgres.rs",
        tables_settings: "tables/settings.rs",
        tables_mutated: "tables/mutated.rs",
        tables_returning: "tables/returning.rs",
    }
}

#[path = "."]
mod mysql {
    pub(crate) use crate::support::mysql as backend;

    everywhere!();
    across_await!();
    on_servers!();
    files! {
        macros: "macros.rs",
        tables: "tables/mod.rs",
        probe: "probe.rs",
        probe_servers: "probe_servers.rs",
        surface_blocking: "surface_blocking.rs",
        mysql_moved: "mysql_moved.rs",
        mysql_own: "mysql_own.rs",
        surface_mysql: "surface_mysql.rs",
        tables_mysql: "tables/mysql.rs",
        tables_settings: "tables/settings.rs",
    }
}

#[path = "."]
mod async_sqlite {
    pub(crate) use crate::support::nonblocking::sqlite as backend;

    everywhere!();
    files! {
        deferred: "deferred.rs",
        production_deferred: "production/deferred.rs",
        production_open: "production/open_files.rs",
        production_sqlite: "production/sqlite.rs",
        sqlite_own: "sqlite_own.rs",
        surface_returning: "surface_returning.rs",
        surface_sqlite: "surface_sqlite.rs",
        tables: "tables/mod.rs",
        tables_returning: "tables/returning.rs",
    }
}

#[path = "."]
mod async_postgres {
    pub(crate) use crate::support::nonblocking::postgres as backend;

    everywhere!();
    on_servers!();
    files! {
        deferred: "deferred.rs",
        postgres_own: "postgres_own.rs",
        production_deferred: "production/deferred.rs",
        production_postgres: "production/postgres.rs",
        surface_postgres: "surface_postgres.rs",
        surface_returning: "surface_returning.rs",
        tables: "tables/mod.rs",
        tables_postgres: "tables/postgres.rs",
        tables_settings: "tables/settings.rs",
        tables_returning: "tables/returning.rs",
    }
}

#[path = "."]
mod async_mysql {
    pub(crate) use crate::support::nonblocking::mysql as backend;

    everywhere!();
    on_servers!();
    files! {
        mysql_moved: "mysql_moved.rs",
        mysql_own: "mysql_own.rs",
        surface_mysql: "surface_mysql.rs",
        tables: "tables/mod.rs",
        tables_mysql: "tables/mysql.rs",
        tables_settings: "tables/settings.rs",
    }
}
