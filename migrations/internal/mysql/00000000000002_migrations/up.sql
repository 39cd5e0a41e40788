CREATE TABLE IF NOT EXISTS diesel_sharded_migration (
    version VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    name TEXT CHARACTER SET utf8mb4 NOT NULL,
    checksum VARCHAR(64) CHARACTER SET ascii,
    applied_at BIGINT NOT NULL
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS diesel_sharded_progress (
    version VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    name TEXT CHARACTER SET utf8mb4 NOT NULL,
    direction VARCHAR(4) CHARACTER SET ascii NOT NULL,
    done BIGINT NOT NULL,
    total BIGINT NOT NULL,
    error TEXT CHARACTER SET utf8mb4,
    started_at BIGINT NOT NULL
) ENGINE = InnoDB;
CREATE TABLE IF NOT EXISTS diesel_sharded_lock (
    id BIGINT NOT NULL PRIMARY KEY,
    holder TEXT CHARACTER SET utf8mb4 NOT NULL,
    session BIGINT NOT NULL,
    since BIGINT NOT NULL
) ENGINE = InnoDB;
