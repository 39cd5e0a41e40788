//! The example ends here: what the databases answered, against what was counted in the file.

use std::collections::BTreeMap;

use diesel_sharded::blocking::{Keyspace, ShardedConnectionManager};

use super::data::Figures;
use super::output::{grouped, heading};
use super::parts;
use super::queries::FlightQueries;
use crate::{Result, Totals, UNKEYED};

/// Compares with what was counted in the file, and that with what is known of the data.
pub(crate) fn check<C: FlightQueries>(
    shards: &ShardedConnectionManager<C>,
    planes: &Keyspace<C>,
    totals: &Totals,
    expected: &Figures,
) -> Result<()> {
    heading("Checks against the file");
    let all: i64 = totals.per_shard.iter().map(|(_, flights)| flights).sum();
    assert_eq!(all, expected.flights, "flights on all shards");
    assert_eq!(all, 27_004, "flights in January 2013");
    println!("  ok  {} flights in all", grouped(all));

    let mut per_plane = BTreeMap::new();
    for (part, in_table) in parts::each(planes, |conn, _| Ok(C::busiest_planes(conn, i64::MAX)?))? {
        for (plane, flights) in in_table {
            let home = parts::of_plane(planes, &plane)?;
            assert_eq!(part.to_string(), home.to_string(), "the table of {plane}");
            per_plane.insert(plane, flights);
        }
    }
    assert_eq!(per_plane, expected.per_plane, "flights per plane");
    println!(
        "  ok  {} planes, each in its own table with all its flights",
        grouped(per_plane.len() as i64)
    );

    let unkeyed = C::count(&mut shards.get_on(UNKEYED)?)?;
    assert_eq!(unkeyed, expected.without_tailnum, "flights on {UNKEYED}");
    assert_eq!(unkeyed, 155, "flights without a tail number");
    println!(
        "  ok  {} flights without a tail number on {UNKEYED}",
        grouped(unkeyed)
    );

    assert_eq!(
        totals.busiest,
        expected.busiest_planes(10),
        "the ten busiest planes"
    );
    println!("  ok  the ten busiest planes");

    let per_carrier: BTreeMap<_, _> = totals.per_carrier.iter().cloned().collect();
    assert_eq!(per_carrier, expected.per_carrier, "flights per carrier");
    for (carrier, flights) in [
        ("UA", 4_637),
        ("B6", 4_427),
        ("EV", 4_171),
        ("DL", 3_690),
        ("AA", 2_794),
    ] {
        assert_eq!(
            per_carrier.get(carrier),
            Some(&flights),
            "flights of {carrier}"
        );
    }
    println!(
        "  ok  {} carriers, among them UA 4,637, B6 4,427, EV 4,171, DL 3,690, AA 2,794",
        per_carrier.len()
    );
    Ok(())
}
