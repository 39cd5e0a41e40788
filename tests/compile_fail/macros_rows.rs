//! What a row has to say about itself.
#![allow(unused)]
use diesel_sharded::{ShardKey, ToShardKey};

#[derive(ShardKey)]
struct NoKeyspace {
    #[shard_key]
    user_id: i64,
}

#[derive(ShardKey)]
#[sharded(keyspace = "orders")]
struct NoKey {
    user_id: i64,
}

#[derive(ShardKey)]
#[sharded(keyspace = "orders")]
struct TwoKeys {
    #[shard_key]
    user_id: i64,
    #[shard_key]
    id: i64,
}

#[derive(ShardKey)]
#[sharded(keyspace = "orders")]
struct NotAKey {
    #[shard_key]
    price: f64,
}

#[derive(ShardKey)]
#[sharded(keyspace = "orders")]
struct PathFromTheField {
    #[shard_key(path = "user_id")]
    order: Order,
}

#[derive(ShardKey)]
#[sharded(keyspace = "orders")]
struct NoSuchField {
    #[shard_key(path = "order.user")]
    order: Order,
}

#[derive(ShardKey)]
#[sharded(keyspace = "orders")]
struct NoPath {
    #[shard_key(path = "order.user()")]
    order: Order,
}

#[derive(ShardKey)]
#[sharded(key_space = "orders")]
struct Mistyped {
    #[shard_key]
    user_id: i64,
}

#[derive(ShardKey)]
#[sharded(keyspace = "orders")]
enum Either {
    Left(i64),
}

struct Order {
    user_id: i64,
}

#[derive(ToShardKey)]
struct Two(i64, i64);

#[derive(ToShardKey)]
struct OfAFloat(f64);

fn main() {}
