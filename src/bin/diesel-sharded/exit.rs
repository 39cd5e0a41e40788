//! What the process says with its exit code. Scripts rely on these: they are part of the interface.

use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Everything is as it was asked for.
    Done,
    /// A shard failed, or could not be reached; others may have been done.
    ShardFailed,
    /// The command line or the configuration is wrong; no database was changed. clap uses the same
    /// code for what it refuses.
    Usage,
    /// A check found something: pending, dirty or diverged migrations, differing schemas, misplaced
    /// rows.
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
        expect(dead_code, reason = "only commands that go to databases look")
    )]
    Found,
}

impl Exit {
    /// The number.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::ShardFailed => 1,
            Self::Usage => 2,
            Self::Found => 3,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

/// The codes as `--help` and the man page show them.
pub(crate) const CODES: &str = "\
Exit codes:
  0  done: everything is as it was asked for
  1  a shard failed or could not be reached; the report says which
  2  the command line or the configuration is wrong; no database was changed
  3  a check found something: pending, dirty or diverged migrations, differing schemas,
     misplaced rows";
