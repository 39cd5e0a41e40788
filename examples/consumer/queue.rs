//! Producer, channel, consumer.

use std::path::Path;

use diesel::prelude::*;
use diesel_async::sync_connection_wrapper::SyncConnectionWrapper;
use diesel_async::{RunQueryDsl, SimpleAsyncConnection};
use diesel_sharded::nonblocking::AsyncShardedConnectionManager;
use diesel_sharded::{Error, FutureExt, KeyType, KeyspaceConfig, RuleSpec};
use tokio::sync::mpsc;

type Shards = AsyncShardedConnectionManager<SyncConnectionWrapper<SqliteConnection>>;

const SHARDS: [&str; 3] = ["user-0", "user-1", "user-2"];

diesel::table! {
    /// What has happened to users.
    events (id) {
        id -> BigInt,
        user_id -> BigInt,
    }
}

/// What a broker would carry.
pub(crate) struct Message {
    /// The text form of the producer's route; absent in what others send.
    pub(crate) route: Option<String>,
    pub(crate) user: i64,
}

#[derive(Default)]
pub(crate) struct Report {
    pub(crate) handled: usize,
    /// Messages that were not handled, and why.
    pub(crate) aside: Vec<(String, String)>,
    pub(crate) on_wrong_shard: usize,
}

/// Sends so many messages, and four that cannot be honoured.
pub(crate) async fn run(folder: &Path, messages: i64) -> Result<Report, diesel_sharded::BoxError> {
    let mut builder = Shards::builder();
    for shard in SHARDS {
        builder = builder.shard(shard, folder.join(shard).display().to_string());
    }
    let users = RuleSpec::hash(SHARDS, 4096).key(KeyType::Integer);
    let shards = builder
        .keyspace("users", KeyspaceConfig::new(users))
        .build()
        .await?;
    for shard in SHARDS {
        let table = "CREATE TABLE events (id INTEGER PRIMARY KEY, user_id BIGINT NOT NULL)";
        shards.get_on(shard).await?.batch_execute(table).await?;
    }

    let (queue, messages_of) = mpsc::channel(16);
    // A spawned task starts with an empty stack, as another process does.
    let consumer = tokio::spawn(consume(shards.clone(), messages_of));
    let users = shards.keyspace("users")?;
    for user in 0..messages {
        // Deep inside a request, say: the route of this user's shard is in force.
        users
            .on(&user, async || {
                queue.send(message(&shards, user)).await.unwrap_or(());
                Ok::<_, Error>(())
            })
            .await?;
    }
    let forged = [
        None,
        Some("user-1"),          // no route at all
        Some("v1;shard=user-9"), // a shard that is gone
        Some("v2;shard=user-1"), // from a release to come
    ];
    for route in forged {
        let route = route.map(str::to_owned);
        queue.send(Message { route, user: 1 }).await.unwrap_or(());
    }
    drop(queue);
    let mut report = consumer.await??;

    for shard in SHARDS {
        let mut conn = shards.get_on(shard).await?;
        let found: Vec<i64> = events::table
            .select(events::user_id)
            .load(&mut conn)
            .await?;
        let wrong = found.iter().filter(|user| match users.locate(*user) {
            Ok(place) => place.shard().as_str() != shard,
            Err(_) => true,
        });
        report.on_wrong_shard += wrong.count();
    }
    Ok(report)
}

/// The producer's half: the route in force becomes a header.
fn message(shards: &Shards, user: i64) -> Message {
    let route = shards.topology().route_in_force();
    Message {
        route: route.map(|route| route.to_string()),
        user,
    }
}

/// The consumer's half: its first act for each message is to enter the message's route.
async fn consume(shards: Shards, mut queue: mpsc::Receiver<Message>) -> Result<Report, Error> {
    let mut report = Report::default();
    while let Some(Message { route, user }) = queue.recv().await {
        let entered = match &route {
            Some(text) => shards.parse_route(text).map_err(|error| error.to_string()),
            None => Err("the message has no route".to_owned()),
        };
        match entered {
            Ok(route) => {
                handle(&shards, user).with_route(route).await?;
                report.handled += 1;
            }
            Err(reason) => report.aside.push((format!("{route:?}"), reason)),
        }
    }
    Ok(report)
}

async fn handle(shards: &Shards, user: i64) -> Result<(), Error> {
    let mut conn = shards.get().await?;
    diesel::insert_into(events::table)
        .values(events::user_id.eq(user))
        .execute(&mut conn)
        .await?;
    Ok(())
}
