//! Production: the pool under failure, change and load. What holds on every backend.

mod hooks;
mod identity;
mod identity_reload;
mod reload;
mod reload_followers;
mod reload_load;
mod reload_refused;
pub(crate) mod retries;
mod sessions;
mod states;
mod test_transactions;
mod workloads;

pub(crate) use super::backend;
