//! One file per subcommand. Each has the arguments it takes (`Args`) and `run`.

pub(crate) mod completions;
pub(crate) mod config;
#[cfg(any(feature = "sqlite", feature = "postgres", feature = "mysql"))]
pub(crate) mod database;
pub(crate) mod locate;
pub(crate) mod man;
pub(crate) mod placement;
pub(crate) mod skew;
