CREATE TABLE IF NOT EXISTS diesel_sharded_attempt (
    version VARCHAR(50) NOT NULL PRIMARY KEY,
    unlocked TEXT,
    failed BIGINT,
    begun BIGINT,
    ran_before TEXT NOT NULL,
    skipped TEXT NOT NULL
);
