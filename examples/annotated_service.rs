//! An orders service whose methods say themselves where their work goes.
//!
//! `cargo run --example annotated_service --features sqlite,bundled,macros`

use diesel::connection::SimpleConnection;
use diesel::prelude::*;
use diesel_sharded::blocking::{Keyspace, ShardedConnection, ShardedConnectionManager};
use diesel_sharded::{
    Error, HasShardKey, KeyspaceConfig, RuleSpec, ShardKey, routed, sharded_transaction,
};

diesel::table! {
    /// What users ordered.
    orders (id) {
        /// Unique over all shards.
        id -> BigInt,
        /// The shard key.
        user_id -> BigInt,
        /// What it is.
        item -> Text,
    }
}

diesel::table! {
    /// What must be kept whatever becomes of a transaction.
    audit (note) {
        /// What happened.
        note -> Text,
    }
}

/// A row of `orders`. The struct says where it lives, once for all calls.
#[derive(Clone, Debug, PartialEq, Insertable, Queryable, ShardKey)]
#[diesel(table_name = orders)]
#[sharded(keyspace = "orders")]
struct Order {
    id: i64,
    #[shard_key]
    user_id: i64,
    item: String,
}

type Connection = ShardedConnection<SqliteConnection>;

/// The service: where its rows are, and the shard of the audit log.
struct Orders {
    shards: ShardedConnectionManager<SqliteConnection>,
    orders: Keyspace<SqliteConnection>,
}

impl Orders {
    /// One transaction on the shard that owns the user. Callers pass the order alone.
    #[sharded_transaction(keyspace = self.orders, key = order.user_id, retries = 3)]
    fn create(&self, #[conn] conn: &mut Connection, order: &Order) -> Result<usize, Error> {
        self.check(conn, order)?;
        Ok(order.insert_checked(conn)?)
    }

    /// Takes the connection, so it works in the transaction of whoever calls.
    fn check(&self, conn: &mut Connection, order: &Order) -> Result<(), Error> {
        let same: i64 = orders::table
            .filter(orders::user_id.eq(order.user_id))
            .filter(orders::item.eq(&order.item))
            .count()
            .get_result(conn)?;
        if same < 3 {
            return Ok(());
        }
        // It is to be written down whatever becomes of the order, and the log has a shard of its own.
        let note = format!("user {} wants a fourth {}", order.user_id, order.item);
        self.shards.independent(|| self.note(&note))?;
        Err(Error::from(diesel::result::Error::RollbackTransaction))
    }

    /// A fixed shard.
    #[routed(shards = self.shards, shard = "audit")]
    fn note(&self, text: &str) -> Result<(), Error> {
        diesel::insert_into(audit::table)
            .values(audit::note.eq(text))
            .execute(&mut self.shards.get()?)?;
        Ok(())
    }

    /// Whatever this calls checks out connections of the user's shard.
    #[routed(keyspace = self.orders, key = user)]
    fn of_user(&self, user: i64) -> Result<Vec<Order>, Error> {
        self.in_route(user)
    }

    /// Knows of no route; it runs under its caller's.
    fn in_route(&self, user: i64) -> Result<Vec<Order>, Error> {
        Ok(orders::table
            .filter(orders::user_id.eq(user))
            .order(orders::id)
            .load(&mut self.shards.get()?)?)
    }

    /// The mistake that other systems pass over in silence: a switch inside a transaction.
    #[sharded_transaction(keyspace = self.orders, key = order.user_id)]
    fn create_and_note(
        &self,
        #[conn] conn: &mut Connection,
        order: &Order,
    ) -> Result<usize, Error> {
        let count = order.insert_checked(conn)?;
        self.note("an order was created")?;
        Ok(count)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let dir = tempfile::tempdir()?;
    let file = |name: &str| dir.path().join(name).display().to_string();
    let shards = ShardedConnectionManager::<SqliteConnection>::builder()
        .shard("order-0", file("order-0.db"))
        .shard("order-1", file("order-1.db"))
        .shard("audit", file("audit.db"))
        .keyspace(
            "orders",
            KeyspaceConfig::new(RuleSpec::hash(["order-0", "order-1"], 4096)),
        )
        .build()?;
    for shard in shards.shards() {
        shards.get_on(shard)?.batch_execute(
            "CREATE TABLE orders (id INTEGER PRIMARY KEY, user_id BIGINT NOT NULL, item TEXT NOT NULL);
             CREATE TABLE audit (note TEXT PRIMARY KEY)",
        )?;
    }
    let service = Orders {
        orders: shards.keyspace("orders")?,
        shards,
    };
    let order = |id, user_id| Order {
        id,
        user_id,
        item: "lamp".to_owned(),
    };

    for id in 0..60 {
        service.create(&order(id, id % 20))?;
    }
    assert_eq!(
        service.of_user(7)?,
        [order(7, 7), order(27, 7), order(47, 7)]
    );

    // Every row is where its key belongs, says each database.
    let mut rows = 0;
    for shard in ["order-0", "order-1"] {
        let users = orders::table
            .select(orders::user_id)
            .load::<i64>(&mut service.shards.get_on(shard)?)?;
        for user in &users {
            assert_eq!(service.orders.locate(user)?.shard(), shard);
        }
        assert!(!users.is_empty());
        rows += users.len();
    }
    assert_eq!(rows, 60);
    println!("60 orders of 20 users on two shards, each where its user belongs");

    // The audit record stands although the order was rolled back.
    assert!(service.create(&order(60, 7)).is_err());
    let notes = audit::table
        .select(audit::note)
        .load::<String>(&mut service.shards.get_on("audit")?)?;
    assert_eq!(notes, ["user 7 wants a fourth lamp"]);
    println!("audit: {}", notes[0]);

    // The switch inside a transaction is an error that names both shards, and nothing was written.
    let error = service
        .create_and_note(&order(61, 3))
        .expect_err("a switch inside a transaction");
    assert!(
        matches!(&error, Error::PinnedElsewhere { pinned, wanted }
            if *pinned == service.orders.locate(&3)?.shard() && *wanted == "audit"),
        "{error}"
    );
    assert_eq!(service.of_user(3)?.len(), 3);
    println!("refused: {error}");

    // A row on a connection of another shard.
    let lost = order(62, 3);
    let elsewhere = match service.orders.route_of(&lost)?.shard().as_str() {
        "order-0" => "order-1",
        _ => "order-0",
    };
    let error = lost
        .insert_checked(&mut service.shards.get_on(elsewhere)?)
        .expect_err("a row of another shard");
    assert!(matches!(
        Error::find(&error),
        Some(Error::WrongShard { .. })
    ));
    println!("refused: {error}");

    // And rows in bulk, sorted by the key that the struct names.
    let grouped = service
        .orders
        .group_rows((100..200).map(|id| order(id, id)))?;
    assert!(grouped.refused.is_empty());
    for (shard, rows) in grouped.by_shard {
        assert!(rows.iter().all(|row| row.shard_key() != ShardKey::Null));
        service.shards.transaction_on(shard, |conn| {
            diesel::insert_into(orders::table)
                .values(rows)
                .execute(conn)
        })?;
    }
    assert_eq!(service.of_user(150)?, [order(150, 150)]);
    Ok(())
}
