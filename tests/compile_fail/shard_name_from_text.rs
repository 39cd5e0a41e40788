//! Text becomes a shard's name only by asking a topology.
use diesel_sharded::ShardName;

fn main() {
    let _: ShardName = "a".into();
}
