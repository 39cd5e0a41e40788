//! Statements that return their rows, on physical tables.

/// What the behaviour file looks for beside itself.
mod surface {
    pub(crate) use super::super::tables::surface::{both, through_both};
}

#[path = "../surface_returning.rs"]
mod forms;
