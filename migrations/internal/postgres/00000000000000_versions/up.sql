CREATE TABLE IF NOT EXISTS diesel_sharded_internal (
    version VARCHAR(50) NOT NULL PRIMARY KEY
);
