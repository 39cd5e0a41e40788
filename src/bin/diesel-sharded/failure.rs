//! Why a command could not do its work.

use std::fmt;

use diesel_sharded::{ConfigProblem, Error};

use crate::exit::Exit;

/// What a command answers.
pub(crate) type CommandResult = Result<Exit, Failure>;

/// Why a command could not do its work. Its text holds no secret, since the library's errors do not.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The library refused.
    Library(Box<Error>),
    /// Something around the library is wrong.
    Message {
        /// How the process ends.
        exit: Exit,
        /// What is wrong, and what to do.
        text: String,
    },
}

impl Failure {
    /// The command line asks for something that does not exist or makes no sense.
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Message {
            exit: Exit::Usage,
            text: text.into(),
        }
    }

    /// How the process ends.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Message { exit, .. } => *exit,
            Self::Library(error) => match **error {
                Error::Config(_)
                | Error::UnknownShard { .. }
                | Error::UnknownKeyspace { .. }
                | Error::UnknownWorkload { .. }
                | Error::NullShardKey { .. }
                | Error::KeyType { .. }
                | Error::NotCovered { .. } => Exit::Usage,
                _ => Exit::ShardFailed,
            },
        }
    }

    /// Why a node is unavailable, in a word; `None` for any other failure.
    #[cfg_attr(
        not(any(feature = "sqlite", feature = "postgres", feature = "mysql")),
        expect(dead_code, reason = "only commands that go to databases ask")
    )]
    pub(crate) fn unavailable(&self) -> Option<&'static str> {
        match self {
            Self::Library(error) => match **error {
                Error::Unavailable { cause, .. } => Some(cause.as_str()),
                _ => None,
            },
            Self::Message { .. } => None,
        }
    }

    /// The problems of a configuration, one by one.
    pub(crate) fn problems(&self) -> &[ConfigProblem] {
        match self {
            Self::Library(error) => match &**error {
                Error::Config(problems) => problems.problems(),
                _ => &[],
            },
            Self::Message { .. } => &[],
        }
    }
}

/// The whole chain of causes in one text.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message { text, .. } => f.write_str(text),
            Self::Library(error) => f.write_str(&chain(&**error)),
        }
    }
}

/// An error and its causes, each once: some libraries repeat their source in their own text.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        // Client libraries break their messages into lines; here one failure is one line.
        let said = cause.to_string();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        if !said.is_empty() && !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        next = cause.source();
    }
    text
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Library(Box::new(error))
    }
}
