//! The blocking driver, as the behaviour tests know it.

/// Tests that this driver alone can pass; `matrix` has the reasons.
macro_rules! blocking_only {
    ($($item:item)+) => {
        $($item)+
    };
}
pub(crate) use blocking_only;

/// The driver's types for a backend whose `Conn` and `Fleet` are in scope.
macro_rules! driver {
    () => {
        use diesel::connection::AnsiTransactionManager;
        use diesel_sharded::blocking;

        pub(crate) use crate::support::blocking::blocking_only;
        pub(crate) use diesel_sharded::blocking::{Isolation, Outcome};

        pub(crate) const DRIVER: &str = "blocking";

        pub(crate) type Manager = blocking::ShardedConnectionManager<Conn>;
        pub(crate) type Builder = blocking::ManagerBuilder<Conn>;
        pub(crate) type Keyspace = blocking::Keyspace<Conn>;
        pub(crate) type Reloaded = blocking::Reloaded<Conn>;
        pub(crate) type Sharded = blocking::ShardedConnection<Conn>;

        /// The application's own pool over the manager, and what it hands out.
        pub(crate) type Pool = diesel::r2d2::Pool<Manager>;
        pub(crate) type Pooled = diesel::r2d2::PooledConnection<Manager>;
        pub(crate) type PoolError = diesel::r2d2::PoolError;

        /// The connection that the driver works with, and its transaction manager.
        pub(crate) type Raw<'a> = Conn;
        pub(crate) type RawTransactions = AnsiTransactionManager;

        /// A plain connection of Diesel's, to compare with.
        pub(crate) fn plain(url: &str) -> ConnectionResult<Conn> {
            open(url)
        }

        /// A way from ours to the connection beneath, for one visit.
        pub(crate) type Way = fn(&mut Sharded, &mut Visit<'_>) -> QueryResult<()>;
        pub(crate) type Visit<'v> = dyn FnMut(&mut Raw<'_>) -> QueryResult<()> + 'v;

        pub(crate) const RAW_WAYS: &[(&str, Way)] = &[
            ("inner", |conn, visit| visit(conn.inner()?)),
            ("deref_mut", |conn, visit| visit(&mut **conn)),
            ("a function of the backend's type", |conn, visit| {
                fn raw(conn: &mut Conn, visit: &mut Visit<'_>) -> QueryResult<()> {
                    visit(conn)
                }
                raw(conn, visit)
            }),
        ];
    };
}
pub(crate) use driver;
