CREATE TABLE IF NOT EXISTS diesel_sharded_statements (
    version VARCHAR(50) NOT NULL PRIMARY KEY,
    checksums TEXT NOT NULL
);
