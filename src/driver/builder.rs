//! The part of a manager's builder that describes the topology: word for word the same in both
//! drivers, so it is written once.

/// Gives a builder with a field `topology: TopologyBuilder` the methods that describe it.
macro_rules! describes_topology {
    () => {
        /// Takes the whole description of the topology from a configuration, in place of what was
        /// described so far.
        ///
        /// For what a file cannot say: [`connect_with`](Self::connect_with),
        /// [`reset_sessions`](Self::reset_sessions), [`on_return`](Self::on_return).
        #[cfg(feature = "config")]
        pub fn config(mut self, config: &crate::config::Config) -> Self {
            self.topology = crate::topology::TopologyBuilder::from_spec(config.spec().clone());
            self
        }

        /// Adds a shard: its name, and its URL or a [`ShardConfig`](crate::ShardConfig).
        pub fn shard(
            mut self,
            name: impl Into<String>,
            shard: impl Into<crate::topology::ShardConfig>,
        ) -> Self {
            self.topology = self.topology.shard(name, shard);
            self
        }

        /// Adds a keyspace.
        pub fn keyspace(
            mut self,
            name: impl Into<String>,
            keyspace: crate::topology::KeyspaceConfig,
        ) -> Self {
            self.topology = self.topology.keyspace(name, keyspace);
            self
        }

        /// Names the shard of a checkout without a route. Defaults to none: such a checkout fails.
        pub fn default_shard(mut self, name: impl Into<String>) -> Self {
            self.topology = self.topology.default_shard(name);
            self
        }

        /// Sets the pool settings of every node; a shard may override any of them.
        pub fn pool(mut self, pool: crate::topology::PoolConfig) -> Self {
            self.topology = self.topology.pool(pool);
            self
        }

        /// Says when nodes are first connected. Defaults to [`Startup::Lazy`](crate::Startup::Lazy).
        pub fn startup(mut self, startup: crate::topology::Startup) -> Self {
            self.topology = self.topology.startup(startup);
            self
        }

        /// Allows several shards to be one database, for development. Defaults to `false`.
        pub fn shared_database(mut self, shared: bool) -> Self {
            self.topology = self.topology.shared_database(shared);
            self
        }

        /// Limits the connections to one server; see
        /// [`TopologyBuilder::budget`](crate::TopologyBuilder::budget).
        pub fn budget(
            mut self,
            connections_per_server: u32,
            instances: u32,
            headroom: f64,
        ) -> Self {
            self.topology = self
                .topology
                .budget(connections_per_server, instances, headroom);
            self
        }

        /// Adds a workload class; see
        /// [`TopologyBuilder::workload`](crate::TopologyBuilder::workload).
        pub fn workload(
            mut self,
            name: impl Into<String>,
            pool: crate::topology::PoolConfig,
        ) -> Self {
            self.topology = self.topology.workload(name, pool);
            self
        }

        /// Accepts that the rule of a keyspace is not that by which its data was placed; see
        /// [`TopologyBuilder::accept_placement`](crate::TopologyBuilder::accept_placement).
        pub fn accept_placement(mut self, keyspace: impl Into<String>) -> Self {
            self.topology = self.topology.accept_placement(keyspace);
            self
        }
    };
}

pub(crate) use describes_topology;
