//! 27,004 real flights, sharded by tail number.
//!
//! ```text
//! cargo demo                                        SQLite files in a temporary folder, no server
//! cargo demo -- --tables 4                          the same with four tables on each shard, flights_0 to flights_3
//! cargo run --example flights --features sqlite,bundled,config,postgres -- --config FILE
//! cargo run --example flights --features sqlite,bundled,config,mysql    -- --config FILE
//! ```
//!
//! The planes are spread over the shards `plane-0` to `plane-3` of the keyspace `planes`, by the hash of
//! their tail number: all flights of one plane are on one shard. Flights without a tail number have no
//! place in the keyspace; they go to the shard `unkeyed`, which is reached by its name only.
//!
//! `examples/flights-postgres.toml` and `examples/flights-mysql.toml` are configurations to start from.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use diesel::SqliteConnection;
use diesel_sharded::blocking::{Keyspace, ShardedConnection, ShardedConnectionManager};
use diesel_sharded::{BoxError, Config, Error, KeyType, KeyspaceConfig, RuleSpec, ShardName};

/// The modules are in `examples/flights/`.
mod flights {
    pub(crate) mod checks;
    pub(crate) mod data;
    pub(crate) mod output;
    pub(crate) mod parts;
    pub(crate) mod queries;
}
use flights::checks::check;
use flights::data::{self, Figures, Flight};
use flights::output::{bars, grouped, heading, progress};
use flights::parts;
use flights::queries::FlightQueries;

type Result<T, E = BoxError> = std::result::Result<T, E>;

const DATA: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/examples/data/flights-2013-01.csv"
);
const PLANE_SHARDS: [&str; 4] = ["plane-0", "plane-1", "plane-2", "plane-3"];
const UNKEYED: &str = "unkeyed";

fn main() -> ExitCode {
    let result = match arguments() {
        Ok(Databases::Configured(file)) => on_configured_servers(&file),
        Ok(Databases::Temporary { tables }) => on_temporary_files(tables),
        Err(usage) => {
            eprintln!("{usage}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("flights: {error}");
            let mut cause = error.source();
            while let Some(error) = cause {
                eprintln!("  because: {}", error.to_string().trim_end());
                cause = error.source();
            }
            ExitCode::FAILURE
        }
    }
}

/// Where the flights go.
enum Databases {
    /// Into the databases that a file names.
    Configured(PathBuf),
    /// Into SQLite files, with so many tables on each shard.
    Temporary { tables: u32 },
}

/// What the arguments ask for.
fn arguments() -> Result<Databases, &'static str> {
    const USAGE: &str = "usage: flights [--config FILE | --tables N]   (FILE: .toml, .yaml or .json; without it, SQLite files in a temporary folder, with N tables on each shard)";
    let mut arguments = std::env::args_os().skip(1);
    match (arguments.next(), arguments.next(), arguments.next()) {
        (None, ..) => Ok(Databases::Temporary { tables: 1 }),
        (Some(option), Some(file), None) if option == "--config" => {
            Ok(Databases::Configured(file.into()))
        }
        (Some(option), Some(tables), None) if option == "--tables" => {
            let tables = tables.to_str().and_then(|tables| tables.parse().ok());
            Ok(Databases::Temporary {
                tables: tables.filter(|tables| *tables > 0).ok_or(USAGE)?,
            })
        }
        _ => Err(USAGE),
    }
}

// ---------------------------------------------------------------- which shards there are

/// The embedded form: each shard is a SQLite file. The topology is described in code.
fn on_temporary_files(tables: u32) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = |shard: &str| {
        folder
            .path()
            .join(format!("{shard}.sqlite"))
            .display()
            .to_string()
    };

    let mut builder = ShardedConnectionManager::<SqliteConnection>::builder();
    for shard in PLANE_SHARDS {
        builder = builder.shard(shard, file(shard));
    }
    let shards = builder
        .shard(UNKEYED, file(UNKEYED))
        .keyspace(
            "planes",
            KeyspaceConfig::new(RuleSpec::hash(PLANE_SHARDS, 4096).key(KeyType::Text))
                .table("flights", "tailnum", tables),
        )
        .build()?;

    demo(&shards)
}

/// The grown-up form: the topology comes from a file.
///
/// An application knows its backend and says `ShardedConnectionManager::<PgConnection>::from_file(file)?`.
/// This example takes the first of its connection types that accepts the URLs in the file.
fn on_configured_servers(file: &Path) -> Result<()> {
    let config = Config::from_file(file)?;
    for doubt in config.warnings() {
        eprintln!("note: {doubt}");
    }
    let topology = config.topology()?;

    let mut tried = Vec::new();
    macro_rules! try_with {
        ($connection:ty) => {
            match ShardedConnectionManager::<$connection>::from_topology(&topology) {
                Ok(shards) => return demo(&shards),
                // These URLs are another backend's.
                Err(Error::Config(_)) => tried.push(<$connection>::BACKEND),
                Err(other) => return Err(other.into()),
            }
        };
    }
    try_with!(SqliteConnection);
    #[cfg(feature = "postgres")]
    try_with!(diesel::PgConnection);
    #[cfg(feature = "mysql")]
    try_with!(diesel::MysqlConnection);

    Err(format!(
        "{}: the urls of all shards must be of one backend, and of one that this program was built with ({}); others are cargo features: `postgres`, `mysql`",
        file.display(),
        tried.join(", ")
    )
    .into())
}

// ---------------------------------------------------------------- the story

fn demo<C: FlightQueries>(shards: &ShardedConnectionManager<C>) -> Result<()> {
    let planes = shards.keyspace("planes")?;
    let _ = shards.route(UNKEYED)?; // needed late: a missing one is better found early
    let rows = data::read(Path::new(DATA))?;
    let expected = Figures::of(&rows);
    println!(
        "{} flights out of New York in January 2013, on {} shards of {}",
        grouped(expected.flights),
        shards.shards().len(),
        C::BACKEND
    );
    let tables = parts::count(&planes)?;
    if tables > 1 {
        println!(
            "each shard of the planes has {tables} tables; the queries name `flights` all the same"
        );
    }

    migrate(shards, &planes)?;
    load(shards, &planes, rows)?;
    let totals = Totals::gather(shards, &planes)?;
    totals.print(&planes)?;
    stay_on_one_shard(shards, &planes, &totals.busiest[0].0)?;
    check(shards, &planes, &totals, &expected)
}

/// Brings the schema up to date, on every shard and for every table. The table is the example's own, and
/// is emptied.
fn migrate<C: FlightQueries>(
    shards: &ShardedConnectionManager<C>,
    planes: &Keyspace<C>,
) -> Result<()> {
    heading("Migrations, on every shard");
    let split = parts::count(planes)? > 1;
    parts::all(shards, planes, |conn, part| {
        // An application with several tables has `diesel-sharded migration run` do this.
        if !(split && part.shard.as_str() != UNKEYED) {
            let applied = C::migrate(conn)?;
            println!("  {part:8}  {applied} applied");
        } else if C::count(conn).is_err() {
            C::create(conn)?;
            println!("  {part:8}  created");
        }
        let old = C::count(conn)?;
        if old > 0 {
            let old = grouped(old);
            println!("  {part:8}  deleting {old} flights that an earlier run left");
            C::clear(conn)?;
        }
        Ok(())
    })?;
    Ok(())
}

/// Writes every flight: those with a tail number by their key, the others by the name of a shard.
fn load<C: FlightQueries>(
    shards: &ShardedConnectionManager<C>,
    planes: &Keyspace<C>,
    rows: Vec<Flight>,
) -> Result<()> {
    heading("Load, one transaction per table");
    let started = Instant::now();
    let bar = progress(rows.len());

    // One transaction holds the rows of one table, so rows are sorted by table first. No I/O here.
    let grouped_rows = planes.group_by_placement(rows, |flight| flight.tailnum.clone())?;
    for (_, rows) in &grouped_rows.by_placement {
        let Some(plane) = rows.first().and_then(|flight| flight.tailnum.as_deref()) else {
            continue;
        };
        let part = parts::of_plane(planes, plane)?;
        planes.transaction_for(plane, |conn| write(conn, part, rows, &bar))?;
    }

    // Nothing was dropped: what has no key came back, each row with the reason.
    let refused = grouped_rows.refused;
    let Some(first) = refused.first() else {
        return Err("the data has flights without a tail number, but none was refused".into());
    };
    bar.suspend(|| {
        println!(
            "  {} flights without a tail number were refused:",
            refused.len()
        );
        println!("    {}", first.error);
    });
    assert!(
        refused
            .iter()
            .all(|row| matches!(row.error, Error::NullShardKey { .. }))
    );
    let unkeyed: Vec<Flight> = refused.into_iter().map(|row| row.item).collect();
    shards.transaction_on(UNKEYED, |conn| write(conn, UNKEYED, &unkeyed, &bar))?;

    bar.finish_and_clear();
    println!(
        "  {} flights in {:.1} s",
        grouped(bar.position() as i64),
        started.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Writes these rows, inside a transaction: all, or none.
fn write<C: FlightQueries>(
    conn: &mut ShardedConnection<C>,
    part: impl std::fmt::Display,
    rows: &[Flight],
    bar: &indicatif::ProgressBar,
) -> Result<()> {
    bar.set_message(part.to_string());
    C::insert(conn, rows, |batch| bar.inc(batch as u64))
        .map_err(|error| format!("writing to {part}: {error}"))?;
    if bar.is_hidden() {
        println!("  {part:8}  {:>6} flights", grouped(rows.len() as i64));
    }
    Ok(())
}

/// What all shards say together.
struct Totals {
    per_shard: Vec<(ShardName, i64)>,
    busiest: Vec<(String, i64)>,
    per_carrier: Vec<(String, i64)>,
}

impl Totals {
    /// Asks each table in turn, and puts the answers together.
    fn gather<C: FlightQueries>(
        shards: &ShardedConnectionManager<C>,
        planes: &Keyspace<C>,
    ) -> Result<Self> {
        let mut per_shard = BTreeMap::new();
        let mut busiest = Vec::new();
        let mut per_carrier = BTreeMap::new();
        parts::all(shards, planes, |conn, part| {
            *per_shard.entry(part.shard).or_default() += C::count(conn)?;
            // A plane is in one table only, so the ten busiest of all are among the ten of each.
            busiest.extend(C::busiest_planes(conn, 10)?);
            // A carrier is in every table, so its counts are added up.
            for (carrier, flights) in C::per_carrier(conn)? {
                *per_carrier.entry(carrier).or_default() += flights;
            }
            Ok(())
        })?;
        data::most_first(&mut busiest);
        busiest.truncate(10);
        let mut per_carrier: Vec<_> = per_carrier.into_iter().collect();
        data::most_first(&mut per_carrier);
        Ok(Self {
            per_shard: per_shard.into_iter().collect(),
            busiest,
            per_carrier,
        })
    }

    fn print<C: FlightQueries>(&self, planes: &Keyspace<C>) -> Result<()> {
        heading("Rows per shard");
        bars(&self.per_shard, "flights");

        heading("The ten busiest planes, and the shard of each");
        let mut labelled = Vec::new();
        for (plane, flights) in &self.busiest {
            // Computed from the key alone: the database is not asked.
            let part = parts::of_plane(planes, plane)?;
            labelled.push((format!("{plane}  {part}"), *flights));
        }
        bars(&labelled, "flights");

        heading("Flights per carrier, summed over the shards");
        bars(&self.per_carrier, "flights");
        Ok(())
    }
}

/// A transaction keeps to its shard, and an error in it takes everything back.
fn stay_on_one_shard<C: FlightQueries>(
    shards: &ShardedConnectionManager<C>,
    planes: &Keyspace<C>,
    plane: &str,
) -> Result<()> {
    let home = planes.locate(plane)?.shard();

    heading("A route to another shard, inside a transaction");
    planes.transaction_for(plane, |conn| {
        println!(
            "  {plane}: in a transaction on {}",
            conn.shard().unwrap_or(home)
        );
        let refused = shards.on(UNKEYED, || -> Result<(), Error> {
            unreachable!("the closure is not run")
        });
        match refused {
            Err(error @ Error::PinnedElsewhere { .. }) => {
                println!("  refused: {error}");
                Ok(())
            }
            other => Err(BoxError::from(format!("expected a refusal, not {other:?}"))),
        }
    })?;

    heading("A transaction that fails");
    let before = C::count_plane(&mut planes.get(plane)?, plane)?;
    let failed: Result<()> = planes.transaction_for(plane, |conn| {
        let deleted = C::delete_plane(conn, plane)?;
        println!(
            "  {plane}: {deleted} flights deleted, {} left",
            C::count_plane(conn, plane)?
        );
        Err("the plane is still flying".into())
    });
    let Err(error) = failed else {
        return Err("the transaction should have failed".into());
    };
    let after = C::count_plane(&mut planes.get(plane)?, plane)?;
    println!("  rolled back ({error}): {after} flights are there");
    assert_eq!(after, before, "flights of {plane} after the rollback");
    Ok(())
}
