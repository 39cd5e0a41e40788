CREATE TABLE IF NOT EXISTS diesel_sharded_migration (
    version VARCHAR(50) NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    checksum VARCHAR(64),
    applied_at BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS diesel_sharded_progress (
    version VARCHAR(50) NOT NULL PRIMARY KEY,
    name TEXT NOT NULL,
    direction VARCHAR(4) NOT NULL,
    done BIGINT NOT NULL,
    total BIGINT NOT NULL,
    error TEXT,
    started_at BIGINT NOT NULL
);
CREATE TABLE IF NOT EXISTS diesel_sharded_lock (
    id BIGINT NOT NULL PRIMARY KEY,
    holder TEXT NOT NULL,
    session BIGINT NOT NULL,
    since BIGINT NOT NULL
);
