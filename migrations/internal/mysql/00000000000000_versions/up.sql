CREATE TABLE IF NOT EXISTS diesel_sharded_internal (
    version VARCHAR(50) CHARACTER SET ascii COLLATE ascii_bin NOT NULL PRIMARY KEY
) ENGINE = InnoDB;
