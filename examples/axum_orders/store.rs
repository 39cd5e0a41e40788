//! Where orders are kept: the shards, the tables, and what can be done with an order.

use std::path::Path;

use diesel::prelude::*;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{AsyncConnection, RunQueryDsl, SimpleAsyncConnection};
use diesel_sharded::nonblocking::{AsyncShardedConnection, AsyncShardedConnectionManager};
use diesel_sharded::{Error, KeyType, KeyspaceConfig, RuleSpec};

type Sqlite = SyncConnectionWrapper<SqliteConnection>;
pub(crate) type Shards = AsyncShardedConnectionManager<Sqlite>;
pub(crate) type Conn = AsyncShardedConnection<Sqlite>;

pub(crate) const SHARDS: [&str; 4] = ["order-0", "order-1", "order-2", "order-3"];
pub(crate) const KEYSPACE: &str = "orders";

const TABLES: &str = "
    PRAGMA journal_mode = WAL;
    CREATE TABLE IF NOT EXISTS orders (
        id INTEGER PRIMARY KEY, customer_id BIGINT NOT NULL, item TEXT NOT NULL,
        cents BIGINT NOT NULL, paid BOOLEAN NOT NULL DEFAULT FALSE
    );
    CREATE INDEX IF NOT EXISTS orders_of_customer ON orders (customer_id);
    CREATE TABLE IF NOT EXISTS payments (
        order_id BIGINT PRIMARY KEY REFERENCES orders (id), customer_id BIGINT NOT NULL,
        cents BIGINT NOT NULL
    );";

diesel::table! {
    orders (id) {
        id -> BigInt,
        customer_id -> BigInt,
        item -> Text,
        cents -> BigInt,
        paid -> Bool,
    }
}

diesel::table! {
    payments (order_id) {
        order_id -> BigInt,
        customer_id -> BigInt,
        cents -> BigInt,
    }
}

#[derive(Clone, Debug, Queryable, Selectable, serde::Serialize, serde::Deserialize)]
pub(crate) struct Order {
    pub(crate) id: i64,
    pub(crate) customer_id: i64,
    pub(crate) item: String,
    pub(crate) cents: i64,
    pub(crate) paid: bool,
}

#[derive(Clone, Debug, serde::Deserialize)]
pub(crate) struct NewOrder {
    pub(crate) item: String,
    pub(crate) cents: i64,
}

/// Opens, and where they are missing makes, the four databases of a folder.
pub(crate) async fn open(folder: &Path) -> Result<Shards, Error> {
    let mut builder = Shards::builder();
    for shard in SHARDS {
        let file = folder.join(format!("{shard}.db"));
        builder = builder.shard(shard, file.display().to_string());
    }
    let customers = RuleSpec::hash(SHARDS, 4096).key(KeyType::Integer);
    let shards = builder
        .keyspace(KEYSPACE, KeyspaceConfig::new(customers))
        .connect_with(|node| {
            let url = node.url().expose().to_owned();
            async move {
                let mut conn = Sqlite::establish(&url).await?;
                // The wait first: other connections of the pool write too.
                conn.batch_execute("PRAGMA busy_timeout = 10000; PRAGMA synchronous = NORMAL")
                    .await
                    .map_err(ConnectionError::CouldntSetupConfiguration)?;
                Ok(conn)
            }
        })
        .build()
        .await?;
    for shard in SHARDS {
        let mut conn = shards.get_on(shard).await?;
        conn.batch_execute(TABLES).await?;
    }
    Ok(shards)
}

/// What keeps an order from being paid.
#[derive(Debug)]
pub(crate) enum PayError {
    NoSuchOrder,
    PaidAlready,
    Other(Error),
}

impl From<diesel::result::Error> for PayError {
    fn from(error: diesel::result::Error) -> Self {
        Self::Other(error.into())
    }
}

/// Writes an order down. The connection is one of the customer's shard.
pub(crate) async fn create(conn: &mut Conn, customer: i64, new: NewOrder) -> QueryResult<Order> {
    diesel::insert_into(orders::table)
        .values((
            orders::customer_id.eq(customer),
            orders::item.eq(new.item),
            orders::cents.eq(new.cents),
        ))
        .returning(Order::as_returning())
        .get_result(conn)
        .await
}

/// The orders of a customer, the oldest first.
pub(crate) async fn list(conn: &mut Conn, customer: i64) -> QueryResult<Vec<Order>> {
    orders::table
        .filter(orders::customer_id.eq(customer))
        .order(orders::id)
        .select(Order::as_select())
        .load(conn)
        .await
}

/// Pays an order, in the transaction around it: the payment and the mark stand or fall together.
pub(crate) async fn pay(conn: &mut Conn, customer: i64, order: i64) -> Result<Order, PayError> {
    let found = orders::table
        .filter(orders::id.eq(order).and(orders::customer_id.eq(customer)))
        .select(Order::as_select())
        .first(conn)
        .await
        .optional()?;
    let Some(mut found) = found else {
        return Err(PayError::NoSuchOrder);
    };
    if found.paid {
        return Err(PayError::PaidAlready);
    }
    diesel::insert_into(payments::table)
        .values((
            payments::order_id.eq(found.id),
            payments::customer_id.eq(customer),
            payments::cents.eq(found.cents),
        ))
        .execute(conn)
        .await?;
    diesel::update(orders::table.filter(orders::id.eq(found.id)))
        .set(orders::paid.eq(true))
        .execute(conn)
        .await?;
    found.paid = true;
    Ok(found)
}
