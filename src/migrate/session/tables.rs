//! The tables that are kept in every database: Diesel's own, and the crate's beside it.

use crate::topology::UrlKind;

diesel::table! {
    /// Diesel's version table. Its other column, `run_on`, fills itself.
    __diesel_schema_migrations (version) {
        version -> VarChar,
    }
}

diesel::table! {
    /// Which of the crate's own tables are there.
    diesel_sharded_internal (version) {
        version -> VarChar,
    }
}

diesel::table! {
    /// What Diesel's table does not remember of an applied migration.
    diesel_sharded_migration (version) {
        version -> VarChar,
        name -> Text,
        checksum -> Nullable<VarChar>,
        applied_at -> BigInt,
    }
}

diesel::table! {
    /// Migrations outside of a transaction that have begun and not ended.
    diesel_sharded_progress (version) {
        version -> VarChar,
        name -> Text,
        direction -> VarChar,
        done -> BigInt,
        total -> BigInt,
        error -> Nullable<Text>,
        started_at -> BigInt,
    }
}

diesel::table! {
    /// The statements of these migrations as they were when they began.
    diesel_sharded_statements (version) {
        version -> VarChar,
        checksums -> Text,
    }
}

diesel::table! {
    /// What else is known of the attempt at one of these migrations.
    diesel_sharded_attempt (version) {
        version -> VarChar,
        /// Who began it without the lock.
        unlocked -> Nullable<Text>,
        /// The number of the statement that failed.
        failed -> Nullable<BigInt>,
        /// The number of the statement that began the transaction that was rolled back.
        begun -> Nullable<BigInt>,
        /// The numbers of the statements that had run in earlier attempts.
        ran_before -> Text,
        /// The numbers of the statements that were not sent.
        skipped -> Text,
    }
}

diesel::table! {
    /// Who took the lock last. The lock itself is the session's.
    diesel_sharded_lock (id) {
        id -> BigInt,
        holder -> Text,
        session -> BigInt,
        since -> BigInt,
    }
}

/// Every table of ours and Diesel's; no part of the schema that is compared.
pub(super) const KEPT: [&str; 8] = [
    "__diesel_schema_migrations",
    "diesel_sharded_attempt",
    "diesel_sharded_identity",
    "diesel_sharded_internal",
    "diesel_sharded_lock",
    "diesel_sharded_migration",
    "diesel_sharded_progress",
    "diesel_sharded_statements",
];

/// The crate's own migrations: version and text.
pub(super) fn internal(kind: UrlKind) -> [(&'static str, &'static str); 5] {
    macro_rules! of {
        ($backend:literal) => {
            [
                of!($backend, "00000000000000", "_versions"),
                of!($backend, "00000000000001", "_identity"),
                of!($backend, "00000000000002", "_migrations"),
                of!($backend, "00000000000003", "_statements"),
                of!($backend, "00000000000004", "_attempts"),
            ]
        };
        ($backend:literal, $version:literal, $name:literal) => {
            (
                $version,
                include_str!(concat!(
                    "../../../migrations/internal/",
                    $backend,
                    "/",
                    $version,
                    $name,
                    "/up.sql"
                )),
            )
        };
    }
    match kind {
        UrlKind::Sqlite => of!("sqlite"),
        UrlKind::Postgres => of!("postgres"),
        UrlKind::Mysql => of!("mysql"),
    }
}

/// A query for those of the tables that are there.
pub(super) fn there(kind: UrlKind) -> String {
    let names: Vec<String> = KEPT.iter().map(|name| format!("'{name}'")).collect();
    let names = names.join(", ");
    match kind {
        UrlKind::Sqlite => {
            format!("SELECT name FROM sqlite_master WHERE type = 'table' AND name IN ({names})")
        }
        // By the search path, as the tables themselves are.
        UrlKind::Postgres => format!(
            "SELECT name FROM unnest(ARRAY[{names}]) AS kept (name) WHERE to_regclass(name) IS NOT NULL"
        ),
        UrlKind::Mysql => format!(
            "SELECT CAST(table_name AS CHAR) FROM information_schema.tables WHERE table_schema = DATABASE() AND table_name IN ({names})"
        ),
    }
}
