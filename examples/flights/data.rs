//! The flights as they come out of the CSV file, and the figures that the example must arrive at.

use std::collections::BTreeMap;
use std::path::Path;

use diesel::Insertable;
use serde::Deserialize;

use super::queries::flights;
use crate::Result;

/// One row of the file, and of the table `flights`.
///
/// `None` is written as `NULL`. Diesel's default would write `DEFAULT`, which SQLite does not know
/// in a row of `VALUES`, so that Diesel would have to send the rows one at a time.
#[derive(Clone, Debug, Deserialize, Insertable)]
#[diesel(table_name = flights, treat_none_as_default_value = false)]
pub(crate) struct Flight {
    pub id: i64,
    pub year: i16,
    pub month: i16,
    pub day: i16,
    pub sched_dep_time: i16,
    pub dep_delay: Option<i16>,
    pub arr_delay: Option<i16>,
    pub carrier: String,
    pub flight: i32,
    pub tailnum: Option<String>,
    pub origin: String,
    pub dest: String,
    pub air_time: Option<i16>,
    pub distance: i32,
}

/// Reads every row of the file.
pub(crate) fn read(file: &Path) -> Result<Vec<Flight>> {
    let rows = csv::Reader::from_path(file).and_then(|mut csv| csv.deserialize().collect());
    rows.map_err(|error| format!("{}: {error}", file.display()).into())
}

/// What the databases must answer, counted without any database.
pub(crate) struct Figures {
    pub flights: i64,
    pub without_tailnum: i64,
    pub per_carrier: BTreeMap<String, i64>,
    pub per_plane: BTreeMap<String, i64>,
}

impl Figures {
    pub(crate) fn of(flights: &[Flight]) -> Self {
        let mut figures = Self {
            flights: 0,
            without_tailnum: 0,
            per_carrier: BTreeMap::new(),
            per_plane: BTreeMap::new(),
        };
        for flight in flights {
            figures.flights += 1;
            *figures
                .per_carrier
                .entry(flight.carrier.clone())
                .or_default() += 1;
            match &flight.tailnum {
                Some(tailnum) => *figures.per_plane.entry(tailnum.clone()).or_default() += 1,
                None => figures.without_tailnum += 1,
            }
        }
        figures
    }

    /// The planes with the most flights, in the same order as the database's.
    pub(crate) fn busiest_planes(&self, count: usize) -> Vec<(String, i64)> {
        let planes = self.per_plane.iter();
        let mut planes: Vec<_> = planes
            .map(|(plane, flights)| (plane.clone(), *flights))
            .collect();
        most_first(&mut planes);
        planes.truncate(count);
        planes
    }
}

/// Sorts by count, most first, then by name.
pub(crate) fn most_first(counts: &mut [(String, i64)]) {
    counts.sort_by(|(a, x), (b, y)| y.cmp(x).then_with(|| a.cmp(b)));
}
