//! The behaviour suite: what the crate promises, asked of real databases.
//!
//! Each behaviour file is compiled once for every backend it applies to; inside it, `backend` is
//! that backend's module of [`support`]. `matrix::print` shows which test exists where, and asks a
//! reason for every gap.

mod support;

mod compile_fail;
mod matrix;
mod secrets;
mod stress;

/// What holds on every backend.
macro_rules! everywhere {
    () => {
        #[path = "bound.rs"]
        mod bound;
        #[path = "guards.rs"]
        mod guards;
        #[path = "route_text.rs"]
        mod route_text;
        #[path = "routes.rs"]
        mod routes;
        #[path = "surface.rs"]
        mod surface;
        #[path = "threads.rs"]
        mod threads;
        #[path = "topologies.rs"]
        mod topologies;
    };
}

#[path = "."]
mod sqlite {
    pub(crate) use crate::support::sqlite as backend;

    everywhere!();
}

#[path = "."]
mod postgres {
    pub(crate) use crate::support::postgres as backend;

    everywhere!();
}

#[path = "."]
mod mysql {
    pub(crate) use crate::support::mysql as backend;

    everywhere!();
}
