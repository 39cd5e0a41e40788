CREATE TABLE IF NOT EXISTS diesel_sharded_identity (
    shard TEXT NOT NULL,
    keyspace TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    PRIMARY KEY (shard, keyspace)
);
