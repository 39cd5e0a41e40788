//! What is wrong with a configuration: never only the first thing.

use std::fmt;

use super::Error;

/// One thing that is wrong with a configuration.
#[derive(Clone, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub struct ConfigProblem {
    /// Where it was said: a file, `the environment variable X`, `the builder`.
    pub origin: String,
    /// The key, in dotted form: `shards.order-0.url`.
    pub key: String,
    /// What is wrong, and what to do.
    pub message: String,
}

impl fmt::Display for ConfigProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.origin.is_empty() {
            write!(f, "{}: ", self.origin)?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

/// All problems of one configuration: never only the first.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ConfigErrors(pub(crate) Vec<ConfigProblem>);

impl ConfigErrors {
    /// One problem, found outside of any file.
    pub(crate) fn one(table: &str, name: &str, message: String) -> Self {
        Self(vec![ConfigProblem {
            origin: String::new(),
            key: format!("{table}.{name}"),
            message,
        }])
    }

    /// The problems, in the order of the configuration.
    #[must_use]
    pub fn problems(&self) -> &[ConfigProblem] {
        &self.0
    }
}

impl From<Vec<ConfigProblem>> for ConfigErrors {
    fn from(problems: Vec<ConfigProblem>) -> Self {
        Self(problems)
    }
}

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [one] => write!(f, "invalid configuration: {one}"),
            many => {
                write!(f, "invalid configuration ({} problems):", many.len())?;
                for problem in many {
                    write!(f, "\n  - {problem}")?;
                }
                Ok(())
            }
        }
    }
}

impl From<ConfigErrors> for Error {
    fn from(errors: ConfigErrors) -> Self {
        Self::Config(errors)
    }
}
