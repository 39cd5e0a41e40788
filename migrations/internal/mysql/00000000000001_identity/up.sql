CREATE TABLE IF NOT EXISTS diesel_sharded_identity (
    shard VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    keyspace VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    fingerprint VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    epoch BIGINT NOT NULL,
    PRIMARY KEY (shard, keyspace)
) ENGINE = InnoDB;
