//! One runner per database.
//!
//! Each lock belongs to what dies with its runner: a session of the server, or an open file. None is
//! ever waited for inside the database: a statement that waits holds a snapshot, and `CREATE INDEX
//! CONCURRENTLY` of the runner that has the lock waits for that snapshot in turn.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use diesel::prelude::*;
use diesel::result::Error as DieselError;
use diesel::sql_types::{BigInt, Bool, Nullable, Text};
use sha2::{Digest, Sha256};

use super::tables::diesel_sharded_lock as last;
use super::{Session, bookkeeping, now};
use crate::migrate::event::Holder;
use crate::migrate::report::{Failure, FailureKind};
use crate::migrate::source::hex;
use crate::topology::UrlKind;

/// The number of PostgreSQL's advisory lock; such locks are each database's own. It reads `dieselsh`.
const POSTGRES_KEY: i64 = 0x6469_6573_656c_7368;

/// How a lock is asked for in SQL.
enum Ask {
    Take,
    Release,
    /// Whether this session has it.
    Check,
    /// The number of the session that has it.
    Holder,
}

/// A shard's lock, held by this runner.
#[derive(Debug)]
pub(in crate::migrate) enum Lock {
    /// The session has it.
    Session,
    /// An open file has it.
    File(File),
    /// There is nobody to keep out (an in-memory database), or locks are switched off.
    Nothing,
}

/// Who has a lock, as far as that can be known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::migrate) enum Held {
    #[default]
    Nobody,
    By(Holder),
    /// That cannot be found out; why.
    Unknown(String),
}

impl Held {
    pub(in crate::migrate) fn holder(self) -> Option<Holder> {
        match self {
            Self::By(holder) => Some(holder),
            Self::Nobody | Self::Unknown(_) => None,
        }
    }
}

/// Who we are, in the words others get to see.
pub(in crate::migrate) fn myself() -> String {
    let host = ["HOSTNAME", "COMPUTERNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok())
        .or_else(|| std::fs::read_to_string("/proc/sys/kernel/hostname").ok());
    let host = host.as_deref().map_or("an unknown host", str::trim);
    format!("process {} on {host}", std::process::id())
}

fn time(seconds: i64) -> Option<SystemTime> {
    u64::try_from(seconds)
        .ok()
        .map(|seconds| UNIX_EPOCH + Duration::from_secs(seconds))
}

/// The file whose lock stands for a SQLite database: beside it, and never removed, since whoever
/// waits for it has it open.
fn lock_file(database: &Path) -> PathBuf {
    let mut name = database.file_name().unwrap_or_default().to_owned();
    name.push(".migration-lock");
    database.with_file_name(name)
}

/// The name of MySQL's lock. Such names are the whole server's, and at most 64 characters long.
fn mysql_name(database: &str) -> String {
    let digest = Sha256::digest(database.as_bytes());
    format!("diesel_sharded:{}", &hex(&digest)[..40])
}

impl Session {
    /// Takes the lock if it is free. `file` is the SQLite database, where it is a file.
    pub(in crate::migrate) fn try_lock(
        &mut self,
        file: Option<&Path>,
    ) -> Result<Option<Lock>, Failure> {
        let failed = |error: &DieselError| bookkeeping("taking the lock", error);
        match (self.kind, file) {
            (UrlKind::Sqlite, None) => Ok(Some(Lock::Nothing)),
            (UrlKind::Sqlite, Some(database)) => {
                try_lock_file(&lock_file(database)).map(|file| file.map(Lock::File))
            }
            (UrlKind::Postgres | UrlKind::Mysql, _) => {
                let sql = self.ask(&Ask::Take).map_err(|error| failed(&error))?;
                let taken: Option<bool> = diesel::dsl::sql::<Nullable<Bool>>(&sql)
                    .get_result(&mut self.conn)
                    .map_err(|error| failed(&error))?;
                Ok((taken == Some(true)).then_some(Lock::Session))
            }
        }
    }

    /// Gives the lock back. That it was not ours any more is an error: somebody else may have
    /// migrated at the same time.
    pub(in crate::migrate) fn unlock(&mut self, lock: Lock) -> Result<(), Failure> {
        match lock {
            Lock::Nothing => Ok(()),
            // Closing the file lets go of the lock.
            Lock::File(file) => {
                drop(file);
                Ok(())
            }
            Lock::Session => {
                let ours = self
                    .ask(&Ask::Release)
                    .and_then(|sql| {
                        diesel::dsl::sql::<Nullable<Bool>>(&sql).get_result(&mut self.conn)
                    })
                    .map_err(|error| bookkeeping("releasing the lock", &error))?;
                match ours {
                    Some(true) => Ok(()),
                    _ => Err(lost("the lock was not ours any more when it was released")),
                }
            }
        }
    }

    /// Fails unless the lock is still this session's: a pooler between us and the server, or a
    /// migration that lets go of all locks, may have lost it.
    pub(in crate::migrate) fn check_lock(&mut self, lock: &Lock) -> Result<(), Failure> {
        if !matches!(lock, Lock::Session) {
            return Ok(());
        }
        let ours: Option<bool> = self
            .ask(&Ask::Check)
            .and_then(|sql| diesel::dsl::sql::<Nullable<Bool>>(&sql).get_result(&mut self.conn))
            .map_err(|error| bookkeeping("checking the lock", &error))?;
        match ours {
            Some(true) => Ok(()),
            _ => Err(lost("the lock is not this session's any more")),
        }
    }

    /// Writes down who has the lock, for those who wait.
    pub(in crate::migrate) fn sign_lock(&mut self, lock: &mut Lock) -> Result<(), Failure> {
        match lock {
            Lock::Nothing => Ok(()),
            Lock::File(file) => {
                let text = format!("{}\n{}\n", now(), myself());
                // Nobody's work depends on it.
                let _ = file.set_len(0);
                let _ = file.rewind();
                let _ = file.write_all(text.as_bytes());
                Ok(())
            }
            Lock::Session => {
                let signed = self.sign(&myself());
                signed.map_err(|error| bookkeeping("writing down who has the lock", &error))
            }
        }
    }

    fn sign(&mut self, who: &str) -> QueryResult<()> {
        let session = match self.kind {
            UrlKind::Mysql => "SELECT CAST(CONNECTION_ID() AS SIGNED)",
            _ => "SELECT pg_backend_pid()::bigint",
        };
        let session: i64 = diesel::dsl::sql::<BigInt>(session).get_result(&mut self.conn)?;
        let values = (
            last::holder.eq(who),
            last::session.eq(session),
            last::since.eq(now()),
        );
        let updated = diesel::update(last::table.filter(last::id.eq(1)))
            .set(values)
            .execute(&mut self.conn)?;
        if updated == 0 {
            diesel::insert_into(last::table)
                .values((last::id.eq(1), values))
                .execute(&mut self.conn)?;
        }
        Ok(())
    }

    /// Who has the lock, if anybody, and if it can be known: looking at a database wants no rights on the
    /// file that stands for its lock.
    pub(in crate::migrate) fn holder(&mut self, file: Option<&Path>) -> Result<Held, Failure> {
        match self.find_holder(file) {
            Err(failure) if self.kind == UrlKind::Sqlite => Ok(Held::Unknown(failure.message)),
            found => found.map(|holder| holder.map_or(Held::Nobody, Held::By)),
        }
    }

    /// Who has the lock, if anybody; fails where that cannot be known.
    pub(in crate::migrate) fn find_holder(
        &mut self,
        file: Option<&Path>,
    ) -> Result<Option<Holder>, Failure> {
        let failed = |error: &DieselError| bookkeeping("asking who has the lock", error);
        if self.kind == UrlKind::Sqlite {
            return match file {
                Some(database) => file_holder(&lock_file(database)),
                None => Ok(None),
            };
        }
        let sql = self.ask(&Ask::Holder).map_err(|error| failed(&error))?;
        let session: Option<i64> = diesel::dsl::sql::<Nullable<BigInt>>(&sql)
            .get_result(&mut self.conn)
            .map_err(|error| failed(&error))?;
        let Some(session) = session else {
            return Ok(None);
        };
        // Our own word for it is only true of the session that wrote it.
        let there = self.kept().map_err(|error| failed(&error))?;
        let signed: Option<(String, i64)> =
            if there.iter().any(|name| name == "diesel_sharded_lock") {
                last::table
                    .filter(last::session.eq(session))
                    .select((last::holder, last::since))
                    .first(&mut self.conn)
                    .optional()
                    .map_err(|error| failed(&error))?
            } else {
                None
            };
        Ok(Some(match signed {
            Some((who, since)) => Holder {
                who,
                session: Some(session),
                since: time(since),
            },
            None => Holder {
                who: "another runner".to_owned(),
                session: Some(session),
                since: None,
            },
        }))
    }

    /// Ends the session that has the lock.
    pub(in crate::migrate) fn end(&mut self, session: i64) -> QueryResult<()> {
        use diesel::connection::SimpleConnection;
        match self.kind {
            UrlKind::Sqlite => Ok(()),
            UrlKind::Postgres => self
                .conn
                .batch_execute(&format!("SELECT pg_terminate_backend({session})")),
            UrlKind::Mysql => self.conn.batch_execute(&format!("KILL {session}")),
        }
    }

    fn ask(&mut self, what: &Ask) -> QueryResult<String> {
        if self.kind == UrlKind::Mysql {
            let database: Option<String> = diesel::dsl::sql::<Nullable<Text>>("SELECT DATABASE()")
                .get_result(&mut self.conn)?;
            let name = mysql_name(&database.unwrap_or_default());
            return Ok(match what {
                Ask::Take => format!("SELECT GET_LOCK('{name}', 0)"),
                Ask::Release => format!("SELECT RELEASE_LOCK('{name}')"),
                Ask::Check => format!("SELECT IS_USED_LOCK('{name}') = CONNECTION_ID()"),
                Ask::Holder => format!("SELECT CAST(IS_USED_LOCK('{name}') AS SIGNED)"),
            });
        }
        let held = format!(
            "locktype = 'advisory' AND classid = {} AND objid = {} AND objsubid = 1 AND granted \
             AND database = (SELECT oid FROM pg_database WHERE datname = current_database())",
            POSTGRES_KEY >> 32,
            POSTGRES_KEY & 0xffff_ffff
        );
        Ok(match what {
            Ask::Take => format!("SELECT pg_try_advisory_lock({POSTGRES_KEY})"),
            Ask::Release => format!("SELECT pg_advisory_unlock({POSTGRES_KEY})"),
            Ask::Check => format!(
                "SELECT EXISTS (SELECT 1 FROM pg_locks WHERE {held} AND pid = pg_backend_pid())"
            ),
            Ask::Holder => {
                format!("SELECT (SELECT pid::bigint FROM pg_locks WHERE {held} LIMIT 1)")
            }
        })
    }
}

fn lost(what: &str) -> Failure {
    Failure::new(
        FailureKind::LockLost,
        format!(
            "{what}: is there a pooler between us and the server that hands out a session per transaction? connect past it, or switch the lock off and see to one runner at a time"
        ),
    )
}

fn io_failed(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        FailureKind::Bookkeeping,
        format!(
            "the lock file {} cannot be used: {error}; give this user the right to read and write it, as whoever migrates needs",
            path.display()
        ),
    )
}

fn try_lock_file(path: &Path) -> Result<Option<File>, Failure> {
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(path)
        .map_err(|error| io_failed(path, &error))?;
    match fs4::FileExt::try_lock(&file) {
        Ok(()) => Ok(Some(file)),
        Err(fs4::TryLockError::WouldBlock) => Ok(None),
        Err(fs4::TryLockError::Error(error)) => Err(io_failed(path, &error)),
    }
}

/// Asks with a shared lock on a file that is open for reading only: that wants no right to write, and two
/// who ask do not take each other for a runner.
fn file_holder(path: &Path) -> Result<Option<Holder>, Failure> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(path, &error)),
    };
    match fs4::FileExt::try_lock_shared(&file) {
        Ok(()) => return Ok(None),
        Err(fs4::TryLockError::WouldBlock) => {}
        Err(fs4::TryLockError::Error(error)) => return Err(unreadable(path, &error)),
    }
    let mut text = String::new();
    // On Windows a locked file cannot be read.
    let _ = file.read_to_string(&mut text);
    let mut lines = text.lines();
    let since = lines.next().and_then(|line| line.parse().ok());
    Ok(Some(Holder {
        who: lines.next().unwrap_or("another process").to_owned(),
        session: None,
        since: since.and_then(time),
    }))
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(
        FailureKind::Bookkeeping,
        format!(
            "who has the lock cannot be found out: {}: {error}; give this user the right to read it",
            path.display()
        ),
    )
}
