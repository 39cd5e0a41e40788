CREATE TABLE IF NOT EXISTS diesel_sharded_attempt (
    version VARCHAR(50) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL PRIMARY KEY,
    unlocked TEXT CHARACTER SET utf8mb4,
    failed BIGINT,
    begun BIGINT,
    ran_before MEDIUMTEXT CHARACTER SET ascii NOT NULL,
    skipped MEDIUMTEXT CHARACTER SET ascii NOT NULL
) ENGINE = InnoDB;
