//! How a transaction begins on each backend: a pure decision.

use crate::topology::UrlKind;

/// How strictly a transaction is kept apart from others.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Hash)]
#[non_exhaustive]
pub enum Isolation {
    /// Each statement sees what was committed before it began.
    ReadCommitted,
    /// All statements see what was committed before the first began.
    RepeatableRead,
    /// As if transactions ran one after another.
    Serializable,
}

impl Isolation {
    fn sql(self) -> &'static str {
        match self {
            Self::ReadCommitted => "READ COMMITTED",
            Self::RepeatableRead => "REPEATABLE READ",
            Self::Serializable => "SERIALIZABLE",
        }
    }
}

/// What was asked of a transaction.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct BeginOptions {
    pub(crate) isolation: Option<Isolation>,
    pub(crate) read_only: Option<bool>,
    pub(crate) deferrable: Option<bool>,
    pub(crate) immediate: bool,
}

/// What is sent to begin such a transaction.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Begin {
    /// `None`: the backend's plain `BEGIN`.
    pub(crate) sql: Option<String>,
    /// The session is told before `BEGIN` that it may only read, and after the end that it may
    /// write again (SQLite has no read-only transaction).
    pub(crate) query_only: bool,
    pub(crate) read_only: bool,
}

impl BeginOptions {
    /// The statement for a backend, or the name of what the backend does not have.
    pub(crate) fn sql(&self, kind: UrlKind) -> Result<Begin, &'static str> {
        let read_only = self.read_only == Some(true);
        let mut begin = Begin {
            read_only,
            ..Begin::default()
        };
        if self.immediate && kind != UrlKind::Sqlite {
            return Err("immediate");
        }
        if self.deferrable.is_some() && kind != UrlKind::Postgres {
            return Err("deferrable");
        }
        match kind {
            UrlKind::Sqlite => {
                // SQLite's transactions are serializable, which is at least what was asked for.
                begin.query_only = read_only;
                begin.sql = self.immediate.then(|| "BEGIN IMMEDIATE".to_owned());
            }
            UrlKind::Postgres => {
                let mut sql = "BEGIN TRANSACTION".to_owned();
                if let Some(level) = self.isolation {
                    sql = sql + " ISOLATION LEVEL " + level.sql();
                }
                match self.read_only {
                    Some(true) => sql += " READ ONLY",
                    Some(false) => sql += " READ WRITE",
                    None => {}
                }
                match self.deferrable {
                    Some(true) => sql += " DEFERRABLE",
                    Some(false) => sql += " NOT DEFERRABLE",
                    None => {}
                }
                begin.sql = (*self != Self::default()).then_some(sql);
            }
            UrlKind::Mysql => {
                let mut sql = String::new();
                if let Some(level) = self.isolation {
                    // Holds for the next transaction only.
                    sql = sql + "SET TRANSACTION ISOLATION LEVEL " + level.sql() + "; ";
                }
                sql += "START TRANSACTION";
                match self.read_only {
                    Some(true) => sql += " READ ONLY",
                    Some(false) => sql += " READ WRITE",
                    None => {}
                }
                begin.sql = (*self != Self::default()).then_some(sql);
            }
        }
        Ok(begin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_backend_begins_in_its_own_words() {
        let serializable = BeginOptions {
            isolation: Some(Isolation::Serializable),
            read_only: Some(true),
            ..BeginOptions::default()
        };
        let sql = |kind| serializable.sql(kind).map(|begin| begin.sql);
        assert_eq!(
            sql(UrlKind::Postgres),
            Ok(Some(
                "BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY".to_owned()
            ))
        );
        assert_eq!(
            sql(UrlKind::Mysql),
            Ok(Some(
                "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; START TRANSACTION READ ONLY"
                    .to_owned()
            ))
        );
        assert_eq!(sql(UrlKind::Sqlite), Ok(None));
        for kind in [UrlKind::Postgres, UrlKind::Mysql, UrlKind::Sqlite] {
            assert_eq!(BeginOptions::default().sql(kind).map(|b| b.sql), Ok(None));
        }
    }

    #[test]
    fn what_a_backend_does_not_have_is_refused() {
        let immediate = BeginOptions {
            immediate: true,
            ..BeginOptions::default()
        };
        assert_eq!(immediate.sql(UrlKind::Postgres), Err("immediate"));
        assert_eq!(immediate.sql(UrlKind::Mysql), Err("immediate"));
        assert!(immediate.sql(UrlKind::Sqlite).is_ok());
        let deferrable = BeginOptions {
            deferrable: Some(true),
            ..BeginOptions::default()
        };
        assert_eq!(deferrable.sql(UrlKind::Mysql), Err("deferrable"));
    }
}
