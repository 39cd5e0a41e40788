//! A date rule as it is asked for.

/// How long a period of a [`date`](crate::RuleSpec::date) rule is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Every {
    /// A calendar year; its name is `2024`.
    Year,
    /// Three months, from January, April, July or October on; `20241` to `20244`.
    Quarter,
    /// A calendar month; `202402`.
    Month,
    /// An ISO week, from Monday to Sunday; `202409`, by the year of its Thursday.
    Week,
    /// A day; `20240229`.
    Day,
    /// So many days, counted from an anchor in both directions; named by its first day, `20240229`.
    Days {
        /// How many days: 1 or more.
        count: u32,
        /// A first day, in days since 1970-01-01.
        anchor: i32,
    },
}

/// How the database makes an instant fit a column that keeps fewer digits of the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Rounding {
    /// An instant with more digits than the column is refused: round it before it is used as a key
    /// and as a value.
    #[default]
    Refuse,
    /// As PostgreSQL does: to the nearest, halves away from 2000-01-01 00:00:00 UTC.
    Postgres,
    /// As MySQL does: to the nearest, halves up.
    Mysql,
    /// As MariaDB does unless `TIME_ROUND_FRACTIONAL` is set: cut off.
    Mariadb,
}

impl Rounding {
    pub(crate) const ALL: [(Self, &'static str); 4] = [
        (Self::Refuse, "refuse"),
        (Self::Postgres, "postgres"),
        (Self::Mysql, "mysql"),
        (Self::Mariadb, "mariadb"),
    ];

    /// Its name in a configuration.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        let known = Self::ALL.iter().find(|(rounding, _)| *rounding == self);
        known.map_or("", |(_, name)| name)
    }
}

/// A [`date`](crate::RuleSpec::date) rule as it is asked for.
///
/// ```
/// use diesel_sharded::DateSpec;
///
/// let months = DateSpec::monthly().from("2023-11").until("2024-02").zone("Europe/Berlin");
/// assert_ne!(months, DateSpec::monthly().from("2023-11").until("2024-02").zone("UTC"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct DateSpec {
    pub(crate) every: Every,
    pub(crate) zone: Option<String>,
    pub(crate) from: Option<String>,
    pub(crate) until: Option<String>,
    pub(crate) map: Option<Vec<(String, String, String)>>,
    pub(crate) precision: Option<u32>,
    pub(crate) rounding: Rounding,
}

impl DateSpec {
    /// Periods of this length.
    pub fn new(every: Every) -> Self {
        Self {
            every,
            zone: None,
            from: None,
            until: None,
            map: None,
            precision: None,
            rounding: Rounding::Refuse,
        }
    }

    /// Calendar months.
    pub fn monthly() -> Self {
        Self::new(Every::Month)
    }

    /// The time zone whose days are meant, by its IANA name. There is no default: keys that are
    /// timestamps need one, keys that are dates have none.
    ///
    /// The zones are those compiled into the crate `jiff`, so that neither the machine nor its `TZ`
    /// has any influence.
    pub fn zone(mut self, name: &str) -> Self {
        self.zone = Some(name.to_owned());
        self
    }

    /// The first day of the plan: `2024`, `2024-02`, `2024-W09` or `2024-02-01`, the first day of a
    /// period.
    pub fn from(mut self, day: &str) -> Self {
        self.from = Some(day.to_owned());
        self
    }

    /// The day on which the plan ends: the first one that has no place any more. Moving it later
    /// moves no row.
    pub fn until(mut self, day: &str) -> Self {
        self.until = Some(day.to_owned());
        self
    }

    /// Which shard holds which periods: its name, the first day, and the first day that is no longer
    /// its. It takes the place of [`from`](Self::from) and [`until`](Self::until). Defaults to all
    /// shards in turn, one period after the other.
    pub fn map<S: Into<String>>(
        mut self,
        spans: impl IntoIterator<Item = (S, &'static str, &'static str)>,
    ) -> Self {
        let spans = spans.into_iter();
        self.map = Some(
            spans
                .map(|(shard, from, until)| (shard.into(), from.to_owned(), until.to_owned()))
                .collect(),
        );
        self
    }

    /// How many digits of the second the key column keeps, 0 to 6, and what its database does with
    /// an instant that has more. Defaults to 6 digits.
    pub fn precision(mut self, digits: u32, rounding: Rounding) -> Self {
        self.precision = Some(digits);
        self.rounding = rounding;
        self
    }
}
